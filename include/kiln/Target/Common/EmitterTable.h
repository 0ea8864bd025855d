//===- EmitterTable.h - The emitters of a backend ---------------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A backend finds the emitter of a kernel by the name of the op that the kernel
// computes. Each file FooKernel.cpp of a backend defines addFooKernel, which
// adds its emitters; CMake lists these files in KernelFiles.inc, so that a new
// file is all that a new kernel family needs in a backend.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_TARGET_COMMON_EMITTERTABLE_H
#define KILN_TARGET_COMMON_EMITTERTABLE_H

#include "kiln/Dialect/KilnRT/IR/KilnRT.h"

#include "llvm/ADT/StringMap.h"

namespace kiln {

/// Emitters by the names of ops; the one of row programs has the name "row".
template <typename Emitter> class EmitterTable {
public:
  template <typename Op> void add(Emitter emitter) {
    emitters.insert({Op::getOperationName(), emitter});
  }
  void addRows(Emitter emitter) { emitters.insert({kRows, emitter}); }

  /// Returns null for a kernel that the backend has no emitter for.
  const Emitter *find(rt::KernelOp kernel) const {
    KernelOpInterface op = kernel.getSingleOp();
    llvm::StringRef name = kRows;
    if (op)
      name = op->getName().getStringRef();
    auto found = emitters.find(name);
    return found == emitters.end() ? nullptr : &found->second;
  }

private:
  static constexpr llvm::StringLiteral kRows = "row";
  llvm::StringMap<Emitter> emitters;
};

} // namespace kiln

#endif // KILN_TARGET_COMMON_EMITTERTABLE_H
