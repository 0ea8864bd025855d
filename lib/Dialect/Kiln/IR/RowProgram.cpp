//===- RowProgram.cpp - Construction of row programs ------------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// RowBuilder uniques nodes: an equal node is appended only once, so ops that
// load the same operand or repeat a formula share nodes. Node ids are in
// topological order, because inputs are created before their users.
//
//===----------------------------------------------------------------------===//

#include "RowKinds.h"
#include "kiln/Dialect/Kiln/IR/Kiln.h"
#include "kiln/Dialect/Kiln/IR/RowProgramText.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::row;

using NodeId = row::NodeId;

NodeId RowBuilder::append(Node node) {
  for (auto [id, other] : llvm::enumerate(program.nodes))
    if (node == other)
      return static_cast<NodeId>(id);
  program.nodes.push_back(std::move(node));
  return static_cast<NodeId>(program.nodes.size()) - 1;
}

//===----------------------------------------------------------------------===//
// Operands.
//===----------------------------------------------------------------------===//

NodeId RowBuilder::load(Value value, Access access, Space space, int64_t period,
                        ArrayRef<NodeId> inputs) {
  auto position = llvm::find(loadedValues, value);
  Node node;
  node.kind = Kind::Load;
  node.space = space;
  node.stored = elementTypeOf(tensorTypeOf(value).getElementType());
  node.type = computeType(node.stored);
  node.inputs.assign(inputs.begin(), inputs.end());
  node.access = access;
  node.operand = position - loadedValues.begin();
  node.period = period;
  if (position == loadedValues.end())
    loadedValues.push_back(value);
  return append(std::move(node));
}

NodeId RowBuilder::full(Value value) {
  if (partials.contains(value) ||
      tensorTypeOf(value).getNumElements() != getRows() * getCols())
    return -1;
  if (auto found = computed.find(value); found != computed.end())
    return found->second;
  return load(value, Access::Identity, Space::Full, 0, {});
}

NodeId RowBuilder::perRow(Value value) {
  if (partials.contains(value) ||
      tensorTypeOf(value).getNumElements() != getRows())
    return -1;
  if (auto found = computed.find(value); found != computed.end()) {
    Space space = spaceOf(found->second);
    return space == Space::Row || space == Space::Scalar ? found->second : -1;
  }
  return load(value, Access::PerRow, Space::Row, 0, {});
}

NodeId RowBuilder::perColumn(Value value) {
  if (partials.contains(value) ||
      tensorTypeOf(value).getNumElements() != getCols())
    return -1;
  if (auto found = computed.find(value); found != computed.end()) {
    Space space = spaceOf(found->second);
    bool isOneRow = getRows() == 1;
    return isOneRow || space == Space::Column || space == Space::Scalar
               ? found->second
               : -1;
  }
  return load(value, Access::PerColumn, Space::Column, 0, {});
}

NodeId RowBuilder::modulo(Value value, int64_t period) {
  if (period == getRows())
    return full(value);
  if (partials.contains(value) || computed.contains(value) ||
      tensorTypeOf(value).getNumElements() != period * getCols())
    return -1;
  return load(value, Access::Modulo, Space::Full, period, {});
}

NodeId RowBuilder::sumOfSlices(Value value, int64_t slices) {
  if (slices == 1)
    return full(value);
  if (partials.contains(value) || computed.contains(value) ||
      tensorTypeOf(value).getNumElements() != slices * getRows() * getCols())
    return -1;
  return load(value, Access::SumOfSlices, Space::Full, slices, {});
}

NodeId RowBuilder::gathered(Value value, NodeId index) {
  Space space = spaceOf(index);
  if (partials.contains(value) || computed.contains(value) ||
      getColumnCount(tensorTypeOf(value)) != getCols() ||
      (space != Space::Row && space != Space::Scalar))
    return -1;
  return load(value, Access::Gathered, Space::Full, 0, {index});
}

NodeId RowBuilder::rowElement(Value value, NodeId index) {
  NodeId element = full(value);
  if (element < 0)
    return -1;
  if (!computed.contains(value))
    return load(value, Access::RowElement, Space::Row, 0, {index});
  NodeId isWanted = equal(cast(columnIndex(), typeOf(index)), index);
  return reduceSum(select(isWanted, element, constantLike(0, element)));
}

