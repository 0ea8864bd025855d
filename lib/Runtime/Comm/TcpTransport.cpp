//===- TcpTransport.cpp - Messages by TCP ---------------------------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "TcpTransport.h"

#include <algorithm>
#include <deque>
#include <list>
#include <thread>
#include <unistd.h>
#include <unordered_set>
#include <vector>

namespace kiln::runtime {

static constexpr int64_t mostStashedBytes = 64 * 1024;
/// How long a rank that ends its run waits for the other ranks to end theirs.
static constexpr std::chrono::seconds goodbyeTimeout{60};

namespace {

enum class FrameKind : uint32_t { Message = 0x4b4d5347, Goodbye, Abort };

struct FrameHeader {
  FrameKind kind = FrameKind::Message;
  int32_t tag = 0;   ///< If `kind` is Abort, the exit code.
  int64_t bytes = 0; ///< The size of the data that follows the header.
};

/// The connection to another rank.
class TcpPeer {
public:
  TcpPeer(int rank, TcpSocket socket)
      : rank_(rank), socket_(std::move(socket)) {}

  void send(const FrameHeader &header, const void *data, uint64_t request);
  void receive(void *data, int64_t bytes, int tag, uint64_t request);
  /// Sends and receives what is possible without waiting.
  Status advance();
  /// Returns true if the message of `request` has been sent or received. In
  /// that case, forgets the request.
  bool take(uint64_t request) { return done_.erase(request) > 0; }
  /// Sends an abort frame, unless only a part of another frame has been sent:
  /// the peer would take the abort frame for the rest of that frame.
  void abort(int exitCode);

  bool hasSentAll() const { return outgoing_.empty(); }
  bool hasLeft() const { return saidGoodbye_; }
  /// If the other rank has aborted the run, returns the exit code that it sent.
  std::optional<int> aborted() const { return aborted_; }

private:
  struct Outgoing {
    FrameHeader header;
    const char *data;
    int64_t sent; ///< The sent bytes of the header and the data.
    uint64_t request;
  };
  struct Posted {
    char *data;
    int64_t bytes;
    int tag;
    uint64_t request;
  };
  struct Stashed {
    int tag;
    std::vector<char> data;
  };

  Status sendFrames();
  Status receiveFrames();
  /// Receives up to `bytes` bytes into `data` without waiting, and returns
  /// their number. On an error, sets `failure_` and returns 0.
  int64_t arrive(char *data, int64_t bytes);
  /// Finds memory for the data of the arriving frame. Returns false on an
  /// error, or if the frame must wait until a receive for it is posted.
  bool findPlace();
  void finishFrame();
  Status fail(const std::string &reason);

  int rank_;
  TcpSocket socket_;
  Status failure_;
  std::deque<Outgoing> outgoing_;
  std::list<Posted> posted_;
  std::list<Stashed> stashed_;
  std::unordered_set<uint64_t> done_;
  bool saidGoodbye_ = false;
  std::optional<int> aborted_;
  // The frame that is arriving.
  FrameHeader header_;
  int64_t headerBytes_ = 0; ///< Bytes of `header_` that have arrived.
  bool hasPlace_ = false;   ///< True if findPlace() has set `place_`.
  char *place_ = nullptr;
  int64_t dataBytes_ = 0; ///< Bytes of the data that have arrived.
  std::optional<Posted> target_;
};

class TcpTransport final : public Transport {
public:
  TcpTransport(const TcpOptions &options, std::vector<TcpSocket> sockets);
  ~TcpTransport() override;

  int rank() const override { return options_.rank; }
  int size() const override { return options_.size; }
  Result<bool> test(MessageRequest &request) override;
  bool watchesPeers() const override { return true; }
  Status idle() override;
  void abort(int exitCode) override;

protected:
  Status beginSend(int peer, const void *data, int64_t bytes, int tag,
                   MessageRequest &request) override;
  Status beginReceive(int peer, void *data, int64_t bytes, int tag,
                      MessageRequest &request) override;

private:
  TcpPeer &peerOf(int rank) { return *peers_[std::size_t(rank)]; }
  Status advance(TcpPeer &peer);
  /// Returns a new value for MessageRequest::word. The value identifies the
  /// message and encodes the rank of the peer.
  uint64_t newRequest(int peer) {
    return next_++ * uint64_t(options_.size) + uint64_t(peer);
  }

