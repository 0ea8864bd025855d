//===- BlockRunner.cpp - The threads of one block at a time ---------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "BlockRunner.h"

#include <algorithm>
#include <cstring>

using namespace kiln;
using namespace kiln::emu;

static constexpr int64_t warpLanes = EmuDevice::warpLanes;
/// Of shared memory, as of the largest tiles that hardware copies.
static constexpr int64_t sharedAlignment = 128;

thread_local BlockRunner *BlockRunner::current = nullptr;

static char *alignUp(char *address) {
  uintptr_t over = uintptr_t(address) % sharedAlignment;
  return over ? address + (sharedAlignment - over) : address;
}

BlockRunner::BlockRunner()
    : sharedMemory_(new char[EmuDevice::maxSharedBytes + sharedAlignment]),
      shared_(alignUp(sharedMemory_.get())),
      sharedShadow_(shared_, EmuDevice::maxSharedBytes) {}

Status BlockRunner::prepare() {
  if (hasFibers_)
    return Status();
  if (!sharedShadow_.ok())
    return Status::error("cuda-emu: no memory to watch shared memory");
  Status status = fibers_.create(EmuDevice::maxThreads);
  hasFibers_ = status.ok();
  return status;
}

void BlockRunner::begin(const EmuLaunch &launch, Random random) {
  launch_ = &launch;
  random_ = random;
  args_.clear();
  for (const EmuArgument &argument : launch.arguments)
    args_.push_back(argument.begin);
  threads_.resize(launch.threads);
  sectors_.clear();
  fault_ = Fault();
}

void BlockRunner::beginBlock(int64_t block) {
  block_ = block;
  epoch_ = 0;
  ended_ = 0;
  for (int64_t i = 0; i < launch_->threads; ++i) {
    fibers_.prepare(i, runThread);
    threads_[i].wait = Wait::Ready;
  }
  runnable_.clear();
  for (int64_t i = 0; i * warpLanes < launch_->threads; ++i)
    runnable_.push_back(i);
  // All bits set are a NaN of every floating-point type.
  std::memset(shared_, 0xff, launch_->sharedBytes);
  sharedShadow_.setInitialised(0, launch_->sharedBytes, false);
  sharedShadow_.newGeneration();
}

Status BlockRunner::runBlock(int64_t block) {
  beginBlock(block);
  BlockRunner *outer = std::exchange(current, this);
  bool goesOn = true;
  while (goesOn) {
    while (goesOn && !runnable_.empty()) {
      size_t choice = random_.below(runnable_.size());
      int64_t warp = std::exchange(runnable_[choice], runnable_.back());
      runnable_.pop_back();
      goesOn = advanceWarp(warp);
    }
    goesOn = goesOn && ended_ < launch_->threads && openBarrier();
  }
  current = outer;
  checkStacks();
  if (fault_.kind == Fault::Kind::None)
    return Status();
  return faultStatus(fault_, *launch_, shared_);
}

void BlockRunner::runThread() {
  BlockRunner &runner = *current;
  runner.fibers_.entered();
  runner.launch_->kernel(runner.args_.data(), runner.launch_->immediates.data(),
                         runner.launch_->units);
  ++runner.ended_;
  runner.threads_[runner.thread_].wait = Wait::Ended;
  runner.fibers_.suspend(runner.thread_, /*isLast=*/true);
  __builtin_unreachable();
}

/// Until no lane can go on. False after a fault.
bool BlockRunner::advanceWarp(int64_t warp) {
  int64_t first = warp * warpLanes;
  int64_t lanes = std::min(warpLanes, launch_->threads - first);
  do {
    warpShuffling_ = 0;
    for (int64_t i = first; i < first + lanes; ++i) {
      if (threads_[i].wait != Wait::Ready)
        continue;
      thread_ = i;
      fibers_.resume(i);
      if (fault_.kind != Fault::Kind::None)
        return false;
    }
    sectors_.endSegment();
    if (warpShuffling_ > 0 && !exchange(first, lanes))
      return false;
  } while (warpShuffling_ > 0);
  return true;
}

/// Carries out a shuffle of the warp. False after a fault.
bool BlockRunner::exchange(int64_t first, int64_t lanes) {
  Thread *warp = &threads_[first];
  auto shuffles = [](const Thread &thread) {
    return thread.wait == Wait::ShuffleXor || thread.wait == Wait::ShuffleIdx;
  };
  fault_.block = block_;
  if (warpShuffling_ != warpLanes) {
    fault_.kind = Fault::Kind::PartialShuffle;
    fault_.present = warpShuffling_;
    fault_.expected = lanes;
    Thread *there = std::find_if(warp, warp + lanes, shuffles);
    fault_.thread = first + (there - warp);
    Thread *absent = std::find_if_not(warp, warp + lanes, shuffles);
    if (absent != warp + lanes) {
      fault_.absent = first + (absent - warp);
      fault_.absentEnded = absent->wait == Wait::Ended;
    }
    return false;
  }
  uint64_t values[warpLanes];
  for (int64_t i = 0; i < warpLanes; ++i) {
    values[i] = warp[i].value;
    if (warp[i].wait == warp[0].wait)
      continue;
    bool firstIsXor = warp[0].wait == Wait::ShuffleXor;
    fault_.kind = Fault::Kind::MixedShuffle;
    fault_.thread = firstIsXor ? first : first + i;
    fault_.absent = firstIsXor ? first + i : first;
    return false;
  }
  for (int64_t i = 0; i < warpLanes; ++i) {
    Thread &thread = warp[i];
    int64_t source =
        thread.wait == Wait::ShuffleXor ? i ^ thread.operand : thread.operand;
    thread.value = values[source & (warpLanes - 1)];
    thread.wait = Wait::Ready;
  }
  return true;
}

