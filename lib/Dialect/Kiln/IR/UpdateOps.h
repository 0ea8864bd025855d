//===- UpdateOps.h - What the formulas of optimizers share ------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef KILN_DIALECT_KILN_IR_UPDATEOPS_H
#define KILN_DIALECT_KILN_IR_UPDATEOPS_H

#include "RowSpaces.h"

namespace kiln {

/// factor * g + decay * p.
RowBuilder::NodeId decayedGradient(RowBuilder &rows, RowBuilder::NodeId factor,
                                   RowBuilder::NodeId g, double decay,
                                   RowBuilder::NodeId p);

/// Sets the results of an update to `values`, or to what the update has as its
/// first operands in a step that is skipped. Fails if `apply` cannot be read.
llvm::LogicalResult setUpdated(RowBuilder &rows, UpdateOpInterface update,
                               llvm::ArrayRef<RowBuilder::NodeId> values);

/// In a step that is skipped: copies the first operands to the results, and
/// returns true.
bool keepIfSkipped(UpdateOpInterface update,
                   llvm::ArrayRef<const HostTensor *> operands,
                   llvm::MutableArrayRef<HostTensor> results);

} // namespace kiln

#endif // KILN_DIALECT_KILN_IR_UPDATEOPS_H
