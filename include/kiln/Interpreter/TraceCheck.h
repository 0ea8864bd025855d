//===- TraceCheck.h - Compiled ops against interpreted ones -----*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// An executable's --check-ops leaves a trace: the arena before each program and
// what every command wrote. This repeats every command on exactly the bytes
// that the compiled one read, in f64, and compares the results.
//
// The difference may be 8 * sqrt(L) * (eps * |result| + s) in the Euclidean
// norm, with L the longest sum of the command and eps of the result's type. s
// is how far rounding moves a correct result of this command: the larger of the
// distances to the result with every op rounded, and to the result for operands
// that are eps off. It matters where ops cancel.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_INTERPRETER_TRACECHECK_H
#define KILN_INTERPRETER_TRACECHECK_H

#include "kiln/Support/Status.h"

#include "mlir/IR/BuiltinOps.h"
#include "llvm/Support/raw_ostream.h"

#include <string>

namespace kiln {

/// Prints a table of the worst commands of every kind; fails if one differs by
/// more than it may.
Status checkTrace(mlir::ModuleOp module, const std::string &path,
                  llvm::raw_ostream &out);

} // namespace kiln

#endif // KILN_INTERPRETER_TRACECHECK_H
