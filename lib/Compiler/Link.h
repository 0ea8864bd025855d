//===- Link.h - Link an executable ------------------------------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef KILN_LIB_COMPILER_LINK_H
#define KILN_LIB_COMPILER_LINK_H

#include "kiln/Dialect/Kiln/IR/Target.h"
#include "kiln/Support/Status.h"

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"

namespace kiln {

/// An entry of the kernel table.
struct KernelSymbol {
  std::string name;
  /// In a gpu's images: the table has the name itself, not a function.
  bool inImage = false;
};

/// Code of all of a gpu's kernels.
struct GpuImage {
  int64_t architecture = 0; ///< of compute capability 8.0: 80
  bool isPtx = false;       ///< else machine code of this architecture alone
  std::string bytes;
};

struct LinkInput {
  llvm::StringRef object;               ///< object code of the host's kernels
  llvm::ArrayRef<KernelSymbol> kernels; ///< in table order
  llvm::ArrayRef<GpuImage> images;      ///< for cuda
  llvm::StringRef description;          ///< JSON
  llvm::StringRef libraryDirectory;     ///< of the runtime
  llvm::StringRef output;
  TargetKind target = TargetKind::Cpu;
};

/// Links through the compiler driver with lld. The executable appears under its
/// name only when it is complete.
Status linkExecutable(const LinkInput &input);

} // namespace kiln

#endif // KILN_LIB_COMPILER_LINK_H
