//===- FiberPool.cpp - Fibers of emulated GPU threads ---------------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "FiberPool.h"
#include "kiln/Support/Messages.h"

#include <cerrno>
#include <cstring>
#include <sys/mman.h>

#if KILN_EMU_ASAN
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif

#if !defined(__x86_64__)
#error "the emulated device switches stacks on x86-64 only"
#endif

using namespace kiln::runtime::emu;
using namespace kiln::runtime;
using namespace kiln::support;
using namespace kiln;

// Pushes the callee-saved registers and stores the stack pointer in *from. Then
// switches to the stack pointer `to`, which an earlier call stored or
// FiberPool::prepare computed, and pops the registers from that stack.
// Continues with an indirect jump instead of a ret, because the CPU's return
// address predictor would mispredict a ret on another stack.
extern "C" void kiln_emu_switch_stack(void **from, void *to);
asm(R"(
  .pushsection .text.kiln_emu_switch_stack, "ax", @progbits
  .p2align 4
  .globl kiln_emu_switch_stack
  .hidden kiln_emu_switch_stack
  .type kiln_emu_switch_stack, @function
kiln_emu_switch_stack:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  popq %rcx
  jmpq *%rcx
  .size kiln_emu_switch_stack, . - kiln_emu_switch_stack
  .popsection
)");

/// The canary in the lowest bytes of every stack.
static constexpr uint64_t canary[] = {0x6b696c6e2d656d75, 0x9e3779b97f4a7c15,
                                      0xbf58476d1ce4e5b9, 0x94d049bb133111eb};

FiberPool::~FiberPool() {
  if (stacks_)
    munmap(stacks_, mappedBytes_);
}

Status FiberPool::create(int64_t count) {
  mappedBytes_ = count * pitch;
  void *memory = mmap(nullptr, mappedBytes_, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED)
    return Status::error("cuda-emu: cannot map " +
                         std::to_string(mappedBytes_) +
                         " bytes for the stacks of " + std::to_string(count) +
                         " threads: " + errnoText(errno));
  stacks_ = static_cast<char *>(memory);
  stackPointers_ = std::make_unique<void *[]>(count);
#if KILN_EMU_ASAN
  fakeStacks_ = std::make_unique<void *[]>(count);
#endif
  for (int64_t i = 0; i < count; ++i)
    repair(i);
  return Status();
}

bool FiberPool::isIntact(int64_t fiber) const {
  return std::memcmp(bottom(fiber), canary, sizeof(canary)) == 0;
}

void FiberPool::repair(int64_t fiber) {
  std::memcpy(bottom(fiber), canary, sizeof(canary));
}

// Builds the frame that kiln_emu_switch_stack pops: six registers, and the
// address at which to continue. After the pops, the stack looks as it does
// after a call: the stack pointer is 8 below a multiple of 16 and points to the
// return address. The return address is null, so that a backtrace ends at this
// frame.
void FiberPool::prepare(int64_t fiber, void (*entry)()) {
  char *top = bottom(fiber) + stackBytes;
  void *frame[8] = {};
  frame[6] = reinterpret_cast<void *>(entry);
#if KILN_EMU_ASAN
  // AddressSanitizer poisons parts of stack frames. If the last run of this
  // fiber did not return from its frames, these parts are still poisoned.
  // Therefore unpoison the whole stack.
  ASAN_UNPOISON_MEMORY_REGION(bottom(fiber), stackBytes);
  fakeStacks_[fiber] = nullptr;
#endif
  std::memcpy(top - sizeof(frame), frame, sizeof(frame));
  stackPointers_[fiber] = top - sizeof(frame);
}

void FiberPool::resume(int64_t fiber) {
#if KILN_EMU_ASAN
  void *fakeStack;
  __sanitizer_start_switch_fiber(&fakeStack, bottom(fiber), stackBytes);
#endif
  kiln_emu_switch_stack(&scheduler_, stackPointers_[fiber]);
#if KILN_EMU_ASAN
  __sanitizer_finish_switch_fiber(fakeStack, nullptr, nullptr);
#endif
}

void FiberPool::suspend(int64_t fiber, bool isLast) {
#if KILN_EMU_ASAN
  __sanitizer_start_switch_fiber(isLast ? nullptr : &fakeStacks_[fiber],
                                 schedulerBottom_, schedulerBytes_);
#endif
  kiln_emu_switch_stack(&stackPointers_[fiber], scheduler_);
#if KILN_EMU_ASAN
  __sanitizer_finish_switch_fiber(fakeStacks_[fiber], nullptr, nullptr);
#endif
}

void FiberPool::entered() {
#if KILN_EMU_ASAN
  __sanitizer_finish_switch_fiber(nullptr, &schedulerBottom_, &schedulerBytes_);
#endif
}