NodeId RowBuilder::scalar(Value value) {
  if (partials.contains(value) || tensorTypeOf(value).getNumElements() != 1)
    return -1;
  if (auto found = computed.find(value); found != computed.end())
    return spaceOf(found->second) == Space::Scalar ? found->second : -1;
  return load(value, Access::Scalar, Space::Scalar, 0, {});
}

//===----------------------------------------------------------------------===//
// Nodes.
//===----------------------------------------------------------------------===//

NodeId RowBuilder::constant(double value, row::Type type) {
  Node node;
  node.kind = Kind::Constant;
  node.space = Space::Scalar;
  node.type = type;
  // Round the value to the precision in which the kernel computes.
  node.value = type == row::Type::F32 ? static_cast<float>(value) : value;
  return append(std::move(node));
}

NodeId RowBuilder::constantLike(double value, NodeId like) {
  return constant(value, typeOf(like));
}

NodeId RowBuilder::columnIndex() {
  Node node;
  node.kind = Kind::ColumnIndex;
  node.space = Space::Column;
  node.type = row::Type::I32;
  return append(std::move(node));
}

NodeId RowBuilder::rowIndex() {
  Node node;
  node.kind = Kind::RowIndex;
  node.space = Space::Row;
  node.type = row::Type::I32;
  return append(std::move(node));
}

NodeId RowBuilder::unary(Kind kind, NodeId a) {
  Node node;
  node.kind = kind;
  node.space = spaceOf(a);
  node.type = typeOf(a);
  node.inputs = {a};
  return append(std::move(node));
}

NodeId RowBuilder::decode(Kind kind, NodeId code) {
  assert(typeOf(code) == row::Type::I8 && "a code");
  Node node;
  node.kind = kind;
  node.space = spaceOf(code);
  node.type = row::Type::F32;
  node.inputs = {code};
  return append(std::move(node));
}

NodeId RowBuilder::encode(Kind kind, NodeId a) {
  assert(typeOf(a) == row::Type::F32 && "a number");
  Node node;
  node.kind = kind;
  node.space = spaceOf(a);
  node.type = row::Type::I8;
  node.inputs = {a};
  return append(std::move(node));
}

NodeId RowBuilder::binary(Kind kind, NodeId a, NodeId b) {
  assert(typeOf(a) == typeOf(b) && "operands of one type");
  bool isComparison =
      kind == Kind::Less || kind == Kind::LessUnsigned || kind == Kind::Equal;
  Node node;
  node.kind = kind;
  node.space = join(spaceOf(a), spaceOf(b));
  node.type = isComparison ? row::Type::Bool : typeOf(a);
  node.inputs = {a, b};
  return append(std::move(node));
}

NodeId RowBuilder::fma(NodeId a, NodeId b, NodeId c) {
  assert(typeOf(a) == typeOf(b) && typeOf(b) == typeOf(c));
  Node node;
  node.kind = Kind::Fma;
  node.space = join(join(spaceOf(a), spaceOf(b)), spaceOf(c));
  node.type = typeOf(a);
  node.inputs = {a, b, c};
  return append(std::move(node));
}

NodeId RowBuilder::select(NodeId condition, NodeId a, NodeId b) {
  assert(typeOf(a) == typeOf(b) && typeOf(condition) == row::Type::Bool);
  Node node;
  node.kind = Kind::Select;
  node.space = join(join(spaceOf(a), spaceOf(b)), spaceOf(condition));
  node.type = typeOf(a);
  node.inputs = {condition, a, b};
  return append(std::move(node));
}

NodeId RowBuilder::cast(NodeId a, row::Type type) {
  if (typeOf(a) == type)
    return a;
  Node node;
  node.kind = Kind::Cast;
  node.space = spaceOf(a);
  node.type = type;
  node.inputs = {a};
  return append(std::move(node));
}

NodeId RowBuilder::round(NodeId a, row::Type stored) {
  const Node &value = program.nodes[a];
  bool isElement =
      value.kind == Kind::Load && value.access != Access::SumOfSlices;
  bool isRounded =
      (isElement || value.kind == Kind::Round) && value.stored == stored;
  if (computeType(stored) == stored || isRounded)
    return a;
  Node node;
  node.kind = Kind::Round;
  node.space = spaceOf(a);
  node.type = computeType(stored);
  node.stored = stored;
  // Round f64 directly to the narrow type, to avoid double rounding.
  node.inputs = {typeOf(a) == row::Type::F64 ? a : cast(a, node.type)};
  return append(std::move(node));
}

