//===- SequenceRules.h - Parts of transfer functions ------------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef KILN_DIALECT_KILN_IR_SEQUENCERULES_H
#define KILN_DIALECT_KILN_IR_SEQUENCERULES_H

#include "kiln/Dialect/Kiln/IR/Kiln.h"

#include <optional>

namespace kiln::sequences {

inline constexpr llvm::StringLiteral kNotHomogeneous =
    "is not linear in loss_scale";

/// The first Opaque fact, or null.
const SequenceFact *findOpaque(llvm::ArrayRef<SequenceFact> facts);
bool allShared(llvm::ArrayRef<SequenceFact> facts);
void setAll(llvm::MutableArrayRef<SequenceFact> results,
            const SequenceFact &fact);

/// The dimension along which all values split into the parts of the sequences;
/// at least one of them is PerSequence.
std::optional<int64_t> commonDim(llvm::ArrayRef<SequenceFact> facts);

/// The Opaque fact of an op that has no other: an Opaque operand's, or what the
/// op does.
SequenceFact explain(mlir::Operation *op, llvm::ArrayRef<SequenceFact> facts);

/// The fact of an op that computes each element from the elements at the same
/// place, in any way.
SequenceFact inferNonlinear(mlir::Operation *op,
                            llvm::ArrayRef<SequenceFact> operands);

/// The fact of a function that is linear in all operands together.
SequenceFact inferSum(mlir::Operation *op,
                      llvm::ArrayRef<SequenceFact> operands);

/// A bit for each dimension that divides into `batch` parts.
uint64_t dividedDims(mlir::RankedTensorType type, int64_t batch);

} // namespace kiln::sequences

#endif // KILN_DIALECT_KILN_IR_SEQUENCERULES_H
