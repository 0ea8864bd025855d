//===- Emulate.h - Lowers GPU kernels for the emulated device ---*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The kernels of the cuda target also run on a device that the runtime
// emulates, with one fiber per GPU thread (lib/Runtime/Emu). Each gpu.func
// becomes a host function
//
//   void NAME(char *const *args, const int64_t *immediates, int64_t units)
//
// that is called once per thread. The function calls the device for each
// operation that depends on the GPU:
//
//   gpu.thread_id x, gpu.block_id x  i64 kiln_emu_thread_id, .._block_id
//   gpu.block_id y                   i64 kiln_emu_member_id()
//   gpu.barrier                      kiln_emu_barrier()
//   gpu.shuffle xor | idx            i64 kiln_emu_shuffle_xor | _idx(i64, i32)
//   address of a shared global       ptr kiln_emu_shared(i64 offset)
//   load, store in global memory     kiln_emu_global_access(ptr, i64 bytes,
//                                      i32 isWrite) before it
//   load, store in shared memory     kiln_emu_shared_access(...) before it
//   nvvm.mma.sync, nvvm.ldmatrix     kiln_emu_multiply_matrices(..),
//                                      kiln_emu_load_matrices(..)
//   nvvm.cp.async ..                 kiln_emu_copy_async(..), .._commit(),
//                                      .._wait(..)
//   llvm.nvvm.ex2.approx.ftz.f32     f32 kiln_emu_exp2(f32)
//
// If the kernel can run a group of launches (its parameter is then a table with
// llvm.byval), `args` has the arguments of all launches of the group, one
// launch after another.
//
// Each call of kiln_emu_global_access or kiln_emu_shared_access describes one
// memory instruction of a GPU. The size of an access is at most 16 bytes and at
// most the alignment that the kernel declares. The device can thus verify the
// declared alignment by checking that the address is a multiple of the size.
// The host access itself assumes no alignment.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_TARGET_GPU_EMULATE_H
#define KILN_TARGET_GPU_EMULATE_H

#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "mlir/IR/BuiltinOps.h"
#include "llvm/Support/Error.h"

namespace kiln::gpu {

/// Returns the shared memory bytes per thread block of `kernel`: the total size
/// of the shared globals whose addresses the kernel takes. The globals are laid
/// out in the order of their definitions, each aligned to 16 bytes or to its
/// own alignment if that is larger.
llvm::Expected<int64_t> getSharedBytes(mlir::gpu::GPUFuncOp kernel);

/// For each kernel of the gpu.module in `module`, adds a host function to
/// `into`. The caller compiles `into` with cpu::compileToObject. Does not
/// change `module`. Does not change `into` on failure.
llvm::Error lowerForEmulation(mlir::ModuleOp module, mlir::ModuleOp into);

} // namespace kiln::gpu

#endif // KILN_TARGET_GPU_EMULATE_H
