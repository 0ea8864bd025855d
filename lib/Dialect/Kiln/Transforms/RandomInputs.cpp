//===- RandomInputs.cpp - What random ops read ----------------------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "RandomInputs.h"

using namespace mlir;
using namespace kiln;

BlockArgument kiln::getOrAddRng(ProgramOp program, int64_t microbatches) {
  if (BlockArgument input = program.getInput(InputRole::Rng))
    return input;
  Builder builder(program.getContext());
  unsigned index = program.getNumArguments();
  (void)program.insertArgument(
      index, RankedTensorType::get({microbatches, 3}, builder.getI64Type()),
      builder.getDictionaryAttr(
          builder.getNamedAttr("kiln.name", builder.getStringAttr("rng"))),
      program.getLoc());
  return program.getArgument(index);
}

BlockArgument kiln::getOrAddTensorRank(ProgramOp program) {
  if (BlockArgument rank = program.getInput(InputRole::TensorRank))
    return rank;
  Builder builder(program.getContext());
  unsigned index = program.getNumArguments();
  auto name = stringifyInputRole(InputRole::TensorRank);
  (void)program.insertArgument(index,
                               RankedTensorType::get({}, builder.getI32Type()),
                               builder.getDictionaryAttr(builder.getNamedAttr(
                                   "kiln.name", builder.getStringAttr(name))),
                               program.getLoc());
  return program.getArgument(index);
}

int64_t kiln::firstFreeKey(Operation *root) {
  int64_t next = 0;
  root->walk([&](Operation *op) {
    if (auto key = op->getAttrOfType<IntegerAttr>("key"))
      next = std::max(next, key.getInt() + 1);
  });
  return next;
}
