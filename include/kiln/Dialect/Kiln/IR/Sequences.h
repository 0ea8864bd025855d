//===- Sequences.h - What depends on which sequences -----------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The lattice of the analysis that decides whether the losses of micro-batches
// add up to the loss of the whole batch. A batch has B sequences; a micro-batch
// has some of them. For each value of the forward program the analysis proves
// one of the following, or nothing:
//
//   Shared        the value is the same in every micro-batch: it depends on no
//                 token, target or random state
//   PerSequence   one dimension consists of B equal parts, and part i is f(data
//                 of sequence i), with the same f for all sequences
//   Total         the value is the sum over the sequences of f(data of sequence
//                 i), so the values of the micro-batches add up to that of the
//                 batch
//   Mixed         (only of ops that are linear in all operands together)
//                 a sum of terms of which some are Total and some Shared, or of
//                 terms of different degrees
//
// Besides, it knows the degree in `loss_scale`: a value of degree d is
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
  /// Nothing is known, because of what `op` does: "'kiln.tanh' op `reason`".
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
  /// PerSequence along `d`, or Shared with B equal parts along `d`: such a
  /// value may be read as the parts of the sequences.
  bool splitsAlong(int64_t d) const {
    return isPerSequence() ? dim == d
                           : isShared() && d < 64 && (repeating >> d & 1);
  }

  Kind kind = Kind::Opaque;
  int64_t degree = 0; ///< in loss_scale; not for Mixed and Opaque
  uint64_t repeating =
      0;           ///< Shared: bit d: the B parts of dimension d are equal
  int64_t dim = 0; ///< PerSequence: the dimension that has the parts
  mlir::Operation *op = nullptr; ///< Opaque: the op that breaks the proof
  llvm::StringRef reason;        ///< Opaque: a string literal
};

/// The transfer function of ops that compute each element of their results from
/// the elements at the same place of their operands.
void inferElementwise(mlir::Operation *op,
                      llvm::ArrayRef<SequenceFact> operands, int64_t batch,
                      llvm::MutableArrayRef<SequenceFact> results);

/// The transfer function of ops that do not implement SequenceOpInterface: what
/// depends on shared values alone is shared.
void inferUnknown(mlir::Operation *op, llvm::ArrayRef<SequenceFact> operands,
                  llvm::MutableArrayRef<SequenceFact> results);

} // namespace kiln

#endif // KILN_DIALECT_KILN_IR_SEQUENCES_H
