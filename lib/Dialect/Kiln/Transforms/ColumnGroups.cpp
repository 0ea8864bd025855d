//===- ColumnGroups.cpp - Values whose columns ranks can divide -----------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ColumnGroups.h"

#include "kiln/Dialect/Kiln/Transforms/Levels.h"

#include "llvm/ADT/EquivalenceClasses.h"
#include "llvm/Support/MathExtras.h"

#include <numeric>

using namespace mlir;
using namespace kiln;

/// Returns true if an elementwise op maps zeros to zeros, and has finite
/// derivatives at zero.
static bool keepsZero(Operation *op) {
  return isa<AddOp, SubOp, MulOp, ScaleOp, NegOp, ReluOp, SiluOp, GeluOp,
             SwigluOp, TanhOp, CastOp>(op);
}

/// Returns true if each element of the results depends only on the elements of
/// the operands at the same position.
static bool isElementwise(Operation *op) {
  auto rows = dyn_cast<RowOpInterface>(op);
  if (!rows || op->getNumOperands() == 0 || !rows.getRowSpace().flexible)
    return false;
  auto shape = tensorTypeOf(op->getResult(0)).getShape();
  auto hasShape = [&](Type type) {
    return cast<RankedTensorType>(type).getShape() == shape;
  };
  return !shape.empty() && llvm::all_of(op->getOperandTypes(), hasShape) &&
         llvm::all_of(op->getResultTypes(), hasShape);
}

ColumnGroups::ColumnGroups(ProgramOp program, SymbolTable &symbols,
                           int64_t ranks)
    : program(program), symbols(symbols), ranks(ranks),
      written(findWritten(program)) {
  for (auto [i, op] : llvm::enumerate(program.getBlock())) {
    positions[&op] = int64_t(i);
    if (auto read = dyn_cast<ReadOp>(op))
      ++reads[read.getStateAttr().getAttr()];
  }
  for (Operation &op : program.getBlock())
    visit(&op);
  divide();
}

int32_t ColumnGroups::find(int32_t index) const {
  while (parents[index] != index)
    index = parents[index];
  return index;
}

int32_t ColumnGroups::indexOf(Value value) {
  auto [found, isNew] = indexes.try_emplace(value, int32_t(parents.size()));
  if (!isNew)
    return found->second;
  int32_t index = found->second;
  parents.push_back(index);
  ColumnGroup &group = groups.emplace_back();
  group.values.push_back(value);
  Operation *op = value.getDefiningOp();
  bool isVector = tensorTypeOf(value).getRank() == 1;
  group.isPinned =
      !op || tensorTypeOf(value).getRank() == 0 ||
      (isa<ReadOp>(op) && !(isVector && value.hasOneUse() && isWeight(value)));
  group.keepsZero = !isa_and_nonnull<ConstantOp>(op);
  return index;
}

/// Returns true if `value` is the value of a parameter that the program does
/// not write and reads only once, for a single user.
bool ColumnGroups::isWeight(Value value) const {
  auto read = value.getDefiningOp<ReadOp>();
  if (!read || !value.hasOneUse())
    return false;
  auto state = symbols.lookup<StateOp>(read.getState());
  return state && state.getRole() == Role::Parameter && !state.getShard() &&
         !written.contains(read.getStateAttr().getAttr()) &&
         reads.lookup(read.getStateAttr().getAttr()) == 1;
}

void ColumnGroups::merge(Value a, Value b) {
  int32_t first = find(indexOf(a)), second = find(indexOf(b));
  if (first == second)
    return;
  if (second < first)
    std::swap(first, second);
  parents[second] = first;
  ColumnGroup &to = groups[first], &from = groups[second];
  to.isPinned |= from.isPinned;
  to.keepsZero &= from.keepsZero;
  to.isPinned |= to.extent && from.extent && to.extent != from.extent;
  to.extent = std::max(to.extent, from.extent);
  to.unit = std::lcm(to.unit, from.unit);
  llvm::append_range(to.sources, from.sources);
  llvm::append_range(to.sinks, from.sinks);
  llvm::append_range(to.values, from.values);
  if (to.position < 0 || (from.position >= 0 && from.position < to.position))
    to.position = from.position;
  from = {};
}

void ColumnGroups::pin(Value value) { groupOf(value).isPinned = true; }

