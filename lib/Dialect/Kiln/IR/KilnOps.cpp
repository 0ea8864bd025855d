//===- KilnOps.cpp - Verifiers, builders, printing of kiln ops --*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The labels C1, C2... are the constraints of the ops' descriptions.
//
//===----------------------------------------------------------------------===//

#include "OpChecks.h"
#include "kiln/Dialect/Kiln/IR/Kiln.h"

#include "llvm/ADT/SmallBitVector.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::checks;

//===----------------------------------------------------------------------===//
// Elementwise
//===----------------------------------------------------------------------===//

void ConstantOp::build(OpBuilder &builder, OperationState &state,
                       RankedTensorType type, double splat) {
  build(builder, state, type,
        DenseElementsAttr::get(
            type, builder.getFloatAttr(type.getElementType(), splat)));
}

LogicalResult ConstantOp::verify() {
  if (!isa<SplatElementsAttr>(getValue())) // C1
    return emitOpError("value must be a splat");
  if (getValue().getType() != getType())
    return emitOpError("value has type ")
           << getValue().getType() << ", expected " << getType();
  return success();
}

double ConstantOp::getSplat() {
  return getValue().getSplatValue<APFloat>().convertToDouble();
}

//===----------------------------------------------------------------------===//
// Norms, losses, lookups, randomness
//===----------------------------------------------------------------------===//

void LayerNormOp::build(OpBuilder &builder, OperationState &state, Value x,
                        Value gamma, Value beta, double eps) {
  auto type = tensorTypeOf(x);
  auto rows = fullPrecision(type.clone(type.getShape().drop_back()));
  build(builder, state, TypeRange{type, rows, rows}, x, gamma, beta,
        builder.getF64FloatAttr(eps));
}

LogicalResult LayerNormOp::verify() {
  if (failed(checkMinRank(*this, "x", getX(), 1)))
    return failure();
  auto shape = getX().getType().getShape();
  if (failed(checkShape(*this, "y", getY(), shape, getX())) ||
      failed(checkFull(*this, "mean", getMean(), shape.drop_back(), getX())) ||
      failed(checkFull(*this, "rstd", getRstd(), shape.drop_back(),
                       getX()))) // C1
    return failure();
  if (failed(checkFull(*this, "gamma", getGamma(), shape.back(), getX())))
    return failure();
  return checkFull(*this, "beta", getBeta(), shape.back(), getX()); // C2
}

LogicalResult NormalizeOp::verify() {
  if (failed(checkMinRank(*this, "x", getX(), 1)))
    return failure();
  if (getStatistics().empty() || getStatistics().size() > 2)
    return emitOpError("has ")
           << getStatistics().size()
           << " statistics, expected mean and rstd, or rstd";
  auto shape = getX().getType().getShape();
  for (Value statistic : getStatistics())
    if (failed(checkFull(*this, "statistics", statistic, shape.drop_back(),
                         getX())))
      return failure();
  return checkWide(*this, "y", getY(), shape, getX());
}

LogicalResult AffineOp::verify() {
  if (failed(checkMinRank(*this, "x", getX(), 1)))
    return failure();
  auto shape = getX().getType().getShape();
  if (failed(checkFull(*this, "gamma", getGamma(), shape.back(), getX())))
    return failure();
  if (getBeta() &&
      failed(checkFull(*this, "beta", getBeta(), shape.back(), getX())))
    return failure();
  return checkWide(*this, "x", getX(), shape, getY());
}

void RmsNormOp::build(OpBuilder &builder, OperationState &state, Value x,
                      Value gamma, double eps) {
  auto type = tensorTypeOf(x);
  auto rows = fullPrecision(type.clone(type.getShape().drop_back()));
  build(builder, state, TypeRange{type, rows}, x, gamma,
        builder.getF64FloatAttr(eps));
}

LogicalResult RmsNormOp::verify() {
  if (failed(checkMinRank(*this, "x", getX(), 1)))
    return failure();
  auto shape = getX().getType().getShape();
  if (failed(checkShape(*this, "y", getY(), shape, getX())) ||
      failed(checkFull(*this, "rstd", getRstd(), shape.drop_back(),
                       getX()))) // C1
    return failure();
  return checkFull(*this, "gamma", getGamma(), shape.back(), getX()); // C2
}

LogicalResult CrossEntropyOp::verify() {
  return checkTargets(*this, getLogits(), getTargets()); // C1
}

