//===- Registration.h - Everything a kiln tool registers --------*- C++ -*-===//
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

/// The dialects that kiln's tools read, and the targets that they compile for.
void registerAllDialects(mlir::DialectRegistry &registry);

/// The backend that --target=NAME names in a context with these dialects.
Result<const TargetBackend *> findTarget(mlir::MLIRContext &context,
                                         llvm::StringRef name);

/// kiln's passes, MLIR's general ones (canonicalize, cse, ...), and the named
/// pipelines of Pipelines.h.
void registerAllPasses();

} // namespace kiln

#endif // KILN_COMPILER_REGISTRATION_H
