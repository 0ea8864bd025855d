//===- KilnReferenceRandom.h - The random bits of the reference -*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Random bits as the reference computes them: one element at a time, from
// the definition in RowProgram.h (RowBuilder::random). An element's bits depend
// only on the seed, the op's key, the step, the sequence's index in the global
// batch, and the row and column within the sequence.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_DIALECT_KILN_IR_KILNREFERENCERANDOM_H
#define KILN_DIALECT_KILN_IR_KILNREFERENCERANDOM_H

#include "kiln/Dialect/Kiln/IR/HostTensor.h"

namespace kiln::reference {

/// The 32 random bits of every element of a random op.
class RandomBits {
public:
  /// `rng` holds {seed, step, first sequence}.
  RandomBits(const HostTensor &rng, int64_t key);

  uint32_t at(int64_t sequence, int64_t row, int64_t column) const;

private:
  uint64_t seedKey;
  int64_t step, firstSequence;
};

/// Decides which elements of a random op are dropped.
class DropoutMask {
public:
  DropoutMask(const HostTensor &rng, int64_t key, double probability)
      : bits(rng, key), probability(probability) {}

  /// What the element is multiplied by: 0 or 1/(1-p).
  double factor(int64_t sequence, int64_t row, int64_t column) const;

private:
  RandomBits bits;
  double probability;
};

} // namespace kiln::reference

#endif // KILN_DIALECT_KILN_IR_KILNREFERENCERANDOM_H
