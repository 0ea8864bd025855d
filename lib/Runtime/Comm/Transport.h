//===- Transport.h - Messages between ranks ---------------------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The interface between the collective operations and what carries their
// messages: MPI (MpiTransport.h), TCP (TcpTransport.h), threads of one process
// (ThreadTransport.h), or nothing, for one rank. Messages between two ranks
// with the same tag arrive in the order in which they were sent. A send may
// complete only after its receive has begun.
//
// A transport is created, used and destroyed by one thread, the communication
// thread of World.h.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_LIB_RUNTIME_COMM_TRANSPORT_H
#define KILN_LIB_RUNTIME_COMM_TRANSPORT_H

#include "kiln/Runtime/Comm/Traffic.h"
#include "kiln/Support/Status.h"

#include <cstdint>

namespace kiln::runtime {

/// A message that is being sent or received. The transport that began it
/// defines the meaning of `word`.
struct MessageRequest {
  uint64_t word = 0;
  /// The size in bytes of a message that is received, or -1 for one that is
  /// sent.
  int64_t received = -1;
  /// The index of the message in SimulatedNetwork::held_, or -1 if the message
  /// is not held there.
  int held = -1;
};

class Transport {
public:
  virtual ~Transport() = default;

  virtual int rank() const = 0; ///< In [0, size()).
  virtual int size() const = 0; ///< Number of ranks, at least 1.

  /// Begins to send `bytes` bytes, at most maxMessageBytes, to `peer`, and
  /// counts them. The data must not change until test() returns true. Tags are
  /// in [0, 2^15).
  Status send(int peer, const void *data, int64_t bytes, int tag,
              TrafficKind kind, MessageRequest &request) {
    sent_.bytes[std::size_t(kind)] += bytes;
    request.received = -1;
    return beginSend(peer, data, bytes, tag, request);
  }
  /// Begins to receive a message from `peer`. A message that does not have
  /// exactly `bytes` bytes is an error.
  Status receive(int peer, void *data, int64_t bytes, int tag,
                 MessageRequest &request) {
    request.received = bytes;
    return beginReceive(peer, data, bytes, tag, request);
  }
  /// Returns true if the message has been sent or received. The request must
  /// not be tested again after that.
  virtual Result<bool> test(MessageRequest &request) = 0;

  /// Returns true if idle() detects ranks that have ended.
  virtual bool watchesPeers() const { return false; }
  /// Returns an error if another rank has ended, or has aborted the run. Must
  /// be called from time to time while no message is in progress.
  virtual Status idle() { return Status(); }

  /// Makes the other ranks end with this exit code, possibly after this
  /// function has returned. With MPI, this process usually ends, too.
  virtual void abort(int exitCode) = 0;

  /// Returns the bytes that this rank has sent.
  const Traffic &sent() const { return sent_; }

  static constexpr int64_t maxMessageBytes = int64_t(1) << 30;

protected:
  virtual Status beginSend(int peer, const void *data, int64_t bytes, int tag,
                           MessageRequest &request) = 0;
  virtual Status beginReceive(int peer, void *data, int64_t bytes, int tag,
                              MessageRequest &request) = 0;

private:
  Traffic sent_;
};

/// The transport of a single rank, which has no peer.
class LoopbackTransport final : public Transport {
public:
  int rank() const override { return 0; }
  int size() const override { return 1; }
  Result<bool> test(MessageRequest &) override { return true; }
  void abort(int) override {}

protected:
  Status beginSend(int, const void *, int64_t, int, MessageRequest &) override {
    return noPeer();
  }
  Status beginReceive(int, void *, int64_t, int, MessageRequest &) override {
    return noPeer();
  }

private:
  static Status noPeer() {
    return Status::error("a single rank has no peer to exchange messages with");
  }
};

} // namespace kiln::runtime

#endif // KILN_LIB_RUNTIME_COMM_TRANSPORT_H
