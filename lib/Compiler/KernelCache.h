//===- KernelCache.h - Object code of earlier compilations ------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A directory with the object code of kernels. Compilations of one model with
// several budgets or techniques have most kernels in common, and LLVM takes
// most of the time of a compilation of a small model.
//
// An entry is stored under a hash of everything that its object code depends
// on: the code of the kernel before it is lowered, the processor, the compiler
// and its libraries. An entry also has a hash of its contents, so an entry that
// was damaged is not used. Several processes can use one directory at the
// same time.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_LIB_COMPILER_KERNELCACHE_H
#define KILN_LIB_COMPILER_KERNELCACHE_H

#include "kiln/Support/Status.h"

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringRef.h"

#include <optional>
#include <string>

namespace kiln {

class KernelCache {
public:
  /// Creates `directory` and its missing parents, unless it exists. open() does
  /// this, too; a separate call reports an invalid path early.
  static Status createDirectory(llvm::StringRef directory);

  /// Opens a cache in `directory`, and creates the directory if it does not
  /// exist. At most every 20 minutes, removes entries that were not accessed
  /// for a week, and then those accessed least recently until the cache is
  /// below its maximum size. `compiler` identifies the compiler, see
  /// thisCompiler().
  static Result<KernelCache> open(llvm::StringRef directory,
                                  llvm::StringRef compiler);

  /// Returns the object code for `source`, the text of a kernel and of
  /// everything else that its code depends on, or nullopt if there is none.
  std::optional<llvm::SmallVector<char, 0>> load(llvm::StringRef source) const;
  /// Stores the object code for `source`.
  Status store(llvm::StringRef source, llvm::ArrayRef<char> object) const;

  /// Returns a text that differs between compilers that may generate different
  /// code: a hash of the file of this process, and the version, sizes and
  /// modification times of its LLVM and MLIR libraries.
  static Result<std::string> thisCompiler();

private:
  std::string pathOf(llvm::StringRef source) const;

  std::string directory, compiler;
};

} // namespace kiln

#endif // KILN_LIB_COMPILER_KERNELCACHE_H
