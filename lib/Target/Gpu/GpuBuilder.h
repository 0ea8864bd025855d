//===- GpuBuilder.h - Writing one gpu kernel --------------------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// All gpu emitters write their kernels with this class. A kernel is a gpu.func
// in the gpu.module @kernels:
//
//   gpu.func @name(%arg0: !llvm.ptr<1>, ..., %imm0: i64, ..., %units: i64)
//
// one-dimensional in grid and block; a block works on `unitsPerBlock` units.
// Control flow is scf, arithmetic is arith on scalars and small vectors, memory
// is llvm loads and stores: address space 1 is the arena, 3 a block's shared
// memory. MMAs and asynchronous copies are nvvm's, written by
// TensorCore.h. Arguments may lie on top of each other where the plan says so,
// hence nothing is said of aliasing.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_LIB_TARGET_GPU_GPUBUILDER_H
#define KILN_LIB_TARGET_GPU_GPUBUILDER_H

#include "DeviceFacts.h"
#include "kiln/Target/Common/ArithBuilder.h"
#include "kiln/Target/Gpu/Kernels.h"

#include "mlir/Dialect/GPU/IR/GPUDialect.h"

namespace kiln::gpu {

/// Lanes of every vector, unless an emitter wants others.
constexpr int64_t kLanes = 4;

class GpuBuilder : public ArithBuilder {
public:
  /// Starts the function `name` in `kernels`.
  GpuBuilder(mlir::gpu::GPUModuleOp kernels, llvm::StringRef name,
             unsigned numArgs, unsigned numImmediates, int64_t threads,
             int64_t width = kLanes);
  /// Ends the function. Fails, with an error at the kernels, when it needed
  /// what a GPU does not have.
  llvm::LogicalResult finish();

  // What the launch passed.
  Value arg(unsigned i) const { return args[i]; }
  Value immediate(unsigned i) const { return immediates[i]; } ///< i64
  Value units() const { return unitCount; }                   ///< i64
  Value thread() const { return threadIndex; }                ///< i64, in block
  Value block() const { return blockIndex; }                  ///< i64, in grid
  int64_t threads() const { return threadCount; }             ///< of a block
  int64_t width() const { return laneCount; }                 ///< of a vector

  // Memory. Offsets count elements of the given type (i64). `alignment` in
  // bytes; 0: of one element.
  Value element(Value pointer, Type type, Value offset);
  Value element(Value pointer, Type type, int64_t offset);
  Value load(Value pointer, Type type, int64_t alignment = 0);
  void store(Value value, Value pointer, int64_t alignment = 0);

  /// `count` elements of shared memory, 16 bytes aligned.
  Value shared(Type element, int64_t count);
  /// All that has been asked for.
  int64_t sharedBytes() const { return sharedTotal; }

  /// Waits for all threads of the block.
  void barrier();
  /// The value of the lane whose number differs in the bits of `mask`; of a
  /// scalar or, element by element, of a vector.
  Value shuffleXor(Value x, int64_t mask);
  /// The scalar `x` of the warp's lane `lane` (i32).
  Value shuffleIdx(Value x, Value lane);

  Value callLibrary(llvm::StringRef name, Value x) override;

private:
  mlir::LLVM::GlobalOp sharedGlobal(Type type, llvm::StringRef suffix,
                                    mlir::LLVM::Linkage linkage);
  void shareAtLaunch();
  Value shuffleScalarXor(Value x, int64_t mask);

  mlir::gpu::GPUModuleOp kernels;
  mlir::gpu::GPUFuncOp function;
  llvm::SmallVector<Value> args, immediates;
  Value unitCount, threadIndex, blockIndex;
  int64_t threadCount;
  struct SharedPlace {
    mlir::LLVM::GlobalOp global;
    mlir::LLVM::AddressOfOp address;
    int64_t offset;
  };
  llvm::SmallVector<SharedPlace> sharedPlaces;
  int64_t sharedTotal = 0;
  std::string missing; ///< What was asked for in vain.
};

/// Loads the dialects that emitted kernels use.
void loadKernelDialects(mlir::MLIRContext &context);

} // namespace kiln::gpu

#endif // KILN_LIB_TARGET_GPU_GPUBUILDER_H
