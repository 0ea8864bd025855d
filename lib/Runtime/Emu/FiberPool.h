//===- FiberPool.h - Fibers of emulated GPU threads -------------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A pool of fibers, each with its own stack. A scheduler resumes a fiber, which
// runs until it suspends itself. All fibers of a pool belong to the OS thread
// that created the pool. A switch between stacks saves the six callee-saved
// registers. It does not save the floating-point modes, because kernels do not
// change them. A fiber that is not running can be prepared again; the contents
// of its stack are then discarded.
//
// The distance between stacks is not a multiple of the page size, because
// equally aligned stack tops would evict each other from the L1 cache. Guard
// pages would require page-aligned stacks and are therefore not used. Instead,
// device functions compare their frame address with limit(), and isIntact()
// checks after a run that a canary in the lowest bytes of the stack is
// unchanged.
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
  /// Bytes of a stack. Builds with AddressSanitizer use larger stacks, because
  /// their frames are several times larger.
  static constexpr int64_t stackBytes = KILN_EMU_ASAN ? 128 << 10 : 16 << 10;
  /// Bytes of a stack above limit(), which the frames of kernels may use. The
  /// bytes below limit() are reserved for device functions that a kernel calls
  /// when its frame is near the limit.
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
  /// Switches to the scheduler. `isLast` means that the fiber is not resumed
  /// until prepare() has reset it.
  void suspend(int64_t fiber, bool isLast);
  /// The function `entry` of a fiber, see prepare(), must call this function
  /// before it does anything else.
  void entered();

  /// Returns the lowest frame address that is allowed on the fiber's stack. A
  /// frame below it risks a stack overflow.
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
