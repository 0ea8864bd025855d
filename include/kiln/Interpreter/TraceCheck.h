//===- TraceCheck.h - Comparison of compiled with interpreted ops ---------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// --check-ops of an executable writes a trace: the arena before each program,
// and the bytes written by every command. checkTrace() evaluates every command
// in f64 on exactly the bytes that the compiled command read, and compares the
// results.
//
// The Euclidean norm of the difference may be at most
//
//   8 * sqrt(L) * (eps * |result| + s / 2),
//
// where L is the length of the longest sum of the command and eps is the
// machine epsilon of the result's type. s is an estimate of the effect of
// rounding on a correct result. It is the largest distance from the exact
// result to the result of an evaluation that rounds every op, and to the
// results of evaluations with random perturbations of relative size eps. s is
// large if terms cancel; it is computed only if the difference exceeds the
// bound for s = 0.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_INTERPRETER_TRACECHECK_H
#define KILN_INTERPRETER_TRACECHECK_H

#include "kiln/Support/Status.h"

#include "mlir/IR/BuiltinOps.h"
#include "llvm/Support/raw_ostream.h"

#include <string>

namespace kiln {

/// Prints a table with the command of every kind whose difference is largest
/// relative to its bound. Returns an error if a difference exceeds its bound.
Status checkTrace(mlir::ModuleOp module, const std::string &path,
                  llvm::raw_ostream &out);

} // namespace kiln

#endif // KILN_INTERPRETER_TRACECHECK_H
