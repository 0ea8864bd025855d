//===- FiberPool.h - A stack for every thread of a block --------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Fibers that one scheduler resumes and that suspend themselves. They belong to
// the OS thread that made them. A switch saves the six registers that a callee
// must preserve and nothing else: kernels leave the floating-point modes alone.
// A fiber may be prepared anew at any time while it is not running; what was on
// its stack is dropped.
//
// The pitch of the stacks is no multiple of a page, since tops of stacks that
// are equally aligned evict each other from the L1 cache. So there are no guard
// pages. Instead callers compare their frame with limit(), and isIntact() tells
// afterwards whether anything was written to a stack's last bytes.
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
  /// Of a stack. Frames are several times as large under AddressSanitizer.
  static constexpr int64_t stackBytes = KILN_EMU_ASAN ? 128 << 10 : 16 << 10;
  /// Of these, for frames down to limit(). Calls into the device, which are
  /// made near the limit too, have the rest.
  static constexpr int64_t usableBytes = stackBytes / 8 * 7;

  FiberPool() = default;
  ~FiberPool();
  FiberPool(const FiberPool &) = delete;
  FiberPool &operator=(const FiberPool &) = delete;

  /// Makes the stacks of `count` fibers.
  Status create(int64_t count);

  /// The next resume() of the fiber calls `entry`, which must not return.
  void prepare(int64_t fiber, void (*entry)());
  /// Runs the fiber until it suspends itself.
  void resume(int64_t fiber);
  /// Back to the scheduler. `isLast`: the fiber is never resumed again before
  /// it is prepared.
  void suspend(int64_t fiber, bool isLast);
  /// What `entry` calls before anything else.
  void entered();

  /// Frames below this address are about to overflow the stack.
  const char *limit(int64_t fiber) const {
    return bottom(fiber) + stackBytes - usableBytes;
  }
  /// Whether the last bytes of the stack are as they were.
  bool isIntact(int64_t fiber) const;
  void repair(int64_t fiber);

private:
  static constexpr int64_t pitch = stackBytes + 192;

  char *bottom(int64_t fiber) const { return stacks_ + fiber * pitch; }

  char *stacks_ = nullptr;
  int64_t mappedBytes_ = 0;
  void *scheduler_ = nullptr; ///< Its stack pointer while a fiber runs.
  std::unique_ptr<void *[]> stackPointers_; ///< While they do not run.
#if KILN_EMU_ASAN
  const void *schedulerBottom_ = nullptr;
  size_t schedulerBytes_ = 0;
  std::unique_ptr<void *[]> fakeStacks_;
#endif
};

} // namespace kiln::runtime::emu

#endif // KILN_LIB_RUNTIME_EMU_FIBERPOOL_H
