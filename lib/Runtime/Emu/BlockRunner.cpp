//===- BlockRunner.cpp - Scheduler of emulated thread blocks --------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "BlockRunner.h"
#include "TensorCore.h"

#include <algorithm>
#include <cstring>

using namespace kiln::runtime::emu;
using namespace kiln::runtime;
using namespace kiln;

static constexpr int64_t warpLanes = EmuDevice::warpLanes;
/// The alignment of shared memory in bytes. GPU instructions that copy whole
/// tiles require at most this alignment.
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
    return Status::error(
        "cuda-emu: cannot allocate host memory for the shadow of "
        "shared memory");
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
  blocks_ = blocksOf(launch);
  threads_.resize(launch.threads);
  sectors_.clear();
  fault_ = Fault();
}

void BlockRunner::beginBlock(int64_t block) {
  block_ = block;
  member_ = block / blocks_;
  epoch_ = 0;
  ended_ = 0;
  for (int64_t i = 0; i < launch_->threads; ++i) {
    fibers_.prepare(i, runThread);
    threads_[i].wait = Wait::Ready;
  }
  runnable_.clear();
  for (int64_t i = 0; i * warpLanes < launch_->threads; ++i)
    runnable_.push_back(i);
  // Fill shared memory with NaNs: a value with all bits set is a NaN in every
  // floating-point type.
  std::memset(shared_, 0xff, launch_->sharedBytes);
  sharedShadow_.setInitialised(0, launch_->sharedBytes, false);
  sharedShadow_.newGeneration();
  copies_.beginBlock(launch_->threads, launch_->sharedBytes);
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

/// Runs the lanes of a warp until none can continue. Returns false after a
/// fault.
bool BlockRunner::advanceWarp(int64_t warp) {
  int64_t first = warp * warpLanes;
  int64_t lanes = std::min(warpLanes, launch_->threads - first);
  do {
    warpWaiting_ = 0;
    for (int64_t i = first; i < first + lanes; ++i) {
      if (threads_[i].wait != Wait::Ready)
        continue;
      thread_ = i;
      fibers_.resume(i);
      if (fault_.kind != Fault::Kind::None)
        return false;
    }
    sectors_.endSegment();
    if (warpWaiting_ > 0 && !runWarpOperation(first, lanes))
      return false;
  } while (warpWaiting_ > 0);
  return true;
}

bool BlockRunner::isOfWarp(Wait wait) {
  return wait != Wait::Ready && wait != Wait::Barrier && wait != Wait::Ended;
}

const char *BlockRunner::nameOf(Wait wait) {
  switch (wait) {
  case Wait::ShuffleXor:
    return "shuffle by xor";
  case Wait::ShuffleIdx:
    return "shuffle by index";
  case Wait::LoadMatrices:
    return "matrix load";
  case Wait::MultiplyMatrices:
    return "matrix multiplication";
  default:
    return "";
  }
}

/// Returns true if all lanes of the warp wait at the same operation. Otherwise
/// records a fault and returns false.
bool BlockRunner::checkWarp(int64_t first, int64_t lanes) {
  Thread *warp = &threads_[first];
  fault_.block = block_;
  if (warpWaiting_ != warpLanes) {
    fault_.kind = Fault::Kind::PartialWarp;
    fault_.present = warpWaiting_;
    fault_.expected = lanes;
    auto isThere = [](const Thread &thread) { return isOfWarp(thread.wait); };
    Thread *there = std::find_if(warp, warp + lanes, isThere);
    fault_.thread = first + (there - warp);
    fault_.operation = nameOf(there->wait);
    Thread *absent = std::find_if_not(warp, warp + lanes, isThere);
    if (absent != warp + lanes) {
      fault_.absent = first + (absent - warp);
      fault_.absentEnded = absent->wait == Wait::Ended;
    }
    return false;
  }
  // All lanes must wait at the same operation. For a shuffle, the operands may
  // differ between lanes. For a load of matrices, the number of matrices and
  // the transposition must be equal in all lanes.
  auto differs = [&](const Thread &thread) {
    return thread.wait != warp->wait || (thread.wait == Wait::LoadMatrices &&
                                         thread.operand != warp->operand);
  };
  Thread *other = std::find_if(warp, warp + lanes, differs);
  if (other == warp + lanes)
    return true;
  fault_.kind = Fault::Kind::MixedWarp;
  fault_.thread = first;
  fault_.operation = nameOf(warp->wait);
  fault_.absent = first + (other - warp);
  fault_.otherOperation = nameOf(other->wait);
  return false;
}

/// Executes the operation at which the warp waits. Returns false after a fault.
bool BlockRunner::runWarpOperation(int64_t first, int64_t lanes) {
  if (!checkWarp(first, lanes))
    return false;
  Thread *warp = &threads_[first];
  if (warp->wait == Wait::LoadMatrices) {
    std::array<MatrixLoad, warpLanes> parts;
    for (int64_t i = 0; i < warpLanes; ++i)
      parts[i] = {static_cast<const char *>(warp[i].source),
                  static_cast<uint32_t *>(warp[i].result)};
    emu::loadMatrices(parts, warp->operand / 2, warp->operand % 2);
  } else if (warp->wait == Wait::MultiplyMatrices) {
    std::array<Mma, warpLanes> parts;
    for (int64_t i = 0; i < warpLanes; ++i)
      parts[i] = {static_cast<const uint32_t *>(warp[i].source),
                  static_cast<float *>(warp[i].result)};
    emu::multiplyMatrices(parts, /*isHalf=*/warp->operand != 0);
  } else {
    exchange(warp);
  }
  for (int64_t i = 0; i < warpLanes; ++i)
    warp[i].wait = Wait::Ready;
  return true;
}

/// Executes a shuffle.
void BlockRunner::exchange(Thread *warp) {
  uint64_t values[warpLanes];
  for (int64_t i = 0; i < warpLanes; ++i)
    values[i] = warp[i].value;
  bool isXor = warp->wait == Wait::ShuffleXor;
  for (int64_t i = 0; i < warpLanes; ++i) {
    int64_t source = isXor ? i ^ warp[i].operand : warp[i].operand;
    warp[i].value = values[source & (warpLanes - 1)];
  }
}

/// Releases the barrier at which all threads wait. Returns false after a fault.
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

/// If the canary at the end of a stack has been overwritten, replaces the
/// recorded fault by a stack overflow, because the recorded fault may be a
/// consequence of the overflow.
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
  ++warpWaiting_;
  wait(isXor ? Wait::ShuffleXor : Wait::ShuffleIdx);
  return thread.value;
}