void ColumnGroups::setExtent(Value value, int64_t extent, int64_t unit) {
  ColumnGroup &group = groupOf(value);
  group.isPinned |= group.extent && group.extent != extent;
  group.extent = extent;
  group.unit = std::lcm(group.unit, unit);
}

void ColumnGroups::visitMatmul(MatmulOp matmul) {
  Value a = matmul.getA(), b = matmul.getB(), y = matmul.getY();
  bool isLinear =
      !matmul.getTransA() && tensorTypeOf(b).getRank() == 2 && isWeight(b);
  if (!isLinear) {
    for (Value value : {a, b, y})
      pin(value);
  } else {
    ColumnGroup &to = groupOf(y);
    to.sources.push_back(matmul);
    int64_t position = positions.lookup(matmul);
    to.position = to.position < 0 ? position : std::min(to.position, position);
    groupOf(a).sinks.push_back(matmul);
  }
  if (Value sum = matmul.getAccumulate())
    merge(sum, y);
}

void ColumnGroups::visitBroadcast(BroadcastOp broadcast) {
  Value x = broadcast.getX(), y = broadcast.getY();
  auto from = tensorTypeOf(x), to = tensorTypeOf(y);
  ArrayRef<int64_t> dims = broadcast.getDims();
  bool hasColumns = !dims.empty() && dims.back() == to.getRank() - 1;
  if (hasColumns && from.getRank() == 1 &&
      from.getDimSize(0) == to.getShape().back())
    return merge(x, y);
  pin(x);
  if (hasColumns)
    pin(y);
  groupOf(y).keepsZero = false;
}

void ColumnGroups::visitSlice(SliceOp slice) {
  Value x = slice.getX(), y = slice.getY();
  auto from = tensorTypeOf(x), to = tensorTypeOf(y);
  merge(x, y);
  if (from.getRank() != 2 || from.getDimSize(0) != to.getDimSize(0) ||
      slice.getOffsets()[1] % to.getDimSize(1) != 0)
    return pin(x);
  setExtent(y, to.getDimSize(1), 1);
}

void ColumnGroups::visitAttention(AttentionOp attention) {
  Value q = attention.getQ(), k = attention.getK(), v = attention.getV();
  int64_t heads = attention.getHeads(), keyHeads = attention.getKvHeads();
  int64_t size = attention.getHeadDim();
  if (keyHeads < ranks)
    fewHeads.push_back(attention);
  merge(q, attention.getO());
  merge(k, v);
  setExtent(q, heads * size, heads / keyHeads * size);
  setExtent(k, keyHeads * size, size);
  if (heads == keyHeads)
    merge(q, k);
  else
    headLinks.push_back({q, k});
  // Ops other than the gradient of attention read `lse` of all heads.
  if (!attention.getLse().use_empty())
    pin(q);
  if (!attention.getRng())
    return;
  if (masked)
    maskLinks.push_back({q, masked.getQ()});
  masked = attention;
}

void ColumnGroups::visit(Operation *op) {
  if (isa<ReadOp, ConstantOp>(op))
    return;
  if (auto matmul = dyn_cast<MatmulOp>(op))
    return visitMatmul(matmul);
  if (auto broadcast = dyn_cast<BroadcastOp>(op))
    return visitBroadcast(broadcast);
  if (auto slice = dyn_cast<SliceOp>(op))
    return visitSlice(slice);
  if (auto attention = dyn_cast<AttentionOp>(op))
    return visitAttention(attention);
  if (auto rope = dyn_cast<RopeOp>(op)) {
    merge(rope.getX(), rope.getY());
    ColumnGroup &group = groupOf(rope.getX());
    group.unit = std::lcm(group.unit, tensorTypeOf(rope.getX()).getDimSize(1) /
                                          rope.getHeads());
    pin(rope.getCos());
    pin(rope.getSin());
    return;
  }
  if (isElementwise(op)) {
    Value first = op->getResult(0);
    for (Value value : op->getOperands())
      merge(first, value);
    for (Value value : op->getResults())
      merge(first, value);
    groupOf(first).keepsZero &= keepsZero(op);
    return;
  }
  for (Value value : op->getOperands())
    pin(value);
  for (Value value : op->getResults())
    pin(value);
}

static int64_t columnsOf(Value value) {
  ArrayRef<int64_t> shape = tensorTypeOf(value).getShape();
  return shape.empty() ? 1 : shape.back();
}

