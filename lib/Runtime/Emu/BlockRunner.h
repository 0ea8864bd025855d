//===- BlockRunner.h - The threads of one block at a time -------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Runs the blocks of a launch: the scheduler picks a warp, whose lanes run in
// turn until each ends or waits. When all lanes wait at a shuffle, or at
// another operation of the warp as a whole, it is carried out and the warp goes
// on. When no warp can go on, all threads of the block have ended, or all wait
// at a barrier, or the kernel is wrong.
//
// Calls of kernels (kiln/Abi/EmulatedKernel.h) reach the runner by `current`,
// on the stack of a fiber. A fault there is written down, and control goes back
// to the scheduler for good.
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
  /// The one whose kernel runs on this OS thread.
  static thread_local BlockRunner *current;

  BlockRunner();

  /// Makes the stacks, once.
  Status prepare();

  /// The bounds hold what each member of the launch may touch.
  void begin(const EmuLaunch &launch, Random random);
  std::vector<Bounds> &bounds() { return bounds_; }
  /// Blocks of all members are counted one after the other.
  Status runBlock(int64_t block);
  const EmuCounts &counts() const { return sectors_.counts(); }

  /// The calls of kernels.
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
  /// What a thread waits for: nothing, the block, its warp, or no more.
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
    uint64_t value;  ///< Given to a shuffle, then got from it.
    int32_t operand; ///< Of the warp's operation.
    Wait wait;
    const void *source; ///< Of a matrix operation.
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
  /// What holds for all accesses that lie in bounds.
  void check(const Access &access, MemoryShadow &shadow);
  void checkRace(const Access &access, MemoryShadow &shadow, Accessor who);
  void wait(Wait wait);
  /// Ends the launch, on the stack of a fiber.
  [[noreturn]] void stop(Fault::Kind kind, const Access &access,
                         const char *firstByte = nullptr, Race race = {});

  const EmuLaunch *launch_ = nullptr;
  std::vector<char *> args_;
  Random random_{0};
  std::vector<Bounds> bounds_; ///< By member.
  int64_t blocks_ = 0;         ///< Of a member.
  SectorCounter sectors_;
  FiberPool fibers_;
  bool hasFibers_ = false;

  int64_t block_ = 0, member_ = 0, epoch_ = 0, thread_ = 0;
  int64_t ended_ = 0;       ///< Threads of the block.
  int64_t warpWaiting_ = 0; ///< Lanes, for the warp that is being advanced.
  std::vector<Thread> threads_;
  std::vector<int64_t> runnable_; ///< Warps.
  Fault fault_;

  std::unique_ptr<char[]> sharedMemory_;
  char *shared_ = nullptr;
  MemoryShadow sharedShadow_;
  AsyncCopies copies_;
};

} // namespace kiln::runtime::emu

#endif // KILN_LIB_RUNTIME_EMU_BLOCKRUNNER_H
