//===- Levels.h - Levels of the pipeline, their invariants ------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// docs/design/architecture.md lists what each level guarantees. A pass that
// relies on the level it starts from asks for the check itself, so that it can
// also be run alone.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_DIALECT_KILN_TRANSFORMS_LEVELS_H
#define KILN_DIALECT_KILN_TRANSFORMS_LEVELS_H

#include "kiln/Dialect/Kiln/IR/Kiln.h"

#include <optional>

namespace kiln {

enum class Level { Forward, Step, Planned, Dispatched };

/// Checks the invariant of a level; the first violation is an error with a note
/// that names the pass that should have prevented it.
llvm::LogicalResult verifyLevel(mlir::ModuleOp module, Level level);

/// The one program of kind `forward`; none and a second one are errors.
llvm::FailureOr<ProgramOp> findForward(mlir::ModuleOp module);

/// Sets the kind of a cloned program and inserts it into `symbols`. Its symbol
/// is the name of the kind, or that name with a suffix if the module already
/// uses it; `kiln.name` then keeps the name for the runtime.
void nameByKind(ProgramOp program, ProgramKind kind,
                mlir::SymbolTable &symbols);

/// The number of tokens that every lookup and every loss of a program can take:
/// the rows of its smallest table or the width of its narrowest logits. Nothing
/// if it has neither.
std::optional<int64_t> findVocabulary(ProgramOp program);

} // namespace kiln

#endif // KILN_DIALECT_KILN_TRANSFORMS_LEVELS_H
