//===- KilnVendor.h - GEMMs of a vendor library -----------------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// An epilogue of the vendor library changes how results are rounded. The
// module's attribute `kiln.library_epilogues`, which kilnc sets, states that
// its GEMMs have such epilogues where the target offers them; they are formed
// where all numerics are fixed.
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

/// Creates the GEMM with an epilogue of the vendor library, or a kiln.matmul if
/// that is none. `operands` are the left and the right one, and what the
/// epilogue reads, or the matrix that a kiln.matmul accumulates onto.
mlir::Operation *createGemm(mlir::OpBuilder &builder, mlir::Location loc,
                            abi::GemmEpilogue epilogue, mlir::TypeRange results,
                            mlir::ValueRange operands, bool transA,
                            bool transB);

} // namespace kiln

#endif // KILN_DIALECT_KILN_IR_KILNVENDOR_H