LogicalResult LinearCrossEntropyOp::verify() {
  if (failed(checkTargets(*this, getHidden(), getTargets())) || // C1
      failed(checkChunkRows(*this, getRows())))
    return failure();
  if (failed(checkRank(*this, "weight", getWeight(), 2)))
    return failure();
  if (getWeight().getType().getDimSize(1) !=
      getHidden().getType().getDimSize(1))
    return emitOpError("weight has ")
           << getWeight().getType().getDimSize(1) << " columns, expected "
           << getHidden().getType().getDimSize(1) << " as hidden has";
  return checkShape(*this, "weight", getWeight(),
                    getWeight().getType().getShape(), getHidden());
}

LogicalResult EmbeddingOp::verify() {
  if (failed(checkRank(*this, "table", getTable(), 2)))
    return failure();
  SmallVector<int64_t> shape = {getTokens().getType().getNumElements(),
                                getTable().getType().getDimSize(1)};
  if (failed(checkShape(*this, "y", getY(), shape, Value())) ||            // C1
      failed(checkPaddingIndex(*this, getPaddingIndexAttr(), getTable()))) // C2
    return failure();
  return checkWide(*this, "table", getTable(), getTable().getType().getShape(),
                   getY());
}

LogicalResult DropoutOp::verify() {
  if (failed(checkProbability(*this, getP().convertToDouble())) ||
      failed(checkRng(*this, getRng())) ||
      failed(checkSequences(*this, getRowCount(tensorTypeOf(getX())),
                            getSequences())))
    return failure();
  return checkShape(*this, "y", getY(), getX().getType().getShape(), getX());
}

LogicalResult RopeOp::verify() {
  if (failed(checkRank(*this, "x", getX(), 2)) ||
      failed(checkRank(*this, "cos", getCos(), 2)) ||
      failed(checkSequences(*this, getX().getType().getDimSize(0),
                            getSequences())))
    return failure();
  int64_t cols = getX().getType().getDimSize(1), heads = getHeads();
  if (heads < 1 || cols % heads || cols / heads % 2)
    return emitOpError("has ") << cols << " columns, which do not divide into "
                               << heads << " heads of even width";
  int64_t length =
      getX().getType().getDimSize(0) / static_cast<int64_t>(getSequences());
  int64_t half = cols / heads / 2;
  auto table = getCos().getType().getShape();
  if (table[0] < length || table[1] != half) // C1
    return emitOpError("'cos' is ") << toString(table) << ", expected at least "
                                    << length << " rows of " << half;
  if (failed(checkFull(*this, "cos", getCos(), table, getX())) ||
      failed(checkFull(*this, "sin", getSin(), table, getX())))
    return failure();
  return checkShape(*this, "y", getY(), getX().getType().getShape(), getX());
}

//===----------------------------------------------------------------------===//
// Matrix products and attention
//===----------------------------------------------------------------------===//

void MatmulOp::build(OpBuilder &builder, OperationState &state, Value a,
                     Value b, bool transA, bool transB) {
  auto typeA = tensorTypeOf(a), typeB = tensorTypeOf(b);
  int64_t rank = typeA.getRank();
  SmallVector<int64_t> shape(typeA.getShape());
  shape[rank - 2] = typeA.getDimSize(transA ? rank - 1 : rank - 2);
  shape[rank - 1] = typeB.getDimSize(transB ? rank - 2 : rank - 1);
  build(builder, state, RankedTensorType::get(shape, typeA.getElementType()), a,
        b,
        /*accumulate=*/Value(), transA, transB, /*grid=*/nullptr);
}

int64_t MatmulOp::getM() {
  auto type = tensorTypeOf(getA());
  return type.getDimSize(type.getRank() - (getTransA() ? 1 : 2));
}
int64_t MatmulOp::getK() {
  auto type = tensorTypeOf(getA());
  return type.getDimSize(type.getRank() - (getTransA() ? 2 : 1));
}
int64_t MatmulOp::getN() {
  auto type = tensorTypeOf(getB());
  return type.getDimSize(type.getRank() - (getTransB() ? 2 : 1));
}
int64_t MatmulOp::getBatch() {
  int64_t batch = 1;
  for (int64_t size : tensorTypeOf(getA()).getShape().drop_back(2))
    batch *= size;
  return batch;
}

