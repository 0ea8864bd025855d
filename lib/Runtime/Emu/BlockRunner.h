//===- BlockRunner.h - Scheduler of emulated thread blocks ------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Runs the thread blocks of a launch one at a time. The scheduler picks a warp
// and runs its lanes in turn; each lane runs until it ends or waits. When all
// lanes of the warp wait at the same warp-wide operation, such as a shuffle,
// the scheduler executes the operation and the warp continues. When no warp can
// continue, all threads of the block have ended, or all threads wait at a
// barrier, or the kernel is faulty.
//
// Kernels call device functions (kiln/Abi/EmulatedKernel.h). A device function
// runs on the stack of a fiber and finds the runner in `current`. If it detects
// a fault, it records the fault and switches to the scheduler, which never
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

  /// Allocates the stacks of the fibers unless an earlier call has done so.
  Status prepare();

  /// Starts a launch. Before the call, bounds() must be set to the memory that
  /// each launch of the launch group may access.
  void begin(const EmuLaunch &launch, Random random);
  std::vector<Bounds> &bounds() { return bounds_; }
  /// Runs a block. The blocks of all launches of the group are numbered
  /// consecutively: those of launch 0 come first, then those of launch 1, and
  /// so on.
  Status runBlock(int64_t block);
  const EmuCounts &counts() const { return sectors_.counts(); }

  /// Functions that kernels call. They run on the stack of a fiber.
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
  void multiplyMatrices(const uint32_t *words, float *sums, bool isHalf,
                        const void *frame);
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
    /// For a shuffle: the value that this lane provides before the shuffle, and
    /// the value that it has received after the shuffle.
    uint64_t value;
    int32_t operand; ///< Lane or mask of a shuffle; options of a matrix op.
    Wait wait;
    /// For a matrix operation: the addresses of the operand and of the result.
    const void *source;
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
  /// Checks the alignment of an access, whether it races with an earlier access
  /// and, if it is a read, whether the bytes are initialised. The access must
  /// be in bounds.
  void check(const Access &access, MemoryShadow &shadow);
  void checkRace(const Access &access, MemoryShadow &shadow, Accessor who);
  void wait(Wait wait);
  /// Records a fault and ends the launch. Called on the stack of a fiber.
  [[noreturn]] void stop(Fault::Kind kind, const Access &access,
                         const char *firstByte = nullptr, Race race = {});

  const EmuLaunch *launch_ = nullptr;
  std::vector<char *> args_;
  Random random_{0};
  /// The memory that each launch of the launch group (launches that run as one)
  /// may access.
  std::vector<Bounds> bounds_;
  int64_t blocks_ = 0; ///< The number of blocks per launch.
  SectorCounter sectors_;
  FiberPool fibers_;
  bool hasFibers_ = false;

  int64_t block_ = 0, member_ = 0, epoch_ = 0, thread_ = 0;
  int64_t ended_ = 0; ///< Number of threads of the block that have ended.
  /// Number of lanes of the current warp that wait at a warp-wide operation.
  int64_t warpWaiting_ = 0;
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
