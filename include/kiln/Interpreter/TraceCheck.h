//===- TraceCheck.h - Comparison of compiled with interpreted ops ---------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// --check-ops of an executable writes a trace: the arena before each program,
// and the bytes written by every command. checkTrace() evaluates every command
// in f64 on exactly the bytes that the compiled command read. Let x be a
// floating-point result of this exact evaluation, and let y be the result that
// the compiled command wrote. checkTrace() requires
//
//   |y - x| <= 8 * sqrt(L) * (eps * |x| + s / 2),
//
// where |x| is the Euclidean norm of x, L is the length of the longest sum of
// the command, and eps is the machine epsilon of the type of y. s is an
// estimate of the effect of rounding on a correct result: the largest distance
// from x to the result of an evaluation that rounds every op, or to the result
// of an evaluation with random perturbations of relative size eps. s is large
// if terms cancel. s is computed only if |y - x| exceeds the bound for s = 0.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_INTERPRETER_TRACECHECK_H
#define KILN_INTERPRETER_TRACECHECK_H

#include "kiln/Support/Status.h"

#include "mlir/IR/BuiltinOps.h"
#include "llvm/Support/raw_ostream.h"

#include <string>

namespace kiln {

/// Checks the trace in the file `path`. Prints a table with one row per kind of
/// command. The row shows the command of this kind for which the quotient of
/// the numerical error and the permitted error is largest. Returns an error if
/// the numerical error of any command exceeds the permitted error.
Status checkTrace(mlir::ModuleOp module, const std::string &path,
                  llvm::raw_ostream &out);

} // namespace kiln

#endif // KILN_INTERPRETER_TRACECHECK_H
