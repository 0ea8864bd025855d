//===- RowProgramVerifier.cpp - The invariants of row programs ------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The total cost is linear: each check either concerns one node or store and
// its inputs, or visits every node once. A node is checked before the nodes
// that use it.
//
//===----------------------------------------------------------------------===//

#include "kiln/Dialect/Kiln/IR/RowProgramText.h"

#include "RowKinds.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/Twine.h"
#include "llvm/ADT/bit.h"

#include <cmath>

using namespace llvm;

namespace kiln::row {

namespace {

class Verifier {
public:
  explicit Verifier(const RowProgram &program) : program(program) {}
  std::optional<Fault> run();

private:
  /// Result of a check: an error message, or an empty string.
  using Message = std::string;

  Message checkInputs(size_t id);
  Message checkNode(const Node &node);
  Message checkLoad(const Node &node);
  Message checkConstant(const Node &node);
  Message checkRandom(const Node &node);
  Message checkArithmetic(const Node &node);
  Message checkStore(size_t i);
  Message checkProgram();
  std::optional<NodeId> findDeadNode();

  /// Checks that the fields that this kind of node does not use have their
  /// default values, and that the operand and period are valid if it uses them.
  Message checkUnused(const Node &node);

  const Node &input(const Node &node, size_t i) {
    return program.nodes[node.inputs[i]];
  }
  static std::string typeText(Space space, Type type) {
    return (nameOf(space) + "<" + nameOf(type) + ">").str();
  }
  static Message expectType(const Node &node, Space space, Type type) {
    if (node.space == space && node.type == type)
      return {};
    return "has the type " + typeText(node.space, node.type) + ", expected " +
           typeText(space, type);
  }

