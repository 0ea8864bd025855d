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

/// Makes all programs read the parameters in `mirrored`, which the host
/// updates, from mirrors, their copies on the device. The mirror of a parameter
/// is its working copy, if there is one. Otherwise adds a state on the device
/// as the mirror, and replaces the reads of the parameter by reads of this
/// state. The new value of a mirror is copied to the device when its last
/// reader is done, or, if `atEnd`, at the end of `train`.
void addMirrors(ProgramOp train, llvm::ArrayRef<StateUpdate> updates,
                const llvm::DenseSet<mlir::StringAttr> &mirrored, bool atEnd);

} // namespace kiln

#endif // KILN_LIB_DIALECT_KILN_TRANSFORMS_STATEMIRRORS_H