void BlockRunner::multiplyMatrices(const uint32_t *words, float *sums,
                                   bool isHalf, const void *frame) {
  checkFrame(frame);
  Thread &thread = threads_[thread_];
  thread.operand = isHalf;
  thread.source = words;
  thread.result = sums;
  ++warpWaiting_;
  wait(Wait::MultiplyMatrices);
}

void BlockRunner::loadMatrices(const char *row, int32_t count,
                               bool isTransposed, uint32_t *words,
                               const void *frame) {
  checkFrame(frame);
  constexpr int64_t rowsOfMatrix = 8, rowBytes = 16;
  if (thread_ % warpLanes < count * rowsOfMatrix) {
    Access access = {row, rowBytes, /*isWrite=*/false, /*isShared=*/true};
    checkSharedBounds(access);
    check(access, sharedShadow_);
    // Several lanes of the warp receive elements of the row, but only one lane
    // is recorded as the reader of the row. Record a lane other than thread_,
    // so that a write to the row by thread_ before the next barrier is also
    // detected as a race.
    checkRace(access, sharedShadow_, Accessor(block_, epoch_, thread_ ^ 1));
  }
  Thread &thread = threads_[thread_];
  thread.source = row;
  thread.result = words;
  thread.operand = 2 * count + isTransposed;
  ++warpWaiting_;
  wait(Wait::LoadMatrices);
}

//===----------------------------------------------------------------------===//
// Accesses
//===----------------------------------------------------------------------===//

