//===- RowSweeps.cpp - Order of work in a row program -----------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Implements planSweeps() and the functions that depend on the order of the
// planned sweeps (loops over the columns of a row). mayShareSlot() relies on
// two rules that code generators follow. First, a load of one value per row is
// executed before sweep L, where L is the level of the load (SweepPlan::level).
// Second, within a sweep, all loads at a column are executed before all stores
// at this column.
//
//===----------------------------------------------------------------------===//

#include "RowKinds.h"

#include "llvm/ADT/STLExtras.h"

using namespace llvm;

namespace kiln::row {

namespace {

/// Sweep `s` is a loop over the columns of a row. Marks in `needed` the nodes
/// that it evaluates per element in order to compute `root`.
void mark(const RowProgram &program, const SweepPlan &plan, int32_t s,
          NodeId root, MutableArrayRef<bool> needed) {
  SmallVector<NodeId> work = {root};
  while (!work.empty()) {
    NodeId id = work.pop_back_val();
    if (needed[id] || !isPerElement(program.nodes[id]))
      continue;
    needed[id] = true;
    if (!plan.isReadBack(id, s))
      llvm::append_range(work, program.nodes[id].inputs);
  }
}

/// Returns one bool per node: true if sweep `s` evaluates the node per element.
/// Ignores the store `exceptStore`.
SmallVector<bool> neededIn(const RowProgram &program, const SweepPlan &plan,
                           int32_t s, int32_t exceptStore = -1) {
  SmallVector<bool> needed(program.nodes.size(), false);
  for (NodeId reduction : plan.reductionsOf(program, s))
    mark(program, plan, s, program.nodes[reduction].inputs[0], needed);
  for (auto [i, store] : enumerate(program.stores))
    if (store.kind != StoreKind::Row && plan.storeSweep[i] == s &&
        static_cast<int32_t>(i) != exceptStore)
      mark(program, plan, s, store.value, needed);
  return needed;
}

/// Chooses the sweep (the loop over the columns of a row) that executes store
/// `i`, which is a Full store of a value that is computed per element.
void placeStore(const RowProgram &program, SweepPlan &plan, int32_t i) {
  NodeId value = program.stores[i].value;
  int32_t first = plan.storeSweep[i];
  for (int32_t s = first + 1; s < plan.sweeps; ++s)
    if (neededIn(program, plan, s, i)[value]) {
      if (program.nodes[value].kind != Kind::Load)
        plan.savedBy[value] = i;
      return;
    }
  // Keep the store in its current sweep if this sweep evaluates the value even
  // without the store, because the store then requires no additional
  // evaluation.
  if (neededIn(program, plan, first, i)[value])
    return;
  SmallVector<bool> inputs(program.nodes.size(), false);
  mark(program, plan, first, value, inputs);
  auto isCandidate = [&](NodeId id) {
    const Node &node = program.nodes[id];
    return inputs[id] && node.kind == Kind::Load &&
           node.access == Access::Identity &&
           node.stored == program.stores[i].stored;
  };
  for (int32_t s = plan.sweeps - 1; s > first; --s) {
    SmallVector<bool> needed = neededIn(program, plan, s, i);
    for (NodeId id = 0, e = program.nodes.size(); id < e; ++id)
      if (needed[id] && isCandidate(id)) {
        plan.storeSweep[i] = s;
        return;
      }
  }
}

/// Moves Full store `i` to a later sweep, unless its own sweep also evaluates
/// the stored value for a reduction. Chooses the last sweep that
/// - evaluates the value,
/// - evaluates all inputs of the value, none of which is a load, or
/// - loads an operand that has the element type of the store, and from which
///   the value is computed. Such an operand may share the slot of the result,
///   so the store should not precede the last load of the operand.
void delayStore(const RowProgram &program, SweepPlan &plan, int32_t i) {
  const Store &store = program.stores[i];
  int32_t first = plan.storeSweep[i];
  SmallVector<bool> inputs(program.nodes.size(), false), reduced = inputs;
  mark(program, plan, first, store.value, inputs);
  for (NodeId reduction : plan.reductionsOf(program, first))
    mark(program, plan, first, program.nodes[reduction].inputs[0], reduced);
  if (reduced[store.value])
    return;
  const Node &value = program.nodes[store.value];
  for (int32_t s = plan.sweeps - 1; s > first; --s) {
    SmallVector<bool> needed = neededIn(program, plan, s, i);
    bool evaluates =
        needed[store.value] ||
        (!value.inputs.empty() && all_of(value.inputs, [&](NodeId input) {
          return needed[input] && program.nodes[input].kind != Kind::Load;
        }));
    for (NodeId id = 0, e = program.nodes.size(); id < e; ++id) {
      const Node &node = program.nodes[id];
      evaluates |= needed[id] && inputs[id] && node.kind == Kind::Load &&
                   node.access == Access::Identity &&
                   node.stored == store.stored;
    }
    if (evaluates) {
      plan.storeSweep[i] = s;
      return;
    }
  }
}

} // namespace

SmallVector<NodeId> SweepPlan::reductionsOf(const RowProgram &program,
                                            int32_t s) const {
  SmallVector<NodeId> reductions;
  for (auto [id, node] : enumerate(program.nodes))
    if (isReduction(node) && level[id] == s + 1)
      reductions.push_back(static_cast<NodeId>(id));
  return reductions;
}

SmallVector<NodeId> SweepPlan::nodesOf(const RowProgram &program,
                                       int32_t s) const {
  SmallVector<NodeId> nodes;
  for (auto [id, isNeeded] : enumerate(neededIn(program, *this, s)))
    if (isNeeded)
      nodes.push_back(static_cast<NodeId>(id));
  return nodes;
}

SweepPlan planSweeps(const RowProgram &program) {
  SweepPlan plan;
  for (const Node &node : program.nodes) {
    int32_t level = 0;
    for (NodeId input : node.inputs)
      level = std::max(level, plan.level[input]);
    if (isReduction(node)) {
      ++level;
      plan.sweeps = std::max(plan.sweeps, level);
    }
    plan.level.push_back(level);
  }
  plan.savedBy.assign(program.nodes.size(), -1);
  for (const Store &store : program.stores) {
    plan.storeSweep.push_back(plan.level[store.value]);
    if (store.kind != StoreKind::Row)
      plan.sweeps = std::max(plan.sweeps, plan.level[store.value] + 1);
  }
  for (auto [i, store] : enumerate(program.stores))
    if (store.kind == StoreKind::Full &&
        isPerElement(program.nodes[store.value]) &&
        plan.savedBy[store.value] < 0)
      placeStore(program, plan, static_cast<int32_t>(i));
  // placeStore() may have kept a store in its sweep because this sweep
  // evaluated the value for another store, which has been moved since.
  for (int32_t i = program.stores.size(); i-- > 0;)
    if (const Store &store = program.stores[i];
        store.kind == StoreKind::Full &&
        isPerElement(program.nodes[store.value]) &&
        plan.savedBy[store.value] < 0)
      delayStore(program, plan, i);
  return plan;
}

bool isEpilogue(const RowProgram &program, int32_t matmul, bool keepsMatmul) {
  bool isRead = false;
  for (const Node &node : program.nodes) {
    if (isReduction(node))
      return false;
    if (node.kind != Kind::Load)
      continue;
    if (node.access == Access::Gathered || node.access == Access::RowElement ||
        node.access == Access::SumOfSlices)
      return false;
    if (node.operand != matmul)
      continue;
    if (node.access != Access::Identity)
      return false;
    isRead = true;
  }
  bool takesSlot = keepsMatmul;
  for (const Store &store : program.stores) {
    if (store.kind != StoreKind::Full)
      return false;
    takesSlot |= mayShareSlot(program, matmul, store.result);
  }
  return isRead && takesSlot;
}

bool mayShareSlot(const RowProgram &program, int32_t operand, int32_t result) {
  SweepPlan plan = planSweeps(program);
  auto store = find_if(program.stores, [&](const Store &candidate) {
    return candidate.result == result;
  });
  if (store == program.stores.end() || store->kind == StoreKind::ColumnPartial)
    return false;
  int32_t sweep = plan.storeSweep[store - program.stores.begin()];
  // An operand that no node reads cannot share the slot of the result, because
  // the size of the operand is unknown.
  bool isRead = false;
  for (auto [id, node] : enumerate(program.nodes)) {
    if (node.operand != operand)
      continue;
    isRead = true;
    if (node.kind != Kind::Load || node.stored != store->stored)
      return false;
    if (store->kind == StoreKind::Row) {
      // A Row store writes one value per row, after all elements of the row
      // have been read. Only an operand with one value per row may share the
      // slot of the stored result.
      if (node.access != Access::PerRow)
        return false;
      continue;
    }
    if (node.access == Access::RowElement && plan.level[id] <= sweep)
      continue;
    if (node.access != Access::Identity)
      return false;
    for (int32_t s = sweep + 1; s < plan.sweeps; ++s)
      if (is_contained(plan.nodesOf(program, s), static_cast<NodeId>(id)))
        return false;
  }
  return isRead;
}

} // namespace kiln::row
