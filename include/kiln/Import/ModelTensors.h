//===- ModelTensors.h - Tensors that a model has in files -------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The tensors that the weight files of an imported model must have.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_IMPORT_MODELTENSORS_H
#define KILN_IMPORT_MODELTENSORS_H

#include "kiln/Dialect/Kiln/IR/Kiln.h"
#include "kiln/Support/ModelWeights.h"

#include "mlir/IR/BuiltinOps.h"

#include <string>
#include <vector>

namespace kiln {

/// Returns the states that weight files contain, in the order of the module.
std::vector<StateOp> weightStates(mlir::ModuleOp module);

/// Returns the names that the tensor of a state may have in weight files, and
/// its shape.
support::ExpectedTensor expectedTensor(StateOp state);

/// Returns patterns of the names of tensors that files of this kind of model
/// may contain although the model does not use them.
std::vector<std::string> knownUnusedTensors(mlir::ModuleOp module);

} // namespace kiln

#endif // KILN_IMPORT_MODELTENSORS_H
