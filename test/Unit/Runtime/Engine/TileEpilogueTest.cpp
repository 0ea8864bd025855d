//===- TileEpilogueTest.cpp - Tests of emulated vendor epilogues ----------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "GemmTiles.h"
#include "kiln/Support/ElementConversion.h"

#include <cmath>
#include <gtest/gtest.h>

using namespace kiln::abi;
using namespace kiln::runtime;
using namespace kiln;

namespace {

constexpr int64_t m = 40, n = 48, k = 20;

struct Matrix {
  Matrix(ElementType type, int64_t elements, int seed)
      : type(type), bytes(std::size_t(elements * bitsOf(type) / 8)) {
    std::vector<double> wanted;
    for (int64_t i = 0; i < elements; ++i)
      wanted.push_back(std::sin(double(i + 1000 * seed)));
    convertElements(ElementType::F64, wanted.data(), type, bytes.data(),
                    elements);
  }
  std::vector<double> values() const {
    std::vector<double> result(bytes.size() * 8 / std::size_t(bitsOf(type)));
    convertElements(type, bytes.data(), ElementType::F64, result.data(),
                    int64_t(result.size()));
    return result;
  }

  ElementType type;
  std::vector<char> bytes;
};

double gelu(double x) {
  return 0.5 * x *
         (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
}

void check(ElementType type, ElementType resultType, GemmEpilogue epilogue,
           bool transA, bool transB) {
  Command command;
  command.kind = Command::Kind::Gemm;
  command.type = type;
  command.resultType = resultType;
  command.m = m;
  command.n = n;
  command.k = k;
  command.gridM = 2;
  command.gridN = 2;
  command.a.ld = transA ? m : k;
  command.a.trans = transA;
  command.b.ld = transB ? k : n;
  command.b.trans = transB;
  command.c.ld = n;
  command.library = epilogue;
  int64_t length = biasLength(epilogue, m, n);
  Matrix a(type, m * k, 0), b(type, k * n, 1), c(resultType, m * n, 2),
      bias(resultType, length, 3), aux(resultType, m * n, 4);
  std::vector<double> row = bias.values(), u = aux.values();
  GemmPlaces places = {a.bytes.data(), b.bytes.data(), c.bytes.data(),
                       bias.bytes.data(), aux.bytes.data()};
  std::vector<char> scratch(std::size_t(tileScratchBytes(command)));
  for (int64_t i = 0; i < gemmTiles(command); ++i)
    if (GemmTile tile = gemmTile(command, i); !tile.empty())
      computeTile(command, tile, places, /*accumulate=*/false, scratch.data());
  if (writesBias(epilogue))
    computeBiasGrad(command, places);

  std::vector<double> x = a.values(), y = b.values();
  auto atA = [&](int64_t i, int64_t l) {
    return x[std::size_t(transA ? l * m + i : i * k + l)];
  };
  auto atB = [&](int64_t l, int64_t j) {
    return y[std::size_t(transB ? j * k + l : l * n + j)];
  };
  double tolerance = resultType == ElementType::BF16 ? 0x1p-7 : 1e-5;
  auto expectNear = [&](double got, double expected) {
    EXPECT_NEAR(got, expected, tolerance * (1 + std::abs(expected)));
  };
  std::vector<double> results = c.values(), kept = aux.values(),
                      sums = bias.values();
  for (int64_t i = 0; i < m; ++i)
    for (int64_t j = 0; j < n; ++j) {
      auto place = std::size_t(i * n + j);
      double sum = 0;
      for (int64_t l = 0; l < k; ++l)
        sum += atA(i, l) * atB(l, j);
      if (hasBias(epilogue) && !writesBias(epilogue))
        sum += row[std::size_t(j)];
      if (writesAux(epilogue))
        expectNear(kept[place], sum);
      else
        EXPECT_EQ(kept[place], u[place]);
      if (epilogue == GemmEpilogue::GeluGrad)
        sum *= (gelu(u[place] + 1e-5) - gelu(u[place] - 1e-5)) / 2e-5;
      else if (usesGelu(epilogue))
        sum = gelu(sum);
      expectNear(results[place], sum);
    }
  for (int64_t i = 0; i < length; ++i) {
    double sum = writesBias(epilogue) ? 0 : row[std::size_t(i)];
    for (int64_t l = 0; l < (writesBias(epilogue) ? k : 0); ++l)
      sum += epilogue == GemmEpilogue::BiasGradA ? atA(i, l) : atB(l, i);
    expectNear(sums[std::size_t(i)], sum);
  }
}

TEST(TileEpilogueTest, ComputesWhatTheirNamesSay) {
  for (int e = 0; e <= int(GemmEpilogue::BiasGradB); ++e)
    for (bool transA : {false, true})
      for (bool transB : {false, true}) {
        auto epilogue = GemmEpilogue(e);
        SCOPED_TRACE(nameOf(epilogue));
        check(ElementType::F32, ElementType::F32, epilogue, transA, transB);
        check(ElementType::BF16, ElementType::BF16, epilogue, transA, transB);
        if (!usesGelu(epilogue))
          check(ElementType::BF16, ElementType::F32, epilogue, transA, transB);
      }
}

TEST(TileEpilogueTest, HasANameForEach) {
  for (int e = 1; e <= int(GemmEpilogue::BiasGradB); ++e)
    EXPECT_EQ(gemmEpilogueOf(nameOf(GemmEpilogue(e))), GemmEpilogue(e));
  EXPECT_EQ(gemmEpilogueOf(""), std::nullopt);
  EXPECT_EQ(gemmEpilogueOf("relu"), std::nullopt);
}

} // namespace
