//===- KilnLibrary.h - Vendor GEMM ops with fused epilogues -----*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// An epilogue that the vendor library fuses into a GEMM changes the rounding of
// results. kilnc enables such epilogues by the module attribute
// `kiln.library_epilogues`, and kiln-set-numerics creates the ops.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_DIALECT_KILN_IR_KILNLIBRARY_H
#define KILN_DIALECT_KILN_IR_KILNLIBRARY_H

#include "kiln/Abi/GemmEpilogue.h"
#include "kiln/Dialect/Kiln/IR/Kiln.h"

#include "kiln/Dialect/Kiln/IR/KilnLibraryInterfaces.h.inc"

#define GET_OP_CLASSES
#include "kiln/Dialect/Kiln/IR/KilnLibraryOps.h.inc"

namespace kiln {

inline constexpr llvm::StringLiteral kLibraryEpiloguesAttr =
    "kiln.library_epilogues";

} // namespace kiln

#endif // KILN_DIALECT_KILN_IR_KILNLIBRARY_H