/// When no warp can go on: the barrier that all threads wait at. False after a
/// fault.
bool BlockRunner::openBarrier() {
  fault_.block = block_;
  auto waits = [](const Thread &thread) { return thread.wait != Wait::Ended; };
  if (ended_ > 0) {
    fault_.kind = Fault::Kind::PartialBarrier;
    fault_.expected = launch_->threads;
    fault_.present = launch_->threads - ended_;
    fault_.thread = std::find_if(threads_.begin(), threads_.end(), waits) -
                    threads_.begin();
    fault_.absent = std::find_if_not(threads_.begin(), threads_.end(), waits) -
                    threads_.begin();
    fault_.absentEnded = true;
    return false;
  }
  if (epoch_ == Accessor::maxEpoch) {
    fault_.kind = Fault::Kind::TooManyBarriers;
    return false;
  }
  ++epoch_;
  for (Thread &thread : threads_)
    thread.wait = Wait::Ready;
  for (int64_t i = 0; i * warpLanes < launch_->threads; ++i)
    runnable_.push_back(i);
  return true;
}

/// What a stack that overflowed did to its neighbour came first.
void BlockRunner::checkStacks() {
  for (int64_t i = 0; i < launch_->threads; ++i) {
    if (fibers_.isIntact(i))
      continue;
    fibers_.repair(i);
    fault_ = Fault();
    fault_.kind = Fault::Kind::StackOverflow;
    fault_.block = block_;
    fault_.thread = i;
  }
}

void BlockRunner::wait(Wait wait) {
  threads_[thread_].wait = wait;
  fibers_.suspend(thread_, /*isLast=*/false);
}

void BlockRunner::stop(Fault::Kind kind, const Access &access,
                       const char *firstByte, Race race) {
  fault_.kind = kind;
  fault_.block = block_;
  fault_.thread = thread_;
  fault_.access = access;
  fault_.firstByte = firstByte;
  fault_.other = race.other;
  fault_.otherWrote = race.otherWrote;
  fibers_.suspend(thread_, /*isLast=*/true);
  __builtin_unreachable();
}

void BlockRunner::checkFrame(const void *frame) {
  if (frame < fibers_.limit(thread_))
    stop(Fault::Kind::StackOverflow, Access());
}

void BlockRunner::barrier(const void *frame) {
  checkFrame(frame);
  wait(Wait::Barrier);
}

uint64_t BlockRunner::shuffle(uint64_t bits, int32_t operand, bool isXor,
                              const void *frame) {
  checkFrame(frame);
  Thread &thread = threads_[thread_];
  thread.value = bits;
  thread.operand = operand;
  ++warpShuffling_;
  wait(isXor ? Wait::ShuffleXor : Wait::ShuffleIdx);
  return thread.value;
}

void BlockRunner::accessGlobal(const Access &access, const void *place,
                               const void *frame) {
  checkFrame(frame);
  const ArgumentTable &allowed = access.isWrite ? writable_ : readable_;
  MemoryShadow *shadow = allowed.find(access.address, access.bytes);
  if (!shadow)
    stop(readable_.find(access.address, access.bytes)
             ? Fault::Kind::ReadOnly
             : Fault::Kind::OutOfBounds,
         access);
  check(access, *shadow);
  sectors_.access(place, thread_, uintptr_t(access.address), access.bytes,
                  access.isWrite);
}

void BlockRunner::accessShared(const Access &access, const void *frame) {
  checkFrame(frame);
  uint64_t offset = uintptr_t(access.address) - uintptr_t(shared_);
  uint64_t limit = launch_->sharedBytes;
  if (offset > limit || uint64_t(access.bytes) > limit - offset)
    stop(Fault::Kind::OutOfBounds, access);
  check(access, sharedShadow_);
}

void BlockRunner::check(const Access &access, MemoryShadow &shadow) {
  if (uintptr_t(access.address) % accessAlignment(access.bytes))
    stop(Fault::Kind::Misaligned, access);
  int64_t offset = access.address - shadow.begin();
  if (access.isWrite) {
    shadow.setInitialised(offset, access.bytes, true);
  } else {
    int64_t missing = shadow.findUninitialised(offset, access.bytes);
    if (missing >= 0)
      stop(Fault::Kind::Uninitialised, access, shadow.begin() + missing);
  }
  Race race = shadow.access(offset, access.bytes, now(), access.isWrite);
  if (race.other)
    stop(Fault::Kind::Race, access, shadow.begin() + race.offset, race);
}
