//===- FiberPool.h - Fibers of emulated GPU threads -------------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Fibers with a stack of their own. A scheduler resumes a fiber, which runs
// until it suspends itself. All fibers of a pool belong to the OS thread that
// created it. A switch saves only the six callee-saved registers and not the
// floating-point modes, which kernels do not change. A fiber can be prepared
// again whenever it is not running; the contents of its stack are then
// discarded.
//
// The pitch of the stacks is not a multiple of the page size, since equally
// aligned stack tops evict each other from the L1 cache. Guard pages, which
// require page alignment, are therefore not used. Instead, device functions
// compare their frame with limit(), and isIntact() checks afterwards that a
// canary in the lowest bytes of the stack is unchanged.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_LIB_RUNTIME_EMU_FIBERPOOL_H
#define KILN_LIB_RUNTIME_EMU_FIBERPOOL_H

#include "kiln/Support/Status.h"

#include <cstddef>
#include <cstdint>
#include <memory>

#if defined(__SANITIZE_ADDRESS__)
#define KILN_EMU_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define KILN_EMU_ASAN 1
#endif
#endif
#ifndef KILN_EMU_ASAN
#define KILN_EMU_ASAN 0
#endif

namespace kiln::runtime::emu {

class FiberPool {
public:
  /// Bytes of a stack. AddressSanitizer makes frames several times larger.
  static constexpr int64_t stackBytes = KILN_EMU_ASAN ? 128 << 10 : 16 << 10;
  /// Bytes above limit() that kernels may use. The rest is reserved for device
  /// functions called near the limit.
  static constexpr int64_t usableBytes = stackBytes / 8 * 7;

  FiberPool() = default;
  ~FiberPool();
  FiberPool(const FiberPool &) = delete;
  FiberPool &operator=(const FiberPool &) = delete;

  /// Allocates the stacks of `count` fibers.
  Status create(int64_t count);

  /// Resets the fiber: the next resume() calls `entry`, which must not return.
  void prepare(int64_t fiber, void (*entry)());
  /// Runs the fiber until it suspends itself.
  void resume(int64_t fiber);
  /// Switches to the scheduler. If `isLast`, the fiber is not resumed again
  /// until it is prepared.
  void suspend(int64_t fiber, bool isLast);
  /// Must be the first call of `entry`.
  void entered();

  /// Returns the lowest address of a frame that does not risk a stack overflow.
  const char *limit(int64_t fiber) const {
    return bottom(fiber) + stackBytes - usableBytes;
  }
  /// Returns true if the canary of the stack is unchanged.
  bool isIntact(int64_t fiber) const;
  /// Rewrites the canary.
  void repair(int64_t fiber);

private:
  static constexpr int64_t pitch = stackBytes + 192;

  char *bottom(int64_t fiber) const { return stacks_ + fiber * pitch; }

  char *stacks_ = nullptr;
  int64_t mappedBytes_ = 0;
  /// The scheduler's stack pointer while a fiber runs.
  void *scheduler_ = nullptr;
  /// The stack pointers of suspended fibers.
  std::unique_ptr<void *[]> stackPointers_;
#if KILN_EMU_ASAN
  const void *schedulerBottom_ = nullptr;
  size_t schedulerBytes_ = 0;
  std::unique_ptr<void *[]> fakeStacks_;
#endif
};

} // namespace kiln::runtime::emu

#endif // KILN_LIB_RUNTIME_EMU_FIBERPOOL_H
