//===- KilnLibrary.h - Ops that a gpu's library fuses -----------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Fusing in the library changes how results are rounded. Whether a module's
// products do is said by its attribute `kiln.library_epilogues`, which kilnc
// sets, and acted on where all numerics are fixed.
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
