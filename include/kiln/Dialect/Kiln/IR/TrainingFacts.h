//===- TrainingFacts.h - How a module's program learns ----------*- C++ -*-===//
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

/// Derives, from the ops of a module of the step level or any later one, how
/// its training program updates parameters, which probabilities its random ops
/// have, and which of its residuals are estimates.
abi::TrainingInfo deriveTrainingInfo(mlir::ModuleOp module);

} // namespace kiln

#endif // KILN_DIALECT_KILN_IR_TRAININGFACTS_H
