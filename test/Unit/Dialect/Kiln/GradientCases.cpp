//===- GradientCases.cpp - Cases of the gradient checks ---------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "GradientCases.h"

namespace kiln::test {

static void append(std::vector<GradientCase> &to,
                   std::vector<GradientCase> cases) {
  for (GradientCase &one : cases)
    to.push_back(std::move(one));
}

std::vector<GradientCase> gradientCases() {
  std::vector<GradientCase> all;
  append(all, elementwiseGradientCases());
  append(all, rowGradientCases());
  append(all, matrixGradientCases());
  append(all, shapeGradientCases());
  return all;
}

//===----------------------------------------------------------------------===//
// Elementwise ops.
//===----------------------------------------------------------------------===//

/// Shapes with odd extents, with extents of one, and of rank 0, 1 and 3.
static const std::vector<std::string> &elementwiseShapes() {
  static const std::vector<std::string> shapes = {
      "3x5xf32", "1x7xf32", "4x1xf32", "1xf32", "f32", "2x3x4xf64"};
  return shapes;
}

static void addUnary(std::vector<GradientCase> &cases, const std::string &op,
                     const Values &values, const std::string &properties = "") {
  for (const std::string &shape : elementwiseShapes())
    cases.push_back({op, properties, {shape}, {shape}, {{0, values}}, {}});
}

static void addBinary(std::vector<GradientCase> &cases, const std::string &op,
                      const Values &second) {
  for (const std::string &shape : elementwiseShapes())
    cases.push_back({op, "", {shape, shape}, {shape}, {{1, second}}, {}});
}

/// Returns a case with a unary op at the given points.
static GradientCase at(const std::string &op, std::vector<double> points,
                       const std::string &properties = "") {
  std::string shape = std::to_string(points.size()) + "xf32";
  return {op, properties, {shape}, {shape}, {{0, Values::of(points)}}, {}};
}

std::vector<GradientCase> elementwiseGradientCases() {
  std::vector<GradientCase> cases;
  Values any, positive = Values::range(0.3, 4);
  addUnary(cases, "kiln.neg", any);
  addUnary(cases, "kiln.exp", any);
  cases.push_back(at("kiln.exp", {-700, -30, 0, 5}));
  addUnary(cases, "kiln.log", positive);
  cases.push_back(at("kiln.log", {1e-4, 1e-3, 1, 1e6}));
  addUnary(cases, "kiln.sqrt", positive);
  cases.push_back(at("kiln.sqrt", {1e-4, 1e-2, 1e8}));
  addUnary(cases, "kiln.rsqrt", positive);
  cases.push_back(at("kiln.rsqrt", {1e-4, 1e-2, 1e8}));
  addUnary(cases, "kiln.tanh", any);
  cases.push_back(at("kiln.tanh", {-40, -5, 0, 1e-8, 5, 40}));
  addUnary(cases, "kiln.sigmoid", any);
  cases.push_back(at("kiln.sigmoid", {-800, -40, 0, 40, 800}));
  addUnary(cases, "kiln.scale", any, "factor = -2.5");
  addUnary(cases, "kiln.relu", Values::awayFromZero(0.05));
  cases.push_back(at("kiln.relu", {-1e6, -1e-3, 1e-3, 1e6}));
  addUnary(cases, "kiln.silu", any);
  cases.push_back(at("kiln.silu", {-800, -40, -1, 0, 1, 40, 800}));
  addUnary(cases, "kiln.softplus", any);
  cases.push_back(at("kiln.softplus", {-800, -40, -1, 0, 1, 40, 800}));
  addUnary(cases, "kiln.gelu", any);
  addUnary(cases, "kiln.gelu", any, "tanh");
  cases.push_back(at("kiln.gelu", {-1e4, -9, -1, 0, 1, 9, 1e4}));
  cases.push_back(at("kiln.gelu", {-1e4, -9, -1, 0, 1, 9, 1e4}, "tanh"));
  addBinary(cases, "kiln.add", any);
  addBinary(cases, "kiln.sub", any);
  addBinary(cases, "kiln.mul", any);
  addBinary(cases, "kiln.div", Values::awayFromZero(0.3));
  addBinary(cases, "kiln.swiglu", any);
  cases.push_back({"kiln.swiglu",
                   "",
                   {"4xf32", "4xf32"},
                   {"4xf32"},
                   {{0, Values::of({-800, -20, 20, 800})}},
                   {}});
  cases.push_back({"kiln.cast", "", {"3x5xf32"}, {"3x5xf64"}, {}, {}});
  cases.push_back({"kiln.cast", "", {"2xf64"}, {"2xf32"}, {}, {}});
  return cases;
}

//===----------------------------------------------------------------------===//
// Norms, losses, lookups and random ops.
//===----------------------------------------------------------------------===//

/// The shape of a tensor: first the extents `rows`, such as "3" or "2x3", and
/// then the extent `columns`.
struct RowShape {
  std::string rows;
  int columns;
  std::string full() const {
    return rows + (rows.empty() ? "" : "x") + std::to_string(columns) + "xf32";
  }
  std::string perRow() const { return rows + (rows.empty() ? "f32" : "xf32"); }
  std::string perColumn() const { return std::to_string(columns) + "xf32"; }
};

static void addNorms(std::vector<GradientCase> &cases) {
  for (const RowShape &s : std::vector<RowShape>{
           {"3", 5}, {"1", 7}, {"4", 1}, {"", 6}, {"2x3", 4}, {"2", 9}}) {
    std::string x = s.full(), row = s.perRow(), column = s.perColumn();
    cases.push_back({"kiln.layer_norm",
                     "eps = 1.0e-05",
                     {x, column, column},
                     {x, row, row},
                     {},
                     {}});
    cases.push_back({"kiln.rms_norm",
                     "eps = 1.0e-06",
                     {x, column},
                     {x, row},
                     {{0, Values::awayFromZero(0.2)}},
                     {}});
    cases.push_back({"kiln.normalize", "", {x, row, row}, {x}, {}, {}});
    cases.push_back({"kiln.normalize", "", {x, row}, {x}, {}, {}});
    cases.push_back({"kiln.affine", "", {x, column, column}, {x}, {}, {}});
    cases.push_back({"kiln.affine", "", {x, column}, {x}, {}, {}});
    cases.push_back({"kiln.softmax", "", {x}, {x}, {}, {}});
  }
  // All elements of the first row are equal. The second row has large values.
  cases.push_back({"kiln.layer_norm",
                   "eps = 1.0e-05",
                   {"2x4xf32", "4xf32", "4xf32"},
                   {"2x4xf32", "2xf32", "2xf32"},
                   {{0, Values::of({3, 3, 3, 3, 1e4, -1e4, 5e3, 0})}},
                   {}});
  cases.push_back({"kiln.rms_norm",
                   "eps = 1.0e-06",
                   {"2x3xf32", "3xf32"},
                   {"2x3xf32", "2xf32"},
                   {{0, Values::of({2, 2, 2, 1e4, -1e4, 5e3})}},
                   {}});
  for (const std::vector<double> &row : std::vector<std::vector<double>>{
           {1e4, -1e4, 0}, {-1e4, -1e4, -1e4}, {1e4, 1e4 - 1, 1e4 - 2}})
    cases.push_back({"kiln.softmax",
                     "",
                     {"1x3xf32"},
                     {"1x3xf32"},
                     {{0, Values::of(row)}},
                     {}});
}

static void addLosses(std::vector<GradientCase> &cases) {
  Values scale = Values::of({0.25});
  std::vector<unsigned> byLogits = {0}, byHiddenAndWeight = {0, 1};
  cases.push_back({"kiln.cross_entropy",
                   "",
                   {"4x5xf32", "2x2xi32", "f64"},
                   {"f64"},
                   {{1, Values::of({0, 4, -100, 2})}, {2, scale}},
                   byLogits});
  cases.push_back({"kiln.cross_entropy",
                   "",
                   {"2x3xf32", "2xi32", "f64"},
                   {"f64"},
                   {{0, Values::of({1e4, -1e4, 0, -1e4, 1e4, 1e4})},
                    {1, Values::of({1, 2})},
                    {2, scale}},
                   byLogits});
  cases.push_back({"kiln.cross_entropy",
                   "",
                   {"1x1xf32", "1xi32", "f64"},
                   {"f64"},
                   {{1, Values::of({0})}, {2, scale}},
                   byLogits});
  cases.push_back({"kiln.cross_entropy",
                   "",
                   {"2x3xf32", "2xi32", "f64"},
                   {"f64"},
                   {{1, Values::of({-100, -100})}, {2, scale}},
                   byLogits});
  cases.push_back({"kiln.linear_cross_entropy",
                   "",
                   {"4x3xf32", "5x3xf32", "2x2xi32", "f64"},
                   {"f64"},
                   {{2, Values::of({0, 4, -100, 2})}, {3, scale}},
                   byHiddenAndWeight});
  cases.push_back({"kiln.linear_cross_entropy",
                   "rows = 2 : i64",
                   {"3x1xf32", "2x1xf32", "3xi32", "f64"},
                   {"f64"},
                   {{2, Values::of({1, 0, 1})}, {3, scale}},
                   byHiddenAndWeight});
}

std::vector<GradientCase> rowGradientCases() {
  std::vector<GradientCase> cases;
  addNorms(cases);
  addLosses(cases);
  // Tokens are repeated, so their gradients add up.
  cases.push_back({"kiln.embedding",
                   "",
                   {"2x3xi32", "4x3xf32"},
                   {"6x3xf32"},
                   {{0, Values::of({3, 0, 3, 3, 1, 0})}},
                   {}});
  cases.push_back({"kiln.embedding",
                   "",
                   {"1xi32", "1x1xf32"},
                   {"1x1xf32"},
                   {{0, Values::of({0})}},
                   {}});
  for (const char *p : {"0.0", "0.5"})
    cases.push_back(
        {"kiln.dropout",
         std::string("p = ") + p + ", key = 3 : i64, sequences = 2 : i64",
         {"4x7xf32", "1x3xi64"},
         {"4x7xf32"},
         {{1, Values::of({42, 7, 5})}},
         {}});
  for (const char *inverse : {"", ", inverse"})
    cases.push_back(
        {"kiln.rope",
         std::string("heads = 2 : i64, sequences = 2 : i64") + inverse,
         {"6x8xf32", "5x2xf32", "5x2xf32"},
         {"6x8xf32"},
         {},
         std::vector<unsigned>{0}});
  return cases;
}

//===----------------------------------------------------------------------===//
// Matmuls and attention.
//===----------------------------------------------------------------------===//

static void addMatmuls(std::vector<GradientCase> &cases) {
  struct Extents {
    int m, n, k;
  };
  auto matrix = [](const std::string &batch, int rows, int columns) {
    return batch + std::to_string(rows) + "x" + std::to_string(columns) +
           "xf32";
  };
  for (Extents e : {Extents{3, 5, 2}, {1, 4, 3}, {4, 1, 1}})
    for (const char *batch : {"", "2x"})
      for (bool transA : {false, true})
        for (bool transB : {false, true}) {
          std::string properties =
              transA ? (transB ? "trans_a, trans_b" : "trans_a")
                     : (transB ? "trans_b" : "");
          std::string a =
              transA ? matrix(batch, e.k, e.m) : matrix(batch, e.m, e.k);
          std::string b =
              transB ? matrix(batch, e.n, e.k) : matrix(batch, e.k, e.n);
          std::string y = matrix(batch, e.m, e.n);
          cases.push_back({"kiln.matmul", properties, {a, b}, {y}, {}, {}});
        }
  cases.push_back({"kiln.matmul",
                   "",
                   {"2x3xf32", "3x4xf32", "2x4xf32"},
                   {"2x4xf32"},
                   {},
                   {}});
}

static void addAttention(std::vector<GradientCase> &cases, int sequences,
                         int length, int heads, int kvHeads, int dim,
                         const std::string &flags,
                         std::map<unsigned, Values> values = {}) {
  auto number = [](const char *name, int value) {
    return std::string(name) + " = " + std::to_string(value) + " : i64, ";
  };
  auto shape = [&](int columns) {
    return std::to_string(sequences * length) + "x" + std::to_string(columns) +
           "xf32";
  };
  std::string q = shape(heads * dim), kv = shape(kvHeads * dim);
  GradientCase one;
  one.op = "kiln.attention";
  one.properties = number("sequences", sequences) + number("heads", heads) +
                   number("kv_heads", kvHeads) + "scale = 0.5" + flags;
  one.operands = {q, kv, kv};
  one.results = {q, std::to_string(sequences * heads) + "x" +
                        std::to_string(length) + "xf32"};
  one.values = std::move(values);
  if (flags.find("p = ") != std::string::npos) {
    one.operands.push_back("1x3xi64");
    one.values[3] = Values::of({42, 7, 5});
  }
  cases.push_back(std::move(one));
}

std::vector<GradientCase> matrixGradientCases() {
  std::vector<GradientCase> cases;
  addMatmuls(cases);
  for (const char *flags : {"", ", causal", ", causal, p = 0.4, key = 9 : i64",
                            ", p = 0.4, key = 9 : i64"}) {
    addAttention(cases, 2, 3, 2, 2, 2, flags);
    addAttention(cases, 1, 5, 4, 2, 3, flags);
    addAttention(cases, 2, 4, 3, 1, 1, flags);
    addAttention(cases, 1, 1, 1, 1, 2, flags);
  }
  // Scores far apart saturate the softmax.
  addAttention(cases, 1, 3, 1, 1, 2, ", causal",
               {{0, Values::range(-100, 100)}, {1, Values::range(-100, 100)}});
  return cases;
}

//===----------------------------------------------------------------------===//
// Shapes and reductions.
//===----------------------------------------------------------------------===//

std::vector<GradientCase> shapeGradientCases() {
  std::vector<GradientCase> cases;
  auto add = [&](const std::string &op, const std::string &properties,
                 std::vector<std::string> operands, const std::string &result,
                 std::map<unsigned, Values> values = {}) {
    cases.push_back(
        {op, properties, std::move(operands), {result}, std::move(values), {}});
  };
  auto list = [](const char *name, const std::string &elements) {
    return std::string(name) + " = array<i64" + (elements.empty() ? "" : ": ") +
           elements + ">";
  };
  add("kiln.broadcast", list("dims", "1"), {"4xf32"}, "3x4xf32");
  add("kiln.broadcast", list("dims", "0"), {"3xf32"}, "3x4xf32");
  add("kiln.broadcast", list("dims", ""), {"f32"}, "2x3xf32");
  add("kiln.broadcast", list("dims", "0, 1"), {"1x4xf32"}, "3x4xf32");
  add("kiln.broadcast", list("dims", "0, 2"), {"2x1xf32"}, "2x3x4xf32");
  add("kiln.broadcast", list("dims", "1, 2"), {"1x1xf32"}, "3x1x4xf32");
  add("kiln.broadcast", list("dims", "0"), {"1xf32"}, "1xf32");

  // The values are distinct, so that the maximum has no ties.
  Values distinct = Values::of({5, -3, 2, 8, 1, -7, 4, 9, 0, 3, -2, 6});
  for (const char *kind : {"sum", "mean", "max"}) {
    std::string prefix = std::string("kind = #kiln.reduction<") + kind + ">, ";
    std::map<unsigned, Values> values = {{0, distinct}};
    add("kiln.reduce", prefix + list("dims", "0"), {"3x4xf32"}, "4xf32",
        values);
    add("kiln.reduce", prefix + list("dims", "1"), {"3x4xf32"}, "3xf32",
        values);
    add("kiln.reduce", prefix + list("dims", "0, 1"), {"3x4xf32"}, "f32",
        values);
    add("kiln.reduce", prefix + list("dims", "1"), {"2x3x2xf32"}, "2x2xf32",
        values);
    add("kiln.reduce", prefix + list("dims", "0, 2"), {"2x3x2xf32"}, "3xf32",
        values);
    add("kiln.reduce", prefix + list("dims", "0"), {"1x12xf32"}, "12xf32",
        values);
    add("kiln.reduce", prefix + list("dims", ""), {"12xf32"}, "12xf32", values);
  }

  add("kiln.reshape", "", {"2x6xf32"}, "3x4xf32");
  add("kiln.reshape", "", {"1x1xf32"}, "f32");
  add("kiln.transpose", list("permutation", "1, 0"), {"2x5xf32"}, "5x2xf32");
  add("kiln.transpose", list("permutation", "2, 0, 1"), {"2x3x4xf32"},
      "4x2x3xf32");
  add("kiln.transpose", list("permutation", "0"), {"3xf32"}, "3xf32");
  for (const char *shape : {"4x6xf32", "1x9xf32", "5x1xf32", "2x3xf64"})
    for (const char *direction : {"", "reverse"})
      add("kiln.cumsum", direction, {shape}, shape);
  add("kiln.slice", list("offsets", "0, 2"), {"4x6xf32"}, "4x2xf32");
  add("kiln.slice", list("offsets", "1, 0, 3"), {"2x3x4xf32"}, "1x2x1xf32");
  add("kiln.slice", list("offsets", "0"), {"3xf32"}, "3xf32");
  add("kiln.pad", list("low", "1, 0"), {"2x4xf32"}, "4x4xf32");
  add("kiln.pad", list("low", "0, 2"), {"1x1xf32"}, "2x5xf32");
  add("kiln.concat", "dim = 1 : i64", {"4x2xf32", "4x3xf32"}, "4x5xf32");
  add("kiln.concat", "dim = 0 : i64", {"1x2xf32", "3x2xf32", "2x2xf32"},
      "6x2xf32");
  add("kiln.concat", "dim = 1 : i64", {"2x3x2xf32", "2x1x2xf32"}, "2x4x2xf32");
  return cases;
}

} // namespace kiln::test
