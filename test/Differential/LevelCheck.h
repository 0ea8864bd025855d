//===- LevelCheck.h - Equality of IR levels ---------------------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Applies the passes to a forward module, with options and additional clean-up
// passes chosen by a seed, and interprets the module after each pass on the
// same inputs. Exact passes must not change any bit of an output or state.
// Passes that reorder sums must agree within 1e-12 when everything is evaluated
// in f64.
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
