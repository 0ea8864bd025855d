//===- RowDependence.cpp - Ops that compute rows independently ------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "RowDependence.h"

#include "kiln/Dialect/Kiln/IR/RowPrograms.h"

#include "mlir/Interfaces/SideEffectInterfaces.h"

#include <cmath>

using namespace mlir;
using namespace kiln;
using row::Access;
using row::Kind;
using row::Node;
using row::NodeId;
using row::Space;

bool kiln::hasRows(Value value, int64_t rows) {
  RankedTensorType type = tensorTypeOf(value);
  return (type.getRank() == 1 || type.getRank() == 2) &&
         type.getDimSize(0) == rows;
}

namespace {

/// What is known about the sign of a node.
enum class Sign { Any, NonNegative, Positive };

/// Determines whether all values and derivatives of a row program are finite.
class FiniteAnalysis {
public:
  explicit FiniteAnalysis(const row::RowProgram &program) : program(program) {}
  bool isFinite();

private:
  Sign of(NodeId id) const { return signs[id]; }
  Sign signOf(const Node &node) const;
  bool hasPole(const Node &node) const;

  const row::RowProgram &program;
  SmallVector<Sign> signs;
};

} // namespace

/// Returns the value of a constant, rounded to the type of the constant.
static double valueOf(const Node &node) {
  return node.type == row::Type::F32 ? double(float(node.value)) : node.value;
}

Sign FiniteAnalysis::signOf(const Node &node) const {
  auto least = [&](ArrayRef<NodeId> inputs) {
    Sign sign = Sign::Positive;
    for (NodeId id : inputs)
      sign = std::min(sign, of(id));
    return sign;
  };
  auto product = [&](NodeId a, NodeId b) {
    bool isKnown = a == b || least({a, b}) >= Sign::NonNegative;
    // A product of positive numbers can underflow to 0.
    return isKnown ? Sign::NonNegative : Sign::Any;
  };
  auto sum = [&](Sign a, Sign b) {
    return std::min(a, b) == Sign::Any ? Sign::Any : std::max(a, b);
  };
  ArrayRef<NodeId> in = node.inputs;
  switch (node.kind) {
  case Kind::Constant: {
    double value = valueOf(node);
    return value > 0    ? Sign::Positive
           : value == 0 ? Sign::NonNegative
                        : Sign::Any;
  }
  case Kind::Cast:
  case Kind::Round:
    // A positive number can underflow to 0.
    return std::min(of(in[0]), Sign::NonNegative);
  case Kind::Sqrt:
  case Kind::ReduceSum:
  case Kind::ReduceMax:
    return of(in[0]);
  case Kind::Abs:
  case Kind::Exp:
  case Kind::Sigmoid:
    return Sign::NonNegative;
  case Kind::Mul:
    return product(in[0], in[1]);
  case Kind::Div:
    return std::min(least(in), Sign::NonNegative);
  case Kind::Add:
    return sum(of(in[0]), of(in[1]));
  case Kind::Fma:
    return sum(product(in[0], in[1]), of(in[2]));
  case Kind::Max:
    return std::max(of(in[0]), of(in[1]));
  case Kind::Min:
    return least(in);
  case Kind::Select:
    return least(in.drop_front());
  default:
    return Sign::Any;
  }
}

/// Returns true if the node or its derivative may be infinite or NaN although
/// the inputs of the node are finite. Overflow is not considered.
bool FiniteAnalysis::hasPole(const Node &node) const {
  switch (node.kind) {
  case Kind::Log:
  case Kind::Sqrt:
    return of(node.inputs[0]) != Sign::Positive;
  case Kind::Div:
    return of(node.inputs[1]) != Sign::Positive;
  default:
    return false;
  }
}

/// Looks for poles only in nodes whose values depend on the row. Any other node
/// has the same value in padding rows as in rows that exist.
bool FiniteAnalysis::isFinite() {
  for (const Node &node : program.nodes) {
    bool hasRow = node.space == Space::Row || node.space == Space::Full;
    bool isInfinite =
        node.kind == Kind::Constant && !std::isfinite(valueOf(node));
    if (isInfinite || (hasRow && hasPole(node)))
      return false;
    signs.push_back(signOf(node));
  }
  return true;
}

