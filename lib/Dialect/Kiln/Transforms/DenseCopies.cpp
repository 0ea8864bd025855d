//===- DenseCopies.cpp - Copies for concats and strided rows ----*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The schedule stores a value at an offset with a row pitch. Slices of columns
// and operands of a concat along the last dimension are strided: their pitch is
// larger than their row length. On a GPU, operands and results of matmuls may
// be strided, too. All other values are dense.
//
//===----------------------------------------------------------------------===//

#include "DenseCopies.h"
#include "kiln/Dialect/Kiln/Transforms/PaddedRows.h"

#include <numeric>

using namespace mlir;
using namespace kiln;

static RankedTensorType withShape(Value like, ArrayRef<int64_t> shape) {
  return tensorTypeOf(like).clone(shape);
}

void kiln::flattenConcats(Block &block) {
  for (auto concat : llvm::make_early_inc_range(block.getOps<ConcatOp>())) {
    int64_t dim = concat.getDim(), rank = concat.getType().getRank();
    auto shape = concat.getType().getShape();
    int64_t leading = std::accumulate(shape.begin(), shape.begin() + dim,
                                      int64_t(1), std::multiplies<>());
    if (dim == rank - 1 || leading == 1)
      continue;
    OpBuilder builder(concat);
    auto flat = [&](Value value) {
      return withShape(
          value, {leading, tensorTypeOf(value).getNumElements() / leading});
    };
    SmallVector<Value> inputs;
    for (Value input : concat.getInputs())
      inputs.push_back(
          ReshapeOp::create(builder, concat.getLoc(), flat(input), input));
    Value joined = ConcatOp::create(builder, concat.getLoc(),
                                    flat(concat.getResult()), inputs, 1);
    Value result =
        ReshapeOp::create(builder, concat.getLoc(), concat.getType(), joined);
    concat.replaceAllUsesWith(result);
    concat.erase();
  }
}

/// Builds a dispatch that copies a value into a separate buffer.
static Value copyOf(OpBuilder &builder, Value value) {
  auto type = tensorTypeOf(value);
  SmallVector<int64_t> identity(type.getRank());
  std::iota(identity.begin(), identity.end(), 0);
  Location loc = value.getLoc();
  auto dispatch = DispatchOp::create(builder, loc, TypeRange{type}, /*kind=*/"",
                                     ValueRange{value}, DenseI64ArrayAttr());
  OpBuilder::InsertionGuard guard(builder);
  IRMapping mapping = openIsolatedBody(builder, dispatch, value);
  auto copy =
      TransposeOp::create(builder, loc, type, mapping.lookup(value), identity);
  YieldOp::create(builder, loc, copy.getResult());
  dispatch.setKind(copy.getKernelFamily());
  return dispatch->getResult(0);
}

//===----------------------------------------------------------------------===//
// Operands of concats
//===----------------------------------------------------------------------===//

/// Returns true if consecutive rows of an operand are not adjacent in the
/// result of a concat.
static bool isPitched(ConcatOp concat) {
  auto type = concat.getType();
  return static_cast<int64_t>(concat.getDim()) == type.getRank() - 1 &&
         getRowCount(type) > 1;
}

/// Returns true if the op that computes `value` can write it directly into the
/// result of a concat. `apart` is true if the rows are strided in that result.
static bool canWriteInto(Value value, bool apart, RowPrograms &rowPrograms) {
  auto result = dyn_cast<OpResult>(value);
  if (!result || getTiedOperand(result))
    return false;
  auto gemm = dyn_cast<GemmOpInterface>(result.getOwner());
  if (gemm && result == gemm.getMatrix())
    return true;
  auto dispatch = dyn_cast<DispatchOp>(result.getOwner());
  if (!dispatch) // Of the results of a GEMM, only the matrix can have a row
                 // pitch.
    return gemm && !apart;
  if (!apart)
    return true;
  auto type = tensorTypeOf(value);
  switch (dispatch.getFamily()) {
  case Family::Gemm:
  case Family::Row: {
    auto space = *dispatch.getSpace();
    if (type.getNumElements() != space[0] * space[1] ||
        getColumnCount(type) != space[1])
      return false;
    auto number = static_cast<int32_t>(result.getResultNumber());
    // Stores of one value per row or per column do not support a row pitch.
    const row::RowProgram *rows = rowPrograms.get(dispatch);
    return rows && llvm::all_of(rows->stores, [&](const row::Store &store) {
             return store.result != number ||
                    store.kind == row::StoreKind::Full;
           });
  }
  case Family::Kernel:
    return kernelOpOf(dispatch).writesPitched(result.getResultNumber());
  default:
    return false;
  }
}

Value kiln::getStoredOperand(ConcatOp concat, Value operand) {
  auto reshape = operand.getDefiningOp<ReshapeOp>();
  if (isPitched(concat) || !reshape || !reshape->hasOneUse() ||
      reshape->getBlock() != concat->getBlock())
    return operand;
  Value stored = reshape.getX();
  bool hasOtherPlace = llvm::any_of(stored.getUsers(), [&](Operation *user) {
    return user != reshape &&
           (familyOf(user) == Family::View || isa<ConcatOp>(user));
  });
  return hasOtherPlace || isa_and_nonnull<ReshapeOp>(stored.getDefiningOp())
             ? operand
             : stored;
}

/// Returns true if a use of the operand `value` of `concat`, other than the use
/// by `concat`, requires that `value` has a buffer of its own.
static bool isPinned(Value value, ConcatOp concat, bool apart) {
  for (OpOperand &use : value.getUses()) {
    Operation *user = use.getOwner();
    if (isa<WriteOp, YieldOp>(user) || (apart && isa<ReturnOp>(user)))
      return true;
    if (auto other = dyn_cast<ConcatOp>(user))
      if (other != concat || llvm::count(concat.getInputs(), value) > 1)
        return true;
  }
  return false;
}

