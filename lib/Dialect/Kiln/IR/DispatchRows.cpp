//===- DispatchRows.cpp - Row programs of dispatches ------------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "kiln/Dialect/Kiln/IR/Kiln.h"

using namespace mlir;
using namespace kiln;

FailureOr<row::RowProgram> kiln::buildRowProgram(Block &body, int64_t rows,
                                                 int64_t cols) {
  RowBuilder builder(rows, cols);
  for (Operation &op : body.without_terminator()) {
    auto rowOp = dyn_cast<RowOpInterface>(op);
    if (!rowOp || failed(rowOp.buildRows(builder)))
      return failure();
  }
  SmallVector<Value> operands(body.getArguments());
  SmallVector<Value> results(body.getTerminator()->getOperands());
  return builder.finish(operands, results);
}

FailureOr<row::RowProgram> kiln::buildRowProgram(DispatchOp dispatch) {
  return buildRowProgram(dispatch.getBody().front(), (*dispatch.getSpace())[0],
                         (*dispatch.getSpace())[1]);
}
