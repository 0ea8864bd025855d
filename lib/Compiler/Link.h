//===- Link.h - Link an executable ------------------------------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef KILN_LIB_COMPILER_LINK_H
#define KILN_LIB_COMPILER_LINK_H

#include "kiln/Support/Status.h"
#include "kiln/Target/Interface/CodeGenerator.h"

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"

#include <optional>

namespace kiln {

/// An entry of the kernel table.
struct KernelSymbol {
  std::string name;
  /// In the device's images: the table has the name itself, not a function.
  bool inImage = false;
};

struct LinkInput {
  llvm::StringRef object;               ///< object code of the host's kernels
  llvm::ArrayRef<KernelSymbol> kernels; ///< in table order
  /// Code of the device's kernels; nothing if they are functions of the object.
  std::optional<llvm::ArrayRef<DeviceImage>> images;
  /// The runtime's archives that the target needs before the others.
  llvm::ArrayRef<llvm::StringLiteral> archives;
  llvm::StringRef description;      ///< JSON
  llvm::StringRef libraryDirectory; ///< of the runtime
  llvm::StringRef output;
};

/// Links through the compiler driver with lld. The executable appears under its
/// name only when it is complete.
Status linkExecutable(const LinkInput &input);

} // namespace kiln

#endif // KILN_LIB_COMPILER_LINK_H