static void copyConcatOperands(ConcatOp concat, RowPrograms &rowPrograms) {
  bool apart = isPitched(concat);
  OpBuilder builder(concat);
  for (OpOperand &operand : concat->getOpOperands()) {
    Value stored = getStoredOperand(concat, operand.get());
    if (!canWriteInto(stored, apart, rowPrograms) ||
        isPinned(stored, concat, apart) ||
        stored.getParentBlock() != concat->getBlock())
      operand.set(copyOf(builder, operand.get()));
  }
}

//===----------------------------------------------------------------------===//
// Readers of strided values
//===----------------------------------------------------------------------===//

/// Returns true if the rows of a value are strided in memory.
static bool isStrided(Value value) {
  auto type = tensorTypeOf(value);
  if (getRowCount(type) == 1)
    return false;
  for (Operation *user : value.getUsers())
    if (auto concat = dyn_cast<ConcatOp>(user))
      if (isPitched(concat))
        return true;
  if (auto slice = value.getDefiningOp<SliceOp>())
    return getColumnCount(type) != getColumnCount(tensorTypeOf(slice.getX())) ||
           isStrided(slice.getX());
  if (auto reshape = value.getDefiningOp<ReshapeOp>())
    return isStrided(reshape.getX());
  return false;
}

/// Returns true if the user of an operand supports a row pitch of the operand.
static bool readsStrided(OpOperand &use, RowPrograms &rowPrograms) {
  Operation *user = use.getOwner();
  if (isa<ConcatOp>(user)) // copyConcatOperands() copies the operand if needed.
    return true;
  if (isa<SliceOp>(user))
    return familyOf(user) == Family::View;
  if (auto reshape = dyn_cast<ReshapeOp>(user))
    return getColumnCount(tensorTypeOf(use.get())) ==
           getColumnCount(tensorTypeOf(reshape.getResult()));
  auto gemm = dyn_cast<GemmOpInterface>(user);
  if (gemm && use.get() == gemm.getAccumulate())
    return false;
  if (gemm && use.getOperandNumber() < 2)
    return true;
  auto dispatch = dyn_cast<DispatchOp>(user);
  if (!dispatch)
    return false;
  auto operand = static_cast<int32_t>(use.getOperandNumber());
  switch (dispatch.getFamily()) {
  case Family::Gemm:
    // Operand 0 of the epilogue is the result of the matmul. Operand i > 0 of
    // the epilogue is operand i + 1 of the dispatch.
    --operand;
    [[fallthrough]];
  case Family::Row: {
    const row::RowProgram *rows = rowPrograms.get(dispatch);
    if (!rows || getColumnCount(tensorTypeOf(use.get())) != rows->cols)
      return false;
    return llvm::all_of(rows->nodes, [&](const row::Node &node) {
      return node.operand != operand || node.kind != row::Kind::Load ||
             node.access == row::Access::Identity ||
             node.access == row::Access::RowElement;
    });
  }
  case Family::Kernel: {
    KernelOpInterface op = kernelOpOf(dispatch);
    Value argument =
        dispatch.getBody().front().getArgument(use.getOperandNumber());
    return llvm::all_of(argument.getUses(), [&](OpOperand &inner) {
      return op.readsPitched(inner.getOperandNumber());
    });
  }
  default:
    return false;
  }
}

bool kiln::mayHavePaddedRows(OpResult value, RowPrograms &rowPrograms) {
  auto isKernel = [](Operation *op) {
    auto dispatch = dyn_cast<DispatchOp>(op);
    return dispatch && dispatch.getFamily() == Family::Row &&
           memoryOf(dispatch) == MemorySpace::Device;
  };
  auto gemm = dyn_cast<GemmOpInterface>(value.getOwner());
  bool meetsMatmul = gemm && value == gemm.getMatrix();
  if ((!meetsMatmul && !isKernel(value.getOwner())) ||
      tensorTypeOf(value).getRank() != 2 ||
      !canWriteInto(value, /*apart=*/true, rowPrograms))
    return false;
  Block *block = value.getOwner()->getBlock();
  bool allReadStrided = true;
  forEachUse(value, [&](OpOperand &use) {
    Operation *user = use.getOwner();
    bool isTied = llvm::any_of(user->getResults(), [&](OpResult result) {
      return getTiedOperand(result) == use.get();
    });
    bool isMatrix = isa<GemmOpInterface>(user) && use.getOperandNumber() < 2;
    bool isNear = user->getBlock() == block ||
                  user->getBlock() == backwardSegmentOf(*block);
    if (!isNear || isTied || !(isMatrix || isKernel(user)) ||
        !readsStrided(use, rowPrograms))
      allReadStrided = false;
    meetsMatmul |= isMatrix;
  });
  return allReadStrided && meetsMatmul;
}

void kiln::insertDenseCopies(Block &block, RowPrograms &rowPrograms) {
  for (ConcatOp concat : block.getOps<ConcatOp>())
    copyConcatOperands(concat, rowPrograms);
  SmallVector<Value> values;
  for (Operation &op : block)
    llvm::append_range(values, op.getResults());
  for (Value value : values) {
    if (!isStrided(value))
      continue;
    SmallVector<OpOperand *> uses;
    for (OpOperand &use : value.getUses())
      if (!readsStrided(use, rowPrograms))
        uses.push_back(&use);
    if (uses.empty())
      continue;
    OpBuilder builder(block.getParentOp()->getContext());
    builder.setInsertionPointAfterValue(value);
    Value copy = copyOf(builder, value);
    for (OpOperand *use : uses)
      use->set(copy);
  }
}
