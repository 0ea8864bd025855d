//===- DispatchRows.cpp - Row programs of dispatches ------------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "kiln/Dialect/Kiln/IR/Kiln.h"

using namespace mlir;
using namespace kiln;

/// The program of the ops from `first` on, up to the body's terminator.
static FailureOr<row::RowProgram> buildRows(Block &body, Block::iterator first,
                                            ArrayRef<Value> operands,
                                            ArrayRef<Value> results,
                                            int64_t rows, int64_t cols) {
  RowBuilder builder(rows, cols);
  for (Operation &op : llvm::make_range(first, std::prev(body.end()))) {
    auto rowOp = dyn_cast<RowOpInterface>(op);
    if (!rowOp || failed(rowOp.buildRows(builder)))
      return failure();
  }
  return builder.finish(operands, results);
}

FailureOr<row::RowProgram> kiln::buildRowProgram(Block &body, int64_t rows,
                                                 int64_t cols) {
  SmallVector<Value> operands(body.getArguments());
  SmallVector<Value> results(body.getTerminator()->getOperands());
  return buildRows(body, body.begin(), operands, results, rows, cols);
}

FailureOr<row::RowProgram> kiln::buildRowProgram(DispatchOp dispatch) {
  Block &body = dispatch.getBody().front();
  int64_t rows = (*dispatch.getSpace())[0], cols = (*dispatch.getSpace())[1];
  MatmulOp product = dispatch.getProduct();
  if (!product)
    return buildRowProgram(body, rows, cols);
  SmallVector<Value> operands = {product.getResult()};
  llvm::append_range(operands, body.getArguments().drop_front(2));
  SmallVector<Value> results(body.getTerminator()->getOperands());
  if (dispatch.keepsProduct())
    results.pop_back();
  return buildRows(body, std::next(body.begin()), operands, results, rows,
                   cols);
}
