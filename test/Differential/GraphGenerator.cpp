//===- GraphGenerator.cpp - Random forward graphs ---------------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A graph is built in random steps, each of which appends a few ops to the
// program. The functions in this file build the rest of the program, choose the
// operands of the steps, and build the loss.
//
//===----------------------------------------------------------------------===//

#include "Generator.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringSet.h"

#include <cmath>

using namespace mlir;
using namespace kiln;

void Generator::openProgram() {
  batch = oneOf({1, 2, 2, 3});
  length = oneOf({1, 3, 4, 5, 7, 9});
  vocabulary = oneOf({3, 8, 13, 17, 32, 37});
  module = ModuleOp::create(loc());
  auto facts = builder.getDictionaryAttr(
      {builder.getNamedAttr("type", builder.getStringAttr("mlir")),
       builder.getNamedAttr("name", builder.getStringAttr("random")),
       builder.getNamedAttr("vocab_size", integer(vocabulary)),
       builder.getNamedAttr("batch", integer(batch)),
       builder.getNamedAttr("sequence_length", integer(length)),
       builder.getNamedAttr("has_weights", builder.getBoolAttr(false)),
       builder.getNamedAttr("files", builder.getArrayAttr({}))});
  (*module)->setAttr("kiln.model", facts);
  auto idType = RankedTensorType::get({batch, length}, builder.getI32Type());
  auto scalar = RankedTensorType::get({}, builder.getF64Type());
  auto seeds = RankedTensorType::get({1, 3}, builder.getI64Type());
  builder.setInsertionPointToEnd(module->getBody());
  program = ProgramOp::create(
      builder, loc(), "forward",
      builder.getFunctionType({idType, idType, seeds, scalar}, {scalar}),
      ProgramKind::Forward);
  const StringRef names[] = {"tokens", "targets", "rng", "loss_scale"};
  for (auto [i, name] : llvm::enumerate(names))
    program.setArgAttr(i, "kiln.name", builder.getStringAttr(name));
  program.setResultAttr(0, "kiln.name", builder.getStringAttr("loss"));
  Block &block = *program.addEntryBlock();
  tokens = block.getArgument(0);
  targets = block.getArgument(1);
  rng = block.getArgument(2);
  lossScale = block.getArgument(3);
  ids.push_back(tokens);
  sequences.emplace(program);
  builder.setInsertionPointToEnd(&block);
}

Entry Generator::parameter(ArrayRef<int64_t> shape, double mean,
                           double stddev) {
  OpBuilder outside(program);
  std::string name = "p" + std::to_string(states++);
  Attribute init = stddev == 0
                       ? Attribute(SplatAttr::get(builder.getContext(), mean))
                       : NormalAttr::get(builder.getContext(), mean, stddev);
  StateOp::create(outside, loc(), name, tensor(shape), Role::Parameter, init);
  return {make<ReadOp>(tensor(shape), StringRef(name)),
          std::abs(mean) + 3 * stddev};
}

Entry Generator::constant(RankedTensorType type, double value) {
  return {make<ConstantOp>(type, value), std::abs(value), std::max(value, 0.)};
}

//===----------------------------------------------------------------------===//
// Operands
//===----------------------------------------------------------------------===//

/// Returns a random value, with a preference for recent ones.
Entry Generator::any() {
  int64_t back = std::min(upTo(pool.size()), upTo(pool.size()));
  return pool[pool.size() - 1 - back];
}

std::optional<Entry>
Generator::anyWhere(llvm::function_ref<bool(const Entry &)> suits) {
  std::vector<Entry> found;
  llvm::copy_if(pool, std::back_inserter(found), suits);
  if (found.empty())
    return std::nullopt;
  return found[upTo(found.size())];
}

Entry Generator::sameShape(const Entry &other) {
  RankedTensorType type = other.type();
  if (chance(70))
    return *anyWhere([&](const Entry &e) { return e.type() == type; });
  if (chance(20))
    return constant(type, 0.25 * (1 + upTo(6)));
  if (chance(30) || type.getRank() < 2)
    return parameter(type.getShape(), 0, 0.5);
  // Broadcast a parameter that has only the dimensions [from, rank), or only
  // dimension 0.
  int64_t rank = type.getRank(), from = 1 + upTo(rank - 1);
  SmallVector<int64_t> dims, shape;
  for (int64_t dim = from; dim < rank; ++dim) {
    dims.push_back(dim);
    shape.push_back(type.getDimSize(dim));
  }
  if (chance(30)) {
    dims = {0};
    shape = {type.getDimSize(0)};
  }
  Entry vector = parameter(shape, 0, 0.5);
  return {make<BroadcastOp>(type, vector.value, dims), vector.magnitude};
}

