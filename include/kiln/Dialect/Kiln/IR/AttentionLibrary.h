//===- AttentionLibrary.h - Choice of the attention library -----*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef KILN_DIALECT_KILN_IR_ATTENTIONLIBRARY_H
#define KILN_DIALECT_KILN_IR_ATTENTIONLIBRARY_H

#include "llvm/ADT/StringRef.h"

namespace kiln {

/// Attribute of a module for the target `cuda`: the name of the vendor library
/// ("cudnn") that the executable is allowed to use for attention ops.
inline constexpr llvm::StringLiteral kAttentionAttr = "kiln.attention";

} // namespace kiln

#endif // KILN_DIALECT_KILN_IR_ATTENTIONLIBRARY_H
