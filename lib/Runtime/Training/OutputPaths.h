//===- OutputPaths.h - Checks of output paths -------------------*- C++ -*-===//
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

/// Fails if an output file other than a log or a checkpoint cannot be written,
/// or if an output flag and another flag name the same file. Changes no file.
/// Whether logs and checkpoints can be written is checked when they are opened.
Status tryOutputs(const Options &options);

} // namespace kiln::runtime

#endif // KILN_LIB_RUNTIME_TRAINING_OUTPUTPATHS_H
