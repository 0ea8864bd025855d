//===- GraphGenerator.h - Random forward graphs -----------------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Generates valid modules with one forward program from a seed. Equal seeds
// give equal modules on every machine. Graphs are small in every dimension and
// use all differentiable ops, ragged and size-1 dimensions, shared values,
// shared parameters and several kinds of losses.
//
// The generator tracks bounds on the elements of every value, assuming that the
// elements of inputs have magnitudes of about 1. It uses the bounds to ensure
// that no element overflows and that no divisor or argument of a logarithm is
// close to zero. Results can therefore be compared without special cases.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_TEST_DIFFERENTIAL_GRAPHGENERATOR_H
#define KILN_TEST_DIFFERENTIAL_GRAPHGENERATOR_H

#include "kiln/Dialect/Kiln/IR/Kiln.h"

namespace kiln {

struct GraphOptions {
  uint64_t seed = 0;
  bool f64 = false;
  /// Number of ops before the loss, or 0 for a number from 5 to 60 that depends
  /// on the seed.
  int64_t ops = 0;
  /// True if the loss must allow micro-batches. The loss is then a sum over the
  /// sequences of the batch, scaled by loss_scale, plus terms that depend only
  /// on parameters.
  bool splits = false;
};

mlir::OwningOpRef<mlir::ModuleOp> generateGraph(mlir::MLIRContext &context,
                                                const GraphOptions &options);

} // namespace kiln

#endif // KILN_TEST_DIFFERENTIAL_GRAPHGENERATOR_H
