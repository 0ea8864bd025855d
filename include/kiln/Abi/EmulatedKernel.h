//===- EmulatedKernel.h - Functions that emulated kernels call --*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// An emulated kernel is a host function that runs once per GPU thread, each on
// a stack of its own. It reaches the device through these calls alone; there is
// no context argument, since the device keeps the current thread (per OS
// thread). Outside of EmuDevice::launch none of them may be called.
//
// A call that finds a fault does not return: the launch ends and reports it,
// and the frames of the kernel are dropped without running destructors. So a
// kernel holds no resources.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_ABI_EMULATEDKERNEL_H
#define KILN_ABI_EMULATEDKERNEL_H

#include <cstdint>

extern "C" {

/// A kernel, as one GPU thread runs it.
typedef void (*EmuKernel)(char *const *args, const int64_t *immediates,
                          int64_t units);

/// Of the block, and of the grid.
int64_t kiln_emu_thread_id(void);
int64_t kiln_emu_block_id(void);
/// Of the launches that are one, which the block works on: its number in the
/// second dimension of the grid. The arguments are those of all members.
int64_t kiln_emu_member_id(void);

/// Waits for all threads of the block, and orders their accesses.
void kiln_emu_barrier(void);

/// The value that lane `own ^ mask` or lane `lane` gave, for all 32 lanes of a
/// warp at once. Orders no accesses.
uint64_t kiln_emu_shuffle_xor(uint64_t bits, int32_t mask);
uint64_t kiln_emu_shuffle_idx(uint64_t bits, int32_t lane);

/// The block's shared memory, from byte `offset` on.
char *kiln_emu_shared(int64_t offset);

/// Before each access, of at least one byte. The place of the call in the code
/// stands for the instruction: sectors are counted per warp and place.
void kiln_emu_global_access(const void *address, int64_t bytes,
                            int32_t isWrite);
void kiln_emu_shared_access(const void *address, int64_t bytes,
                            int32_t isWrite);

// Tensor cores, for all 32 lanes of a warp at once; lane l has g = l / 4 and
// t = l % 4. The words hold two elements of 16 bits each, the lower one first.

/// Reads `count` (1, 2 or 4) matrices of 8 x 8 elements from shared memory: row
/// r of matrix m is the 16 bytes at the address that lane 8 m + r gives. Of
/// each matrix M a lane gets words[m] = {M[g][2t], M[g][2t + 1]}, or, if
/// transposed, {M[2t][g], M[2t + 1][g]}. (ldmatrix.m8n8.b16)
void kiln_emu_load_matrices(const void *row, int32_t count,
                            int32_t isTransposed, uint32_t *words);

/// sums += A B with A of 16 x 16 and B of 16 x 8 bf16, sums of 16 x 8. Rows g
/// and g + 8 of A: words 0 and 1 have columns 2t, 2t + 1, words 2 and 3 columns
/// 2t + 8, 2t + 9. Column g of B: words 4 and 5 have rows 2t, 2t + 1 and 2t +
/// 8, 2t + 9. sums[0..1]: row g, columns 2t and 2t + 1; sums[2..3]: row g + 8.
/// (mma.m16n8k16.row.col.f32.bf16.bf16.f32)
///
/// A sum starts from the one that is given and adds the products, which are
/// exact, from the first column of A to the last, each rounded to f32. On a GPU
/// order and rounding are its own.
void kiln_emu_multiply_matrices(const uint32_t *words, float *sums);

/// Begins to copy `bytes` (4, 8 or 16), of which `present` come from global
/// memory and zeros follow, to shared memory. They are there once the thread
/// has waited for the copy's group, for itself, and after a barrier behind that
/// for others; until then nobody may touch them. (cp.async)
void kiln_emu_copy_async(void *to, const void *from, int64_t bytes,
                         int64_t present);
/// Makes a group of the thread's copies since the last one. May be empty.
void kiln_emu_copy_commit(void);
/// Waits for all groups of the thread but the newest `pending`.
void kiln_emu_copy_wait(int64_t pending);

/// 2^x within one unit in the last place; 0 below 2^-126. (ex2.approx.ftz)
float kiln_emu_exp2(float x);
}

#endif // KILN_ABI_EMULATEDKERNEL_H
