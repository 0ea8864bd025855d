//===- KilnReferenceRandom.h - Random bits of the reference -----*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The reference computes random bits one element at a time, as RowProgram.h
// defines them (RowBuilder::random). The bits of an element depend only on the
// seed, the key of the op, the step, the index of the sequence in the global
// batch, and the row and column within the sequence.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_DIALECT_KILN_IR_KILNREFERENCERANDOM_H
#define KILN_DIALECT_KILN_IR_KILNREFERENCERANDOM_H

#include "kiln/Dialect/Kiln/IR/HostTensor.h"

namespace kiln::reference {

/// Computes the 32 random bits of each element of a random op.
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

  /// Returns the factor of an element: 0 for a dropped element, and 1 / (1 -
  /// probability) for any other.
  double factor(int64_t sequence, int64_t row, int64_t column) const;

private:
  RandomBits bits;
  double probability;
};

} // namespace kiln::reference

#endif // KILN_DIALECT_KILN_IR_KILNREFERENCERANDOM_H
