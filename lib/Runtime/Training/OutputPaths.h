//===- OutputPaths.h - Where a run will write -------------------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef KILN_LIB_RUNTIME_TRAINING_OUTPUTPATHS_H
#define KILN_LIB_RUNTIME_TRAINING_OUTPUTPATHS_H

#include "kiln/Runtime/Training/Options.h"
#include "kiln/Support/Status.h"

namespace kiln::runtime {

/// Fails if a file that the run writes as a whole, at its end or in between,
/// could not be written, or if two flags name one file and one of them writes
/// it. Changes nothing. Logs and checkpoints are tried by opening them.
Status tryOutputs(const Options &options);

} // namespace kiln::runtime

#endif // KILN_LIB_RUNTIME_TRAINING_OUTPUTPATHS_H
