//===- BlockRunner.h - Scheduler of emulated thread blocks ------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Runs the thread blocks of a launch one at a time. The scheduler picks a warp,
// whose lanes run in turn until each has ended or waits. When all lanes wait at
// the same shuffle or other warp-wide operation, the scheduler executes it and
// the warp continues. When no warp can continue, either all threads have ended,
// or all wait at a barrier, or the kernel is faulty.
//
// Device functions that kernels call (kiln/Abi/EmulatedKernel.h) find the
// runner in `current` and run on the stack of a fiber. If one of them detects a
// fault, it records the fault and switches to the scheduler, which never
// resumes the kernel.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_LIB_RUNTIME_EMU_BLOCKRUNNER_H
#define KILN_LIB_RUNTIME_EMU_BLOCKRUNNER_H

#include "ArgumentTable.h"
#include "AsyncCopies.h"
#include "EmuRandom.h"
#include "Fault.h"
#include "FiberPool.h"
#include "SectorCounter.h"

#include <memory>
#include <vector>

namespace kiln::runtime::emu {

class BlockRunner {
public:
  /// The runner whose kernel runs on this OS thread.
  static thread_local BlockRunner *current;

  BlockRunner();

  /// Allocates the stacks on the first call.
  Status prepare();

  /// Starts a launch. bounds() must contain the memory that each member may
  /// access.
  void begin(const EmuLaunch &launch, Random random);
  std::vector<Bounds> &bounds() { return bounds_; }
  /// Runs a block. The blocks of all members are numbered consecutively.
  Status runBlock(int64_t block);
  const EmuCounts &counts() const { return sectors_.counts(); }

  /// Functions that kernels call, on the stack of a fiber.
  int64_t thread() const { return thread_; }
  int64_t block() const { return block_ - member_ * blocks_; }
  int64_t member() const { return member_; }
  char *shared(int64_t offset) { return shared_ + offset; }
  void barrier(const void *frame);
  uint64_t shuffle(uint64_t bits, int32_t operand, bool isXor,
                   const void *frame);
  void accessGlobal(const Access &access, const void *place, const void *frame);
  void accessShared(const Access &access, const void *frame);
  void loadMatrices(const char *row, int32_t count, bool isTransposed,
                    uint32_t *words, const void *frame);
  void multiplyMatrices(const uint32_t *words, float *sums, const void *frame);
  void copyAsync(char *to, const char *from, int64_t bytes, int64_t present,
                 const void *place, const void *frame);
  void copyCommit() { copies_.commit(thread_); }
  void copyWait(int64_t pending, const void *frame);

private:
  /// The state of a thread: ready, waiting at a barrier, waiting at a warp-wide
  /// operation, or ended.
  enum class Wait : uint8_t {
    Ready,
    Barrier,
    ShuffleXor,
    ShuffleIdx,
    LoadMatrices,
    MultiplyMatrices,
    Ended
  };
  struct Thread {
    uint64_t value;  ///< Operand, then result of a shuffle.
    int32_t operand; ///< Operand of a warp-wide operation.
    Wait wait;
    const void *source; ///< Operands of a matrix operation.
    void *result;
  };

  static void runThread();
  void beginBlock(int64_t block);
  bool advanceWarp(int64_t warp);
  static bool isOfWarp(Wait wait);
  static const char *nameOf(Wait wait);
  bool runWarpOperation(int64_t first, int64_t lanes);
  bool checkWarp(int64_t first, int64_t lanes);
  void exchange(Thread *warp);
  bool openBarrier();
  void checkStacks();

  Accessor now() const { return Accessor(block_, epoch_, thread_); }
  void checkFrame(const void *frame);
  void checkSharedBounds(const Access &access);
  MemoryShadow &globalShadow(const Access &access);
  /// Checks an access that is in bounds: its alignment, races, and, for a read,
  /// initialisation.
  void check(const Access &access, MemoryShadow &shadow);
  void checkRace(const Access &access, MemoryShadow &shadow, Accessor who);
  void wait(Wait wait);
  /// Records a fault and ends the launch. Called on the stack of a fiber.
  [[noreturn]] void stop(Fault::Kind kind, const Access &access,
                         const char *firstByte = nullptr, Race race = {});

  const EmuLaunch *launch_ = nullptr;
  std::vector<char *> args_;
  Random random_{0};
  std::vector<Bounds> bounds_; ///< Indexed by member.
  int64_t blocks_ = 0;         ///< The number of blocks per member.
  SectorCounter sectors_;
  FiberPool fibers_;
  bool hasFibers_ = false;

  int64_t block_ = 0, member_ = 0, epoch_ = 0, thread_ = 0;
  int64_t ended_ = 0;       ///< Threads of the block that have ended.
  int64_t warpWaiting_ = 0; ///< Waiting lanes of the current warp.
  std::vector<Thread> threads_;
  std::vector<int64_t> runnable_; ///< Warps that can continue.
  Fault fault_;

  std::unique_ptr<char[]> sharedMemory_;
  char *shared_ = nullptr;
  MemoryShadow sharedShadow_;
  AsyncCopies copies_;
};

} // namespace kiln::runtime::emu

#endif // KILN_LIB_RUNTIME_EMU_BLOCKRUNNER_H
