//===- GraphGenerator.cpp - Random forward graphs -------------------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A pool of values grows op by op: each step draws a kind of op and operands
// that suit it. What nobody used in the end flows into the loss, so that every
// parameter has a gradient.
//
//===----------------------------------------------------------------------===//

#include "GraphGenerator.h"

#include "llvm/ADT/STLExtras.h"

#include <cmath>
#include <random>

using namespace mlir;
using namespace kiln;

namespace {

/// A value with bounds of its elements.
struct Entry {
  Value value;
  double magnitude = 1; ///< |x| is about this at most.
  double low = 0;       ///< x is at least this, if positive.
  RankedTensorType type() const { return tensorTypeOf(value); }
};

class Generator {
public:
  Generator(MLIRContext &context, const GraphOptions &options)
      : builder(&context), random(options.seed * 2 + options.f64),
        element(options.f64 ? Type(builder.getF64Type())
                            : Type(builder.getF32Type())),
        ops(options.ops) {}
  OwningOpRef<ModuleOp> run();

private:
  using Made = std::optional<Entry>;

  // Chance. No standard distribution: their values differ between libraries.
  int64_t upTo(int64_t count) { return random() % count; }
  bool chance(int percent) { return upTo(100) < percent; }
  int64_t oneOf(ArrayRef<int64_t> list) { return list[upTo(list.size())]; }

  // Pieces of the module.
  void openProgram();
  RankedTensorType tensor(ArrayRef<int64_t> shape) {
    return RankedTensorType::get(shape, element);
  }
  Entry parameter(ArrayRef<int64_t> shape, double mean, double stddev);
  Entry constant(RankedTensorType type, double value);
  FloatAttr real(double value) { return builder.getF64FloatAttr(value); }
  IntegerAttr integer(int64_t value) {
    return builder.getI64IntegerAttr(value);
  }

  // Operands.
  Entry any();
  std::optional<Entry> anyWhere(llvm::function_ref<bool(const Entry &)> suits);
  Entry sameShape(const Entry &other);
  Entry positive(RankedTensorType type);
  Entry rows(); ///< [batch * length, features]
  Entry columns(const Entry &x, int64_t first, int64_t count);

  // One step each.
  Made unary();
  Made activation();
  Made binary();
  Made quotient();
  Made root();
  Made norm();
  Made softmax();
  Made linear();
  Made batchedProduct();
  Made attention();
  Made rope();
  Made dropout();
  Made reduce();
  Made centre();
  Made broadcast();
  Made reshape();
  Made transpose();
  Made slice();
  Made concat();
  Made pad();
  Made precision();
  Made lookup();

  Entry tame(Entry entry);
  void addStep();
  Entry project(const Entry &x, int64_t width);
  Entry turn(const Entry &x, int64_t heads);
  Value total(const Entry &x);
  Value loss();

  template <typename Op, typename... Args> Value make(Args &&...args) {
    return Op::create(builder, loc(), std::forward<Args>(args)...)
        ->getResult(0);
  }
  Location loc() { return builder.getUnknownLoc(); }

  OpBuilder builder;
  std::mt19937_64 random;
  Type element;
  int64_t ops;
  OwningOpRef<ModuleOp> module;
  ProgramOp program;
  int64_t batch = 1, length = 1, vocabulary = 2;
  Value tokens, targets, rng, lossScale;
  std::vector<Entry> pool;
  int64_t states = 0, key = 0;
};

} // namespace

static constexpr int64_t kMostElements = 2048;
static constexpr double kMostMagnitude = 6;

/// 0, 1, ..., rank - 1.
static SmallVector<int64_t> upToRank(int64_t rank) {
  return llvm::to_vector(llvm::seq<int64_t>(0, rank));
}

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
  auto ids = RankedTensorType::get({batch, length}, builder.getI32Type());
  auto scalar = RankedTensorType::get({}, builder.getF64Type());
  auto seeds = RankedTensorType::get({1, 3}, builder.getI64Type());
  builder.setInsertionPointToEnd(module->getBody());
  program = ProgramOp::create(
      builder, loc(), "forward",
      builder.getFunctionType({ids, ids, seeds, scalar}, {scalar}),
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
  builder.setInsertionPointToEnd(&block);
}

