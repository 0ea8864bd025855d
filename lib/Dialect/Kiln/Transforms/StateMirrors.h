//===- StateMirrors.h - Mirrors of states on the host -*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef KILN_LIB_DIALECT_KILN_TRANSFORMS_STATEMIRRORS_H
#define KILN_LIB_DIALECT_KILN_TRANSFORMS_STATEMIRRORS_H

#include "kiln/Dialect/Kiln/Transforms/StateResidency.h"

namespace kiln {

/// The host updates the parameters in `mirrored`. Makes all programs read
/// mirrors, copies of these parameters on the device. If a parameter has a
/// working copy (see StateUpdate::copy), this copy is the mirror. Otherwise
/// adds a state on the device as the mirror, and replaces the reads of the
/// parameter by reads of this state. The new value of a mirror is copied to the
/// device after the last reader of the old value or, if `atEnd`, at the end of
/// `train`.
void addMirrors(ProgramOp train, llvm::ArrayRef<StateUpdate> updates,
                const llvm::DenseSet<mlir::StringAttr> &mirrored, bool atEnd);

} // namespace kiln

#endif // KILN_LIB_DIALECT_KILN_TRANSFORMS_STATEMIRRORS_H