  const RowProgram &program;
};

} // namespace

static bool isInteger(Type type) {
  return support::infoOf(type).kind == ElementKind::Signed;
}
static bool isComputed(Type type) {
  return !nameOf(type).empty() && computeType(type) == type;
}

std::string Verifier::checkInputs(size_t id) {
  const Node &node = program.nodes[id];
  unsigned expected = node.kind == Kind::Load ? hasIndex(node.access)
                                              : infoOf(node.kind).inputs;
  if (node.kind == Kind::Random && node.inputs.size() == 1)
    expected = 1;
  if (node.inputs.size() != expected)
    return "has " + std::to_string(node.inputs.size()) + " inputs, expected " +
           std::to_string(expected);
  for (NodeId input : node.inputs)
    if (input < 0 || static_cast<size_t>(input) >= id)
      return "reads %" + std::to_string(input) + ", which does not precede it";
  return {};
}

std::string Verifier::checkUnused(const Node &node) {
  bool isLoad = node.kind == Kind::Load, isRandom = node.kind == Kind::Random;
  bool hasPeriod = isRandom || (isLoad && (node.access == Access::Modulo ||
                                           node.access == Access::SumOfSlices));
  if (!isLoad && node.access != Access::Identity)
    return "has an access, but is not a load";
  if ((isLoad || isRandom) ? node.operand < 0 : node.operand != -1)
    return "has the invalid operand " + std::to_string(node.operand);
  if (hasPeriod ? node.period < 1 : node.period != 0)
    return "has the period " + std::to_string(node.period) +
           (hasPeriod ? ", expected at least 1" : ", expected none");
  if (node.kind != Kind::Constant && llvm::bit_cast<uint64_t>(node.value) != 0)
    return "has a value, but is not a constant";
  if (!isRandom && node.immediate != -1)
    return "has a key, but is not random";
  if (!isLoad && node.kind != Kind::Round && node.stored != Type::F32)
    return "has an element type in memory, but neither loads nor rounds";
  return {};
}

std::string Verifier::checkLoad(const Node &node) {
  if (hasIndex(node.access)) {
    const Node &index = input(node, 0);
    if (!isInteger(index.type) || isPerElement(index))
      return "has the index %" + std::to_string(node.inputs[0]) +
             " of the type " + typeText(index.space, index.type) +
             ", expected an integer per row or a scalar";
  }
  if (nameOf(node.stored).empty())
    return "loads elements of an unsupported type";
  return expectType(node, spaceOf(node.access), computeType(node.stored));
}

std::string Verifier::checkConstant(const Node &node) {
  if (std::string wrong = expectType(node, Space::Scalar, node.type);
      !wrong.empty())
    return wrong;
  double value = node.value;
  bool fits = true;
  if (node.type == Type::F32) {
    fits = std::isnan(value) || double(float(value)) == value;
  } else if (node.type == Type::Bool) {
    fits = llvm::bit_cast<uint64_t>(value) == 0 || value == 1;
  } else if (!isFloat(node.type)) {
    // An integer of n bits may have any signed or unsigned value of n bits.
    // Unsigned values are needed because random bits are compared with an
    // unsigned threshold.
    int bits = static_cast<int>(bitsOf(node.type));
    fits = std::trunc(value) == value && value >= -std::ldexp(1.0, bits - 1) &&
           value < std::ldexp(1.0, std::min(bits, 63)) &&
           !(value == 0 && std::signbit(value));
  }
  return fits ? "" : "is not a value of type " + nameOf(node.type).str();
}

std::string Verifier::checkRandom(const Node &node) {
  if (node.immediate < 0 ||
      static_cast<size_t>(node.immediate) >= program.immediates.size())
    return "has the key %imm" + std::to_string(node.immediate) +
           ", but there are " + std::to_string(program.immediates.size()) +
           " immediates";
  if (!node.inputs.empty()) {
    const Node &first = input(node, 0);
    if (first.space != Space::Scalar || first.type != Type::I32)
      return "has the first row %" + std::to_string(node.inputs[0]) +
             " of the type " + typeText(first.space, first.type) +
             ", expected scalar<i32>";
  }
  return expectType(node, Space::Full, Type::I32);
}

std::string Verifier::checkArithmetic(const Node &node) {
  Space space = Space::Scalar;
  for (NodeId id : node.inputs)
    space = join(space, program.nodes[id].space);
  Type type = input(node, 0).type;
  auto expectInputs = [&](size_t first) -> Message {
    for (size_t i = first; i < node.inputs.size(); ++i)
      if (Type other = input(node, i).type; other != input(node, first).type)
        return ("has inputs of the types " + nameOf(input(node, first).type) +
                " and " + nameOf(other) + ", expected one type")
            .str();
    return {};
  };
  switch (node.kind) {
  case Kind::Cast:
    return expectType(node, space, node.type);
  case Kind::Round:
    if (!isNarrowFloat(node.stored))
      return "rounds to " + nameOf(node.stored).str() +
             ", expected a float that is widened when it is loaded";
    if (type != Type::F64 && type != computeType(node.stored))
      return "rounds an input of the unsupported type " + nameOf(type).str();
    return expectType(node, space, computeType(node.stored));
  case Kind::Exp:
  case Kind::Log:
  case Kind::Sqrt:
  case Kind::Tanh:
  case Kind::Sigmoid:
  case Kind::Erf:
  case Kind::ReduceSum:
  case Kind::ReduceMax:
    if (!isFloat(type))
      return "has an input of type " + nameOf(type).str() +
             ", expected a float";
    return expectType(node, isReduction(node) ? Space::Row : space, type);
  case Kind::DecodeSigned:
  case Kind::DecodeUnsigned:
    if (type != Type::I8)
      return "decodes " + nameOf(type).str() + ", expected i8";
    return expectType(node, space, Type::F32);
  case Kind::EncodeSigned:
  case Kind::EncodeUnsigned:
    if (type != Type::F32)
      return "encodes " + nameOf(type).str() + ", expected f32";
    return expectType(node, space, Type::I8);
  case Kind::Less:
  case Kind::Equal:
  case Kind::LessUnsigned:
    if (std::string wrong = expectInputs(0); !wrong.empty())
      return wrong;
    if (node.kind == Kind::LessUnsigned && !isInteger(type))
      return "compares " + nameOf(type).str() + ", expected integers";
    return expectType(node, space, Type::Bool);
  case Kind::Select:
    if (type != Type::Bool)
      return "has a condition of the type " + nameOf(type).str() +
             ", expected i1";
    if (std::string wrong = expectInputs(1); !wrong.empty())
      return wrong;
    return expectType(node, space, input(node, 1).type);
  case Kind::PowInt:
    if (!isFloat(type) || input(node, 1).type != Type::I64 ||
        space != Space::Scalar)
      return "needs a scalar float and a scalar i64";
    return expectType(node, Space::Scalar, type);
  default:
    if (std::string wrong = expectInputs(0); !wrong.empty())
      return wrong;
    return expectType(node, space, type);
  }
}

std::string Verifier::checkNode(const Node &node) {
  if (!isComputed(node.type))
    return "has the element type " + nameOf(node.type).str() +
           ", which is not a type of computed values";
  switch (node.kind) {
  case Kind::Load:
    return checkLoad(node);
  case Kind::Constant:
    return checkConstant(node);
  case Kind::ColumnIndex:
    return expectType(node, Space::Column, Type::I32);
  case Kind::RowIndex:
    return expectType(node, Space::Row, Type::I32);
  case Kind::Random:
    return checkRandom(node);
  default:
    return checkArithmetic(node);
  }
}

std::string Verifier::checkStore(size_t i) {
  const Store &store = program.stores[i];
  if (store.result != static_cast<int64_t>(i))
    return "writes %res" + std::to_string(store.result) + ", expected %res" +
           std::to_string(i) + ": results are stored once and in order";
  if (store.value < 0 ||
      static_cast<size_t>(store.value) >= program.nodes.size())
    return "reads %" + std::to_string(store.value) + ", which does not exist";
  const Node &value = program.nodes[store.value];
  if (nameOf(store.stored).empty() || computeType(store.stored) != value.type)
    return "writes " + nameOf(value.type).str() + " to elements of the type " +
           nameOf(store.stored).str();
  if (store.kind == StoreKind::Row && isPerElement(value))
    return "writes one value per row, but %" + std::to_string(store.value) +
           " has the type " + typeText(value.space, value.type);
  if (store.kind != StoreKind::ColumnPartial)
    return store.chunk == 0 ? "" : "has a chunk, but is not a column sum";
  if (store.chunk < 1 || store.chunk != program.rowsPerUnit)
    return "sums " + std::to_string(store.chunk) + " rows, expected " +
           (program.rowsPerUnit < 1 ? "at least 1"
                                    : std::to_string(program.rowsPerUnit));
  return {};
}

std::string Verifier::checkProgram() {
  if (!isSaneSpace(program.rows, program.cols))
    return "has the space [" + std::to_string(program.rows) + ", " +
           std::to_string(program.cols) +
           "], expected at least one and at most 2^48 elements";
  return {};
}

std::optional<NodeId> Verifier::findDeadNode() {
  SmallVector<bool> live(program.nodes.size(), false);
  for (const Store &store : program.stores)
    live[store.value] = true;
  for (size_t id = live.size(); id-- > 0;)
    if (live[id])
      for (NodeId input : program.nodes[id].inputs)
        live[input] = true;
  const bool *dead = llvm::find(live, false);
  if (dead == live.end())
    return std::nullopt;
  return static_cast<NodeId>(dead - live.begin());
}

std::optional<Fault> Verifier::run() {
  if (std::string wrong = checkProgram(); !wrong.empty())
    return Fault{std::nullopt, std::nullopt, "the program " + wrong};
  for (size_t id = 0; id < program.nodes.size(); ++id) {
    const Node &node = program.nodes[id];
    std::string wrong = checkInputs(id);
    if (wrong.empty())
      wrong = checkUnused(node);
    if (wrong.empty())
      wrong = checkNode(node);
    if (!wrong.empty())
      return Fault{static_cast<NodeId>(id), std::nullopt,
                   "%" + std::to_string(id) + " " + wrong};
  }
  bool hasPartials = false;
  for (size_t i = 0; i < program.stores.size(); ++i) {
    if (std::string wrong = checkStore(i); !wrong.empty())
      return Fault{std::nullopt, i, "the store " + wrong};
    hasPartials |= program.stores[i].kind == StoreKind::ColumnPartial;
  }
  if (std::optional<NodeId> dead = findDeadNode())
    return Fault{dead, std::nullopt,
                 "%" + std::to_string(*dead) + " is needed by no store"};
  if (!hasPartials && program.rowsPerUnit != 1)
    return Fault{std::nullopt, std::nullopt,
                 "the program has work units of " +
                     std::to_string(program.rowsPerUnit) +
                     " rows, expected 1 without sums of columns"};
  if (program.flat != isFlat(program))
    return Fault{std::nullopt, std::nullopt,
                 program.flat
                     ? "the program is not flat: its elements depend "
                       "on their position or on their row"
                     : "the program is flat, but is not marked as flat"};
  return std::nullopt;
}

std::optional<Fault> findFault(const RowProgram &program) {
  return Verifier(program).run();
}

} // namespace kiln::row
