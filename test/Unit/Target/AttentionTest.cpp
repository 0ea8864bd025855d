//===- AttentionTest.cpp - Attention kernels against plain loops ----------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// q, k and v share the rows of one fused tensor, and so do their gradients. A
// write outside a result therefore changes another checked value.
//
//===----------------------------------------------------------------------===//

#include "KernelCalls.h"

#include "kiln/Support/Rng.h"

#include <limits>

using namespace kiln::cpu;
using namespace kiln::support;
using namespace kiln::test;
using namespace kiln;

namespace {

struct Case {
  int64_t sequences, length, heads, kvHeads, headDim;
  bool causal;
  double dropout = 0;
  int64_t kvTile = 64;
  bool takesRng = false;
  /// The index of the rank that computes the heads of this case, or -1 if the
  /// heads are not divided over ranks.
  int64_t rank = -1;
};

/// The expected results, computed in f64 element by element.
struct Expected {
  std::vector<double> o, lse, gradients;
};

constexpr int64_t kKey = 3;
int64_t rng[4] = {42, 7, 5, 0}; // {seed, step, first sequence, rank}.

template <typename T> struct Problem {
  Case c;
  int64_t columns, oColumns;
  double scale;
  std::vector<T> qkv, o, dout, gradients;
  std::vector<Full<T>> lse;

  explicit Problem(const Case &c)
      : c(c), columns((c.heads + 2 * c.kvHeads) * c.headDim),
        oColumns(c.heads * c.headDim), scale(1.1 / std::sqrt(c.headDim)) {
    size_t rows = c.sequences * c.length;
    qkv = someValues<T>(rows * columns, 1);
    dout = someValues<T>(rows * oColumns, 2);
    rng[3] = c.rank;
    clear();
  }

  void clear() {
    Full<T> nan = std::numeric_limits<Full<T>>::quiet_NaN();
    o.assign(dout.size(), nan);
    lse.assign(c.sequences * c.heads * c.length, nan);
    gradients.assign(qkv.size(), nan);
  }

  template <typename Shape> Shape shape(mlir::Builder b) const {
    Shape s;
    s.sequences = c.sequences;
    s.length = c.length;
    s.heads = c.heads;
    s.kvHeads = c.kvHeads;
    s.headDim = c.headDim;
    s.causal = c.causal;
    s.dropout = c.dropout;
    s.takesRng = c.takesRng || c.dropout > 0;
    s.dividesHeads = c.rank >= 0;
    s.kvTile = c.kvTile;
    s.elementType = elementType<T>(b);
    s.qStride = s.kStride = s.vStride = columns;
    s.oStride = oColumns;
    return s;
  }

  std::vector<int64_t> immediates() const {
    int64_t bits;
    std::memcpy(&bits, &scale, sizeof(bits));
    return {kKey, bits};
  }

  std::vector<void *> args() {
    T *q = qkv.data();
    std::vector<void *> args = {q, q + c.heads * c.headDim,
                                q + (c.heads + c.kvHeads) * c.headDim};
    if (c.takesRng || c.dropout > 0)
      args.push_back(rng);
    args.insert(args.end(), {o.data(), lse.data()});
    return args;
  }

  std::vector<void *> gradientArgs() {
    T *q = qkv.data(), *dq = gradients.data();
    std::vector<void *> args = {q,
                                q + c.heads * c.headDim,
                                q + (c.heads + c.kvHeads) * c.headDim,
                                o.data(),
                                lse.data(),
                                dout.data()};
    if (c.takesRng || c.dropout > 0)
      args.push_back(rng);
    args.insert(args.end(), {dq, dq + c.heads * c.headDim,
                             dq + (c.heads + c.kvHeads) * c.headDim});
    return args;
  }

  double keepFactor(int64_t s, int64_t h, int64_t i, int64_t j) const {
    if (c.dropout == 0)
      return 1;
    h += std::max<int64_t>(c.rank, 0) * c.heads;
    uint64_t key =
        splitmix64(uint64_t(rng[0]) + 0x9E3779B97F4A7C15 * (kKey + 1));
    auto words =
        philox4x32({uint32_t(j / 64 * 16 + j % 16), uint32_t(h * c.length + i),
                    uint32_t(rng[2] + s), uint32_t(rng[1])},
                   {uint32_t(key), uint32_t(key >> 32)});
    bool dropped = words[j / 16 % 4] < uint32_t(c.dropout * 0x1p32);
    return dropped ? 0 : 1 / (1 - c.dropout);
  }

  Expected reference() const {
    int64_t d = c.headDim;
    Expected e;
    e.o.assign(o.size(), 0);
    e.lse.assign(lse.size(), 0);
    e.gradients.assign(qkv.size(), 0);
    auto dot = [d](auto *x, auto *y) {
      double sum = 0;
      for (int64_t i = 0; i < d; ++i)
        sum += double(x[i]) * y[i];
      return sum;
    };
    auto addTo = [d](double *sum, double factor, auto *x) {
      for (int64_t i = 0; i < d; ++i)
        sum[i] += factor * x[i];
    };
    for (int64_t s = 0; s < c.sequences; ++s)
      for (int64_t h = 0; h < c.heads; ++h)
        for (int64_t i = 0; i < c.length; ++i) {
          int64_t keys = c.causal ? i + 1 : c.length;
          int64_t kvHead = h / (c.heads / c.kvHeads);
          auto at = [&](int64_t row, int64_t head) {
            return (s * c.length + row) * columns + head * d;
          };
          size_t q = at(i, h), row = (s * c.length + i) * oColumns + h * d;
          auto k = [&](int64_t j) { return at(j, c.heads + kvHead); };
          auto v = [&](int64_t j) {
            return at(j, c.heads + c.kvHeads + kvHead);
          };
          std::vector<double> p(keys);
          double maximum = -1e300, sum = 0;
          for (int64_t j = 0; j < keys; ++j) {
            p[j] = scale * dot(&qkv[q], &qkv[k(j)]);
            maximum = std::max(maximum, p[j]);
          }
          for (double &x : p)
            sum += x = std::exp(x - maximum);
          e.lse[(s * c.heads + h) * c.length + i] = maximum + std::log(sum);
          for (int64_t j = 0; j < keys; ++j) {
            p[j] /= sum;
            addTo(&e.o[row], p[j] * keepFactor(s, h, i, j), &qkv[v(j)]);
          }
          double rowSum = dot(&dout[row], &e.o[row]);
          for (int64_t j = 0; j < keys; ++j) {
            double keep = keepFactor(s, h, i, j);
            double dp = dot(&dout[row], &qkv[v(j)]) * keep;
            double ds = scale * p[j] * (dp - rowSum);
            addTo(&e.gradients[q], ds, &qkv[k(j)]);
            addTo(&e.gradients[k(j)], ds, &qkv[q]);
            addTo(&e.gradients[v(j)], p[j] * keep, &dout[row]);
          }
        }
    return e;
  }
};

template <typename T> CompiledKernel forward(const Problem<T> &problem) {
  return CompiledKernel([&](auto module, auto name, mlir::Builder b) {
    return emitAttention(module, name,
                         problem.template shape<AttentionShape>(b));
  });
}

template <typename T> CompiledKernel backward(const Problem<T> &problem) {
  return CompiledKernel([&](auto module, auto name, mlir::Builder b) {
    auto shape = problem.template shape<AttentionGradShape>(b);
    shape.doutStride = problem.oColumns;
    shape.dqStride = shape.dkStride = shape.dvStride = problem.columns;
    return emitAttentionGrad(module, name, shape);
  });
}

template <typename T> void check(const Case &c) {
  SCOPED_TRACE(testing::Message()
               << "sequences " << c.sequences << " length " << c.length
               << " heads " << c.heads << "/" << c.kvHeads << " head dim "
               << c.headDim << " causal " << c.causal << " dropout "
               << c.dropout << " tile " << c.kvTile << " bytes " << sizeof(T));
  Problem<T> problem(c);
  Expected expected = problem.reference();
  CompiledKernel attention = forward(problem), gradient = backward(problem);

  std::vector<T> o, lse, gradients;
  for (int calls : {1, 2, 3}) {
    problem.clear();
    attention.run(problem.args(), problem.immediates(), calls);
    gradient.run(problem.gradientArgs(), problem.immediates(), calls);
    if (calls == 1) {
      o = problem.o;
      lse = problem.lse;
      gradients = problem.gradients;
      EXPECT_LE(relativeError(o, expected.o), tolerance<T>());
      EXPECT_LE(relativeError(lse, expected.lse), tolerance<T>());
      EXPECT_LE(relativeError(gradients, expected.gradients), tolerance<T>());
      continue;
    }
    EXPECT_TRUE(sameBits(o, problem.o)) << calls << " calls";
    EXPECT_TRUE(sameBits(lse, problem.lse)) << calls << " calls";
    EXPECT_TRUE(sameBits(gradients, problem.gradients)) << calls << " calls";
  }
}

TEST(Attention, Causal) {
  check<float>({2, 40, 2, 2, 64, true});
  check<float>({3, 130, 2, 2, 64, true});
  check<float>({1, 300, 1, 1, 128, true});
}

TEST(Attention, NotCausal) {
  check<float>({2, 128, 2, 2, 64, false});
  check<float>({1, 50, 2, 2, 40, false});
  check<float>({1, 150, 2, 2, 16, false});
}

TEST(Attention, GroupedQueries) {
  check<float>({2, 65, 4, 2, 40, true});
  check<float>({1, 130, 6, 2, 32, true});
}

TEST(Attention, OddSizes) {
  check<float>({1, 1, 1, 1, 16, true});
  check<float>({1, 2, 2, 1, 8, false});
  check<float>({2, 50, 1, 1, 24, true});
  check<float>({1, 67, 2, 2, 80, true});
  check<float>({1, 65, 1, 1, 96, false});
}

TEST(Attention, Dropout) {
  check<float>({2, 70, 4, 2, 64, true, 0.1});
  check<float>({1, 100, 2, 2, 24, false, 0.3, 128});
}

TEST(Attention, DropoutOfTheHeadsOfARank) {
  for (int64_t rank : {0, 2})
    check<float>({2, 70, 4, 2, 64, true, 0.1, 64, /*takesRng=*/true, rank});
}

TEST(Attention, UnusedRandomNumbers) {
  check<float>({2, 70, 4, 2, 64, true, 0, 64, /*takesRng=*/true});
}

TEST(Attention, OtherKeyTiles) {
  check<float>({1, 200, 2, 2, 64, true, 0, 128});
  check<float>({1, 200, 2, 2, 64, false, 0, 192});
  check<float>({1, 300, 1, 1, 32, true, 0, 256});
}

TEST(Attention, NoLibraryCallsInF32) {
  Problem<float> problem({1, 70, 2, 1, 40, true, 0.1});
  EXPECT_EQ(forward(problem).undefinedSymbols(), std::vector<std::string>());
  EXPECT_EQ(backward(problem).undefinedSymbols(), std::vector<std::string>());
}

TEST(Attention, Doubles) {
  check<double>({1, 65, 2, 2, 40, true});
  check<double>({1, 40, 2, 1, 8, false, 0.2});
}

/// Checks that the bf16 kernels give the results of the f32 kernels, rounded
/// once. The kernels differ only in loads and stores.
void checkBfloats(const Case &c, int calls = 2) {
  SCOPED_TRACE(testing::Message()
               << "sequences " << c.sequences << " length " << c.length
               << " heads " << c.heads << "/" << c.kvHeads << " head dim "
               << c.headDim << " causal " << c.causal << " dropout "
               << c.dropout);
  Problem<Bfloat> problem(c);
  Problem<float> wide(c);
  wide.qkv = converted<float>(problem.qkv);
  wide.dout = converted<float>(problem.dout);
  CompiledKernel attention = forward(problem), gradient = backward(problem);
  EXPECT_EQ(attention.undefinedSymbols(), std::vector<std::string>());
  EXPECT_EQ(gradient.undefinedSymbols(), std::vector<std::string>());
  attention.run(problem.args(), problem.immediates(), calls);
  forward(wide).run(wide.args(), wide.immediates());
  EXPECT_TRUE(sameBits(problem.o, converted<Bfloat>(wide.o)));
  EXPECT_TRUE(sameBits(problem.lse, wide.lse));
  wide.o = converted<float>(problem.o);
  gradient.run(problem.gradientArgs(), problem.immediates(), calls);
  backward(wide).run(wide.gradientArgs(), wide.immediates());
  EXPECT_TRUE(sameBits(problem.gradients, converted<Bfloat>(wide.gradients)));
}

TEST(Attention, BfloatsAreRoundedOnce) {
  checkBfloats({2, 130, 2, 2, 40, true});
  checkBfloats({1, 67, 2, 2, 80, false});
  checkBfloats({2, 70, 4, 2, 24, true, 0.1, 128});
}

TEST(Attention, GradientsOfBfloatsOverPanelsAreRoundedOnce) {
  checkBfloats({4, 1030, 1, 1, 16, true});         // Three panels per head.
  checkBfloats({2, 600, 4, 2, 24, false, 0, 192}); // Grouped-query attention.
  // The work for a key head is split into several units.
  checkBfloats({1, 530, 2, 1, 16, true});
}

TEST(Attention, MoreSequencesSameBits) {
  Problem<float> few({1, 200, 2, 2, 32, true}), many({20, 200, 2, 2, 32, true});
  std::copy(few.qkv.begin(), few.qkv.end(), many.qkv.begin());
  std::copy(few.dout.begin(), few.dout.end(), many.dout.begin());
  for (Problem<float> *problem : {&few, &many}) {
    forward(*problem).run(problem->args(), problem->immediates());
    backward(*problem).run(problem->gradientArgs(), problem->immediates());
  }
  many.o.resize(few.o.size());
  many.lse.resize(few.lse.size());
  many.gradients.resize(few.gradients.size());
  EXPECT_TRUE(sameBits(few.o, many.o));
  EXPECT_TRUE(sameBits(few.lse, many.lse));
  EXPECT_TRUE(sameBits(few.gradients, many.gradients));
}

TEST(Attention, NaNReachesTheResults) {
  Case c{1, 70, 1, 1, 32, true};
  Problem<float> clean(c);
  CompiledKernel attention = forward(clean), gradient = backward(clean);
  for (int64_t head : {0, 1, 2}) { // In q, in k, in v.
    Problem<float> problem(c);
    problem.qkv[(66 * 3 + head) * 32 + 5] =
        std::numeric_limits<float>::quiet_NaN();
    attention.run(problem.args(), problem.immediates());
    EXPECT_TRUE(std::isnan(problem.o[66 * 32 + 5]));
    EXPECT_TRUE(std::isfinite(problem.o[63 * 32 + 5]));
    if (head != 2) {
      EXPECT_TRUE(std::isnan(problem.lse[66]));
    }
    gradient.run(problem.gradientArgs(), problem.immediates());
    EXPECT_TRUE(std::isnan(problem.gradients[66 * 96 + 5]));
  }
}

/// The scores are far from zero and have both signs. Subtracting the maximum
/// keeps the arguments of exp in range.
TEST(Attention, LargeScores) {
  Problem<float> problem({1, 130, 1, 1, 16, true});
  for (float &x : problem.qkv)
    x *= 12;
  Expected expected = problem.reference();
  forward(problem).run(problem.args(), problem.immediates());
  backward(problem).run(problem.gradientArgs(), problem.immediates());
  EXPECT_LE(relativeError(problem.o, expected.o), 1e-4);
  EXPECT_LE(relativeError(problem.lse, expected.lse), 2e-6);
  EXPECT_LE(relativeError(problem.gradients, expected.gradients), 1e-3);
}

} // namespace
