//===- Emulate.h - GPU kernels for the emulated device ----------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The kernels of the cuda target also run on a device that the runtime
// emulates, one fiber per GPU thread (lib/Runtime/Emu). For that each gpu.func
// becomes a host function
//
//   void NAME(char *const *args, const int64_t *immediates, int64_t units)
//
// that is called once per thread and asks the device for everything a thread
// has on a GPU:
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
// Where the kernel has a table of members (llvm.byval), `args` is the table:
// the arguments of one member after the other.
//
// An access call names what one memory instruction of a GPU touches: at most 16
// bytes, and at most the alignment that the kernel promises, so that the device
// finds a promise that is not kept by testing that the address is a multiple of
// the bytes. The host's own access promises nothing.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_TARGET_GPU_EMULATE_H
#define KILN_TARGET_GPU_EMULATE_H

#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "mlir/IR/BuiltinOps.h"
#include "llvm/Support/Error.h"

namespace kiln::gpu {

/// Bytes of shared memory of a block of `kernel`: the shared globals whose
/// address it takes, one after the other in the order of their definitions,
/// each at a multiple of 16 or of its own alignment where that is larger.
llvm::Expected<int64_t> getSharedBytes(mlir::gpu::GPUFuncOp kernel);

/// Adds a host function for each kernel of the gpu.module in `module` to
/// `into`, which cpu::compileToObject then compiles. `module` stays as it is;
/// on failure `into` does too.
llvm::Error lowerForEmulation(mlir::ModuleOp module, mlir::ModuleOp into);

} // namespace kiln::gpu

#endif // KILN_TARGET_GPU_EMULATE_H
