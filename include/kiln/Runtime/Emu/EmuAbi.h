//===- EmuAbi.h - What emulated GPU kernels call ----------------*- C++ -*-===//
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

#ifndef KILN_RUNTIME_EMU_EMUABI_H
#define KILN_RUNTIME_EMU_EMUABI_H

#include <cstdint>

extern "C" {

/// A kernel, as one GPU thread runs it.
typedef void (*EmuKernel)(char *const *args, const int64_t *immediates,
                          int64_t units);

/// Of the block, and of the grid.
int64_t kiln_emu_thread_id(void);
int64_t kiln_emu_block_id(void);

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
}

#endif // KILN_RUNTIME_EMU_EMUABI_H
