//===- Levels.h - Pipeline levels and their invariants ----------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The pipeline lowers the IR from level to level. docs/design/architecture.md
// lists the invariant of each level. Tools can run a single pass on IR that
// kilnc did not generate. Therefore a pass that relies on the invariant of its
// input level verifies the invariant.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_DIALECT_KILN_TRANSFORMS_LEVELS_H
#define KILN_DIALECT_KILN_TRANSFORMS_LEVELS_H

#include "kiln/Dialect/Kiln/IR/Kiln.h"

#include "llvm/ADT/DenseSet.h"

#include <optional>

namespace kiln {

enum class Level { Forward, Step, Planned, Dispatched };

/// Checks the invariant of a level. Reports the first violation as an error
/// with a note that names the pass that should have run before.
llvm::LogicalResult verifyLevel(mlir::ModuleOp module, Level level);

/// Returns the program of kind `forward`. Emits an error if the module has no
/// such program, or more than one.
llvm::FailureOr<ProgramOp> findForward(mlir::ModuleOp module);

/// Sets the kind of a cloned program and inserts the program into `symbols`.
/// The symbol of the program is the name of its kind. If the module already
/// uses this symbol, the new symbol gets a suffix, and the attribute
/// `kiln.name` of the program is the name without the suffix.
void nameByKind(ProgramOp program, ProgramKind kind,
                mlir::SymbolTable &symbols);

/// Returns the vocabulary size that all lookups and losses of a program
/// support: the smallest number of rows of an embedding table or of classes of
/// a loss. Returns std::nullopt if the program has neither lookups nor losses.
std::optional<int64_t> findVocabulary(ProgramOp program);

/// Returns the names of the states that programs in `scope`, a module or a
/// program, write. On the forward level, the type of such a state must not
/// change, because the values that are written have this type.
llvm::DenseSet<mlir::StringAttr> findWritten(mlir::Operation *scope);

} // namespace kiln

#endif // KILN_DIALECT_KILN_TRANSFORMS_LEVELS_H
