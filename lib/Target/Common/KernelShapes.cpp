//===- KernelShapes.cpp - Parameters of specialized kernels ---------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "kiln/Target/Common/KernelShapes.h"

#include "llvm/ADT/bit.h"

using namespace mlir;
using namespace kiln;

int64_t SingleOp::strideOf(Value operand) {
  return kernel.getRowStrides()[cast<BlockArgument>(operand).getArgNumber()];
}

int64_t SingleOp::strideOfResult(unsigned index) {
  return kernel
      .getRowStrides()[kernel.getBody().front().getNumArguments() + index];
}

template <typename Op>
static AttentionGradShape attentionShape(SingleOp k, Op op) {
  AttentionGradShape shape;
  auto q = tensorTypeOf(op.getQ());
  shape.sequences = op.getSequences();
  shape.length = q.getDimSize(0) / shape.sequences;
  shape.heads = op.getHeads();
  shape.kvHeads = op.getKvHeads();
  shape.headDim = q.getDimSize(1) / shape.heads;
  shape.causal = op.getCausal();
  shape.dropout = op.getP().convertToDouble();
  shape.takesRng = static_cast<bool>(op.getRng());
  shape.dividesHeads =
      op.getRng() && tensorTypeOf(op.getRng()).getNumElements() == 4;
  shape.kvTile = *op.getKvTile();
  shape.elementType = q.getElementType();
  shape.qStride = k.strideOf(op.getQ());
  shape.kStride = k.strideOf(op.getK());
  shape.vStride = k.strideOf(op.getV());
  return shape;
}

AttentionShape kiln::readAttention(SingleOp k) {
  AttentionShape shape = attentionShape(k, k.as<AttentionOp>());
  shape.oStride = k.strideOfResult(0);
  return shape;
}

AttentionGradShape kiln::readAttentionGrad(SingleOp k) {
  auto op = k.as<AttentionGradOp>();
  AttentionGradShape shape = attentionShape(k, op);
  shape.oStride = k.strideOf(op.getO());
  shape.doutStride = k.strideOf(op.getDout());
  shape.dqStride = k.strideOfResult(0);
  shape.dkStride = k.strideOfResult(1);
  shape.dvStride = k.strideOfResult(2);
  return shape;
}

RopeShape kiln::readRope(SingleOp k) {
  auto op = k.as<RopeOp>();
  auto type = op.getX().getType();
  RopeShape shape;
  shape.rows = type.getDimSize(0);
  shape.heads = op.getHeads();
  shape.headDim = type.getDimSize(1) / shape.heads;
  shape.period = shape.rows / static_cast<int64_t>(op.getSequences());
  shape.inverse = op.getInverse();
  shape.elementType = type.getElementType();
  shape.xStride = k.strideOf(op.getX());
  shape.yStride = k.strideOfResult(0);
  return shape;
}

ScatterShape kiln::readScatter(SingleOp k) {
  auto op = k.as<EmbeddingGradOp>();
  auto table = op.getDtable().getType();
  ScatterShape shape;
  shape.tokens = op.getTokens().getType().getNumElements();
  shape.vocabulary = table.getDimSize(0);
  shape.cols = table.getDimSize(1);
  if (IntegerAttr padding = op.getPaddingIndexAttr())
    shape.paddingIndex = padding.getInt();
  shape.elementType = table.getElementType();
  shape.dyType = op.getDy().getType().getElementType();
  shape.dyStride = k.strideOf(op.getDy());
  return shape;
}

static BucketShape bucketShape(Value values, ArrayRef<double> table) {
  auto type = tensorTypeOf(values);
  return {type.getNumElements(), type.getElementType(), table};
}

BucketEncodeShape kiln::readBucketEncode(SingleOp k) {
  auto op = k.as<BucketEncodeOp>();
  return {bucketShape(op.getX(), op.getBorders())};
}

BucketDecodeShape kiln::readBucketDecode(SingleOp k) {
  auto op = k.as<BucketDecodeOp>();
  return {bucketShape(op.getDy(), op.getLevels())};
}

