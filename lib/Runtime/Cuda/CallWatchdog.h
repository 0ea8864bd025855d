//===- CallWatchdog.h - Time-outs of blocking calls -------------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// An NCCL call that connects ranks returns only when the other ranks have made
// the same call. The watchdog is a thread that ends the processes of all ranks
// (World::fail) if the call has not returned after World::peerTimeout().
//
//===----------------------------------------------------------------------===//

#ifndef KILN_LIB_RUNTIME_CUDA_CALLWATCHDOG_H
#define KILN_LIB_RUNTIME_CUDA_CALLWATCHDOG_H

#include "kiln/Runtime/Comm/World.h"

#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <thread>

namespace kiln::runtime::cuda {

class CallWatchdog {
public:
  /// Watches a call during the lifetime of this object. `what` describes the
  /// call and must outlive the object.
  class Scope {
  public:
    Scope(CallWatchdog &watchdog, const char *what) : watchdog_(watchdog) {
      watchdog_.set(what);
    }
    ~Scope() { watchdog_.set(nullptr); }
    Scope(const Scope &) = delete;

  private:
    CallWatchdog &watchdog_;
  };

  /// `world` must outlive all Scope objects.
  explicit CallWatchdog(World &world);
  ~CallWatchdog();

  /// Returns an error if the thread could not be started.
  const Status &status() const { return status_; }

private:
  void set(const char *what);
  void serve();

  World &world_;
  Status status_;
  std::mutex mutex_;
  std::condition_variable changed_;
  // `mutex_` protects these members.
  const char *what_ = nullptr; ///< Null while there is no call.
  uint64_t calls_ = 0;         ///< Number of calls so far.
  bool stops_ = false;

  std::thread thread_;
};

} // namespace kiln::runtime::cuda

#endif // KILN_LIB_RUNTIME_CUDA_CALLWATCHDOG_H
