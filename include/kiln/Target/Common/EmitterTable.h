//===- EmitterTable.h - Table of kernel emitters ----------------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Each backend has a table that maps the name of the op that a kernel computes
// to the emitter of the kernel. Each file FooKernel.cpp of a backend defines
// addFooKernel, which adds the emitters of the file. CMake lists these files in
// KernelFiles.inc, so a backend needs only one new file for a kernel family.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_TARGET_COMMON_EMITTERTABLE_H
#define KILN_TARGET_COMMON_EMITTERTABLE_H

#include "kiln/Dialect/KilnRT/IR/KilnRT.h"

#include "llvm/ADT/StringMap.h"

namespace kiln {

/// A map from op names to emitters. The key of the emitter of row programs is
/// "row".
template <typename Emitter> class EmitterTable {
public:
  template <typename Op> void add(Emitter emitter) {
    emitters.insert({Op::getOperationName(), emitter});
  }
  void addRows(Emitter emitter) { emitters.insert({kRows, emitter}); }

  /// Returns the emitter of a kernel, or null if the backend has none.
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
