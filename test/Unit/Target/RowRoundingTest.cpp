//===- RowRoundingTest.cpp - Conversions in row kernels -------------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "RowOnGpu.h"
#include "RowPrograms.h"

#include <cmath>

using namespace kiln::support;
using namespace kiln::test;
using namespace kiln;

namespace {

class RowRounding : public RowFusion {};

TEST_F(RowRounding, RoundsToNearestEven) {
  // The inputs combine every upper half of an f32, which is a bf16, with lower
  // halves at and around the midpoint of adjacent bf16 values. They include
  // subnormals, infinities and NaN.
  const uint32_t lower[] = {0, 1, 0x7fff, 0x8000, 0x8001, 0xffff};
  std::vector<float> x;
  for (uint32_t upper = 0; upper < 0x10000; ++upper)
    for (uint32_t low : lower)
      x.push_back(llvm::bit_cast<float>(upper << 16 | low));
  RowCase rowCase;
  rowCase.arguments = "%x: tensor<$Rx$Cxf32>";
  rowCase.body = "%y = kiln.cast %x : tensor<$Rx$Cxf32> to tensor<$Rx$Cxbf16>\n"
                 "%z = kiln.cast %y : tensor<$Rx$Cxbf16> to tensor<$Rx$Cxf32>";
  rowCase.results = "%y : tensor<$Rx$Cxbf16>, %z : tensor<$Rx$Cxf32>";
  auto instance = runner.build(rowCase, 6, 0x10000, "f32");
  ASSERT_TRUE(instance);
  auto launch = emit("k", instance->rows, 3);
  LoadedKernels library(*module);
  EXPECT_EQ(library.undefinedSymbols(), std::vector<std::string>());
  std::vector<uint16_t> y(x.size());
  std::vector<float> z(x.size());
  call(library.find("k"), 0, launch.units, x, y, z);
  for (size_t i = 0; i < x.size(); ++i) {
    if (std::isnan(x[i])) {
      ASSERT_TRUE(std::isnan(bfloatToFloat(y[i])) && std::isnan(z[i]));
      continue;
    }
    ASSERT_EQ(y[i], doubleToBfloat(x[i])) << x[i];
    ASSERT_EQ(llvm::bit_cast<uint32_t>(z[i]), uint32_t(y[i]) << 16) << x[i];
  }
}

TEST_F(RowRounding, ConvertsByteFloats) {
  // The inputs include the midpoints between adjacent 8-bit numbers.
  std::vector<float> x;
  for (uint32_t upper = 0; upper < 0x10000; ++upper)
    for (uint32_t low : {0u, 1u, 0xffffu, 0x8000u})
      x.push_back(llvm::bit_cast<float>(upper << 16 | low));
  for (auto [type, name] : {std::pair(ElementType::F8_E4M3, "f8E4M3FN"),
                            std::pair(ElementType::F8_E5M2, "f8E5M2")}) {
    RowCase rowCase;
    std::string narrow = "tensor<$Rx$Cx" + std::string(name) + ">";
    rowCase.arguments = "%x: tensor<$Rx$Cxf32>";
    rowCase.body = "%y = kiln.cast %x : tensor<$Rx$Cxf32> to " + narrow + "\n" +
                   "%z = kiln.cast %y : " + narrow + " to tensor<$Rx$Cxf32>";
    rowCase.results = "%y : " + narrow + ", %z : tensor<$Rx$Cxf32>";
    auto instance = runner.build(rowCase, 4, 0x10000, "f32");
    ASSERT_TRUE(instance);
    auto launch = emit(name, instance->rows, 3);
    LoadedKernels library(*module);
    EXPECT_EQ(library.undefinedSymbols(), std::vector<std::string>());
    std::vector<uint8_t> y(x.size()), wanted(x.size());
    std::vector<float> z(x.size()), wide(x.size());
    call(library.find(name), 0, launch.units, x, y, z);
    support::convertElements(ElementType::F32, x.data(), type, wanted.data(),
                             x.size());
    support::convertElements(type, wanted.data(), ElementType::F32, wide.data(),
                             x.size());
    for (size_t i = 0; i < x.size(); ++i) {
      if (std::isnan(x[i])) {
        ASSERT_TRUE(std::isnan(wide[i]) && std::isnan(z[i])) << name;
        ASSERT_EQ(y[i] & 0x7f, wanted[i] & 0x7f) << name;
        continue;
      }
      ASSERT_EQ(y[i], wanted[i]) << name << " " << x[i];
      ASSERT_EQ(llvm::bit_cast<uint32_t>(z[i]),
                llvm::bit_cast<uint32_t>(wide[i]))
          << name << " " << x[i];
    }
  }
}

TEST_F(RowRounding, RoundsDoublesOnce) {
  // The inputs are halfway points between adjacent bf16 values, and values so
  // close to a halfway point that rounding them to f32 first would give the
  // halfway point.
  HostTensor x(mlir::RankedTensorType::get(
      {5, 0x2000}, mlir::Float64Type::get(&runner.context)));
  std::vector<double> values;
  for (uint32_t upper = 0; upper < 0x10000; upper += 8) {
    // Use even and odd mantissas.
    uint32_t bits = (upper | (upper >> 3 & 1)) << 16 | 0x8000;
    double half = llvm::bit_cast<float>(bits);
    for (double value :
         {half, std::nextafter(half, HUGE_VAL), std::nextafter(half, -HUGE_VAL),
          half * (1 + 0x1p-30), half * (1 - 0x1p-30)})
      values.push_back(value);
  }
  const double ends[] = {0.0,        -0.0,     5e-324,  -1e-310,     0x1p-134,
                         0x1.8p-134, 0x1p-150, 1e-60,   0x1.fffp127, 0x1.ffp127,
                         1e39,       -1e300,   HUGE_VAL};
  std::copy(std::begin(ends), std::end(ends), values.begin());
  values.resize(x.reals.size());
  std::copy(values.begin(), values.end(), x.reals.begin());

  RowCase rowCase;
  rowCase.arguments = "%x: tensor<$Rx$Cxf64>";
  rowCase.body = "%y = kiln.cast %x : tensor<$Rx$Cxf64> to tensor<$Rx$Cxbf16>";
  rowCase.results = "%y : tensor<$Rx$Cxbf16>";
  auto instance = runner.build(rowCase, 5, 0x2000, "f64");
  ASSERT_TRUE(instance);
  auto check = [&](const uint16_t *y, const char *where) {
    for (size_t i = 0; i < values.size(); ++i) {
      if (std::isnan(values[i])) {
        ASSERT_TRUE(std::isnan(bfloatToFloat(y[i]))) << where;
        continue;
      }
      ASSERT_EQ(y[i], doubleToBfloat(values[i])) << values[i] << where;
    }
  };

  auto launch = emit("k", instance->rows, 2);
  LoadedKernels library(*module);
  EXPECT_EQ(library.undefinedSymbols(), std::vector<std::string>());
  std::vector<uint16_t> y(values.size());
  call(library.find("k"), 0, launch.units, values, y);
  check(y.data(), " on the cpu");

  RowOnGpu gpu(runner.context);
  gpu.add("k", RowShape{instance->rows, {{0x2000}, {0x2000}}});
  gpu.compile();
  std::vector<Buffer> buffers;
  buffers.emplace_back(x);
  buffers.emplace_back(tensorTypeOf(instance->results[0]));
  gpu.run("k", /*isShifted=*/false, buffers, 1, {}, {-1, -1}, /*seed=*/0);
  check(reinterpret_cast<const uint16_t *>(buffers[1].data()), " on the gpu");
}

} // namespace
