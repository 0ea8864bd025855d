//===- HostTensor.h - Tensors of the interpreter ----------------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Floating-point elements are stored as double. The interpreter rounds them to
// the evaluation type after every op.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_DIALECT_KILN_IR_HOSTTENSOR_H
#define KILN_DIALECT_KILN_IR_HOSTTENSOR_H

#include "mlir/IR/BuiltinTypes.h"

#include <vector>

namespace kiln {

struct HostTensor {
  mlir::RankedTensorType type;
  std::vector<double> reals;     ///< Elements of a floating-point tensor.
  std::vector<int64_t> integers; ///< Elements of an integer tensor.

  HostTensor() = default;
  /// Creates a tensor of zeros.
  explicit HostTensor(mlir::RankedTensorType type) : type(type) {
    if (llvm::isa<mlir::FloatType>(type.getElementType()))
      reals.resize(type.getNumElements());
    else
      integers.resize(type.getNumElements());
  }
  bool isReal() const {
    return llvm::isa<mlir::FloatType>(type.getElementType());
  }
  llvm::ArrayRef<int64_t> shape() const { return type.getShape(); }
  int64_t size() const { return type.getNumElements(); }
};

} // namespace kiln

#endif // KILN_DIALECT_KILN_IR_HOSTTENSOR_H
