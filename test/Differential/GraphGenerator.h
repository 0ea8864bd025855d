//===- GraphGenerator.h - Random forward graphs -----------------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Makes valid modules with one forward program from a seed: same seed, same
// module, on every machine. Graphs are small in every dimension and touch every
// differentiable op, with ragged and size-1 dimensions, shared values, shared
// parameters and losses of several kinds.
//
// The generator keeps bounds on the elements of every value (as far as inputs
// of unit size go), so that no element overflows, no logarithm or divisor comes
// near zero, and comparisons need no special cases.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_TEST_DIFFERENTIAL_GRAPHGENERATOR_H
#define KILN_TEST_DIFFERENTIAL_GRAPHGENERATOR_H

#include "kiln/Dialect/Kiln/IR/Kiln.h"

namespace kiln {

struct GraphOptions {
  uint64_t seed = 0;
  bool f64 = false;
  /// Ops before the loss; 0: between 5 and 60, by the seed.
  int64_t ops = 0;
  /// The loss is that of a batch that can be split into micro-batches: a sum
  /// over its sequences, times loss_scale, plus terms of parameters alone.
  bool splits = false;
};

mlir::OwningOpRef<mlir::ModuleOp> generateGraph(mlir::MLIRContext &context,
                                                const GraphOptions &options);

} // namespace kiln

#endif // KILN_TEST_DIFFERENTIAL_GRAPHGENERATOR_H
