//===- CallWatchdog.cpp - Time-outs of blocking calls ---------------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "CallWatchdog.h"

#include "PeerClock.h"

#include <csignal>
#include <pthread.h>
#include <system_error>

using namespace kiln::runtime::cuda;
using namespace kiln::runtime;
using namespace kiln;

CallWatchdog::CallWatchdog(World &world) : world_(world) {
  // Block all signals in the new thread, so that the training thread handles
  // them.
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  try {
    thread_ = std::thread([this] { serve(); });
  } catch (const std::system_error &error) {
    status_ = Status::error(
        "cannot start the thread that watches NCCL: " + error.code().message() +
        "; allow this process more threads (ulimit -u)");
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

CallWatchdog::~CallWatchdog() {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    stops_ = true;
  }
  changed_.notify_one();
  if (thread_.joinable())
    thread_.join();
}

void CallWatchdog::set(const char *what) {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    what_ = what;
    calls_ += what ? 1 : 0;
  }
  changed_.notify_one();
}

void CallWatchdog::serve() {
  std::unique_lock<std::mutex> lock(mutex_);
  while (!stops_) {
    changed_.wait(lock, [&] { return stops_ || what_; });
    PeerClock clock;
    uint64_t call = calls_;
    while (!stops_ && what_ && calls_ == call) {
      changed_.wait_for(lock, PeerClock::longestPoll / 4);
      clock.advance();
      if (!what_ || calls_ != call ||
          clock.seconds() < double(world_.peerTimeout()))
        continue;
      std::string reason = silenceText(what_, world_);
      what_ = nullptr;
      lock.unlock();
      world_.fail(reason);
      lock.lock();
    }
  }
}
