//===- EmulatedKernel.h - Runtime interface of emulated kernels -*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// An emulated kernel is a host function that is called once per GPU thread,
// each time on a separate stack. It accesses the device only through the
// functions below. The functions take no context argument, because the device
// stores the current GPU thread in a thread-local variable of the OS thread.
// The functions must only be called within EmuDevice::launch.
//
// A function that detects an error does not return: the launch ends and reports
// the error, and the stack of the kernel is discarded without running
// destructors. Therefore a kernel must not own resources.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_ABI_EMULATEDKERNEL_H
#define KILN_ABI_EMULATEDKERNEL_H

#include <cstdint>

extern "C" {

/// An emulated kernel, which is called once per GPU thread.
typedef void (*EmuKernel)(char *const *args, const int64_t *immediates,
                          int64_t units);

/// Return the index of the calling thread in its block, and the index of this
/// block in the first dimension of the grid.
int64_t kiln_emu_thread_id(void);
int64_t kiln_emu_block_id(void);
/// Returns the index of the block in the second dimension of the grid. If
/// several launches run as one (see MemberTable.h), this is the index of the
/// launch to which the block belongs. The `args` of the kernel contain the
/// arguments of all these launches.
int64_t kiln_emu_member_id(void);

/// Waits for all threads of the block, and orders their memory accesses.
void kiln_emu_barrier(void);

/// Exchange values between lanes: return the `bits` that lane `own ^ mask`
/// (shuffle_xor) or lane `lane` (shuffle_idx) passes, where `own` is the index
/// of the calling lane. All 32 lanes of the warp must make the call. The call
/// does not order memory accesses.
uint64_t kiln_emu_shuffle_xor(uint64_t bits, int32_t mask);
uint64_t kiln_emu_shuffle_idx(uint64_t bits, int32_t lane);

/// Returns the address of byte `offset` of the block's shared memory.
char *kiln_emu_shared(int64_t offset);

/// Report an access of `bytes` >= 1 bytes. Must be called before the access.
/// The sectors of global accesses are counted per warp and instruction; the
/// return address of the call identifies the instruction.
void kiln_emu_global_access(const void *address, int64_t bytes,
                            int32_t isWrite);
void kiln_emu_shared_access(const void *address, int64_t bytes,
                            int32_t isWrite);

// Tensor core operations, which all 32 lanes of a warp must call. Lane l has g
// = l / 4 and t = l % 4. A word holds two 16-bit elements, the first of them in
// the low half of the word.

/// Loads `count` (1, 2 or 4) matrices of 8 x 8 elements from shared memory.
/// Lane 8 m + r passes the address of the 16 bytes of row r of matrix m. For
/// g = l / 4 and t = l % 4, lane l receives from each matrix M = matrix m:
///   words[m] = {M[g][2t], M[g][2t + 1]} if `isTransposed` is 0,
///   words[m] = {M[2t][g], M[2t + 1][g]} otherwise.
/// (ldmatrix.m8n8.b16)
void kiln_emu_load_matrices(const void *row, int32_t count,
                            int32_t isTransposed, uint32_t *words);

/// Computes sums += A B, where A is 16 x 16, B is 16 x 8, and sums is 16 x 8
/// f32. A and B are f16 if `isHalf` is not 0, and otherwise bf16.
/// (mma.m16n8k16.row.col.f32.TYPE.TYPE.f32) The fragments of lane l are, for
/// g = l / 4 and t = l % 4:
///
///   words[0] = {A[g][2t],         A[g][2t + 1]}
///   words[1] = {A[g + 8][2t],     A[g + 8][2t + 1]}
///   words[2] = {A[g][2t + 8],     A[g][2t + 9]}
///   words[3] = {A[g + 8][2t + 8], A[g + 8][2t + 9]}
///   words[4] = {B[2t][g],         B[2t + 1][g]}
///   words[5] = {B[2t + 8][g],     B[2t + 9][g]}
///   sums[0], sums[1]: elements [g][2t] and [g][2t + 1]
///   sums[2], sums[3]: elements [g + 8][2t] and [g + 8][2t + 1]
///
/// The exact products are added to the values in `sums` in the order of the
/// columns of A, and each addition is rounded to f32. A GPU may add in a
/// different order and round differently.
void kiln_emu_multiply_matrices(const uint32_t *words, float *sums,
                                int32_t isHalf);

/// Starts an asynchronous copy of `bytes` bytes (4, 8 or 16) to shared memory:
/// `present` bytes from global memory, followed by zeros. The calling thread
/// may access the destination only after it has waited for the group that
/// contains the copy (see kiln_emu_copy_commit). All other threads may access
/// the destination only after a barrier that follows this wait. (cp.async)
void kiln_emu_copy_async(void *to, const void *from, int64_t bytes,
                         int64_t present);
/// Forms a group of all copies that the calling thread has started since it
/// last formed a group. The group may be empty.
void kiln_emu_copy_commit(void);
/// Waits until all groups of the calling thread are complete, except the newest
/// `pending` groups.
void kiln_emu_copy_wait(int64_t pending);

/// Returns 2^x with an error of at most 1 ULP, and 0 if 2^x is below 2^-126.
/// (ex2.approx.ftz)
float kiln_emu_exp2(float x);
}

#endif // KILN_ABI_EMULATEDKERNEL_H
