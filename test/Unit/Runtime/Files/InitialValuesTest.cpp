//===- InitialValuesTest.cpp - Tests of initial values --------------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Checks that the initial values of any slice of a tensor equal the slice of
// the initial values of the whole tensor, and that the distributions have the
// expected moments.
//
//===----------------------------------------------------------------------===//

#include "kiln/Runtime/Files/InitialValues.h"
#include "TestFiles.h"
#include "kiln/Support/ElementConversion.h"
#include <cmath>
#include <cstring>

using namespace kiln::runtime;
using namespace kiln::support;
using namespace kiln;
using nlohmann::json;

namespace {

InitialValue parse(const json &init) {
  Result<InitialValue> result = parseInitialValue(init, "state 'x'");
  EXPECT_TRUE(result.ok()) << result.status().message();
  return result.ok() ? *result : InitialValue();
}

std::vector<double> fill(const InitialValue &init, uint64_t seed,
                         std::string_view name,
                         const std::vector<int64_t> &shape, int64_t begin,
                         int64_t end) {
  std::vector<double> values(end - begin);
  expectOk(fillInitialValue(init, seed, name, shape, ElementType::F64, begin,
                            end, values.data()));
  return values;
}

TEST(InitialValues, SlicesAgreeWithTheWhole) {
  for (json init :
       {json{{"kind", "normal"}, {"mean", 0.5}, {"stddev", 2.0}},
        json{{"kind", "uniform"}, {"low", -1.0}, {"high", 3.0}},
        json{{"kind", "rope_sin"},
             {"inv_freq", {1.0, 0.1, 0.01, 0.001, 1e-4, 1e-5, 1e-6}},
             {"scale", 1.0}}}) {
    InitialValue value = parse(init);
    std::vector<double> whole = fill(value, 7, "w", {200, 7}, 0, 1400);
    for (int64_t begin : {0, 1, 2, 511, 513, 1399})
      for (int64_t end : {begin, begin + 1, int64_t{1400}}) {
        std::vector<double> part = fill(value, 7, "w", {200, 7}, begin, end);
        for (int64_t i = begin; i < end; ++i)
          ASSERT_EQ(part[i - begin], whole[i]) << init << " " << i;
      }
  }
}

TEST(InitialValues, ZeroRowLeavesTheOthers) {
  json init = {{"kind", "normal"}, {"mean", 0.5}, {"stddev", 2.0}};
  std::vector<double> expected = fill(parse(init), 7, "w", {20, 7}, 0, 140);
  std::fill_n(expected.begin() + 3 * 7, 7, 0.0);
  init["zero_row"] = 3;
  EXPECT_EQ(fill(parse(init), 7, "w", {20, 7}, 0, 140), expected);
  for (int64_t begin : {0, 20, 21, 24, 28, 29})
    EXPECT_EQ(fill(parse(init), 7, "w", {20, 7}, begin, 140),
              std::vector<double>(expected.begin() + begin, expected.end()));
}

TEST(InitialValues, ZeroRowMustExist) {
  json init = {{"kind", "normal"}, {"mean", 0.0}, {"stddev", 1.0}};
  for (json row : {json(-1), json(0.5), json("0"), json(nullptr)}) {
    init["zero_row"] = row;
    EXPECT_FALSE(parseInitialValue(init, "state 'x'").ok()) << row;
  }
  init["zero_row"] = 3;
  double values[6];
  for (std::vector<int64_t> shape : {std::vector<int64_t>{3, 2}, {}})
    EXPECT_FALSE(fillInitialValue(parse(init), 1, "w", shape, ElementType::F64,
                                  0, 1, values)
                     .ok());
}

TEST(InitialValues, DependOnSeedAndName) {
  InitialValue normal =
      parse({{"kind", "normal"}, {"mean", 0.0}, {"stddev", 1.0}});
  std::vector<double> base = fill(normal, 1, "a", {64}, 0, 64);
  EXPECT_EQ(base, fill(normal, 1, "a", {64}, 0, 64));
  EXPECT_NE(base, fill(normal, 2, "a", {64}, 0, 64));
  EXPECT_NE(base, fill(normal, 1, "b", {64}, 0, 64));
  // Values do not depend on the shape: a padded or reshaped tensor keeps its
  // values.
  EXPECT_EQ(base, fill(normal, 1, "a", {8, 16}, 0, 64));
}

TEST(InitialValues, NormalHasItsMoments) {
  InitialValue normal =
      parse({{"kind", "normal"}, {"mean", 0.25}, {"stddev", 0.02}});
  int64_t count = 200'000;
  std::vector<double> values = fill(normal, 3, "w", {count}, 0, count);
  double mean = 0, square = 0, fourth = 0, product = 0;
  for (double value : values)
    mean += value / count;
  for (int64_t i = 0; i < count; ++i) {
    double z = (values[i] - 0.25) / 0.02;
    square += z * z / count;
    fourth += z * z * z * z / count;
    product += z * (values[(i + 1) % count] - 0.25) / 0.02 / count;
  }
  // The tolerances are five standard errors.
  EXPECT_NEAR(mean, 0.25, 5 * 0.02 / std::sqrt(double(count)));
  EXPECT_NEAR(square, 1.0, 5 * std::sqrt(2.0 / count));
  EXPECT_NEAR(fourth, 3.0, 5 * std::sqrt(96.0 / count));
  EXPECT_NEAR(product, 0.0, 5 / std::sqrt(double(count)));
}

TEST(InitialValues, UniformHasItsRangeAndMoments) {
  InitialValue uniform =
      parse({{"kind", "uniform"}, {"low", -1.0}, {"high", 3.0}});
  int64_t count = 100'000;
  double mean = 0;
  for (double value : fill(uniform, 3, "w", {count}, 0, count)) {
    ASSERT_GE(value, -1.0);
    ASSERT_LT(value, 3.0);
    mean += value / count;
  }
  EXPECT_NEAR(mean, 1.0, 5 * 4 / std::sqrt(12.0 * count));
}

TEST(InitialValues, RopeTables) {
  json init = {{"kind", "rope_cos"}, {"inv_freq", {1.0, 0.25}}, {"scale", 1.5}};
  std::vector<double> cosines = fill(parse(init), 0, "c", {5, 2}, 0, 10);
  init["kind"] = "rope_sin";
  std::vector<double> sines = fill(parse(init), 0, "s", {5, 2}, 0, 10);
  for (int t = 0; t < 5; ++t)
    for (int i = 0; i < 2; ++i) {
      double angle = t * (i ? 0.25 : 1.0);
      EXPECT_EQ(cosines[2 * t + i], 1.5 * std::cos(angle));
      EXPECT_EQ(sines[2 * t + i], 1.5 * std::sin(angle));
    }
  std::vector<float> data(10);
  Status status = fillInitialValue(parse(init), 0, "s", {2, 5},
                                   ElementType::F32, 0, 10, data.data());
  ASSERT_FALSE(status.ok());
  EXPECT_NE(status.message().find("rotary"), std::string::npos);
}

TEST(InitialValues, RoundsToTheType) {
  InitialValue normal =
      parse({{"kind", "normal"}, {"mean", 0.0}, {"stddev", 1.0}});
  std::vector<double> wide = fill(normal, 5, "w", {999}, 0, 999);
  std::vector<float> single(999);
  std::vector<uint16_t> brain(999);
  expectOk(fillInitialValue(normal, 5, "w", {999}, ElementType::F32, 0, 999,
                            single.data()));
  expectOk(fillInitialValue(normal, 5, "w", {999}, ElementType::BF16, 0, 999,
                            brain.data()));
  for (int i = 0; i < 999; ++i) {
    EXPECT_EQ(single[i], float(wide[i]));
    EXPECT_EQ(brain[i], doubleToBfloat(wide[i]));
  }
}

TEST(InitialValues, Constants) {
  std::vector<int64_t> zeros(4, 77);
  expectOk(fillInitialValue(parse({{"kind", "constant"}, {"value", 0}}), 0, "z",
                            {4}, ElementType::I64, 0, 4, zeros.data()));
  EXPECT_EQ(zeros, std::vector<int64_t>(4, 0));
  EXPECT_EQ(
      fill(parse({{"kind", "constant"}, {"value", 1.5}}), 0, "c", {2}, 0, 2),
      (std::vector<double>{1.5, 1.5}));
  auto integers = [&](double value, ElementType type, void *data) {
    return fillInitialValue(parse({{"kind", "constant"}, {"value", value}}), 0,
                            "z", {4}, type, 0, 4, data);
  };
  expectOk(integers(-3, ElementType::I64, zeros.data()));
  EXPECT_EQ(zeros, std::vector<int64_t>(4, -3));
  int8_t bytes[4];
  expectOk(integers(-128, ElementType::I8, bytes));
  EXPECT_EQ(bytes[3], -128);
  EXPECT_FALSE(integers(128, ElementType::I8, bytes).ok());
  EXPECT_FALSE(integers(0.5, ElementType::I64, zeros.data()).ok());
}

TEST(InitialValues, RejectsBadSpecs) {
  auto reject = [](const json &init, std::string_view fragment) {
    expectBadInput(parseInitialValue(init, "state 'x'").status(), fragment);
  };
  reject(json::array(), "not an object");
  reject({{"value", 1}}, "needs a string 'kind'");
  reject({{"kind", "zeros"}}, "unknown kind of init 'zeros'");
  reject({{"kind", "normal"}, {"mean", 0}}, "needs a number 'stddev'");
  reject({{"kind", "uniform"}, {"low", "0"}, {"high", 1}},
         "needs a number 'low'");
  reject({{"kind", "rope_cos"}, {"scale", 1}},
         "needs a non-empty array 'inv_freq'");
  reject({{"kind", "rope_cos"}, {"scale", 1}, {"inv_freq", {"a"}}},
         "not a finite number");
}

} // namespace