MemoryShadow &BlockRunner::globalShadow(const Access &access) {
  const Bounds &bounds = bounds_[std::size_t(member_)];
  const ArgumentTable &allowed =
      access.isWrite ? bounds.writable : bounds.readable;
  if (MemoryShadow *shadow = allowed.find(access.address, access.bytes))
    return *shadow;
  stop(bounds.readable.find(access.address, access.bytes)
           ? Fault::Kind::ReadOnly
           : Fault::Kind::OutOfBounds,
       access);
}

void BlockRunner::accessGlobal(const Access &access, const void *place,
                               const void *frame) {
  checkFrame(frame);
  check(access, globalShadow(access));
  sectors_.access(place, thread_, uintptr_t(access.address), access.bytes,
                  access.isWrite);
}

/// Checks that an access to shared memory is in bounds, and that no
/// asynchronous copy in flight writes to the accessed bytes.
void BlockRunner::checkSharedBounds(const Access &access) {
  uint64_t offset = uintptr_t(access.address) - uintptr_t(shared_);
  uint64_t limit = launch_->sharedBytes;
  if (offset > limit || uint64_t(access.bytes) > limit - offset)
    stop(Fault::Kind::OutOfBounds, access);
  int64_t byte = 0;
  int64_t owner = copies_.findOwner(int64_t(offset), access.bytes, byte);
  if (owner >= 0)
    stop(Fault::Kind::InFlight, access, shared_ + byte,
         {Accessor(block_, epoch_, owner)});
}

void BlockRunner::accessShared(const Access &access, const void *frame) {
  checkFrame(frame);
  checkSharedBounds(access);
  check(access, sharedShadow_);
}

void BlockRunner::check(const Access &access, MemoryShadow &shadow) {
  // The alignment is a power of two.
  if (uintptr_t(access.address) & (accessAlignment(access.bytes) - 1))
    stop(Fault::Kind::Misaligned, access);
  int64_t offset = access.address - shadow.begin();
  if (access.isWrite) {
    shadow.setInitialised(offset, access.bytes, true);
  } else {
    int64_t missing = shadow.findUninitialised(offset, access.bytes);
    if (missing >= 0)
      stop(Fault::Kind::Uninitialised, access, shadow.begin() + missing);
  }
  checkRace(access, shadow, now());
}

void BlockRunner::checkRace(const Access &access, MemoryShadow &shadow,
                            Accessor who) {
  int64_t offset = access.address - shadow.begin();
  Race race = shadow.access(offset, access.bytes, who, access.isWrite);
  if (race.other)
    stop(Fault::Kind::Race, access, shadow.begin() + race.offset, race);
}

//===----------------------------------------------------------------------===//
// Asynchronous copies
//===----------------------------------------------------------------------===//

void BlockRunner::copyAsync(char *to, const char *from, int64_t bytes,
                            int64_t present, const void *place,
                            const void *frame) {
  checkFrame(frame);
  Access target = {to, bytes, /*isWrite=*/true, /*isShared=*/true};
  if (uint64_t(present) > uint64_t(bytes))
    stop(Fault::Kind::OutOfBounds, {from, present, false, false});
  checkSharedBounds(target);
  check(target, sharedShadow_);
  if (uintptr_t(from) % bytes)
    stop(Fault::Kind::Misaligned, {from, bytes, false, false});
  if (present > 0)
    accessGlobal({from, present, false, false}, place, frame);
  copies_.begin(thread_, {to - shared_, from, bytes, present});
}

/// Repeats the race checks of copyAsync() for the sources and destinations of
/// the copies, because a copy may access them at any time between its start and
/// this wait.
void BlockRunner::copyWait(int64_t pending, const void *frame) {
  checkFrame(frame);
  for (const AsyncCopies::Copy &copy : copies_.wait(thread_, pending)) {
    char *to = shared_ + copy.to;
    if (copy.present > 0) {
      Access source = {copy.from, copy.present, false, false};
      checkRace(source, globalShadow(source), now());
    }
    checkRace({to, copy.bytes, true, true}, sharedShadow_, now());
    std::memcpy(to, copy.from, copy.present);
    std::memset(to + copy.present, 0, copy.bytes - copy.present);
  }
}
