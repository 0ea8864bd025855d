//===- RunOnce.h - Run of a single program ----------------------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Implements kiln-run without training data: reads states and inputs from
// files, runs a program once, and prints its outputs and writes them to a file.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_INTERPRETER_RUNONCE_H
#define KILN_INTERPRETER_RUNONCE_H

#include "kiln/Interpreter/InterpreterEngine.h"

namespace kiln {

struct RunOnceOptions {
  std::string entry;  ///< Name of the program.
  std::string inputs; ///< Safetensors file with a tensor per input.
  /// Path of a file or directory with weights. Empty: states have their initial
  /// values.
  std::string init;
  uint64_t seed = 0; ///< Seed of the initial values.
};

/// Runs `entry` once and prints its outputs to `out`.
Status runOnce(ReferenceEngine &engine, const RunOnceOptions &options,
               llvm::raw_ostream &out);

/// Writes the outputs of the last run of `program`, if such a program exists,
/// and all states in their evaluation types to a safetensors file.
Status dumpTensors(ReferenceEngine &engine, llvm::StringRef program,
                   const std::string &path);

} // namespace kiln

#endif // KILN_INTERPRETER_RUNONCE_H