Entry Generator::parameter(ArrayRef<int64_t> shape, double mean,
                           double stddev) {
  OpBuilder outside(program);
  std::string name = "p" + std::to_string(states++);
  Attribute init = stddev == 0
                       ? Attribute(SplatAttr::get(builder.getContext(), mean))
                       : NormalAttr::get(builder.getContext(), mean, stddev);
  StateOp::create(outside, loc(), name, tensor(shape), Role::Parameter, init,
                  FlatSymbolRefAttr(), StringAttr(), StringAttr(), ArrayAttr());
  return {make<ReadOp>(tensor(shape), StringRef(name)),
          std::abs(mean) + 3 * stddev};
}

Entry Generator::constant(RankedTensorType type, double value) {
  return {make<ConstantOp>(type, value), std::abs(value), std::max(value, 0.)};
}

//===----------------------------------------------------------------------===//
// Operands
//===----------------------------------------------------------------------===//

/// Late values more often than early ones.
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
  // One value per column, per row, or per element of one row.
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

/// A tensor whose elements are well above zero.
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

/// Makes something with one row per token.
Entry Generator::rows() {
  auto found = anyWhere([&](const Entry &e) {
    return e.type().getRank() == 2 && e.type().getDimSize(0) == batch * length;
  });
  return *found; // The first value of the pool is one.
}