LogicalResult MatmulOp::verify() {
  auto typeA = tensorTypeOf(getA()), typeB = tensorTypeOf(getB());
  if (failed(checkMinRank(*this, "a", getA(), 2)) ||
      failed(checkRank(*this, "b", getB(), typeA.getRank())))
    return failure();
  if (typeA.getElementType() != typeB.getElementType())
    return emitOpError("'b' has element type ")
           << typeB.getElementType() << ", expected " << typeA.getElementType();
  if (typeA.getShape().drop_back(2) != typeB.getShape().drop_back(2)) // C1
    return emitOpError("batch dimensions ")
           << toString(typeA.getShape().drop_back(2)) << " and "
           << toString(typeB.getShape().drop_back(2)) << " differ";
  int64_t innerB = typeB.getDimSize(typeB.getRank() - (getTransB() ? 1 : 2));
  if (getK() != innerB)
    return emitOpError("inner extents differ: 'a' has ")
           << getK() << ", 'b' has " << innerB;
  SmallVector<int64_t> shape(typeA.getShape().drop_back(2));
  shape.append({getM(), getN()});
  if (failed(checkWide(*this, "y", getY(), shape, getA())))
    return failure();
  if (getAccumulate() &&
      failed(checkShape(*this, "accumulate", getAccumulate(), shape, getY())))
    return failure();
  if (auto grid = getGrid())
    if (grid->size() != 2 || (*grid)[0] < 1 || (*grid)[1] < 1 ||
        (*grid)[0] > getM() || (*grid)[1] > getN())
      return emitOpError("grid is ")
             << toString(*grid) << ", expected tiles over " << getM()
             << " rows and " << getN() << " columns";
  return success();
}

LogicalResult AttentionOp::verify() {
  for (auto [name, value] :
       {std::pair<StringRef, Value>{"q", getQ()}, {"k", getK()}, {"v", getV()}})
    if (failed(checkRank(*this, name, value, 2)))
      return failure();
  int64_t rows = getQ().getType().getDimSize(0);
  if (failed(checkSequences(*this, rows, getSequences())))
    return failure();
  int64_t heads = getHeads(), kvHeads = getKvHeads();
  if (heads < 1 || kvHeads < 1 || heads % kvHeads) // C1
    return emitOpError("has ") << heads << " heads and " << kvHeads
                               << " kv_heads, which do not divide them";
  int64_t cols = getQ().getType().getDimSize(1);
  if (cols % heads)
    return emitOpError("'q' has ")
           << cols << " columns, which do not divide into " << heads
           << " heads";
  SmallVector<int64_t> kv = {rows, cols / heads * kvHeads};
  if (failed(checkShape(*this, "k", getK(), kv, getQ())) ||
      failed(checkShape(*this, "v", getV(), kv, getQ())) ||
      failed(checkShape(*this, "o", getO(), getQ().getType().getShape(),
                        getQ())) ||
      failed(checkFull(
          *this, "lse", getLse(),
          {static_cast<int64_t>(getSequences()) * heads, getSequenceLength()},
          getQ())))
    return failure();
  double p = getP().convertToDouble();
  if (failed(checkProbability(*this, p)))
    return failure();
  if (p > 0 && !getRng())
    return emitOpError("has p = ") << p << " but no 'rng'";
  if (getRng() && failed(checkRng(*this, getRng())))
    return failure();
  return checkKeyTile(*this, getKvTile());
}

//===----------------------------------------------------------------------===//
// Shapes and reductions
//===----------------------------------------------------------------------===//

LogicalResult BroadcastOp::verify() {
  auto from = getX().getType().getShape(), to = getY().getType().getShape();
  if (getDims().size() != from.size())
    return emitOpError("dims has ")
           << getDims().size() << " entries for rank " << from.size();
  if (failed(checkIncreasing(*this, getDims(), to.size()))) // C2
    return failure();
  for (auto [i, dim] : llvm::enumerate(getDims()))
    if (from[i] != to[dim] && from[i] != 1) // C1
      return emitOpError("dimension ")
             << i << " of size " << from[i] << " cannot become dimension "
             << dim << " of size " << to[dim];
  if (getX().getType().getElementType() != getY().getType().getElementType())
    return emitOpError("changes the element type");
  return success();
}

LogicalResult ReduceOp::verify() {
  auto from = getX().getType().getShape();
  if (failed(checkIncreasing(*this, getDims(), from.size()))) // C1
    return failure();
  SmallVector<int64_t> shape;
  for (auto [i, size] : llvm::enumerate(from))
    if (!llvm::is_contained(getDims(), i))
      shape.push_back(size);
  return getKind() == Reduction::Sum
             ? checkWide(*this, "y", getY(), shape, getX())
             : checkShape(*this, "y", getY(), shape, getX());
}

LogicalResult ReducePartialOp::verify() {
  int64_t chunk = getChunk();
  if (chunk < 1)
    return emitOpError("chunk is ") << chunk << ", expected a positive number";
  int64_t rows = getRowCount(getX().getType());
  return checkFull(
      *this, "y", getY(),
      {rows / chunk + (rows % chunk != 0), getColumnCount(getX().getType())},
      getX()); // C1
}

