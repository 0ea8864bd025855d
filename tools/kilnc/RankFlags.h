//===- RankFlags.h - Flags of training on several ranks ---------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef KILN_TOOLS_KILNC_RANKFLAGS_H
#define KILN_TOOLS_KILNC_RANKFLAGS_H

#include "kiln/Compiler/Compile.h"

namespace kiln {

/// Sets the options that describe the ranks: the mesh, and how its ranks divide
/// and exchange tensors. Fails if two of the flags exclude each other; the
/// compiler checks the values.
Status readRankFlags(CompileOptions &options);

} // namespace kiln

#endif // KILN_TOOLS_KILNC_RANKFLAGS_H