Entry Generator::project(const Entry &x, int64_t width) {
  int64_t inner = x.type().getDimSize(1), outer = x.type().getDimSize(0);
  bool transposed = chance(50);
  Entry weight = transposed
                     ? parameter({width, inner}, 0, 1 / std::sqrt(inner))
                     : parameter({inner, width}, 0, 1 / std::sqrt(inner));
  auto type = tensor({outer, width});
  Value product = make<MatmulOp>(type, x.value, weight.value, Value(), false,
                                 transposed, DenseI64ArrayAttr());
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
// Steps
//===----------------------------------------------------------------------===//

std::optional<Entry> Generator::unary() {
  Entry x = any();
  switch (upTo(5)) {
  case 0:
    return Entry{make<NegOp>(x.value), x.magnitude};
  case 1:
    return Entry{make<TanhOp>(x.value), std::min(x.magnitude, 1.)};
  case 2:
    return Entry{make<SigmoidOp>(x.value), 1, 1 / (1 + std::exp(x.magnitude))};
  case 3: {
    double factor = oneOf({-3, 1, 2, 5}) * 0.25;
    return Entry{make<ScaleOp>(x.value, real(factor)),
                 x.magnitude * std::abs(factor),
                 factor > 0 ? x.low * factor : 0};
  }
  default:
    if (x.magnitude > 2)
      return std::nullopt;
    return Entry{make<ExpOp>(x.value), std::exp(x.magnitude),
                 std::exp(-x.magnitude)};
  }
}

std::optional<Entry> Generator::activation() {
  Entry x = any();
  switch (upTo(5)) {
  case 0:
    return Entry{make<ReluOp>(x.value), x.magnitude};
  case 1:
    return Entry{make<SiluOp>(x.value), x.magnitude};
  case 2:
    return Entry{make<GeluOp>(x.value, true), x.magnitude};
  case 3:
    return Entry{make<GeluOp>(x.value, false), x.magnitude};
  default: {
    Entry gate = sameShape(x);
    return Entry{make<SwigluOp>(x.value, gate.value),
                 x.magnitude * gate.magnitude};
  }
  }
}

std::optional<Entry> Generator::binary() {
  Entry a = any(), b = sameShape(a);
  switch (upTo(3)) {
  case 0:
    return Entry{make<AddOp>(a.value, b.value), a.magnitude + b.magnitude,
                 a.low > 0 && b.low > 0 ? a.low + b.low : 0};
  case 1:
    return Entry{make<SubOp>(a.value, b.value), a.magnitude + b.magnitude};
  default:
    return Entry{make<MulOp>(a.value, b.value), a.magnitude * b.magnitude,
                 a.low > 0 && b.low > 0 ? a.low * b.low : 0};
  }
}

std::optional<Entry> Generator::quotient() {
  Entry a = any(), b = positive(a.type());
  return Entry{make<DivOp>(a.value, b.value), a.magnitude / b.low,
               a.low / b.magnitude};
}

std::optional<Entry> Generator::root() {
  Entry x = positive(any().type());
  switch (upTo(3)) {
  case 0:
    return Entry{make<SqrtOp>(x.value), std::sqrt(x.magnitude),
                 std::sqrt(x.low)};
  case 1:
    return Entry{make<RsqrtOp>(x.value), 1 / std::sqrt(x.low),
                 1 / std::sqrt(x.magnitude)};
  default:
    return Entry{make<LogOp>(x.value), std::max(std::abs(std::log(x.low)),
                                                std::log(x.magnitude + 1))};
  }
}

std::optional<Entry> Generator::norm() {
  Entry x = any();
  if (x.type().getRank() < 1)
    return std::nullopt;
  int64_t width = x.type().getShape().back();
  Entry gamma = parameter({width}, 1, 0.2);
  if (width > 1 && chance(50)) {
    Entry beta = parameter({width}, 0, 0.2);
    return Entry{make<LayerNormOp>(x.value, gamma.value, beta.value, 1e-3), 3};
  }
  return Entry{make<RmsNormOp>(x.value, gamma.value, 1e-3), 3};
}

std::optional<Entry> Generator::softmax() {
  Entry x = any();
  if (x.type().getRank() < 1)
    return std::nullopt;
  return Entry{make<SoftmaxOp>(x.type(), x.value), 1};
}

std::optional<Entry> Generator::linear() {
  auto x = anyWhere([](const Entry &e) { return e.type().getRank() == 2; });
  int64_t width = oneOf({1, 2, 3, 5, 8, 12, 16, 17, 24});
  if (chance(80))
    return project(*x, width);
  int64_t outer = x->type().getDimSize(0), inner = x->type().getDimSize(1);
  Entry weight = parameter({outer, width}, 0, 1 / std::sqrt(outer));
  return Entry{make<MatmulOp>(tensor({inner, width}), x->value, weight.value,
                              Value(), true, false, DenseI64ArrayAttr()),
               x->magnitude * 2};
}

/// Products of a stack of matrices with itself, in every transposition.
std::optional<Entry> Generator::batchedProduct() {
  auto x = anyWhere([](const Entry &e) { return e.type().getRank() >= 3; });
  if (!x)
    return std::nullopt;
  SmallVector<int64_t> shape(x->type().getShape());
  size_t rank = shape.size();
  int64_t m = shape[rank - 2], k = shape[rank - 1];
  Value a = x->value;
  bool onRows = chance(50);
  int64_t size = onRows ? m : k, inner = onRows ? k : m;
  shape[rank - 2] = shape[rank - 1] = size;
  Value product = make<MatmulOp>(tensor(shape), a, a, Value(), !onRows, onRows,
                                 DenseI64ArrayAttr());
  if (chance(50)) {
    // [size, size] times the stack, or its transpose.
    SmallVector<int64_t> whole(x->type().getShape());
    if (!onRows)
      std::swap(whole[rank - 2], whole[rank - 1]);
    product = make<MatmulOp>(tensor(whole), product, a, Value(), chance(50),
                             !onRows, DenseI64ArrayAttr());
    double magnitude =
        x->magnitude * x->magnitude * inner * x->magnitude * size;
    return Entry{make<ScaleOp>(product, real(1. / (inner * size))),
                 magnitude / (inner * size)};
  }
  return Entry{make<ScaleOp>(product, real(1. / inner)),
               x->magnitude * x->magnitude};
}

/// Rotates heads of even size.
Entry Generator::turn(const Entry &x, int64_t heads) {
  int64_t half = x.type().getDimSize(1) / heads / 2;
  std::string stem = "rope" + std::to_string(half);
  Value tables[2];
  SmallVector<double> frequencies;
  for (int64_t i = 0; i < half; ++i)
    frequencies.push_back(std::pow(100.0, -double(i) / half));
  for (int side = 0; side < 2; ++side) {
    std::string name = stem + (side ? "_sin" : "_cos");
    auto type = tensor({length, half});
    if (!module->lookupSymbol(name)) {
      OpBuilder outside(program);
      StateOp::create(
          outside, loc(), name, type, Role::Constant,
          RopeTableAttr::get(builder.getContext(), side == 1, 1.0, frequencies),
          FlatSymbolRefAttr(), StringAttr(), StringAttr(), ArrayAttr());
    }
    tables[side] = make<ReadOp>(type, StringRef(name));
  }
  return {make<RopeOp>(x.type(), x.value, tables[0], tables[1], integer(heads),
                       integer(batch), UnitAttr()),
          x.magnitude * 1.5};
}

std::optional<Entry> Generator::rope() {
  int64_t heads = oneOf({1, 2, 3}), width = heads * oneOf({2, 4, 6});
  return turn(project(rows(), width), heads);
}

std::optional<Entry> Generator::attention() {
  int64_t kvHeads = oneOf({1, 1, 2}), heads = kvHeads * oneOf({1, 2, 3});
  int64_t width = oneOf({1, 2, 3, 4, 7, 8});
  Entry x = rows(), q, k, v;
  int64_t qWidth = heads * width, kvWidth = kvHeads * width;
  if (chance(50)) {
    Entry fused = project(x, qWidth + 2 * kvWidth);
    q = columns(fused, 0, qWidth);
    k = columns(fused, qWidth, kvWidth);
    v = columns(fused, qWidth + kvWidth, kvWidth);
  } else {
    q = project(x, qWidth);
    k = project(rows(), kvWidth);
    v = project(rows(), kvWidth);
  }
  if (width % 2 == 0 && chance(50)) {
    q = turn(q, heads);
    k = turn(k, kvHeads);
  }
  double p = chance(30) ? 0.25 : 0;
  auto lse = tensor({batch * heads, length});
  auto op = AttentionOp::create(
      builder, loc(), q.type(), lse, q.value, k.value, v.value,
      p > 0 ? rng : Value(), integer(batch), integer(heads), integer(kvHeads),
      real(1 / std::sqrt(width)),
      chance(60) ? builder.getUnitAttr() : UnitAttr(), real(p),
      integer(p > 0 ? ++key : 0), IntegerAttr());
  return Entry{op.getO(), v.magnitude * (p > 0 ? 1.4 : 1)};
}

std::optional<Entry> Generator::dropout() {
  auto x = anyWhere([&](const Entry &e) {
    return e.type().getRank() >= 2 && getRowCount(e.type()) == batch * length;
  });
  double p = 0.125 * oneOf({1, 2, 4});
  return Entry{make<DropoutOp>(x->type(), x->value, rng, real(p),
                               integer(++key), integer(batch)),
               x->magnitude / (1 - p)};
}

std::optional<Entry> Generator::reduce() {
  Entry x = any();
  int64_t rank = x.type().getRank();
  if (rank < 2)
    return std::nullopt;
  SmallVector<int64_t> dims, shape;
  for (int64_t dim = 0; dim < rank; ++dim)
    if (chance(50) && dims.size() + 1 < static_cast<size_t>(rank))
      dims.push_back(dim);
    else
      shape.push_back(x.type().getDimSize(dim));
  if (dims.empty())
    return std::nullopt;
  auto kind = static_cast<Reduction>(upTo(3));
  double magnitude = x.magnitude;
  Value y = make<ReduceOp>(tensor(shape), kind, x.value, dims);
  if (kind == Reduction::Sum)
    magnitude *= x.type().getNumElements() / tensorTypeOf(y).getNumElements();
  return Entry{y, magnitude, kind == Reduction::Sum ? 0 : x.low};
}

/// x minus its mean or maximum along the last dimension.
std::optional<Entry> Generator::centre() {
  Entry x = any();
  int64_t rank = x.type().getRank();
  if (rank < 2)
    return std::nullopt;
  ArrayRef<int64_t> shape = x.type().getShape().drop_back();
  auto kind = chance(50) ? Reduction::Mean : Reduction::Max;
  Value mean =
      make<ReduceOp>(tensor(shape), kind, x.value, ArrayRef<int64_t>{rank - 1});
  SmallVector<int64_t> dims = upToRank(rank - 1);
  if (chance(40)) {
    // By way of a dimension of size 1.
    SmallVector<int64_t> kept(shape);
    kept.push_back(1);
    mean = make<ReshapeOp>(tensor(kept), mean);
    dims.push_back(rank - 1);
  }
  Value spread = make<BroadcastOp>(x.type(), mean, dims);
  return Entry{make<SubOp>(x.value, spread), 2 * x.magnitude};
}

/// Repeats a value along a new dimension.
std::optional<Entry> Generator::broadcast() {
  Entry x = any();
  int64_t rank = x.type().getRank(), size = oneOf({1, 2, 3, 5});
  if (rank >= 4 || x.type().getNumElements() * size > kMostElements)
    return std::nullopt;
  int64_t at = upTo(rank + 1);
  SmallVector<int64_t> shape(x.type().getShape()), dims;
  shape.insert(shape.begin() + at, size);
  for (int64_t dim = 0; dim <= rank; ++dim)
    if (dim != at)
      dims.push_back(dim);
  return Entry{make<BroadcastOp>(tensor(shape), x.value, dims), x.magnitude,
               x.low};
}

std::optional<Entry> Generator::reshape() {
  Entry x = any();
  int64_t left = x.type().getNumElements();
  SmallVector<int64_t> shape;
  for (int64_t parts = upTo(4); parts > 0 && left > 1; --parts) {
    SmallVector<int64_t> divisors;
    for (int64_t d = 1; d <= left; ++d)
      if (left % d == 0)
        divisors.push_back(d);
    shape.push_back(oneOf(divisors));
    left /= shape.back();
  }
  shape.push_back(left);
  if (ArrayRef<int64_t>(shape) == x.type().getShape())
    return std::nullopt;
  return Entry{make<ReshapeOp>(tensor(shape), x.value), x.magnitude, x.low};
}

std::optional<Entry> Generator::transpose() {
  Entry x = any();
  int64_t rank = x.type().getRank();
  if (rank < 2)
    return std::nullopt;
  SmallVector<int64_t> permutation = upToRank(rank), shape;
  for (int64_t i = rank - 1; i > 0; --i)
    std::swap(permutation[i], permutation[upTo(i + 1)]);
  for (int64_t dim : permutation)
    shape.push_back(x.type().getDimSize(dim));
  return Entry{make<TransposeOp>(tensor(shape), x.value, permutation),
               x.magnitude, x.low};
}

std::optional<Entry> Generator::slice() {
  Entry x = any();
  if (x.type().getRank() == 0)
    return std::nullopt;
  SmallVector<int64_t> offsets, shape;
  for (int64_t size : x.type().getShape()) {
    bool whole = chance(50);
    int64_t count = whole ? size : 1 + upTo(size);
    shape.push_back(count);
    offsets.push_back(upTo(size - count + 1));
  }
  if (ArrayRef<int64_t>(shape) == x.type().getShape())
    return std::nullopt;
  return Entry{make<SliceOp>(tensor(shape), x.value, offsets), x.magnitude,
               x.low};
}

std::optional<Entry> Generator::concat() {
  Entry x = any();
  int64_t rank = x.type().getRank();
  if (rank == 0)
    return std::nullopt;
  int64_t dim = upTo(rank);
  auto fits = [&](const Entry &e) {
    if (e.type().getRank() != rank)
      return false;
    for (int64_t i = 0; i < rank; ++i)
      if (i != dim && e.type().getDimSize(i) != x.type().getDimSize(i))
        return false;
    return true;
  };
  SmallVector<Value> inputs = {x.value};
  SmallVector<int64_t> shape(x.type().getShape());
  double magnitude = x.magnitude;
  for (int64_t more = 1 + upTo(2); more > 0; --more) {
    Entry next = *anyWhere(fits);
    inputs.push_back(next.value);
    shape[dim] += next.type().getDimSize(dim);
    magnitude = std::max(magnitude, next.magnitude);
  }
  auto type = tensor(shape);
  if (type.getNumElements() > kMostElements)
    return std::nullopt;
  return Entry{make<ConcatOp>(type, inputs, integer(dim)), magnitude};
}

std::optional<Entry> Generator::pad() {
  Entry x = any();
  if (x.type().getRank() == 0)
    return std::nullopt;
  SmallVector<int64_t> low, shape;
  for (int64_t size : x.type().getShape()) {
    low.push_back(upTo(3));
    shape.push_back(size + low.back() + upTo(2));
  }
  auto type = tensor(shape);
  if (type == x.type() || type.getNumElements() > kMostElements)
    return std::nullopt;
  return Entry{make<PadOp>(type, x.value, low), x.magnitude};
}

/// Squares in the other floating point type.
std::optional<Entry> Generator::precision() {
  Entry x = any();
  Type other =
      element.isF32() ? Type(builder.getF64Type()) : Type(builder.getF32Type());
  Value cast = make<CastOp>(x.type().clone(other), x.value);
  Value square = make<MulOp>(cast, cast);
  return Entry{make<CastOp>(x.type(), square), x.magnitude * x.magnitude};
}

std::optional<Entry> Generator::lookup() {
  int64_t width = oneOf({1, 3, 4, 8, 16, 20});
  Entry table = parameter({vocabulary, width}, 0, 0.5);
  return Entry{
      make<EmbeddingOp>(tensor({batch * length, width}), tokens, table.value),
      table.magnitude};
}

//===----------------------------------------------------------------------===//
// The graph
//===----------------------------------------------------------------------===//

/// Brings a value that might become large back.
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
      {3, &Generator::attention}, {2, &Generator::batchedProduct},
      {2, &Generator::rope},      {2, &Generator::dropout},
      {5, &Generator::reduce},    {3, &Generator::centre},
      {4, &Generator::broadcast}, {4, &Generator::reshape},
      {4, &Generator::transpose}, {4, &Generator::slice},
      {4, &Generator::concat},    {3, &Generator::pad},
      {1, &Generator::precision}, {1, &Generator::lookup},
  };
  int weights = 0;
  for (auto &entry : steps)
    weights += entry.weight;
  int draw = upTo(weights);
  size_t chosen = 0;
  while (draw >= steps[chosen].weight)
    draw -= steps[chosen++].weight;
  if (Made made = (this->*steps[chosen].step)())
    pool.push_back(tame(*made));
}

