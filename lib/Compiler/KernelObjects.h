//===- KernelObjects.h - Compilation of each kernel by itself ---*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef KILN_LIB_COMPILER_KERNELOBJECTS_H
#define KILN_LIB_COMPILER_KERNELOBJECTS_H

#include "KernelCache.h"

#include "kiln/Target/Common/ProgramWriter.h"

#include "mlir/IR/BuiltinOps.h"
#include "llvm/Support/Error.h"

#include <vector>

namespace kiln {

/// Object files, each with one kernel.
struct KernelObjects {
  std::vector<llvm::SmallVector<char, 0>> files;
  size_t fromCache = 0; ///< The number of files that the cache had.
  /// The first error when an object file was stored in the cache.
  Status stored;
};

/// Compiles every kernel of `host`, that is, every function that is not
/// internal, to an object file of its own. Each object file also has the
/// internal functions and the tables that its kernel uses. Takes object files
/// from `cache` if it is not null, and stores those that it lacks. The files do
/// not depend on the cache. Consumes the module. The context decides on how
/// many threads kernels are compiled.
llvm::Expected<KernelObjects> compileKernels(mlir::ModuleOp host,
                                             const Processor &processor,
                                             const KernelCache *cache);

} // namespace kiln

#endif // KILN_LIB_COMPILER_KERNELOBJECTS_H
