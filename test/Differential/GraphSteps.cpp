//===- GraphSteps.cpp - Steps that compute ----------------------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Generator.h"

#include <cmath>

using namespace mlir;
using namespace kiln;

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
                              Value(), true, false, DenseI64ArrayAttr(),
                              StringAttr()),
               x->magnitude * 2};
}

/// Multiplies each matrix of a stack by its own transpose, in either order.
std::optional<Entry> Generator::batchedMatmul() {
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
                                 DenseI64ArrayAttr(), StringAttr());
  if (chance(50)) {
    // Multiply each [size, size] product, or its transpose, by the matrix from
    // which it was computed or, if `onRows` is false, by the transpose of that
    // matrix.
    SmallVector<int64_t> whole(x->type().getShape());
    if (!onRows)
      std::swap(whole[rank - 2], whole[rank - 1]);
    product = make<MatmulOp>(tensor(whole), product, a, Value(), chance(50),
                             !onRows, DenseI64ArrayAttr(), StringAttr());
    double magnitude =
        x->magnitude * x->magnitude * inner * x->magnitude * size;
    return Entry{make<ScaleOp>(product, real(1. / (inner * size))),
                 magnitude / (inner * size)};
  }
  return Entry{make<ScaleOp>(product, real(1. / inner)),
               x->magnitude * x->magnitude};
}

/// Applies rotary embedding to heads with an even size.
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
      StateOp::create(outside, loc(), name, type, Role::Constant,
                      RopeTableAttr::get(builder.getContext(), side == 1, 1.0,
                                         frequencies));
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
  Value o =
      make<AttentionOp>(q.type(), lse, q.value, k.value, v.value,
                        p > 0 ? rng : Value(), integer(batch), integer(heads),
                        integer(kvHeads), real(1 / std::sqrt(width)),
                        chance(60) ? builder.getUnitAttr() : UnitAttr(),
                        real(p), integer(p > 0 ? ++key : 0), IntegerAttr());
  return Entry{o, v.magnitude * (p > 0 ? 1.4 : 1)};
}

std::optional<Entry> Generator::dropout() {
  auto x = anyWhere([&](const Entry &e) {
    return e.type().getRank() >= 2 && getRowCount(e.type()) == batch * length;
  });
  double p = 0.125 * oneOf({1, 2, 4});
  return Entry{
      make<DropoutOp>(x->type(), x->value, rng, llvm::APFloat(p), ++key, batch),
      x->magnitude / (1 - p)};
}