/// Returns the number of columns of a block: ColumnGroup::extent or, if no
/// slice or attention has set it, the number of all columns.
static int64_t extentOf(const ColumnGroup &group) {
  return group.extent ? group.extent : columnsOf(group.values.front());
}

/// Chooses how many columns of each block a rank has. Returns false if the
/// blocks cannot be divided.
bool ColumnGroups::choosePart(ColumnGroup &group) {
  group.extent = extentOf(group);
  for (Value value : group.values)
    if (columnsOf(value) % group.extent != 0)
      return false;
  int64_t units = group.extent / group.unit;
  if (group.extent % group.unit != 0 || units < ranks)
    return false;
  group.part = llvm::divideCeil(units, ranks) * group.unit;
  return group.part * ranks == group.extent || group.keepsZero;
}

/// `set` contains the indexes of groups of values. Returns true if the columns
/// of all these groups can be divided over the ranks at the same time.
bool ColumnGroups::canDivide(ArrayRef<int32_t> set) {
  bool hasSource = false, hasSink = false;
  // If the left operand and the result of a matmul were both divided, before or
  // by this call, its weight would have to be divided in both dimensions.
  auto isFree = [&](Value value) {
    int32_t root = find(indexOf(value));
    return !groups[root].isDivided && !llvm::is_contained(set, root);
  };
  for (int32_t root : set) {
    ColumnGroup &group = groups[root];
    hasSource |= !group.sources.empty();
    hasSink |= !group.sinks.empty();
    if (group.isPinned || !choosePart(group) ||
        !llvm::all_of(group.sources,
                      [&](MatmulOp op) { return isFree(op.getA()); }) ||
        !llvm::all_of(group.sinks,
                      [&](MatmulOp op) { return isFree(op.getY()); }))
      return false;
  }
  auto headsOf = [&](Value value) {
    const ColumnGroup &group = groupOf(value);
    return group.extent / group.unit;
  };
  bool haveSameHeads = llvm::all_of(headLinks, [&](auto &link) {
    return !llvm::is_contained(set, find(indexOf(link.first))) ||
           headsOf(link.first) == headsOf(link.second);
  });
  return hasSource && hasSink && haveSameHeads;
}

/// Divides each set of linked groups that canDivide() accepts; linked groups
/// must be divided together. Visits sets with wider blocks first, and sets with
/// equally wide blocks in the order of the first matmuls that define values of
/// the sets.
void ColumnGroups::divide() {
  llvm::EquivalenceClasses<int32_t> linked;
  for (size_t i = 0; i < groups.size(); ++i)
    if (find(int32_t(i)) == int32_t(i))
      linked.insert(int32_t(i));
  for (const auto &links : {headLinks, maskLinks})
    for (auto [a, b] : links)
      linked.unionSets(find(indexOf(a)), find(indexOf(b)));
  struct Set {
    SmallVector<int32_t> roots;
    int64_t columns = 0, position = INT64_MAX;
  };
  std::vector<Set> sets;
  for (const auto *leader : linked) {
    if (!leader->isLeader())
      continue;
    Set &set = sets.emplace_back();
    for (int32_t root : linked.members(*leader)) {
      const ColumnGroup &group = groups[root];
      set.roots.push_back(root);
      set.columns = std::max(set.columns, extentOf(group));
      if (group.position >= 0)
        set.position = std::min(set.position, group.position);
    }
  }
  llvm::stable_sort(sets, [](const Set &a, const Set &b) {
    return a.columns != b.columns ? a.columns > b.columns
                                  : a.position < b.position;
  });
  for (const Set &set : sets)
    if (canDivide(set.roots))
      for (int32_t root : set.roots)
        groups[root].isDivided = true;
}

AttentionOp ColumnGroups::tooFewHeads() {
  for (AttentionOp attention : fewHeads) {
    const ColumnGroup &group = groupOf(attention.getQ());
    if (!group.isPinned && !group.sources.empty())
      return attention;
  }
  return {};
}

const ColumnGroup *ColumnGroups::divided(Value value) const {
  auto found = indexes.find(value);
  if (found == indexes.end())
    return nullptr;
  const ColumnGroup &group = groups[find(found->second)];
  return group.isDivided ? &group : nullptr;
}

SmallVector<Value> ColumnGroups::dividedValues() const {
  SmallVector<Value> values;
  for (const ColumnGroup &group : groups)
    if (group.isDivided)
      llvm::append_range(values, group.values);
  return values;
}
