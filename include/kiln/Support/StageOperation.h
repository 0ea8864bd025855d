//===- StageOperation.h - Recomputation operations --------------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Defines the operations of a recomputation schedule. The planner chooses a
// sequence of operations, and the recomputation pass rewrites a program
// accordingly. kiln/Planner/Chain.h defines the inputs, results and freed
// values of each operation. Residuals are values that the forward pass of a
// stage saves for its backward pass.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_SUPPORT_STAGEOPERATION_H
#define KILN_SUPPORT_STAGEOPERATION_H

#include <cstdint>

namespace kiln::support {

enum class ChainOpKind : uint8_t {
  ForwardCheckpoint, ///< Runs a stage of the forward pass, keeps its input.
  ForwardDrop,       ///< Runs a stage and drops its input.
  ForwardSave,       ///< Runs a stage, keeps its input and its residuals.
  ForwardSaveDrop,   ///< Runs a stage, keeps its residuals, drops its input.
  Backward,
};

} // namespace kiln::support

#endif // KILN_SUPPORT_STAGEOPERATION_H