/// Returns a tensor whose elements are well above zero.
Entry Generator::positive(RankedTensorType type) {
  if (auto found = anyWhere(
          [&](const Entry &e) { return e.type() == type && e.low >= 0.05; }))
    if (chance(70))
      return *found;
  Entry x = *anyWhere([&](const Entry &e) { return e.type() == type; });
  Entry one = constant(type, 0.5);
  Value square = make<MulOp>(x.value, x.value);
  return {make<AddOp>(square, one.value), x.magnitude * x.magnitude + 0.5, 0.5};
}

/// Returns a matrix with one row per token.
Entry Generator::rows() {
  auto found = anyWhere([&](const Entry &e) {
    const SequenceFact &fact = sequences->factOf(e.value);
    return e.type().getRank() == 2 &&
           e.type().getDimSize(0) == batch * length &&
           (!splits || (fact.isPerSequence() && fact.dim == 0));
  });
  return *found; // The first value of the pool always qualifies.
}

Entry Generator::project(const Entry &x, int64_t width) {
  int64_t inner = x.type().getDimSize(1), outer = x.type().getDimSize(0);
  bool transposed = chance(50);
  Entry weight = transposed
                     ? parameter({width, inner}, 0, 1 / std::sqrt(inner))
                     : parameter({inner, width}, 0, 1 / std::sqrt(inner));
  auto type = tensor({outer, width});
  Value product = make<MatmulOp>(type, x.value, weight.value, Value(), false,
                                 transposed, DenseI64ArrayAttr(), StringAttr());
  double magnitude = x.magnitude * 2;
  if (chance(40)) {
    Entry bias = parameter({width}, 0, 0.1);
    Value spread = make<BroadcastOp>(type, bias.value, ArrayRef<int64_t>{1});
    product = make<AddOp>(product, spread);
  }
  return {product, magnitude};
}

Entry Generator::columns(const Entry &x, int64_t first, int64_t count) {
  auto type = tensor({x.type().getDimSize(0), count});
  return {make<SliceOp>(type, x.value, ArrayRef<int64_t>{0, first}),
          x.magnitude, x.low};
}

//===----------------------------------------------------------------------===//

//===----------------------------------------------------------------------===//
// Graph construction
//===----------------------------------------------------------------------===//

/// Reduces the magnitude of a value that might become too large.
Entry Generator::tame(Entry entry) {
  if (entry.magnitude <= kMostMagnitude)
    return entry;
  if (chance(50))
    return {make<TanhOp>(entry.value), 1};
  double factor = 1 / entry.magnitude;
  return {make<ScaleOp>(entry.value, real(factor)), 1, entry.low * factor};
}

void Generator::addStep() {
  static const struct {
    int weight;
    Made (Generator::*step)();
  } steps[] = {
      {5, &Generator::unary},     {6, &Generator::activation},
      {9, &Generator::binary},    {3, &Generator::quotient},
      {3, &Generator::root},      {5, &Generator::norm},
      {3, &Generator::softmax},   {6, &Generator::linear},
      {3, &Generator::attention}, {2, &Generator::batchedMatmul},
      {2, &Generator::rope},      {2, &Generator::dropout},
      {5, &Generator::reduce},    {3, &Generator::centre},
      {4, &Generator::broadcast}, {4, &Generator::reshape},
      {4, &Generator::transpose}, {4, &Generator::slice},
      {4, &Generator::concat},    {3, &Generator::pad},
      {1, &Generator::precision}, {2, &Generator::lookup},
  };
  int weights = 0;
  for (auto &entry : steps)
    weights += entry.weight;
  int draw = upTo(weights);
  size_t chosen = 0;
  while (draw >= steps[chosen].weight)
    draw -= steps[chosen++].weight;
  Made made = (this->*steps[chosen].step)();
  if (made)
    made = tame(*made);
  if (made && isUsable(made->value))
    pool.push_back(*made);
}

/// Returns true if the loss may depend on `value`. If the loss must allow
/// micro-batches (`splits`), it must not depend on values that are opaque or
/// mixed (see Sequences.h). Otherwise, it may depend on any value.
bool Generator::isUsable(Value value) const {
  const SequenceFact &fact = sequences->factOf(value);
  return !splits || (!fact.isOpaque() && !fact.isMixed());
}

/// Erases ops and states on which the loss does not depend.
void Generator::eraseUnused() {
  for (Operation &op :
       llvm::make_early_inc_range(llvm::reverse(program.getBlock())))
    if (isOpTriviallyDead(&op))
      op.erase();
  llvm::StringSet<> used;
  program.walk([&](ReadOp read) { used.insert(read.getState()); });
  for (StateOp state : llvm::make_early_inc_range(module->getOps<StateOp>()))
    if (!used.contains(state.getSymName()))
      state.erase();
}

