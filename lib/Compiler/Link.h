//===- Link.h - Link an executable ------------------------------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef KILN_LIB_COMPILER_LINK_H
#define KILN_LIB_COMPILER_LINK_H

#include "kiln/Runtime/Status.h"

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"

namespace kiln {

struct LinkInput {
  llvm::StringRef object;              ///< object code of the kernels
  llvm::ArrayRef<std::string> kernels; ///< their names, in table order
  llvm::StringRef description;         ///< JSON
  llvm::StringRef libraryDirectory;    ///< of the runtime
  llvm::StringRef output;
};

/// Links through the compiler driver with lld. The executable appears under its
/// name only when it is complete.
Status linkExecutable(const LinkInput &input);

} // namespace kiln

#endif // KILN_LIB_COMPILER_LINK_H
