//===- Sequences.h - Lattice of the sequence analysis -----------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The lattice of the analysis that decides whether the losses of micro-batches
// add up to the loss of the whole batch. A batch has B sequences, and a
// micro-batch is a subset of them. For each value of the forward program, the
// analysis proves one of the following properties, or none:
//
//   Shared        the value is the same in every micro-batch, because it does
//                 not depend on tokens, targets or random state
//   PerSequence   one dimension consists of B slices of equal size, and
//                 slice i is f(data of sequence i), with the same function f
//                 for all i
//   Total         the value is the sum over the sequences of f(data of sequence
//                 i), so the values of the micro-batches add up to that of the
//                 batch
//   Mixed         a sum of Total and Shared terms, or of terms of different
//                 degrees (see below); only linear ops compute such a value
//                 (an op g is linear if g(a + b) = g(a) + g(b) for all tuples
//                 of operands a and b)
//
// The analysis also computes the degree in `loss_scale`: a value of degree d is
// loss_scale^d times a value that does not depend on loss_scale.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_DIALECT_KILN_IR_SEQUENCES_H
#define KILN_DIALECT_KILN_IR_SEQUENCES_H

#include "mlir/IR/Operation.h"

namespace kiln {

struct SequenceFact {
  enum class Kind { Shared, PerSequence, Total, Mixed, Opaque };

  SequenceFact() = default;
  SequenceFact(Kind kind, int64_t degree) : kind(kind), degree(degree) {}
  static SequenceFact shared(int64_t degree = 0, uint64_t repeating = 0) {
    SequenceFact fact(Kind::Shared, degree);
    fact.repeating = repeating;
    return fact;
  }
  static SequenceFact perSequence(int64_t dim, int64_t degree) {
    SequenceFact fact(Kind::PerSequence, degree);
    fact.dim = dim;
    return fact;
  }
  static SequenceFact total(int64_t degree) {
    return SequenceFact(Kind::Total, degree);
  }
  static SequenceFact mixed() { return SequenceFact(Kind::Mixed, 0); }
  /// Returns the lattice element of a value for which no property was proved.
  /// `op` is the op at which the proof fails. `reason` completes the message
  /// "'kiln.tanh' op `reason`".
  static SequenceFact opaque(mlir::Operation *op, llvm::StringRef reason) {
    SequenceFact fact;
    fact.op = op;
    fact.reason = reason;
    return fact;
  }

  bool isShared() const { return kind == Kind::Shared; }
  bool isTotal() const { return kind == Kind::Total; }
  bool isOpaque() const { return kind == Kind::Opaque; }
  bool isMixed() const { return kind == Kind::Mixed; }
  bool isPerSequence() const { return kind == Kind::PerSequence; }
  /// Returns true if the value has one slice per sequence along dimension `d`:
  /// it is PerSequence along `d`, or it is Shared and its slices along `d` are
  /// identical. In both cases, slice i belongs to sequence i.
  bool splitsAlong(int64_t d) const {
    return isPerSequence() ? dim == d
                           : isShared() && d < 64 && (repeating >> d & 1);
  }

  Kind kind = Kind::Opaque;
  int64_t degree = 0; ///< Exponent of loss_scale; unused for Mixed, Opaque.
  /// Shared: bit d is set if dimension d consists of one slice per sequence,
  /// and all these slices are identical.
  uint64_t repeating = 0;
  int64_t dim = 0; ///< PerSequence: the dimension with one slice per sequence.
  mlir::Operation *op = nullptr; ///< Opaque: the op at which the proof fails.
  llvm::StringRef reason;        ///< Opaque: the reason, a string literal.
};

/// Transfer function of elementwise ops.
void inferElementwise(mlir::Operation *op,
                      llvm::ArrayRef<SequenceFact> operands, int64_t batch,
                      llvm::MutableArrayRef<SequenceFact> results);

/// Transfer function of ops that do not implement SequenceOpInterface: their
/// results are Shared if all operands are Shared, and Opaque otherwise.
void inferUnknown(mlir::Operation *op, llvm::ArrayRef<SequenceFact> operands,
                  llvm::MutableArrayRef<SequenceFact> results);

} // namespace kiln

#endif // KILN_DIALECT_KILN_IR_SEQUENCES_H
