//===- EmuAbi.cpp - Functions that emulated kernels call ------------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Kernels call the functions in this file directly. Therefore each function can
// pass two addresses to the runner: its own frame address, from which the
// runner detects a stack overflow, and its return address, which identifies the
// access in the kernel's code.
//
//===----------------------------------------------------------------------===//

#include "BlockRunner.h"
#include "TensorCore.h"
#include "kiln/Abi/EmulatedKernel.h"

using kiln::runtime::emu::BlockRunner;

int64_t kiln_emu_thread_id(void) { return BlockRunner::current->thread(); }

int64_t kiln_emu_block_id(void) { return BlockRunner::current->block(); }

int64_t kiln_emu_member_id(void) { return BlockRunner::current->member(); }

void kiln_emu_barrier(void) {
  BlockRunner::current->barrier(__builtin_frame_address(0));
}

uint64_t kiln_emu_shuffle_xor(uint64_t bits, int32_t mask) {
  return BlockRunner::current->shuffle(bits, mask, /*isXor=*/true,
                                       __builtin_frame_address(0));
}

uint64_t kiln_emu_shuffle_idx(uint64_t bits, int32_t lane) {
  return BlockRunner::current->shuffle(bits, lane, /*isXor=*/false,
                                       __builtin_frame_address(0));
}

char *kiln_emu_shared(int64_t offset) {
  return BlockRunner::current->shared(offset);
}

void kiln_emu_global_access(const void *address, int64_t bytes,
                            int32_t isWrite) {
  BlockRunner::current->accessGlobal(
      {static_cast<const char *>(address), bytes, isWrite != 0,
       /*isShared=*/false},
      __builtin_return_address(0), __builtin_frame_address(0));
}

void kiln_emu_shared_access(const void *address, int64_t bytes,
                            int32_t isWrite) {
  BlockRunner::current->accessShared({static_cast<const char *>(address), bytes,
                                      isWrite != 0, /*isShared=*/true},
                                     __builtin_frame_address(0));
}

void kiln_emu_load_matrices(const void *row, int32_t count,
                            int32_t isTransposed, uint32_t *words) {
  BlockRunner::current->loadMatrices(static_cast<const char *>(row), count,
                                     isTransposed != 0, words,
                                     __builtin_frame_address(0));
}

void kiln_emu_multiply_matrices(const uint32_t *words, float *sums,
                                int32_t isHalf) {
  BlockRunner::current->multiplyMatrices(words, sums, isHalf != 0,
                                         __builtin_frame_address(0));
}

void kiln_emu_copy_async(void *to, const void *from, int64_t bytes,
                         int64_t present) {
  BlockRunner::current->copyAsync(
      static_cast<char *>(to), static_cast<const char *>(from), bytes, present,
      __builtin_return_address(0), __builtin_frame_address(0));
}

void kiln_emu_copy_commit(void) { BlockRunner::current->copyCommit(); }

void kiln_emu_copy_wait(int64_t pending) {
  BlockRunner::current->copyWait(pending, __builtin_frame_address(0));
}

float kiln_emu_exp2(float x) { return kiln::runtime::emu::exp2(x); }
