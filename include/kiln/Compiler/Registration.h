//===- Registration.h - Registration of dialects and passes -----*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef KILN_COMPILER_REGISTRATION_H
#define KILN_COMPILER_REGISTRATION_H

#include "kiln/Support/Status.h"

#include "mlir/IR/Dialect.h"
#include "llvm/ADT/StringRef.h"

namespace kiln {

class TargetBackend;

/// Registers the dialects that kiln's tools read and the targets that they
/// compile for.
void registerAllDialects(mlir::DialectRegistry &registry);

/// Returns the backend of the target `name`, as in --target=NAME, or an error
/// with the exit code Usage.
Result<const TargetBackend *> findTarget(mlir::MLIRContext &context,
                                         llvm::StringRef name);

/// Registers kiln's passes, MLIR's general passes (canonicalize, cse, ...) and
/// the named pipelines of Pipelines.h.
void registerAllPasses();

} // namespace kiln

#endif // KILN_COMPILER_REGISTRATION_H
