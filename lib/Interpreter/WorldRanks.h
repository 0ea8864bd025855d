//===- WorldRanks.h - Interpreted ranks in separate processes ---*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Ranks in separate processes, which a runtime::World connects, sum tensors for
// the interpreter. Tensors of all types are summed in f64, and then rounded by
// the interpreter. With more than two ranks, terms are added in a different
// order than in an executable, because the order depends on which tensors are
// summed together.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_LIB_INTERPRETER_WORLDRANKS_H
#define KILN_LIB_INTERPRETER_WORLDRANKS_H

#include "kiln/Dialect/Kiln/IR/RankGroup.h"
#include "kiln/Runtime/Comm/World.h"
#include "kiln/Support/Mesh.h"

namespace kiln {

class WorldRanks final : public RankGroup {
public:
  /// `world`, whose ranks form `mesh`, must outlive this object.
  WorldRanks(runtime::World &world, const support::Mesh &mesh);

  int64_t rank(llvm::StringRef axis) const override;
  bool sum(llvm::StringRef axis,
           llvm::MutableArrayRef<HostTensor> tensors) override;

private:
  runtime::World &world;
  support::Mesh mesh;
};

} // namespace kiln

#endif // KILN_LIB_INTERPRETER_WORLDRANKS_H