/// Returns the iteration space of an op if it has `rows` rows. Otherwise
/// returns an equivalent space with `rows` rows, or std::nullopt if there is
/// none.
static std::optional<RowSpace> spaceOf(RowOpInterface op, int64_t rows) {
  RowSpace space = op.getRowSpace();
  if (space.rows == rows)
    return space;
  if (!space.flexible || space.elements() % rows != 0)
    return std::nullopt;
  return RowSpace{rows, space.elements() / rows, /*flexible=*/true};
}

std::optional<RowDependence> kiln::findRowDependence(Operation *op,
                                                     int64_t rows) {
  auto rowOp = dyn_cast<RowOpInterface>(op);
  if (!rowOp || op->getNumResults() == 0 || !isMemoryEffectFree(op) ||
      !llvm::all_of(op->getResults(),
                    [&](Value value) { return hasRows(value, rows); }))
    return std::nullopt;
  std::optional<RowSpace> space = spaceOf(rowOp, rows);
  if (!space)
    return std::nullopt;
  RowOps source;
  source.ops = {op};
  for (Value operand : op->getOperands())
    if (!llvm::is_contained(source.operands, operand))
      source.operands.push_back(operand);
  source.results.assign(op->result_begin(), op->result_end());
  source.rows = space->rows;
  source.cols = space->cols;
  FailureOr<row::RowProgram> program = buildRowProgram(source);
  if (failed(program))
    return std::nullopt;

  RowDependence found;
  SmallVector<bool> isByRow(source.operands.size()),
      isWhole(source.operands.size());
  for (const Node &node : program->nodes) {
    found.numbersRows |= node.kind == Kind::Random;
    if (node.kind == Kind::RowIndex)
      return std::nullopt;
    if (node.kind != Kind::Load)
      continue;
    switch (node.access) {
    case Access::Identity:
    case Access::PerRow:
    case Access::RowElement:
      isByRow[node.operand] = true;
      break;
    case Access::PerColumn:
    case Access::Gathered:
    case Access::Scalar:
      isWhole[node.operand] = true;
      break;
    case Access::Modulo:
    case Access::SumOfSlices:
      return std::nullopt;
    }
  }
  for (const row::Store &store : program->stores)
    if (store.kind == row::StoreKind::ColumnPartial)
      return std::nullopt;
  if (found.numbersRows && !isa<RowNumberOpInterface>(op))
    return std::nullopt;
  for (Value operand : op->getOperands()) {
    size_t i = llvm::find(source.operands, operand) - source.operands.begin();
    if (isByRow[i] && isWhole[i])
      return std::nullopt;
    found.isByRow.push_back(isByRow[i]);
  }
  found.isFinite = FiniteAnalysis(*program).isFinite();
  return found;
}

std::optional<RepeatedRows> kiln::findRepeatedRows(Value matrix) {
  RankedTensorType type = tensorTypeOf(matrix);
  if (type.getRank() != 2 || !isa<FloatType>(type.getElementType()))
    return std::nullopt;
  RowOps source;
  source.results = {matrix};
  source.rows = type.getDimSize(0);
  source.cols = type.getDimSize(1);
  Value value = matrix;
  while (auto reshape = value.getDefiningOp<ReshapeOp>()) {
    source.ops.insert(source.ops.begin(), reshape);
    value = reshape.getX();
  }
  auto broadcast = value.getDefiningOp<BroadcastOp>();
  if (!broadcast)
    return std::nullopt;
  source.ops.insert(source.ops.begin(), broadcast);
  source.operands = {broadcast.getX()};
  FailureOr<row::RowProgram> program = buildRowProgram(source);
  if (failed(program))
    return std::nullopt;
  std::optional<RepeatedRows> found;
  for (const Node &node : program->nodes) {
    if (node.kind == Kind::Round)
      continue;
    if (found || node.kind != Kind::Load)
      return std::nullopt;
    if (node.access == Access::Modulo)
      found = {broadcast.getX(), node.period};
    else if (node.access == Access::PerColumn)
      found = {broadcast.getX(), 1};
    else if (node.access == Access::Identity)
      found = {broadcast.getX(), source.rows};
    else
      return std::nullopt;
  }
  return found;
}
