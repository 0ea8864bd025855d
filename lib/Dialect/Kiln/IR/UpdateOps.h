//===- UpdateOps.h - Helpers shared by optimizer update ops -----*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef KILN_DIALECT_KILN_IR_UPDATEOPS_H
#define KILN_DIALECT_KILN_IR_UPDATEOPS_H

#include "RowSpaces.h"

namespace kiln {

/// Emits factor * g + decay * p in the type of p.
RowBuilder::NodeId decayedGradient(RowBuilder &rows, RowBuilder::NodeId factor,
                                   RowBuilder::NodeId g, double decay,
                                   RowBuilder::NodeId p);

/// Returns a Bool node that is true if the step is skipped. Returns -1 if the
/// update cannot be skipped, or if the row program cannot read the operand
/// `apply`.
RowBuilder::NodeId skippedStep(RowBuilder &rows, UpdateOpInterface update);

/// Sets the results of an update to `values`, or to the old parameter and
/// states if the step is skipped. Fails if the row program cannot read an
/// operand.
llvm::LogicalResult setUpdated(RowBuilder &rows, UpdateOpInterface update,
                               llvm::ArrayRef<RowBuilder::NodeId> values);

/// If the update returns a copy of the new parameter in a narrower type,
/// computes this copy from the new parameter in `results`.
void setCopy(UpdateOpInterface update,
             llvm::MutableArrayRef<HostTensor> results);

/// If the step is skipped, copies the old parameter and states to the results
/// and returns true. Otherwise returns false.
bool keepIfSkipped(UpdateOpInterface update,
                   llvm::ArrayRef<const HostTensor *> operands,
                   llvm::MutableArrayRef<HostTensor> results);

} // namespace kiln

#endif // KILN_DIALECT_KILN_IR_UPDATEOPS_H