LogicalResult ReshapeOp::verify() {
  auto from = getX().getType(), to = getY().getType();
  if (from.getNumElements() != to.getNumElements()) // C1
    return emitOpError("has ")
           << from.getNumElements() << " elements, result has "
           << to.getNumElements();
  if (from.getElementType() != to.getElementType())
    return emitOpError("changes the element type");
  return success();
}

LogicalResult TransposeOp::verify() {
  auto from = getX().getType().getShape();
  llvm::SmallBitVector seen(from.size());
  SmallVector<int64_t> shape;
  for (int64_t dim : getPermutation()) {
    if (dim < 0 || dim >= static_cast<int64_t>(from.size()) || seen.test(dim))
      return emitOpError("permutation ")
             << toString(getPermutation()) << " is not one of rank "
             << from.size();
    seen.set(dim);
    shape.push_back(from[dim]);
  }
  if (!seen.all()) // C1
    return emitOpError("permutation ") << toString(getPermutation())
                                       << " is not one of rank " << from.size();
  return checkShape(*this, "y", getY(), shape, getX());
}

LogicalResult SliceOp::verify() {
  auto from = getX().getType().getShape(), to = getY().getType().getShape();
  if (from.size() != to.size() || getOffsets().size() != from.size())
    return emitOpError("ranks of operand, result and offsets differ");
  for (auto [i, offset] : llvm::enumerate(getOffsets()))
    if (offset < 0 || offset > from[i] - to[i]) // C1
      return emitOpError("takes [")
             << offset << ", " << offset + to[i] << ") of dimension " << i
             << ", which has size " << from[i];
  if (getX().getType().getElementType() != getY().getType().getElementType())
    return emitOpError("changes the element type");
  return success();
}

LogicalResult ConcatOp::verify() {
  if (getInputs().empty())
    return emitOpError("needs an operand");
  int64_t dim = getDim();
  SmallVector<int64_t> shape(tensorTypeOf(getInputs().front()).getShape());
  if (dim < 0 || dim >= static_cast<int64_t>(shape.size()))
    return emitOpError("dim is ") << dim << ", expected below " << shape.size();
  int64_t sum = 0;
  for (Value input : getInputs()) {
    auto type = tensorTypeOf(input);
    if (type.getRank() != static_cast<int64_t>(shape.size()))
      return emitOpError("operands have different ranks");
    sum += type.getDimSize(dim);
    shape[dim] = type.getDimSize(dim);
    if (type.getShape() != ArrayRef<int64_t>(shape)) // C1
      return emitOpError("operand ")
             << toString(type.getShape()) << " does not fit beside "
             << toString(tensorTypeOf(getInputs().front()).getShape())
             << " along dimension " << dim;
  }
  shape[dim] = sum;
  return checkShape(*this, "y", getY(), shape, getInputs().front());
}

LogicalResult PadOp::verify() {
  auto from = getX().getType().getShape(), to = getY().getType().getShape();
  if (from.size() != to.size() || getLow().size() != from.size())
    return emitOpError("ranks of operand, result and low differ");
  for (auto [i, low] : llvm::enumerate(getLow()))
    if (low < 0 || low > to[i] - from[i]) // C1
      return emitOpError("puts [")
             << low << ", " << low + from[i] << ") into dimension " << i
             << ", which has size " << to[i];
  if (getX().getType().getElementType() != getY().getType().getElementType())
    return emitOpError("changes the element type");
  return success();
}

static ParseResult parseReductionKind(OpAsmParser &parser,
                                      ReductionAttr &kind) {
  StringRef keyword;
  SMLoc loc = parser.getCurrentLocation();
  if (parser.parseKeyword(&keyword))
    return failure();
  auto value = symbolizeReduction(keyword);
  if (!value)
    return parser.emitError(loc) << "unknown reduction '" << keyword << "'";
  kind = ReductionAttr::get(parser.getContext(), *value);
  return success();
}
static void printReductionKind(OpAsmPrinter &printer, Operation *,
                               ReductionAttr kind) {
  printer << stringifyReduction(kind.getValue());
}

static ParseResult parseFamilyKind(OpAsmParser &parser, FamilyAttr &family) {
  StringRef keyword;
  SMLoc loc = parser.getCurrentLocation();
  if (parser.parseKeyword(&keyword))
    return failure();
  auto value = symbolizeFamily(keyword);
  if (!value)
    return parser.emitError(loc)
           << "unknown dispatch family '" << keyword << "'";
  family = FamilyAttr::get(parser.getContext(), *value);
  return success();
}
static void printFamilyKind(OpAsmPrinter &printer, Operation *,
                            FamilyAttr family) {
  printer << stringifyFamily(family.getValue());
}

#define GET_OP_CLASSES
#include "kiln/Dialect/Kiln/IR/KilnOps.cpp.inc"
