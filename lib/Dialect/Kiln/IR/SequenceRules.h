//===- SequenceRules.h - Helpers of sequence transfer functions -*- C++ -*-===//
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

using Facts = llvm::ArrayRef<SequenceFact>;
using MutableFacts = llvm::MutableArrayRef<SequenceFact>;

/// Returns the first element of `facts` that is Opaque, or null if none is.
const SequenceFact *findOpaque(llvm::ArrayRef<SequenceFact> facts);
bool allShared(llvm::ArrayRef<SequenceFact> facts);
void setAll(llvm::MutableArrayRef<SequenceFact> results,
            const SequenceFact &fact);

/// Returns the dimension d of a PerSequence fact if splitsAlong(d) holds for
/// all facts. Returns std::nullopt if it does not, or if no fact is
/// PerSequence.
std::optional<int64_t> commonDim(llvm::ArrayRef<SequenceFact> facts);

/// Returns the SequenceFact for the results of an op that no rule covers. Its
/// kind is Opaque: no property is proved. If `facts`, those of the operands,
/// contain an Opaque fact, returns it. Otherwise, returns one that names `op`.
SequenceFact explain(mlir::Operation *op, llvm::ArrayRef<SequenceFact> facts);

/// Returns what is known about the results of an elementwise op (see
/// Sequences.h), without assuming that the op is linear.
SequenceFact inferNonlinear(mlir::Operation *op,
                            llvm::ArrayRef<SequenceFact> operands);

/// Returns the SequenceFact for the results of a linear op g, for which
/// g(a + b) = g(a) + g(b) for all tuples of operands a and b.
SequenceFact inferSum(mlir::Operation *op,
                      llvm::ArrayRef<SequenceFact> operands);

/// Returns a bit mask of the dimensions whose extents are multiples of `batch`.
uint64_t dividedDims(mlir::RankedTensorType type, int64_t batch);

/// Returns the SequenceFact for the results of an op that combines the elements
/// of the last dimension of its first operand. Operands from `firstPerColumn`
/// on have one element per column.
SequenceFact inferRows(mlir::Operation *op, Facts operands,
                       size_t firstPerColumn);

/// If the operand is divided along dimension `dim` into one part per sequence,
/// returns the dimension that divides the result into the corresponding parts.
/// Returns std::nullopt if the result has no such dimension.
using DimMap = llvm::function_ref<std::optional<int64_t>(int64_t dim)>;

/// Returns the fact of the result of an op that moves the elements of its
/// operand without changing them, or sums some of them. `x` is the fact of the
/// operand.
SequenceFact inferMoved(mlir::Operation *op, const SequenceFact &x, DimMap map);

/// Returns the first dimension d such that fact.splitsAlong(d) holds and all
/// dimensions before d have extent 1, so that the part of each sequence is
/// contiguous in row-major order. Returns std::nullopt if there is no such
/// dimension.
std::optional<int64_t> sequenceMajorDim(mlir::Value value,
                                        const SequenceFact &fact);

} // namespace kiln::sequences

#endif // KILN_DIALECT_KILN_IR_SEQUENCERULES_H
