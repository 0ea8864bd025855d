//===- TrainingFacts.h - Training facts of a module -------------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef KILN_DIALECT_KILN_IR_TRAININGFACTS_H
#define KILN_DIALECT_KILN_IR_TRAININGFACTS_H

#include "kiln/Abi/TrainingInfo.h"

#include "mlir/IR/BuiltinOps.h"

namespace kiln {

/// Derives the following facts from the ops of a module at the step level or a
/// later level: the update rules of its parameters, the probabilities of its
/// random ops, and the residuals that are stored in lossy encodings.
abi::TrainingInfo deriveTrainingInfo(mlir::ModuleOp module);

} // namespace kiln

#endif // KILN_DIALECT_KILN_IR_TRAININGFACTS_H
