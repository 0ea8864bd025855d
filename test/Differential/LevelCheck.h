//===- LevelCheck.h - All levels compute the same ---------------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Takes a forward module through the passes, with options and extra clean-ups
// chosen by a seed, and interprets it after each of them on the same inputs.
// Passes that are exact must change no bit of any output or state; those that
// reorder sums must agree within 1e-12 when everything is evaluated in f64.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_TEST_DIFFERENTIAL_LEVELCHECK_H
#define KILN_TEST_DIFFERENTIAL_LEVELCHECK_H

#include "mlir/IR/BuiltinOps.h"

#include <string>
#include <vector>

namespace kiln {

/// Returns one line per mismatch or failing pass.
std::vector<std::string> checkLevels(mlir::ModuleOp forward, uint64_t seed);

} // namespace kiln

#endif // KILN_TEST_DIFFERENTIAL_LEVELCHECK_H
