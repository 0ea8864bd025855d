//===- LocalRank.h - Number of a rank on its machine ------------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef KILN_LIB_RUNTIME_CUDA_LOCALRANK_H
#define KILN_LIB_RUNTIME_CUDA_LOCALRANK_H

#include "kiln/Runtime/Comm/World.h"

namespace kiln::runtime::cuda {

/// Returns the local rank of this process: its index among the ranks on the
/// same machine. If the launcher gave a different local rank to each rank on
/// the machine, returns the local rank that it gave to this process. Otherwise,
/// counts the ranks on the machine that are lower than this rank. All ranks
/// must call this function.
Result<int> findLocalRank(World &world);

} // namespace kiln::runtime::cuda

#endif // KILN_LIB_RUNTIME_CUDA_LOCALRANK_H