/// A rank-0 f64 summary of a value.
Value Generator::total(const Entry &x) {
  Value value = x.value;
  int64_t rank = x.type().getRank();
  if (rank > 0) {
    SmallVector<int64_t> dims = upToRank(rank);
    value = make<ReduceOp>(tensor({}), Reduction::Mean, value, dims);
  }
  if (!element.isF64())
    value =
        make<CastOp>(RankedTensorType::get({}, builder.getF64Type()), value);
  return value;
}

Value Generator::loss() {
  Entry hidden = rows();
  // Some of what nobody used joins the hidden rows, the rest the loss.
  std::vector<Entry> unused;
  llvm::copy_if(pool, std::back_inserter(unused), [&](const Entry &e) {
    return e.value.use_empty() && e.value != hidden.value;
  });
  std::vector<Entry> apart;
  for (const Entry &entry : unused) {
    int64_t rank = entry.type().getRank();
    if (rank == 0 || chance(60)) {
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
    result = make<CrossEntropyOp>(scalar, logits.value, targets, lossScale);
  } else if (kind < 4) {
    Entry weight = parameter({vocabulary, hidden.type().getDimSize(1)}, 0, 0.5);
    IntegerAttr rowsAtOnce =
        chance(60) ? integer(1 + upTo(batch * length)) : IntegerAttr();
    result = make<LinearCrossEntropyOp>(scalar, hidden.value, weight.value,
                                        targets, lossScale, rowsAtOnce);
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
  Entry first = *lookup();
  pool.push_back(first);
  if (ops == 0)
    ops = 5 + upTo(56);
  auto count = [&] { return program.getBlock().getOperations().size(); };
  while (static_cast<int64_t>(count()) < ops)
    addStep();
  Value result = loss();
  ReturnOp::create(builder, loc(), ValueRange(result));
  return std::move(module);
}

OwningOpRef<ModuleOp> kiln::generateGraph(MLIRContext &context,
                                          const GraphOptions &options) {
  return Generator(context, options).run();
}
