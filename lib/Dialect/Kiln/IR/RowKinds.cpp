//===- RowKinds.cpp - Names and inputs of row program nodes ---------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "RowKinds.h"

#include "llvm/ADT/STLExtras.h"

#include <cassert>

using namespace llvm;

namespace kiln::row {

/// The properties of all kinds of nodes, indexed by kind.
static constexpr KindInfo kKinds[] = {
    {Kind::Load, "load", 0},
    {Kind::Constant, "constant", 0},
    {Kind::ColumnIndex, "column_index", 0},
    {Kind::RowIndex, "row_index", 0},
    {Kind::Cast, "cast", 1},
    {Kind::Round, "round", 1},
    {Kind::Neg, "neg", 1},
    {Kind::Exp, "exp", 1},
    {Kind::Log, "log", 1},
    {Kind::Sqrt, "sqrt", 1},
    {Kind::Tanh, "tanh", 1},
    {Kind::Sigmoid, "sigmoid", 1},
    {Kind::Erf, "erf", 1},
    {Kind::Abs, "abs", 1},
    {Kind::DecodeSigned, "decode_signed", 1},
    {Kind::DecodeUnsigned, "decode_unsigned", 1},
    {Kind::EncodeSigned, "encode_signed", 1},
    {Kind::EncodeUnsigned, "encode_unsigned", 1},
    {Kind::Add, "add", 2},
    {Kind::Sub, "sub", 2},
    {Kind::Mul, "mul", 2},
    {Kind::Div, "div", 2},
    {Kind::Max, "max", 2},
    {Kind::Min, "min", 2},
    {Kind::Fma, "fma", 3},
    {Kind::Less, "less", 2},
    {Kind::Equal, "equal", 2},
    {Kind::LessUnsigned, "less_unsigned", 2},
    {Kind::Select, "select", 3},
    {Kind::PowInt, "pow_int", 2},
    {Kind::ReduceSum, "reduce_sum", 1},
    {Kind::ReduceMax, "reduce_max", 1},
    {Kind::Random, "random", 0},
};

static constexpr StringLiteral kSpaces[] = {"scalar", "row", "column", "full"};

const KindInfo &infoOf(Kind kind) {
  const KindInfo &info = kKinds[static_cast<size_t>(kind)];
  assert(info.kind == kind && "the table is in the order of the enum");
  return info;
}

std::optional<Kind> kindNamed(StringRef name) {
  for (const KindInfo &info : kKinds)
    if (info.name == name)
      return info.kind;
  return std::nullopt;
}

StringRef nameOf(Space space) { return kSpaces[static_cast<size_t>(space)]; }

std::optional<Space> spaceNamed(StringRef name) {
  const auto *found = llvm::find(kSpaces, name);
  if (found == std::end(kSpaces))
    return std::nullopt;
  return static_cast<Space>(found - std::begin(kSpaces));
}

Space spaceOf(Access access) {
  switch (access) {
  case Access::PerRow:
  case Access::RowElement:
    return Space::Row;
  case Access::PerColumn:
    return Space::Column;
  case Access::Scalar:
    return Space::Scalar;
  case Access::Identity:
  case Access::Modulo:
  case Access::Gathered:
  case Access::SumOfSlices:
    return Space::Full;
  }
  llvm_unreachable("not an access");
}

Space join(Space a, Space b) {
  if (a == b || b == Space::Scalar)
    return a;
  return a == Space::Scalar ? b : Space::Full;
}

bool isFlat(const RowProgram &program) {
  return llvm::all_of(program.nodes,
                      [](const Node &node) {
                        if (node.space == Space::Scalar)
                          return true;
                        if (node.space != Space::Full ||
                            node.kind == Kind::Random)
                          return false;
                        return node.kind != Kind::Load ||
                               node.access == Access::Identity ||
                               node.access == Access::SumOfSlices;
                      }) &&
         llvm::all_of(program.stores, [](const Store &store) {
           return store.kind == StoreKind::Full;
         });
}

//===----------------------------------------------------------------------===//
// Sweeps.
//===----------------------------------------------------------------------===//

static std::string listOf(ArrayRef<int32_t> sweeps) {
  std::string text = sweeps.size() == 1 ? "in sweep " : "in sweeps ";
  for (auto [i, sweep] : enumerate(sweeps))
    text += (i ? ", " : "") + std::to_string(sweep);
  return text;
}

/// Returns the text for nodes that are evaluated after the first `level`
/// sweeps.
static std::string afterLevel(int32_t level) {
  return level == 0 ? "" : "after sweep " + std::to_string(level - 1);
}

SweepTexts::SweepTexts(const RowProgram &program) {
  SweepPlan plan = planSweeps(program);
  sweeps = plan.sweeps;
  SmallVector<SmallVector<int32_t, 3>> computed(program.nodes.size()),
      readBack(program.nodes.size());
  for (int32_t s = 0; s < sweeps; ++s)
    for (NodeId id : plan.nodesOf(program, s))
      (plan.isReadBack(id, s) ? readBack : computed)[id].push_back(s);
  for (auto [id, node] : enumerate(program.nodes)) {
    std::string text = isReduction(node)    ? listOf(plan.level[id] - 1)
                       : isPerElement(node) ? listOf(computed[id])
                                            : afterLevel(plan.level[id]);
    if (!readBack[id].empty())
      text += ", from %res" +
              std::to_string(program.stores[plan.savedBy[id]].result) + " " +
              listOf(readBack[id]);
    nodes.push_back(std::move(text));
  }
  for (auto [store, sweep] : zip_equal(program.stores, plan.storeSweep))
    stores.push_back(store.kind == StoreKind::Row ? afterLevel(sweep)
                                                  : listOf(sweep));
}

} // namespace kiln::row
