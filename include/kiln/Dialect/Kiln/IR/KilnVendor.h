//===- KilnVendor.h - GEMMs of a vendor library -----------------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Declares the ops of KilnVendorOps.td. kilnc sets the module attribute
// `kiln.library_epilogues` to enable these ops. If the target supports the ops,
// kiln-set-numerics forms them. The ops change how results are rounded, and no
// pass after kiln-set-numerics may change the rounding. Therefore no later pass
// may form these ops.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_DIALECT_KILN_IR_KILNVENDOR_H
#define KILN_DIALECT_KILN_IR_KILNVENDOR_H

#include "kiln/Dialect/Kiln/IR/Kiln.h"

#define GET_OP_CLASSES
#include "kiln/Dialect/Kiln/IR/KilnVendorOps.h.inc"

namespace kiln {

inline constexpr llvm::StringLiteral kVendorEpiloguesAttr =
    "kiln.library_epilogues";

/// Creates the GEMM with this vendor epilogue, or a kiln.matmul for
/// GemmEpilogue::None. `operands` are the left operand, the right operand, and
/// optionally the operand of the epilogue or the matrix that the kiln.matmul
/// accumulates onto.
mlir::Operation *createGemm(mlir::OpBuilder &builder, mlir::Location loc,
                            abi::GemmEpilogue epilogue, mlir::TypeRange results,
                            mlir::ValueRange operands, bool transA,
                            bool transB);

} // namespace kiln

#endif // KILN_DIALECT_KILN_IR_KILNVENDOR_H
