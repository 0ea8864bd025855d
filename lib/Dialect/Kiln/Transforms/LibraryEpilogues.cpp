//===- LibraryEpilogues.cpp - What a gpu's library fuses --------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A product whose only reader adds a row to all of its rows becomes one op with
// that sum. It depends on nothing but the graph, so that every plan of a module
// has the same bits.
//
//===----------------------------------------------------------------------===//

#include "LibraryEpilogues.h"

#include "kiln/Dialect/Kiln/IR/KilnLibrary.h"

using namespace mlir;
using namespace kiln;

/// The vector that a broadcast repeats in every row, or nothing.
static Value biasOf(Value rows) {
  auto broadcast = rows.getDefiningOp<BroadcastOp>();
  if (!broadcast || broadcast.getDims() != ArrayRef<int64_t>{1} ||
      tensorTypeOf(broadcast.getX()).getDimSize(0) !=
          tensorTypeOf(rows).getDimSize(1))
    return {};
  return broadcast.getX();
}

/// The product that the library can add a bias to, or nothing.
static MatmulOp productOf(Value value, AddOp sum) {
  auto product = value.getDefiningOp<MatmulOp>();
  if (!product || !product->hasOneUse() || product.getAccumulate() ||
      product.getType().getRank() != 2 ||
      product.getType().getElementType().isF64() ||
      product->getBlock() != sum->getBlock())
    return {};
  return product;
}

static bool addInLibrary(AddOp sum) {
  for (auto [term, rows] : {std::pair<Value, Value>(sum.getA(), sum.getB()),
                            {sum.getB(), sum.getA()}}) {
    MatmulOp product = productOf(term, sum);
    Value bias = biasOf(rows);
    if (!product || !bias)
      continue;
    OpBuilder builder(sum);
    auto linear = LinearOp::create(builder, product.getLoc(), product.getType(),
                                   product.getA(), product.getB(), bias,
                                   product.getTransA(), product.getTransB(),
                                   /*grid=*/DenseI64ArrayAttr());
    Operation *broadcast = rows.getDefiningOp();
    sum.replaceAllUsesWith(linear.getY());
    sum.erase();
    product.erase();
    if (broadcast->use_empty())
      broadcast->erase();
    return true;
  }
  return false;
}

void kiln::fuseLibraryEpilogues(ModuleOp module) {
  SmallVector<AddOp> sums;
  module.walk([&](AddOp op) { sums.push_back(op); });
  for (AddOp op : sums)
    addInLibrary(op);
}