SketchShape kiln::readSketch(SingleOp k) {
  auto op = k.as<SketchRowsOp>();
  auto from = op.getX().getType(), to = op.getY().getType();
  SketchShape shape;
  shape.sequences = op.getSequences();
  shape.length = from.getDimSize(0) / shape.sequences;
  shape.kept = to.getDimSize(0) / shape.sequences;
  shape.columns = to.getDimSize(1);
  shape.elementType = to.getElementType();
  shape.xStride = k.strideOf(op.getX());
  return shape;
}

/// Returns the strides, in elements, of all dimensions of a tensor whose rows
/// (the last dimension) have pitch `rowStride`.
static SmallVector<int64_t> stridesOf(RankedTensorType type,
                                      int64_t rowStride) {
  SmallVector<int64_t> strides(type.getRank(), 1);
  int64_t stride = rowStride;
  for (int64_t dim = type.getRank() - 2; dim >= 0; --dim) {
    strides[dim] = stride;
    stride *= type.getDimSize(dim);
  }
  return strides;
}

PermuteShape kiln::readPermute(SingleOp k) {
  auto from = tensorTypeOf(k.op->getOperand(0)),
       to = tensorTypeOf(k.op->getResult(0));
  SmallVector<int64_t> src = stridesOf(from, k.strideOf(k.op->getOperand(0)));
  SmallVector<int64_t> dst = stridesOf(to, k.strideOfResult(0));
  PermuteShape shape;
  shape.elementType = to.getElementType();
  shape.sourceType = from.getElementType();
  auto add = [&](int64_t size, int64_t srcStride, int64_t dstStride) {
    shape.shape.push_back(size);
    shape.srcStrides.push_back(srcStride);
    shape.dstStrides.push_back(dstStride);
  };
  if (auto op = dyn_cast<TransposeOp>(k.op)) {
    for (auto [i, dim] : llvm::enumerate(op.getPermutation()))
      add(to.getDimSize(i), src[dim], dst[i]);
  } else if (auto op = dyn_cast<BroadcastOp>(k.op)) {
    SmallVector<int64_t> source(to.getRank(), 0);
    for (auto [i, dim] : llvm::enumerate(op.getDims()))
      source[dim] = from.getDimSize(i) == 1 ? 0 : src[i];
    for (int64_t dim = 0; dim < to.getRank(); ++dim)
      add(to.getDimSize(dim), source[dim], dst[dim]);
  } else if (auto op = dyn_cast<SliceOp>(k.op)) {
    for (int64_t dim = 0; dim < to.getRank(); ++dim) {
      shape.srcOffset += op.getOffsets()[dim] * src[dim];
      add(to.getDimSize(dim), src[dim], dst[dim]);
    }
  } else if (auto op = dyn_cast<PadOp>(k.op)) {
    shape.zeroRows = getRowCount(to);
    shape.zeroColumns = getColumnCount(to);
    shape.zeroStride = k.strideOfResult(0);
    for (int64_t dim = 0; dim < to.getRank(); ++dim) {
      shape.dstOffset += op.getLow()[dim] * dst[dim];
      add(from.getDimSize(dim), src[dim], dst[dim]);
    }
  } else {
    auto reduce = k.as<ReduceOp>();
    int64_t kept = 0;
    for (int64_t dim = 0; dim < from.getRank(); ++dim) {
      if (llvm::is_contained(reduce.getDims(), dim)) {
        shape.reduceShape.push_back(from.getDimSize(dim));
        shape.srcReduceStrides.push_back(src[dim]);
      } else {
        add(from.getDimSize(dim), src[dim], dst[kept++]);
      }
    }
    shape.reduceMax = reduce.getKind() == Reduction::Max;
  }
  return shape;
}

bool RowShape::isDense() const {
  size_t numOperands = layouts.size() - program.stores.size();
  return llvm::all_of(program.nodes,
                      [&](const row::Node &node) {
                        return node.kind != row::Kind::Load ||
                               node.access != row::Access::Identity ||
                               layouts[node.operand].rowStride == program.cols;
                      }) &&
         llvm::all_of(program.stores, [&](const row::Store &store) {
           return layouts[numOperands + store.result].rowStride == program.cols;
         });
}

