//===- GpuBuilder.h - Builder of a GPU kernel -------------------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// All GPU emitters build their kernels with this class. A kernel is a gpu.func
// in the gpu.module @kernels:
//
//   gpu.func @name(%arg0: !llvm.ptr<1>, ..., %imm0: i64, ..., %units: i64)
//
// Grid and block are one-dimensional (MemberTable.h adds a second grid
// dimension); each block processes `unitsPerBlock` work units. Control flow
// uses scf, arithmetic uses arith on scalars and small vectors, and memory
// accesses are llvm loads and stores. Address space 1 is global memory, and
// address space 3 is the shared memory of a block. Matrix instructions and
// asynchronous copies use nvvm ops, which TensorCore.h emits. The memory plan
// may place arguments at overlapping addresses, so arguments carry no noalias
// attributes.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_LIB_TARGET_GPU_GPUBUILDER_H
#define KILN_LIB_TARGET_GPU_GPUBUILDER_H

#include "DeviceFacts.h"
#include "kiln/Target/Common/ArithBuilder.h"
#include "kiln/Target/Gpu/Kernels.h"

#include "mlir/Dialect/GPU/IR/GPUDialect.h"

namespace kiln::gpu {

/// The default number of lanes of a vector.
constexpr int64_t kLanes = 4;

class GpuBuilder : public ArithBuilder {
public:
  /// Starts the function `name` in `kernels`.
  GpuBuilder(mlir::gpu::GPUModuleOp kernels, llvm::StringRef name,
             unsigned numArgs, unsigned numImmediates, int64_t threads,
             int64_t width = kLanes);
  /// Ends the function. Reports an error on the kernels and fails if the kernel
  /// needs a feature that GPUs lack.
  llvm::LogicalResult finish();

  // Values passed by the launch.
  Value arg(unsigned i) const { return args[i]; }
  Value immediate(unsigned i) const { return immediates[i]; } ///< i64.
  Value units() const { return unitCount; }                   ///< i64.
  Value thread() const { return threadIndex; }    ///< Index in the block (i64).
  Value block() const { return blockIndex; }      ///< Index in the grid (i64).
  int64_t threads() const { return threadCount; } ///< Per block.
  int64_t width() const { return laneCount; }     ///< Vector lanes.

  // Memory accesses. Offsets are i64 and count elements of the given type.
  // `alignment` is in bytes; 0 means the size of one element.
  Value element(Value pointer, Type type, Value offset);
  Value element(Value pointer, Type type, int64_t offset);
  Value load(Value pointer, Type type, int64_t alignment = 0);
  void store(Value value, Value pointer, int64_t alignment = 0);

  /// Allocates `count` elements of shared memory, aligned to 16 bytes.
  Value shared(Type element, int64_t count);
  /// Returns the total size of all shared memory allocations.
  int64_t sharedBytes() const { return sharedTotal; }

  /// Emits a barrier for all threads of the block.
  void barrier();
  /// Returns the value of x in the lane whose index is the index of this lane
  /// XOR `mask`. x is a scalar, or a vector that is shuffled element by
  /// element.
  Value shuffleXor(Value x, int64_t mask);
  /// Returns the scalar `x` of lane `lane` (i32) of the warp.
  Value shuffleIdx(Value x, Value lane);

  Value callLibrary(llvm::StringRef name, Value x) override;
  Value lookUp(llvm::StringRef table, llvm::ArrayRef<int32_t> elements,
               Value index) override;

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
  std::string missing; ///< The unsupported feature, for the error of finish().
};

/// Loads the dialects that emitted kernels use.
void loadKernelDialects(mlir::MLIRContext &context);

} // namespace kiln::gpu

#endif // KILN_LIB_TARGET_GPU_GPUBUILDER_H
