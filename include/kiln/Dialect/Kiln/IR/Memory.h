//===- Memory.h - The memory in a tensor type -------------------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The encoding of a tensor type determines the memory of the tensor (see
// TensorEncodingAttrInterface). `type.clone` preserves the encoding. Code must
// access the encoding only through the functions below. Kiln.h, which declares
// MemorySpace, includes this header.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_DIALECT_KILN_IR_MEMORY_H
#define KILN_DIALECT_KILN_IR_MEMORY_H

namespace kiln {

/// Returns the memory that stores tensors of this type.
MemorySpace memoryOf(mlir::Type type);
inline MemorySpace memoryOf(mlir::Value value) {
  return memoryOf(value.getType());
}
/// Returns the type that a tensor of `type` has if it is stored in `memory`.
mlir::RankedTensorType inMemory(mlir::Type type, MemorySpace memory);
/// Changes the type of a value so that the value is stored in `memory`.
void setMemory(mlir::Value value, MemorySpace memory);
/// Returns the memory of the results of an op, or MemorySpace::Device if the op
/// has no results. An op runs on the host if this function returns
/// MemorySpace::Host, and on the device otherwise.
MemorySpace memoryOf(mlir::Operation *op);

/// Returns false if the type has an encoding that does not implement
/// TensorEncodingAttrInterface.
bool hasKnownEncoding(mlir::RankedTensorType type);

/// Verifies that all results and operands of an op are in one memory, except
/// that an op on the host may read scalars on the device. Also verifies that
/// GEMMs run on the device.
llvm::LogicalResult verifyRunsInOneMemory(mlir::Operation *op);

template <typename ConcreteOp>
class RunsInOneMemory
    : public mlir::OpTrait::TraitBase<ConcreteOp, RunsInOneMemory> {
public:
  static llvm::LogicalResult verifyTrait(mlir::Operation *op) {
    return verifyRunsInOneMemory(op);
  }
};

} // namespace kiln

#endif // KILN_DIALECT_KILN_IR_MEMORY_H
