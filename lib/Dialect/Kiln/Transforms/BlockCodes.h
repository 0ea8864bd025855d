//===- BlockCodes.h - Residuals as codes of blocks --------------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Decides which residuals `--lossy=q8` and `--lossy=q4` store as codes of 8 or
// 4 bits, and in how many bytes.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_LIB_DIALECT_KILN_TRANSFORMS_BLOCKCODES_H
#define KILN_LIB_DIALECT_KILN_TRANSFORMS_BLOCKCODES_H

#include "Residuals.h"

#include "llvm/ADT/DenseSet.h"

#include <optional>

namespace kiln {

/// The encoding of one tensor.
struct BlockCodes {
  int64_t bits;      ///< Bits of a code, 8 or 4.
  int64_t codeBytes; ///< Bytes of all codes.
  mlir::RankedTensorType scales;

  int64_t bytes() const { return codeBytes + bytesOf(scales); }
};

/// Chooses the residuals of a program that are encoded.
class BlockCodeChooser {
public:
  /// `bits` is 8, 4, or 0 to encode nothing. The backward pass of `program`
  /// starts with `phase`.
  BlockCodeChooser(ProgramOp program, mlir::Operation *phase, int64_t bits);

  /// Returns the encoding of an activation of type `type`. Returns std::nullopt
  /// if such activations are not encoded: the elements are not floating-point
  /// numbers, the activation is small, no block length divides it, or its
  /// encoding is not smaller.
  std::optional<BlockCodes> find(mlir::RankedTensorType type) const;

  /// Returns the encoding of a residual, or std::nullopt if the residual is not
  /// encoded.
  std::optional<BlockCodes> find(mlir::Value residual,
                                 llvm::ArrayRef<ResidualRead> reads) const;

private:
  bool isReadInForward(mlir::Value value) const;

  mlir::Operation *phase;
  int64_t bits;
  int64_t sequences; ///< Number of sequences in the inputs of the program.
  /// Values of the forward pass that depend on an input of the program.
  llvm::DenseSet<mlir::Value> activations;
};

} // namespace kiln

#endif // KILN_LIB_DIALECT_KILN_TRANSFORMS_BLOCKCODES_H
