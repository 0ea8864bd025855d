//===- SinkCasts.cpp - Conversions inside of the kernels that need them ---===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A bias in mixed precision is cast, repeated over the rows and added. The cast
// has as many elements as a row, so it cannot be fused where it stands; behind
// the broadcast it is one more node of the kernel that adds, and rounds the
// same elements in the same way.
//
//===----------------------------------------------------------------------===//

#include "Precision.h"

using namespace mlir;
using namespace kiln;

void kiln::sinkCasts(Block &block) {
  SmallVector<BroadcastOp> broadcasts;
  for (auto broadcast : block.getOps<BroadcastOp>())
    if (familyOf(broadcast) == Family::Row)
      broadcasts.push_back(broadcast);
  for (BroadcastOp broadcast : broadcasts) {
    auto cast = broadcast.getX().getDefiningOp<CastOp>();
    auto isRepeated = [](Operation *user) {
      return isa<BroadcastOp>(user) && familyOf(user) == Family::Row;
    };
    if (!cast || !llvm::all_of(cast->getUsers(), isRepeated))
      continue;
    OpBuilder builder(broadcast);
    auto type = broadcast.getType();
    Value wide =
        BroadcastOp::create(builder, broadcast.getLoc(),
                            type.clone(cast.getX().getType().getElementType()),
                            cast.getX(), broadcast.getDims());
    broadcast.replaceAllUsesWith(
        CastOp::create(builder, cast.getLoc(), type, wide).getResult());
    broadcast.erase();
    if (cast->use_empty())
      cast.erase();
  }
}
