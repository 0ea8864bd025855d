//===- ThreadTransport.h - Messages between threads -------------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Connects ranks that are threads of one process. Tests use it to run several
// ranks without a launcher. Every send waits for its receive, as MPI may do, so
// that a test also finds deadlocks that a buffering transport would hide.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_LIB_RUNTIME_COMM_THREADTRANSPORT_H
#define KILN_LIB_RUNTIME_COMM_THREADTRANSPORT_H

#include "Transport.h"

#include <cstddef>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <unordered_set>

namespace kiln::runtime {

/// The ranks of one process. Must outlive their transports.
class ThreadRanks {
public:
  explicit ThreadRanks(int size) : size_(size) {}

  int size() const { return size_; }
  /// Returns the transport of a rank. Must be called at most once per rank.
  std::unique_ptr<Transport> transport(int rank);
  /// Returns the exit code of the first abort(), if there was one. After an
  /// abort, all messages fail.
  std::optional<int> aborted() const;

private:
  friend class ThreadTransport;
  /// A send or a receive for which the other rank has not begun the matching
  /// receive or send.
  struct Side {
    uint64_t number;
    char *data;
    int64_t bytes;
    int tag;
  };
  /// The sends and the receives from one rank to another, oldest first. For
  /// each tag, at most one of the two lists has entries.
  struct Channel {
    std::list<Side> sends, receives;
  };

  Result<uint64_t> begin(int from, int to, bool isSend, char *data,
                         int64_t bytes, int tag);
  Result<bool> finish(uint64_t number);

  const int size_;
  mutable std::mutex mutex_;
  std::map<std::pair<int, int>, Channel> channels_;
  /// Numbers of the requests whose messages have been delivered.
  std::unordered_set<uint64_t> done_;
  uint64_t next_ = 1;
  std::optional<int> aborted_;
};

} // namespace kiln::runtime

#endif // KILN_LIB_RUNTIME_COMM_THREADTRANSPORT_H