NodeId RowBuilder::powInt(NodeId base, NodeId exponent) {
  assert(spaceOf(base) == Space::Scalar && spaceOf(exponent) == Space::Scalar);
  Node node;
  node.kind = Kind::PowInt;
  node.space = Space::Scalar;
  node.type = typeOf(base);
  node.inputs = {base, exponent};
  return append(std::move(node));
}

NodeId RowBuilder::reduce(Kind kind, NodeId a) {
  Node node;
  node.kind = kind;
  node.space = Space::Row;
  node.type = typeOf(a);
  node.inputs = {a};
  return append(std::move(node));
}

NodeId RowBuilder::random(Value rng, int64_t key, int64_t rowsPerSequence,
                          NodeId firstRow) {
  auto position = llvm::find(loadedValues, rng);
  auto immediate = llvm::find(program.immediates, key);
  Node node;
  node.kind = Kind::Random;
  node.space = Space::Full;
  node.type = row::Type::I32;
  node.operand = position - loadedValues.begin();
  node.period = rowsPerSequence;
  if (firstRow >= 0)
    node.inputs = {firstRow};
  node.immediate = immediate - program.immediates.begin();
  if (position == loadedValues.end())
    loadedValues.push_back(rng);
  if (immediate == program.immediates.end())
    program.immediates.push_back(key);
  return append(std::move(node));
}

//===----------------------------------------------------------------------===//
// Completion of the program.
//===----------------------------------------------------------------------===//

void RowBuilder::set(Value value, NodeId node) {
  computed[value] =
      round(node, elementTypeOf(tensorTypeOf(value).getElementType()));
}

void RowBuilder::setColumnPartial(Value value, NodeId node, int64_t chunk) {
  partials[value] = {node, chunk};
}

/// Removes the nodes that no store needs.
static void removeDeadNodes(RowProgram &program) {
  size_t count = program.nodes.size();
  SmallVector<bool> live(count, false);
  for (const Store &store : program.stores)
    live[store.value] = true;
  for (size_t id = count; id-- > 0;)
    if (live[id])
      for (NodeId input : program.nodes[id].inputs)
        live[input] = true;
  SmallVector<NodeId> renumbered(count, -1);
  SmallVector<Node, 32> kept;
  for (size_t id = 0; id < count; ++id) {
    if (!live[id])
      continue;
    renumbered[id] = kept.size();
    kept.push_back(std::move(program.nodes[id]));
    for (NodeId &input : kept.back().inputs)
      input = renumbered[input];
  }
  program.nodes = std::move(kept);
  for (Store &store : program.stores)
    store.value = renumbered[store.value];
}

FailureOr<RowProgram> RowBuilder::finish(ArrayRef<Value> operands,
                                         ArrayRef<Value> results) {
  RowProgram finished = program;
  bool hasPartials = false;
  for (auto [i, result] : llvm::enumerate(results)) {
    Store store;
    store.result = static_cast<int32_t>(i);
    store.stored = elementTypeOf(tensorTypeOf(result).getElementType());
    if (auto partial = partials.find(result); partial != partials.end()) {
      store.kind = StoreKind::ColumnPartial;
      store.value = partial->second.node;
      store.chunk = partial->second.chunk;
      // A work unit is one chunk of rows, so all column sums must have the same
      // number of rows per chunk.
      if (hasPartials && finished.rowsPerUnit != store.chunk)
        return failure();
      hasPartials = true;
      finished.rowsPerUnit = store.chunk;
      finished.stores.push_back(store);
      continue;
    }
    auto found = computed.find(result);
    if (found == computed.end())
      return failure();
    store.value = found->second;
    int64_t elements = tensorTypeOf(result).getNumElements();
    Space space = spaceOf(store.value);
    if (elements == getRows() * getCols() && space != Space::Row)
      store.kind = StoreKind::Full;
    else if (elements == getRows() &&
             (space == Space::Row || space == Space::Scalar))
      store.kind = StoreKind::Row;
    else if (elements == getRows() * getCols())
      store.kind = StoreKind::Full;
    else
      return failure();
    finished.stores.push_back(store);
  }
  removeDeadNodes(finished);
  for (Node &node : finished.nodes) {
    if (node.operand < 0)
      continue;
    auto position = llvm::find(operands, loadedValues[node.operand]);
    if (position == operands.end())
      return failure();
    node.operand = position - operands.begin();
  }
  finished.flat = isFlat(finished);
  return finished;
}