  TcpOptions options_;
  std::vector<std::unique_ptr<TcpPeer>> peers_; ///< Null for this rank.
  uint64_t next_ = 1;
  bool aborted_ = false;
};

} // namespace

//===----------------------------------------------------------------------===//
// A connection
//===----------------------------------------------------------------------===//

Status TcpPeer::fail(const std::string &reason) {
  if (failure_.ok())
    failure_ = Status::error("the connection to rank " + std::to_string(rank_) +
                             " has failed: " + reason);
  return failure_;
}

void TcpPeer::send(const FrameHeader &header, const void *data,
                   uint64_t request) {
  outgoing_.push_back({header, static_cast<const char *>(data), 0, request});
}

void TcpPeer::receive(void *data, int64_t bytes, int tag, uint64_t request) {
  posted_.push_back({static_cast<char *>(data), bytes, tag, request});
  auto found =
      std::find_if(stashed_.begin(), stashed_.end(),
                   [&](const Stashed &frame) { return frame.tag == tag; });
  // If no stored frame has the tag, the receive stays posted. Otherwise this
  // receive takes the frame. No earlier receive with the tag is posted, because
  // it would have taken the frame.
  if (found == stashed_.end())
    return;
  if (int64_t(found->data.size()) != bytes) {
    (void)fail("the peer sent " + std::to_string(found->data.size()) +
               " bytes, expected " + std::to_string(bytes));
    return;
  }
  std::copy(found->data.begin(), found->data.end(), static_cast<char *>(data));
  stashed_.erase(found);
  posted_.pop_back();
  done_.insert(request);
}

Status TcpPeer::sendFrames() {
  constexpr int64_t headerBytes = sizeof(FrameHeader);
  while (!outgoing_.empty()) {
    Outgoing &frame = outgoing_.front();
    bool isHeader = frame.sent < headerBytes;
    const char *from =
        isHeader ? reinterpret_cast<const char *>(&frame.header) + frame.sent
                 : frame.data + (frame.sent - headerBytes);
    int64_t left = isHeader ? headerBytes - frame.sent
                            : headerBytes + frame.header.bytes - frame.sent;
    if (left > 0) {
      Result<std::size_t> sent = socket_.send(from, std::size_t(left));
      if (!sent.ok())
        return fail(sent.status().message());
      if (*sent == 0)
        return Status();
      frame.sent += int64_t(*sent);
    }
    if (frame.sent < headerBytes + frame.header.bytes)
      continue;
    if (frame.request != 0)
      done_.insert(frame.request);
    outgoing_.pop_front();
  }
  return Status();
}

int64_t TcpPeer::arrive(char *data, int64_t bytes) {
  Result<std::size_t> received = socket_.receive(data, std::size_t(bytes));
  if (received.ok())
    return int64_t(*received);
  (void)fail(received.status().message() +
             "; if the peer has ended, its own output names the reason");
  return 0;
}

bool TcpPeer::findPlace() {
  auto found =
      std::find_if(posted_.begin(), posted_.end(), [&](const Posted &receive) {
        return receive.tag == header_.tag;
      });
  if (found != posted_.end()) {
    if (found->bytes != header_.bytes) {
      (void)fail("the peer sent " + std::to_string(header_.bytes) +
                 " bytes, expected " + std::to_string(found->bytes));
      return false;
    }
    place_ = found->data;
    hasPlace_ = true;
    target_ = *found;
    posted_.erase(found);
    return true;
  }
  if (header_.bytes > mostStashedBytes)
    return false;
  Stashed &frame = stashed_.emplace_back();
  // Tag -1 hides the frame from receives that are posted before all of its data
  // has arrived.
  frame.tag = -1;
  frame.data.resize(std::size_t(header_.bytes));
  place_ = frame.data.data();
  hasPlace_ = true;
  return true;
}

void TcpPeer::finishFrame() {
  if (target_) {
    done_.insert(target_->request);
  } else {
    Stashed frame = std::move(stashed_.back());
    stashed_.pop_back();
    auto waiting = std::find_if(
        posted_.begin(), posted_.end(),
        [&](const Posted &receive) { return receive.tag == header_.tag; });
    frame.tag = header_.tag;
    stashed_.push_back(std::move(frame));
    if (waiting != posted_.end()) {
      Posted receive = *waiting;
      posted_.erase(waiting);
      this->receive(receive.data, receive.bytes, receive.tag, receive.request);
    }
  }
  target_.reset();
  place_ = nullptr;
  hasPlace_ = false;
  headerBytes_ = dataBytes_ = 0;
}

Status TcpPeer::receiveFrames() {
  while (failure_.ok() && !saidGoodbye_ && !aborted_) {
    if (headerBytes_ < int64_t(sizeof(FrameHeader))) {
      int64_t bytes = arrive(reinterpret_cast<char *>(&header_) + headerBytes_,
                             int64_t(sizeof(FrameHeader)) - headerBytes_);
      headerBytes_ += bytes;
      if (bytes == 0)
        break;
      continue;
    }
    switch (header_.kind) {
    case FrameKind::Message:
      break;
    case FrameKind::Goodbye:
      saidGoodbye_ = true;
      return Status();
    case FrameKind::Abort:
      aborted_ = header_.tag;
      return Status();
    default:
      return fail("the peer sent an unknown frame");
    }
    if (header_.bytes < 0 || header_.bytes > Transport::maxMessageBytes)
      return fail("the peer sent a frame of " + std::to_string(header_.bytes) +
                  " bytes, expected 0 to " +
                  std::to_string(Transport::maxMessageBytes));
    if (!hasPlace_ && !findPlace())
      break;
    if (dataBytes_ < header_.bytes) {
      int64_t bytes = arrive(place_ + dataBytes_, header_.bytes - dataBytes_);
      dataBytes_ += bytes;
      if (bytes == 0)
        break;
    }
    if (dataBytes_ == header_.bytes)
      finishFrame();
  }
  return failure_;
}

Status TcpPeer::advance() {
  if (!failure_.ok())
    return failure_;
  // Receive first, so that frames that arrived before the connection ended are
  // still processed.
  Status received = receiveFrames();
  if (!received.ok() || aborted_)
    return received;
  return sendFrames();
}

void TcpPeer::abort(int exitCode) {
  if (!failure_.ok() || (!outgoing_.empty() && outgoing_.front().sent > 0))
    return;
  FrameHeader header;
  header.kind = FrameKind::Abort;
  header.tag = exitCode;
  // Ignore an error, because the other rank also notices that the connection
  // ends.
  (void)socket_.send(&header, sizeof header);
}

//===----------------------------------------------------------------------===//
// The transport
//===----------------------------------------------------------------------===//

TcpTransport::TcpTransport(const TcpOptions &options,
                           std::vector<TcpSocket> sockets)
    : options_(options) {
  for (std::size_t rank = 0; rank < sockets.size(); ++rank)
    peers_.push_back(
        int(rank) == options.rank
            ? nullptr
            : std::make_unique<TcpPeer>(int(rank), std::move(sockets[rank])));
}

TcpTransport::~TcpTransport() {
  if (aborted_)
    return;
  FrameHeader header;
  header.kind = FrameKind::Goodbye;
  for (auto &peer : peers_)
    if (peer)
      peer->send(header, nullptr, 0);
  auto hasEnded = [](TcpPeer &peer) {
    Status status = peer.advance();
    return !status.ok() || peer.aborted() ||
           (peer.hasSentAll() && peer.hasLeft());
  };
  TcpClock::time_point deadline = TcpClock::now() + goodbyeTimeout;
  for (auto &peer : peers_)
    while (peer && !hasEnded(*peer) && TcpClock::now() < deadline)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

Status TcpTransport::advance(TcpPeer &peer) {
  if (aborted_)
    return Status::error("this rank has aborted the run");
  Status status = peer.advance();
  if (std::optional<int> exitCode = peer.aborted()) {
    // The rank that has failed has printed the reason.
    if (options_.endsProcess)
      ::_exit(*exitCode);
    return Status::error("another rank has aborted the run");
  }
  return status;
}

Status TcpTransport::beginSend(int peer, const void *data, int64_t bytes,
                               int tag, MessageRequest &request) {
  request.word = newRequest(peer);
  FrameHeader header;
  header.tag = tag;
  header.bytes = bytes;
  peerOf(peer).send(header, data, request.word);
  return advance(peerOf(peer));
}

Status TcpTransport::beginReceive(int peer, void *data, int64_t bytes, int tag,
                                  MessageRequest &request) {
  request.word = newRequest(peer);
  peerOf(peer).receive(data, bytes, tag, request.word);
  return advance(peerOf(peer));
}

Result<bool> TcpTransport::test(MessageRequest &request) {
  TcpPeer &peer = peerOf(int(request.word % uint64_t(options_.size)));
  if (peer.take(request.word))
    return true;
  Status status = advance(peer);
  if (peer.take(request.word))
    return true;
  if (!status.ok())
    return status;
  if (peer.hasLeft() && request.received >= 0)
    return Status::error("the rank from which this rank expects a message has "
                         "ended its run");
  return false;
}

Status TcpTransport::idle() {
  Status status;
  for (auto &peer : peers_)
    if (peer && status.ok())
      status = advance(*peer);
  return status;
}

void TcpTransport::abort(int exitCode) {
  for (auto &peer : peers_)
    if (peer && !aborted_)
      peer->abort(exitCode);
  aborted_ = true;
}

Result<std::unique_ptr<Transport>> openTcp(const TcpOptions &options) {
  Result<std::vector<TcpSocket>> sockets = connectRanks(options);
  if (!sockets.ok())
    return sockets.status();
  return std::unique_ptr<Transport>(
      std::make_unique<TcpTransport>(options, std::move(*sockets)));
}

} // namespace kiln::runtime
