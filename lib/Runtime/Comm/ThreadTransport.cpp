//===- ThreadTransport.cpp - Messages between threads ---------------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ThreadTransport.h"

#include <algorithm>
#include <cstring>

namespace kiln::runtime {

class ThreadTransport final : public Transport {
public:
  ThreadTransport(ThreadRanks &ranks, int rank) : ranks_(ranks), rank_(rank) {}

  int rank() const override { return rank_; }
  int size() const override { return ranks_.size(); }

  Result<bool> test(MessageRequest &request) override {
    return ranks_.finish(request.word);
  }
  void abort(int exitCode) override {
    std::lock_guard<std::mutex> lock(ranks_.mutex_);
    if (!ranks_.aborted_)
      ranks_.aborted_ = exitCode;
  }

protected:
  Status beginSend(int peer, const void *data, int64_t bytes, int tag,
                   MessageRequest &request) override {
    return set(request,
               ranks_.begin(rank_, peer, /*isSend=*/true,
                            static_cast<char *>(const_cast<void *>(data)),
                            bytes, tag));
  }
  Status beginReceive(int peer, void *data, int64_t bytes, int tag,
                      MessageRequest &request) override {
    return set(request, ranks_.begin(peer, rank_, /*isSend=*/false,
                                     static_cast<char *>(data), bytes, tag));
  }

private:
  static Status set(MessageRequest &request, const Result<uint64_t> &number) {
    if (number.ok())
      request.word = *number;
    return number.status();
  }

  ThreadRanks &ranks_;
  int rank_;
};

std::unique_ptr<Transport> ThreadRanks::transport(int rank) {
  return std::make_unique<ThreadTransport>(*this, rank);
}

std::optional<int> ThreadRanks::aborted() const {
  std::lock_guard<std::mutex> lock(mutex_);
  return aborted_;
}

Result<uint64_t> ThreadRanks::begin(int from, int to, bool isSend, char *data,
                                    int64_t bytes, int tag) {
  std::lock_guard<std::mutex> lock(mutex_);
  if (aborted_)
    return Status::error("another rank has aborted");
  Side side = {next_++, data, bytes, tag};
  Channel &channel = channels_[{from, to}];
  std::list<Side> &others = isSend ? channel.receives : channel.sends;
  auto other =
      std::find_if(others.begin(), others.end(),
                   [=](const Side &entry) { return entry.tag == tag; });
  if (other == others.end()) {
    (isSend ? channel.sends : channel.receives).push_back(side);
    return side.number;
  }
  if (other->bytes != bytes)
    return Status::error(
        "the size of a message differs from that of the matching receive");
  std::memcpy(isSend ? other->data : data, isSend ? data : other->data,
              std::size_t(bytes));
  done_.insert(other->number);
  done_.insert(side.number);
  others.erase(other);
  return side.number;
}

Result<bool> ThreadRanks::finish(uint64_t number) {
  std::lock_guard<std::mutex> lock(mutex_);
  if (aborted_)
    return Status::error("another rank has aborted");
  return done_.erase(number) > 0;
}

} // namespace kiln::runtime