/// Declares several states of one shape and writes some of them. A written
/// value is the initial value of one of these states or a value of the graph.
void Generator::writeStates() {
  RankedTensorType type = any().type();
  SmallVector<std::string> names;
  std::vector<Entry> entries;
  for (int64_t count = 1 + upTo(4); count > 0; --count) {
    OpBuilder outside(program);
    names.push_back("s" + std::to_string(states++));
    StateOp::create(outside, loc(), names.back(), type, Role::Buffer,
                    NormalAttr::get(builder.getContext(), 0.0, 0.3));
    entries.push_back({make<ReadOp>(type, StringRef(names.back())), 1});
  }
  for (const std::string &name : names)
    if (chance(80)) {
      Entry from =
          chance(70)
              ? entries[upTo(entries.size())]
              : *anyWhere([&](const Entry &e) { return e.type() == type; });
      WriteOp::create(builder, loc(), name, from.value);
    }
  if (chance(50))
    pool.push_back(entries[upTo(entries.size())]);
}

/// Returns a scalar f64 summary of a value: its mean or, if a loss for
/// micro-batches requires it, a sum scaled by loss_scale.
Value Generator::total(const Entry &x) {
  Value value = x.value;
  int64_t rank = x.type().getRank();
  bool sums = splits && !sequences->factOf(value).isShared();
  if (rank > 0) {
    auto dims = llvm::to_vector(llvm::seq<int64_t>(0, rank));
    auto kind = sums ? Reduction::Sum : Reduction::Mean;
    value = make<ReduceOp>(tensor({}), kind, value, dims);
  }
  if (sums)
    value = make<ScaleOp>(
        value, real(1 / static_cast<double>(x.type().getNumElements())));
  if (!element.isF64())
    value =
        make<CastOp>(RankedTensorType::get({}, builder.getF64Type()), value);
  return sums ? make<MulOp>(value, lossScale) : value;
}

Value Generator::loss() {
  Entry hidden = rows();
  // Some unused values are added to the hidden rows, the others to the loss.
  std::vector<Entry> unused;
  llvm::copy_if(pool, std::back_inserter(unused), [&](const Entry &e) {
    return llvm::all_of(e.value.getUsers(), llvm::IsaPred<WriteOp>) &&
           e.value != hidden.value;
  });
  std::vector<Entry> apart;
  for (const Entry &entry : unused) {
    int64_t rank = entry.type().getRank();
    if (rank == 0 || splits || chance(60)) {
      apart.push_back(entry);
      continue;
    }
    int64_t count = entry.type().getNumElements();
    Value row = make<ReshapeOp>(tensor({1, count}), entry.value);
    Entry flat{row, entry.magnitude};
    Entry projected = project(flat, hidden.type().getDimSize(1));
    Value vector =
        make<ReshapeOp>(tensor({hidden.type().getDimSize(1)}), projected.value);
    Value spread =
        make<BroadcastOp>(hidden.type(), vector, ArrayRef<int64_t>{1});
    hidden.value = make<AddOp>(hidden.value, spread);
  }
  Value result;
  int64_t kind = upTo(5);
  auto scalar = RankedTensorType::get({}, builder.getF64Type());
  if (kind < 2) {
    Entry logits = project(hidden, vocabulary);
    result = make<CrossEntropyOp>(scalar, logits.value, shuffledTargets(),
                                  lossScale);
  } else if (kind < 4) {
    Entry weight = parameter({vocabulary, hidden.type().getDimSize(1)}, 0, 0.5);
    IntegerAttr rowsAtOnce =
        chance(60) ? integer(1 + upTo(batch * length)) : IntegerAttr();
    result = make<LinearCrossEntropyOp>(scalar, hidden.value, weight.value,
                                        shuffledTargets(), lossScale,
                                        /*rank=*/Value(), rowsAtOnce,
                                        /*classes=*/IntegerAttr());
  } else {
    Value square = make<MulOp>(hidden.value, hidden.value);
    result = total({square, 1});
  }
  for (const Entry &entry : apart) {
    Value term = total(entry);
    result = make<AddOp>(result, term);
  }
  return result;
}

OwningOpRef<ModuleOp> Generator::run() {
  openProgram();
  Entry first = *lookUp(tokens);
  pool.push_back(first);
  if (ops == 0)
    ops = 5 + upTo(56);
  auto count = [&] { return program.getBlock().getOperations().size(); };
  while (static_cast<int64_t>(count()) < ops)
    addStep();
  if (!splits && chance(40))
    writeStates();
  Value result = loss();
  ReturnOp::create(builder, loc(), ValueRange(result));
  if (splits)
    eraseUnused();
  return std::move(module);
}

OwningOpRef<ModuleOp> kiln::generateGraph(MLIRContext &context,
                                          const GraphOptions &options) {
  return Generator(context, options).run();
}
