//===- DispatchRows.cpp - Row programs of dispatches ------------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Builds the row program of a dispatch or kernel from the ops, operands and
// results that the row program covers.
//
//===----------------------------------------------------------------------===//

#include "RowKinds.h"
#include "kiln/Dialect/Kiln/IR/RowProgramText.h"
#include "kiln/Dialect/Kiln/IR/RowPrograms.h"

using namespace mlir;
using namespace kiln;

RowOps kiln::rowOpsOf(Block &body, int64_t rows, int64_t cols) {
  RowOps source;
  for (Operation &op : body.without_terminator())
    source.ops.push_back(&op);
  llvm::append_range(source.operands, body.getArguments());
  llvm::append_range(source.results, body.getTerminator()->getOperands());
  source.rows = rows;
  source.cols = cols;
  return source;
}

RowOps kiln::rowOpsOf(DispatchOp dispatch) {
  ArrayRef<int64_t> space = *dispatch.getSpace();
  RowOps source = rowOpsOf(dispatch.getBody().front(), space[0], space[1]);
  MatmulOp matmul = dispatch.getMatmul();
  if (!matmul)
    return source;
  source.ops.erase(source.ops.begin());
  // The row program has the result of the matmul as operand 0, instead of the
  // two operands of the matmul.
  source.operands.erase(source.operands.begin());
  source.operands.front() = matmul.getResult();
  if (dispatch.keepsMatmul())
    source.results.pop_back();
  return source;
}

FailureOr<row::RowProgram> kiln::buildRowProgram(const RowOps &source) {
  if (!row::isSaneSpace(source.rows, source.cols))
    return failure();
  RowBuilder builder(source.rows, source.cols);
  for (Operation *op : source.ops) {
    auto rowOp = dyn_cast<RowOpInterface>(op);
    if (!rowOp || failed(rowOp.buildRows(builder)))
      return failure();
  }
  auto program = builder.finish(source.operands, source.results);
  if (failed(program))
    return failure();
  if (std::optional<row::Fault> fault = row::findFault(*program))
    return source.ops.back()->emitOpError(
               "is the last op of a kernel whose row program (its "
               "intermediate code) is invalid: ")
           << fault->message;
  return program;
}

FailureOr<row::RowProgram> kiln::buildRowProgram(Block &body, int64_t rows,
                                                 int64_t cols) {
  return buildRowProgram(rowOpsOf(body, rows, cols));
}

FailureOr<row::RowProgram> kiln::buildRowProgram(DispatchOp dispatch) {
  return buildRowProgram(rowOpsOf(dispatch));
}
