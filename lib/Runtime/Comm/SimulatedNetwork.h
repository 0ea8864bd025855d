//===- SimulatedNetwork.h - Messages at a limited rate ----------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A transport whose messages take as long as over a network of a given rate. A
// rank has one connection, and sends its messages one after another. A message
// of n bytes occupies the connection for n / rate seconds. Then another
// transport delivers the message. Receiving takes no additional time, so two
// ranks can send to each other at the full rate at the same time.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_LIB_RUNTIME_COMM_SIMULATEDNETWORK_H
#define KILN_LIB_RUNTIME_COMM_SIMULATEDNETWORK_H

#include "Transport.h"

#include <array>
#include <memory>

namespace kiln::runtime {

class SimulatedNetwork final : public Transport {
public:
  /// The maximum number of messages that a rank may be sending at the same
  /// time.
  static constexpr std::size_t maxSends = 8;

  /// `bytesPerSecond` is positive.
  SimulatedNetwork(std::unique_ptr<Transport> delivery, double bytesPerSecond)
      : delivery_(std::move(delivery)),
        nanosecondsPerByte_(1e9 / bytesPerSecond) {}

  int rank() const override { return delivery_->rank(); }
  int size() const override { return delivery_->size(); }
  Result<bool> test(MessageRequest &request) override;
  void abort(int exitCode) override { delivery_->abort(exitCode); }

protected:
  Status beginSend(int peer, const void *data, int64_t bytes, int tag,
                   MessageRequest &request) override;
  Status beginReceive(int peer, void *data, int64_t bytes, int tag,
                      MessageRequest &request) override;

private:
  /// A message that occupies the connection, or waits for it.
  struct Held {
    const void *data = nullptr; ///< Null: the entry is not in use.
    int64_t bytes = 0;
    int peer = 0, tag = 0;
    /// The time at which the message leaves the connection, in nanoseconds of
    /// the monotonic clock.
    int64_t due = 0;
  };

  std::unique_ptr<Transport> delivery_;
  double nanosecondsPerByte_;
  int64_t freeAt_ = 0; ///< The time at which the connection becomes free.
  std::array<Held, maxSends> held_;
};

} // namespace kiln::runtime

#endif // KILN_LIB_RUNTIME_COMM_SIMULATEDNETWORK_H
