//===- Link.h - Linking of executables --------------------------*- C++ -*-===//
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

/// Entry of the kernel table.
struct KernelSymbol {
  std::string name;
  /// True if the kernel is in the device images. The table then stores the name
  /// of the kernel instead of its address.
  bool inImage = false;
};

struct LinkInput {
  llvm::ArrayRef<llvm::SmallVector<char, 0>> objects; ///< The host kernels.
  llvm::ArrayRef<KernelSymbol> kernels; ///< Kernels in table order.
  /// Images with the device kernels, or nullopt if the device kernels are
  /// functions in `objects`.
  std::optional<llvm::ArrayRef<DeviceImage>> images;
  /// Runtime archives that only executables of this target link. On the command
  /// line, they precede the archives that every executable links.
  llvm::ArrayRef<llvm::StringLiteral> archives;
  llvm::StringRef description;      ///< The program description in JSON.
  llvm::StringRef libraryDirectory; ///< Directory of the runtime archives.
  llvm::StringRef output;
};

/// Links an executable with the compiler driver and lld. The executable appears
/// under its name only when it is complete.
Status linkExecutable(const LinkInput &input);

} // namespace kiln

#endif // KILN_LIB_COMPILER_LINK_H