FailureOr<RowShape> kiln::readRows(rt::KernelOp kernel) {
  Block &body = kernel.getBody().front();
  auto rows =
      buildRowProgram(body, (*kernel.getSpace())[0], (*kernel.getSpace())[1]);
  if (failed(rows))
    return kernel.emitOpError("cannot be expressed as a row program");
  // Launches pass arguments in the order of LaunchArguments.h, and emitters
  // read them in the order of the program, so the orders must be equal.
  for (auto [i, number] : llvm::enumerate(rows->immediates))
    if (number != static_cast<int64_t>(i))
      return kernel.emitOpError(
                 "has a row program whose immediates are not in the order of "
                 "the launch arguments: launch argument ")
             << number << " is immediate " << i;
  if (rows->immediates.size() != kernel.getArgumentTypes().size())
    return kernel.emitOpError("has a row program with ")
           << rows->immediates.size() << " immediates, expected "
           << kernel.getArgumentTypes().size() << ", one per launch argument";
  RowShape shape;
  // A dense tensor can be accessed as rows of any length, so its row length may
  // differ from that of the program. A tensor with padded rows must have the
  // row length of the program.
  SmallVector<Value> values(body.getArguments());
  llvm::append_range(values, body.getTerminator()->getOperands());
  for (auto [value, stride] : llvm::zip(values, kernel.getRowStrides())) {
    auto type = tensorTypeOf(value);
    bool dense = stride == getColumnCount(type) || getRowCount(type) == 1;
    if (!dense && getColumnCount(type) != rows->cols)
      return kernel.emitOpError("has an operand or result with rows of ")
             << getColumnCount(type) << " elements at a pitch of " << stride
             << "; rows with padding must have " << rows->cols
             << " elements, the number of columns that the kernel computes";
    shape.layouts.push_back({dense ? rows->cols : stride});
  }
  shape.program = std::move(*rows);
  shape.epilogue = kernel.getEpilogue();
  return shape;
}

static SmallVector<LaunchImmediate> immediatesOf(ArrayAttr args) {
  SmallVector<LaunchImmediate> immediates;
  for (Attribute arg : args ? args.getValue() : ArrayRef<Attribute>()) {
    auto real = dyn_cast<FloatAttr>(arg);
    immediates.push_back({real
                              ? llvm::bit_cast<int64_t>(real.getValueAsDouble())
                              : cast<IntegerAttr>(arg).getInt()});
  }
  return immediates;
}

SmallVector<LaunchImmediate> kiln::immediatesOf(rt::LaunchOp launch) {
  SmallVector<LaunchImmediate> immediates =
      ::immediatesOf(launch.getArgsAttr());
  KernelOpInterface op = launch.getKernelOp().getSingleOp();
  rt::Accumulation accumulate = launch.getAccumulate();
  if (op && op.accumulatesInPlace())
    immediates.push_back(
        {accumulate == rt::Accumulation::Add ? 1 : 0,
         accumulate == rt::Accumulation::AddAfterFirst ? 1 : 0});
  return immediates;
}

SmallVector<LaunchImmediate> kiln::immediatesOf(rt::GemmOp gemm) {
  return ::immediatesOf(gemm.getArgsAttr());
}

SmallVector<unsigned> kiln::argumentOrder(rt::KernelOp kernel) {
  Block &body = kernel.getBody().front();
  unsigned operands = body.getNumArguments(),
           results = body.getTerminator()->getNumOperands();
  SmallVector<unsigned> order;
  if (kernel.getFamily() == Family::Row) {
    for (unsigned i = 0; i < operands; ++i)
      order.push_back(i);
  } else {
    Operation &op = body.front();
    int64_t tied = cast<DispatchableOpInterface>(op).getTiedOperand(0);
    for (auto [i, operand] : llvm::enumerate(op.getOperands()))
      if (static_cast<int64_t>(i) != tied)
        order.push_back(cast<BlockArgument>(operand).getArgNumber());
  }
  for (unsigned i = 0; i < results; ++i)
    order.push_back(operands + i);
  return order;
}
