//===- Memory.h - The memory in a tensor type -------------------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The type of a tensor says where it is stored (TensorEncodingAttrInterface).
// Types that are derived with `type.clone` keep the memory; nothing else looks
// into the encoding. Included by Kiln.h, which declares the enum.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_DIALECT_KILN_IR_MEMORY_H
#define KILN_DIALECT_KILN_IR_MEMORY_H

namespace kiln {

/// The memory that holds the tensors of a type.
MemorySpace memoryOf(mlir::Type type);
inline MemorySpace memoryOf(mlir::Value value) {
  return memoryOf(value.getType());
}
/// The type of the same tensor in `memory`.
mlir::RankedTensorType inMemory(mlir::Type type, MemorySpace memory);
/// Moves a value to `memory`: changes its type.
void setMemory(mlir::Value value, MemorySpace memory);
/// The memory that an op runs on, which is that of its results.
MemorySpace memoryOf(mlir::Operation *op);

/// False for an encoding that is no TensorEncodingAttrInterface.
bool hasKnownEncoding(mlir::RankedTensorType type);

/// Verifies that an op finds what it reads in the memory that it runs on. An op
/// on the host may read scalars on the device, too.
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
