//===- RowKernelTest.cpp - Row programs node by node ----------------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Covers what the tests of single ops do not cover: each node kind by itself,
// the exact order of sums, and slot sharing, that is, which results may
// overwrite which operands. Fusion must not change the bits of an expression.
//
//===----------------------------------------------------------------------===//

#include "RowPrograms.h"

#include <cmath>
#include <cstring>

using namespace kiln::support;
using namespace kiln::test;
using namespace kiln;
using row::Kind;
using row::NodeId;
using row::Space;

namespace {

//===----------------------------------------------------------------------===//
// Node kinds
//===----------------------------------------------------------------------===//

/// Returns the value of a node of the given kind with the operands a, b and c.
template <typename T> T meaningOf(Kind kind, T a, T b, T c) {
  switch (kind) {
  case Kind::Neg:
    return -a;
  case Kind::Exp:
    return std::exp(double(a));
  case Kind::Log:
    return std::log(double(a));
  case Kind::Sqrt:
    return std::sqrt(a);
  case Kind::Tanh:
    return std::tanh(double(a));
  case Kind::Sigmoid:
    return 1 / (1 + std::exp(-double(a)));
  case Kind::Erf:
    return std::erf(double(a));
  case Kind::Abs:
    return std::abs(a);
  case Kind::Add:
    return a + b;
  case Kind::Sub:
    return a - b;
  case Kind::Mul:
    return a * b;
  case Kind::Div:
    return a / b;
  case Kind::Max:
    return a < b ? b : a;
  case Kind::Min:
    return b < a ? b : a;
  case Kind::Fma:
    return std::fma(a, b, c);
  case Kind::Less:
    return a < b ? c : 0;
  case Kind::Equal:
    return a == b ? c : 0;
  default:
    ADD_FAILURE();
    return 0;
  }
}

bool isElementary(Kind kind) {
  return kind == Kind::Exp || kind == Kind::Log || kind == Kind::Tanh ||
         kind == Kind::Sigmoid || kind == Kind::Erf;
}

const Kind unaryKinds[] = {Kind::Neg,  Kind::Exp,     Kind::Log, Kind::Sqrt,
                           Kind::Tanh, Kind::Sigmoid, Kind::Erf, Kind::Abs};
const Kind binaryKinds[] = {Kind::Add, Kind::Sub, Kind::Mul,
                            Kind::Div, Kind::Max, Kind::Min};
const Kind comparisons[] = {Kind::Less, Kind::Equal};

/// Returns a program with one result per kind of node. The inputs are full
/// rows, per-column values and per-row values.
template <typename T> ProgramText allKinds(int64_t rows, int64_t cols) {
  ProgramText text(rows, cols);
  row::Type type = typeOf<T>();
  NodeId a = text.load(0, row::Access::Identity, Space::Full, type);
  NodeId b = text.load(1, row::Access::PerColumn, Space::Column, type);
  NodeId c = text.load(2, row::Access::PerRow, Space::Row, type);
  NodeId zero = text.node(Kind::Constant, Space::Scalar, type, {}, 0);
  auto store = [&](NodeId id) { text.store(row::StoreKind::Full, id); };
  for (Kind kind : unaryKinds)
    store(text.node(kind, Space::Full, type, {a}));
  for (Kind kind : binaryKinds)
    store(text.node(kind, Space::Full, type, {a, b}));
  store(text.node(Kind::Fma, Space::Full, type, {a, b, c}));
  for (Kind kind : comparisons) {
    NodeId is = text.node(kind, Space::Full, row::Type::Bool, {a, b});
    store(text.node(Kind::Select, Space::Full, type, {is, c, zero}));
  }
  return text;
}

template <typename T>
void checkAllKinds(Kernel kernel, const row::RowProgram &program,
                   std::mt19937_64 &random) {
  int64_t rows = program.rows, cols = program.cols;
  std::uniform_int_distribution<int> eighths(1, 24);
  auto positive = [&](size_t count) {
    std::vector<T> x(count);
    for (T &value : x)
      value = eighths(random) / T(8);
    return x;
  };
  std::vector<T> a = positive(rows * cols), b = positive(cols),
                 c = positive(rows);
  std::vector<Kind> kinds(std::begin(unaryKinds), std::end(unaryKinds));
  kinds.insert(kinds.end(), std::begin(binaryKinds), std::end(binaryKinds));
  kinds.push_back(Kind::Fma);
  kinds.insert(kinds.end(), std::begin(comparisons), std::end(comparisons));
  std::vector<std::vector<T>> results(kinds.size(),
                                      std::vector<T>(rows * cols));
  std::vector<char *> args;
  for (std::vector<T> *x : {&a, &b, &c})
    args.push_back(reinterpret_cast<char *>(x->data()));
  for (std::vector<T> &x : results)
    args.push_back(reinterpret_cast<char *>(x.data()));
  kernel(args.data(), nullptr, 0, rows, nullptr);
  double epsilon = std::numeric_limits<T>::epsilon();
  for (size_t i = 0; i < kinds.size(); ++i)
    for (int64_t r = 0; r < rows; ++r)
      for (int64_t col = 0; col < cols; ++col) {
        T want = meaningOf<T>(kinds[i], a[r * cols + col], b[col], c[r]);
        T got = results[i][r * cols + col];
        double bound = isElementary(kinds[i]) ? 2 * epsilon : 0;
        ASSERT_LE(std::abs(got - want), bound * std::abs(want))
            << "kind " << int(kinds[i]) << " of " << a[r * cols + col] << ", "
            << b[col] << ", " << c[r];
      }
}

TEST_F(RowKernel, EveryKind) {
  std::vector<row::RowProgram> programs;
  for (int64_t cols : {1, 7, 16, 63, 64, 65, 129}) {
    programs.push_back(allKinds<float>(3, cols).program);
    programs.push_back(allKinds<double>(3, cols).program);
  }
  for (size_t i = 0; i < programs.size(); ++i)
    emit("k" + std::to_string(i), programs[i], 3 + programs[i].stores.size());
  LoadedKernels library(*module);
  for (size_t i = 0; i < programs.size(); ++i) {
    Kernel kernel = library.find("k" + std::to_string(i));
    if (i % 2 == 0)
      checkAllKinds<float>(kernel, programs[i], random);
    else
      checkAllKinds<double>(kernel, programs[i], random);
  }
}

TEST_F(RowKernel, IndexesAndIntegers) {
  // y = float(column index) + 1000 * float(row index) + float(i64 operand).
  ProgramText text(4, 70);
  auto f32 = row::Type::F32;
  NodeId column = text.node(Kind::ColumnIndex, Space::Column, row::Type::I32);
  NodeId r = text.node(Kind::RowIndex, Space::Row, row::Type::I32);
  NodeId n = text.load(0, row::Access::PerRow, Space::Row, row::Type::I64);
  NodeId thousand = text.node(Kind::Constant, Space::Scalar, f32, {}, 1000);
  NodeId y = text.node(Kind::Fma, Space::Full, f32,
                       {text.node(Kind::Cast, Space::Row, f32, {r}), thousand,
                        text.node(Kind::Cast, Space::Column, f32, {column})});
  y = text.node(Kind::Add, Space::Full, f32,
                {y, text.node(Kind::Cast, Space::Row, f32, {n})});
  text.store(row::StoreKind::Full, y);
  emit("k", text.program, 2);
  LoadedKernels library(*module);
  std::vector<int64_t> numbers = {5, -6, 0, 1 << 20};
  std::vector<float> got(4 * 70);
  call(library.find("k"), 0, 4, numbers, got);
  for (int64_t i = 0; i < 4 * 70; ++i)
    EXPECT_EQ(got[i], i % 70 + 1000 * (i / 70) + numbers[i / 70]);
}

TEST_F(RowKernel, MaxAndReluKeepNaN) {
  ProgramText text(1, 16);
  auto f32 = row::Type::F32;
  NodeId x = text.load(0, row::Access::Identity, Space::Full, f32);
  NodeId zero = text.node(Kind::Constant, Space::Scalar, f32);
  for (Kind kind : {Kind::Max, Kind::Min})
    text.store(row::StoreKind::Full,
               text.node(kind, Space::Full, f32, {x, zero}));
  emit("k", text.program, 3);
  LoadedKernels library(*module);
  std::vector<float> in(16, 1), low(16), high(16);
  in[3] = std::numeric_limits<float>::quiet_NaN();
  call(library.find("k"), 0, 1, in, high, low);
  EXPECT_TRUE(std::isnan(high[3]) && std::isnan(low[3]));
  EXPECT_EQ(high[2], 1);
  EXPECT_EQ(low[2], 0);
}

//===----------------------------------------------------------------------===//
// Orders of summation
//===----------------------------------------------------------------------===//

/// Computes the sum of a row in the order that RowProgram.h defines.
template <typename T> T rowSum(const T *x, int64_t cols) {
  T partials[64] = {};
  for (int64_t c = 0; c < cols; ++c)
    partials[c % 64] += x[c];
  for (int64_t half = 32; half >= 1; half /= 2)
    for (int64_t j = 0; j < half; ++j)
      partials[j] += partials[j + half];
  return partials[0];
}

/// Returns a program with row sums and maxima of x*x, and column sums of x in
/// chunks of 3 rows.
template <typename T> ProgramText sums(int64_t rows, int64_t cols) {
  ProgramText text(rows, cols);
  row::Type type = typeOf<T>();
  NodeId x = text.load(0, row::Access::Identity, Space::Full, type);
  NodeId square = text.node(Kind::Mul, Space::Full, type, {x, x});
  text.store(row::StoreKind::Row,
             text.node(Kind::ReduceSum, Space::Row, type, {square}));
  text.store(row::StoreKind::Row,
             text.node(Kind::ReduceMax, Space::Row, type, {square}));
  text.store(row::StoreKind::ColumnPartial, x, 3);
  return text;
}

template <typename T>
void checkSums(Kernel kernel, int64_t rows, int64_t cols, std::vector<T> x) {
  int64_t chunks = (rows + 2) / 3;
  std::vector<T> sum(rows), max(rows), partial(chunks * cols);
  call(kernel, 0, chunks, x, sum, max, partial);
  for (int64_t r = 0; r < rows; ++r) {
    std::vector<T> squares;
    for (int64_t c = 0; c < cols; ++c)
      squares.push_back(x[r * cols + c] * x[r * cols + c]);
    EXPECT_EQ(sum[r], rowSum(squares.data(), cols)) << cols;
    EXPECT_EQ(max[r], *std::max_element(squares.begin(), squares.end()));
  }
  for (int64_t i = 0; i < chunks * cols; ++i) {
    T want = 0;
    for (int64_t r = i / cols * 3; r < std::min(rows, i / cols * 3 + 3); ++r)
      want += x[r * cols + i % cols];
    EXPECT_EQ(partial[i], want);
  }
}

TEST_F(RowKernel, SumsAreExactlyAsDefined) {
  const int64_t rows = 7, columns[] = {1, 13, 16, 33, 64, 100, 128, 777, 50257};
  for (int64_t cols : columns) {
    emit("f" + std::to_string(cols), sums<float>(rows, cols).program, 4);
    emit("d" + std::to_string(cols), sums<double>(rows, cols).program, 4);
  }
  LoadedKernels library(*module);
  EXPECT_EQ(library.undefinedSymbols(), std::vector<std::string>());
  for (int64_t cols : columns) {
    checkSums<float>(library.find("f" + std::to_string(cols)), rows, cols,
                     normals<float>(rows * cols));
    checkSums<double>(library.find("d" + std::to_string(cols)), rows, cols,
                      normals<double>(rows * cols));
  }
}

//===----------------------------------------------------------------------===//
// Fusion
//===----------------------------------------------------------------------===//

TEST_F(RowFusion, FusingDoesNotChangeBits) {
  const std::string residual = "%x = kiln.add %u, %v : tensor<$Rx$Cx$T>\n";
  emit("fused",
       build("%u: tensor<$Rx$Cx$T>, %v: tensor<$Rx$Cx$T>, %g: tensor<$Cx$T>, "
             "%b: tensor<$Cx$T>",
             residual + layerNormText +
                 "%z = kiln.gelu %y tanh : "
                 "tensor<$Rx$Cx$T>",
             "%z : tensor<$Rx$Cx$T>, %mean : tensor<$Rx$T>, "
             "%rstd : tensor<$Rx$T>"),
       7);
  emit("add",
       build("%u: tensor<$Rx$Cx$T>, %v: tensor<$Rx$Cx$T>", residual,
             "%x : tensor<$Rx$Cx$T>"),
       3);
  emit("parts",
       build("%x: tensor<$Rx$Cx$T>, %g: tensor<$Cx$T>, %b: tensor<$Cx$T>, "
             "%mean: tensor<$Rx$T>, %rstd: tensor<$Rx$T>",
             "%h = kiln.normalize %x, %mean, %rstd : (tensor<$Rx$Cx$T>, "
             "tensor<$Rx$T>, tensor<$Rx$T>) -> tensor<$Rx$Cx$T>\n"
             "%y = kiln.affine %h, %g, %b : (tensor<$Rx$Cx$T>, "
             "tensor<$Cx$T>, tensor<$Cx$T>) -> tensor<$Rx$Cx$T>\n",
             "%y : tensor<$Rx$Cx$T>"),
       6);
  emit("gelu",
       build("%y: tensor<$Rx$Cx$T>",
             "%z = kiln.gelu %y tanh : tensor<$Rx$Cx$T>",
             "%z : tensor<$Rx$Cx$T>"),
       2);
  LoadedKernels library(*module);
  EXPECT_EQ(library.undefinedSymbols(), std::vector<std::string>());
  auto u = normals<float>(1200), v = normals<float>(1200),
       g = normals<float>(200), b = normals<float>(200);
  std::vector<float> z(1200), mean(6), rstd(6), x(1200), y(1200), z1(1200);
  call(library.find("fused"), 0, 6, u, v, g, b, z, mean, rstd);
  call(library.find("add"), 0, 1200, u, v, x);
  call(library.find("parts"), 0, 6, x, g, b, mean, rstd, y);
  call(library.find("gelu"), 0, 1200, y, z1);
  EXPECT_EQ(0, std::memcmp(z.data(), z1.data(), z.size() * sizeof(float)));
}

TEST_F(RowFusion, ProcessorsDoNotChangeBits) {
  row::RowProgram program = build(
      "%x: tensor<$Rx$Cx$T>, %g: tensor<$Cx$T>, %b: tensor<$Cx$T>, "
      "%r: tensor<1x3xi64>",
      std::string(layerNormText) +
          "%e = kiln.gelu %y : tensor<$Rx$Cx$T>\n"
          "%t = kiln.tanh %e : tensor<$Rx$Cx$T>\n"
          "%s = kiln.softmax %t : (tensor<$Rx$Cx$T>) -> tensor<$Rx$Cx$T>\n"
          "%l = kiln.log %s : tensor<$Rx$Cx$T>\n"
          "%z = kiln.dropout %l, %r {p = 2.5e-01, key = 3, sequences = 2} : "
          "(tensor<$Rx$Cx$T>, tensor<1x3xi64>) -> tensor<$Rx$Cx$T>",
      "%z : tensor<$Rx$Cx$T>");
  emit("k", program, 5);
  auto x = normals<float>(1200), g = normals<float>(200),
       b = normals<float>(200);
  std::vector<int64_t> rng = {1, 2, 3};
  std::vector<std::vector<float>> results;
  // Compile for eight lanes per register, and for this machine.
  for (const char *mcpu : {"haswell", ""}) {
    LoadedKernels library(*module, mcpu);
    std::vector<float> z(1200);
    char *args[] = {reinterpret_cast<char *>(x.data()),
                    reinterpret_cast<char *>(g.data()),
                    reinterpret_cast<char *>(b.data()),
                    reinterpret_cast<char *>(rng.data()),
                    reinterpret_cast<char *>(z.data())};
    library.find("k")(args, program.immediates.data(), 0, 6, nullptr);
    results.push_back(z);
  }
  EXPECT_EQ(0, std::memcmp(results[0].data(), results[1].data(),
                           1200 * sizeof(float)));
}

TEST_F(RowFusion, ProcessorsRoundBfloatsAlike) {
  row::RowProgram program =
      build("%x: tensor<$Rx$Cx$T>, %g: tensor<$Cx$F>, %b: tensor<$Cx$F>",
            std::string(layerNormText) +
                "%e = kiln.gelu %y tanh : tensor<$Rx$Cx$T>\n"
                "%s = kiln.reduce sum %e dims [1] : tensor<$Rx$Cx$T> to "
                "tensor<$Rx$T>",
            "%e : tensor<$Rx$Cx$T>, %s : tensor<$Rx$T>", "bf16");
  emit("k", program, 5);
  auto x = asBfloats(normals<float>(1200));
  auto g = normals<float>(200), b = normals<float>(200);
  std::vector<std::vector<uint16_t>> results;
  // Compile for 8-lane registers, for 16-lane registers if this machine has
  // them, and for this machine, which may have bf16 instructions.
  bool isWide = __builtin_cpu_supports("avx512f");
  for (const char *mcpu :
       {"haswell", isWide ? "skylake-avx512" : "haswell", ""}) {
    LoadedKernels library(*module, mcpu);
    EXPECT_EQ(library.undefinedSymbols(), std::vector<std::string>());
    std::vector<uint16_t> e(1200), s(6);
    call(library.find("k"), 0, 6, x, g, b, e, s);
    e.insert(e.end(), s.begin(), s.end());
    results.push_back(e);
  }
  EXPECT_EQ(results[0], results[1]);
  EXPECT_EQ(results[0], results[2]);
}

//===----------------------------------------------------------------------===//
// GELU
//===----------------------------------------------------------------------===//

/// Returns the largest error relative to max(|y|, 1e-3) on [-12, 12].
double geluError(Kernel kernel, int64_t units, bool isGradient) {
  std::vector<float> x(1200), one(1200, 1), y(1200);
  for (int i = 0; i < 1200; ++i)
    x[i] = (i - 600) / 50.0f;
  if (isGradient)
    call(kernel, 0, units, x, one, y);
  else
    call(kernel, 0, units, x, y);
  double worst = 0;
  for (int i = 0; i < 1200; ++i) {
    double a = std::sqrt(2 / M_PI), v = x[i];
    double u = a * (v + 0.044715 * v * v * v);
    double du = a * (1 + 3 * 0.044715 * v * v);
    double s = 1 / (1 + std::exp(-2 * u)), t = 1 / (1 + std::exp(2 * u));
    double want = isGradient ? s + v * 2 * du * s * t : v * s;
    worst =
        std::max(worst, std::abs(y[i] - want) / std::max(std::abs(want), 1e-3));
  }
  return worst;
}

TEST_F(RowFusion, GeluIsAccurateInItsTails) {
  auto forward = emit("gelu",
                      build("%x: tensor<$Rx$Cx$T>",
                            "%y = kiln.gelu %x tanh : tensor<$Rx$Cx$T>",
                            "%y : tensor<$Rx$Cx$T>"),
                      2);
  auto backward =
      emit("grad",
           build("%x: tensor<$Rx$Cx$T>, %d: tensor<$Rx$Cx$T>",
                 "%y = kiln.gelu_grad %x, %d tanh : tensor<$Rx$Cx$T>",
                 "%y : tensor<$Rx$Cx$T>"),
           3);
  LoadedKernels library(*module);
  EXPECT_LE(geluError(library.find("gelu"), forward.units, false), 1.5e-6);
  EXPECT_LE(geluError(library.find("grad"), backward.units, true), 3e-5);
}

//===----------------------------------------------------------------------===//
// Slots
//===----------------------------------------------------------------------===//

TEST_F(RowFusion, SlotsThatMayBeShared) {
  auto norm =
      build("%x: tensor<$Rx$Cx$T>, %g: tensor<$Cx$T>, %b: "
            "tensor<$Cx$T>",
            layerNormText, "%y : tensor<$Rx$Cx$T>, %mean : tensor<$Rx$T>");
  EXPECT_TRUE(row::mayShareSlot(norm, 0, 0));
  EXPECT_FALSE(row::mayShareSlot(norm, 1, 0)); // Gamma.
  EXPECT_FALSE(row::mayShareSlot(norm, 0, 1));

  // The first sweep stores the sum, and later sweeps read the sum instead of
  // the operands, so the results may overwrite both operands.
  auto residual = build(
      "%u: tensor<$Rx$Cx$T>, %v: tensor<$Rx$Cx$T>, %g: tensor<$Cx$T>, "
      "%b: tensor<$Cx$T>",
      "%x = kiln.add %u, %v : tensor<$Rx$Cx$T>\n" + std::string(layerNormText),
      "%y : tensor<$Rx$Cx$T>, %x : tensor<$Rx$Cx$T>");
  EXPECT_TRUE(row::mayShareSlot(residual, 0, 1));
  EXPECT_TRUE(row::mayShareSlot(residual, 1, 0));

  auto loss = build("%x: tensor<$Rx$Cx$T>, %t: tensor<$Rxi32>, %s: "
                    "tensor<f64>",
                    "%l, %d = kiln.softmax_cross_entropy %x, %t, %s : "
                    "(tensor<$Rx$Cx$T>, tensor<$Rxi32>, tensor<f64>) -> "
                    "(tensor<$Rx$T>, tensor<$Rx$Cx$T>)",
                    "%l : tensor<$Rx$T>, %d : tensor<$Rx$Cx$T>");
  EXPECT_TRUE(row::mayShareSlot(loss, 0, 1));
  EXPECT_FALSE(row::mayShareSlot(loss, 1, 0)); // Different element types.

  // %y could be stored in the first sweep over a row, but the store waits until
  // %x has been read for the last time. Therefore %y can overwrite %x.
  auto waits = build("%x: tensor<$Rx$Cx$T>",
                     "%s = kiln.softmax %x : (tensor<$Rx$Cx$T>) -> "
                     "tensor<$Rx$Cx$T>\n%y = kiln.neg %x : tensor<$Rx$Cx$T>",
                     "%s : tensor<$Rx$Cx$T>, %y : tensor<$Rx$Cx$T>");
  EXPECT_TRUE(row::mayShareSlot(waits, 0, 0));
  EXPECT_TRUE(row::mayShareSlot(waits, 0, 1));

  auto gather = build("%t: tensor<$Rxi32>, %w: tensor<$Rx$Cx$T>",
                      "%y = kiln.embedding %t, %w : (tensor<$Rxi32>, "
                      "tensor<$Rx$Cx$T>) -> tensor<$Rx$Cx$T>",
                      "%y : tensor<$Rx$Cx$T>");
  EXPECT_FALSE(row::mayShareSlot(gather, 1, 0));

  auto cast = build("%x: tensor<$Rx$Cx$T>",
                    "%y = kiln.cast %x : tensor<$Rx$Cxf32> to "
                    "tensor<$Rx$Cxf64>",
                    "%y : tensor<$Rx$Cxf64>");
  EXPECT_FALSE(row::mayShareSlot(cast, 0, 0));

  auto round = build("%x: tensor<$Rx$Cxf32>, %z: tensor<$Rx$Cx$T>",
                     "%y = kiln.cast %x : tensor<$Rx$Cxf32> to "
                     "tensor<$Rx$Cx$T>\n"
                     "%s = kiln.add %y, %z : tensor<$Rx$Cx$T>",
                     "%s : tensor<$Rx$Cx$T>", "bf16");
  EXPECT_FALSE(row::mayShareSlot(round, 0, 0));
  EXPECT_TRUE(row::mayShareSlot(round, 1, 0));

  auto combine = build("%x: tensor<$Rx$Cx$T>, %a: tensor<$Cx$T>",
                       "%y = kiln.reduce_combine %x accumulate %a : "
                       "(tensor<$Rx$Cx$T>, tensor<$Cx$T>) -> tensor<$Cx$T>",
                       "%y : tensor<$Cx$T>");
  EXPECT_TRUE(row::mayShareSlot(combine, 1, 0));
  EXPECT_FALSE(row::mayShareSlot(combine, 0, 0));
}

} // namespace
