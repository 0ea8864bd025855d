//===- OpRepeatTest.cpp - Comparison of ops with a trace ------------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ResultDistance.h"
#include "RunToy.h"
#include "ToyOffload.h"

#include <cfloat>
#include <cstring>
#include <limits>

using namespace kiln::runtime::toy;
using namespace kiln::runtime;
using namespace kiln;

namespace {

/// Returns a description of the toy model in which slots have element types.
nlohmann::json describeTyped() {
  nlohmann::json description = describe();
  for (nlohmann::json &program : description["programs"])
    for (nlohmann::json &slot : program["slots"]) {
      if (slot["class"] == "workspace")
        continue;
      slot["dtype"] = slot["name"] == "row_loss" ? "f64" : "f32";
      for (const char *boundary : {"inputs", "outputs"})
        for (const nlohmann::json &value : program[boundary])
          if (value["name"] == slot["name"])
            slot["dtype"] = value["dtype"];
    }
  return description;
}

class OpRepeatTest : public ToyTest {
protected:
  std::string trace() const { return path("ops.trace"); }
  void SetUp() override {
    ToyTest::SetUp();
    Outcome outcome = runToy({data(), "--check-ops=" + trace()});
    ASSERT_EQ(outcome.exitCode, 0) << outcome.err;
    bytes_ = readFile(trace());
  }
  uint64_t number(std::size_t offset) const {
    uint64_t value;
    std::memcpy(&value, bytes_.data() + offset, sizeof(value));
    return value;
  }
  /// Returns the offset of the first record, after the arenas of the first
  /// program.
  std::size_t firstRecord() const {
    std::size_t arenas = 8 + 8 + number(8);
    return arenas + 8 + number(arenas);
  }
  Outcome repeat() {
    return runToy(describeTyped(), {"--check-trace=" + trace()});
  }
  Outcome repeat(const std::string &bytes) {
    std::ofstream(trace(), std::ios::binary) << bytes;
    return repeat();
  }
  std::string bytes_;
};

TEST_F(OpRepeatTest, GivesItsOwnBits) {
  Outcome outcome = repeat();
  EXPECT_EQ(outcome.exitCode, 0) << outcome.out << outcome.err;
  for (const char *program : {"train", "evaluate", "generate"})
    EXPECT_NE(outcome.out.find("ok    " + std::string(program) + ": launch, "),
              std::string::npos)
        << outcome.out;
  EXPECT_NE(outcome.out.find("train: gemm, "), std::string::npos);
  EXPECT_EQ(outcome.out.find("worst"), std::string::npos) << outcome.out;
  // The trace contains the inputs of the commands, so neither the seed nor the
  // number of threads affects the check.
  outcome = runToy({"--check-trace=" + trace(), "--seed=7", "--threads=3"});
  EXPECT_EQ(outcome.exitCode, 0) << outcome.out << outcome.err;
}

TEST_F(OpRepeatTest, WithAHostArena) {
  Outcome outcome =
      runToy(describeOffloaded(), {data(), "--check-ops=" + trace()});
  ASSERT_EQ(outcome.exitCode, 0) << outcome.err;
  outcome = runToy(describeOffloaded(), {"--check-trace=" + trace()});
  EXPECT_EQ(outcome.exitCode, 0) << outcome.out << outcome.err;
  EXPECT_NE(outcome.out.find("train: copy_start, "), std::string::npos);
  // The executable without a host arena must reject the trace, because its
  // arenas differ from those of the plan in the trace.
  outcome = repeat();
  EXPECT_EQ(outcome.exitCode, 3) << outcome.out;
  EXPECT_NE(outcome.err.find("the same plan"), std::string::npos);
}

TEST_F(OpRepeatTest, NamesTheResultThatDiffers) {
  std::size_t record = firstRecord();
  ASSERT_GE(number(record + 16), 1u); // Number of slots.
  std::string wrong = bytes_;
  float value = 1e30f;
  std::memcpy(wrong.data() + record + 32, &value, sizeof(value));
  Outcome outcome = repeat(wrong);
  EXPECT_EQ(outcome.exitCode, 1) << outcome.out;
  std::string program = bytes_.substr(16, number(8));
  EXPECT_NE(outcome.out.find("FAIL  " + program + ": "), std::string::npos)
      << outcome.out;
  EXPECT_NE(outcome.out.find("(commands[" + std::to_string(number(record)) +
                             "]), result '"),
            std::string::npos)
      << outcome.out;
  EXPECT_NE(outcome.err.find("--check-trace: 4 of "), std::string::npos)
      << outcome.err;
}

/// A changed bit of a result is a rounding difference if the slot has an
/// element type, and an error otherwise.
TEST_F(OpRepeatTest, SlotsSayWhatTheyHold) {
  std::size_t last = firstRecord() + 32;
  std::string wrong = bytes_;
  wrong[last] = char(wrong[last] ^ 1);
  Outcome outcome = repeat(wrong);
  EXPECT_EQ(outcome.exitCode, 0) << outcome.out << outcome.err;
  EXPECT_EQ(outcome.out.find("of unknown type"), std::string::npos);
  EXPECT_NE(outcome.out.find("; worst "), std::string::npos) << outcome.out;
  outcome = runToy({"--check-trace=" + trace()});
  EXPECT_EQ(outcome.exitCode, 1) << outcome.out;
  EXPECT_NE(outcome.out.find(" of unknown type, which must be bitwise equal"),
            std::string::npos)
      << outcome.out;
}

/// The slot has two rows of four bytes, one at its beginning and one at its
/// end. The bytes between them are a gap.
TEST_F(OpRepeatTest, GapsBetweenRowsAreNoValue) {
  std::size_t record = firstRecord();
  std::string wrong = bytes_;
  float value = 1e30f;
  std::memcpy(wrong.data() + record + 36, &value, sizeof(value));
  EXPECT_EQ(repeat(wrong).exitCode, 1);
  nlohmann::json description = describeTyped();
  nlohmann::json &slot = description["programs"][bytes_.substr(16, number(8))]
                                    ["slots"][number(record + 24)];
  int64_t bytes = slot["bytes"];
  ASSERT_GT(bytes, 12);
  slot["rows"] = {4, bytes - 4};
  Outcome outcome = runToy(description, {"--check-trace=" + trace()});
  EXPECT_EQ(outcome.exitCode, 0) << outcome.out << outcome.err;
}

TEST_F(OpRepeatTest, RefusesWhatIsNoTraceOfThisPlan) {
  for (const std::string &bytes :
       {std::string(), std::string("KILN"), "KILNOPS2" + bytes_.substr(8),
        bytes_.substr(0, 8), bytes_.substr(0, bytes_.size() / 2),
        bytes_.substr(0, bytes_.size() - 8), bytes_ + "more"}) {
    Outcome outcome = repeat(bytes);
    EXPECT_EQ(outcome.exitCode, 3) << bytes.size() << outcome.err;
    EXPECT_EQ(std::count(outcome.err.begin(), outcome.err.end(), '\n'), 1);
  }
  // A changed number in the header of a trace is an error.
  for (std::size_t byte : {8, 16, 16 + 5}) {
    std::string wrong = bytes_;
    wrong[byte] = char(wrong[byte] + 1);
    EXPECT_EQ(repeat(wrong).exitCode, 3) << byte;
  }
  EXPECT_EQ(runToy({"--check-trace=" + path("nothing")}).exitCode, 3);
  EXPECT_EQ(
      runToy({"--check-trace=" + trace(), "--lockstep=1", data(), "--steps=1"})
          .exitCode,
      2);
}

/// A kernel uses tokens of the trace as indices without checking them, so the
/// reader of the trace must refuse a token outside of the vocabulary.
TEST_F(OpRepeatTest, RefusesTokensOutsideOfTheVocabulary) {
  uint64_t name, arenas;
  std::memcpy(&name, bytes_.data() + 8, sizeof(name));
  std::size_t place = 16 + name;
  std::memcpy(&arenas, bytes_.data() + place, sizeof(arenas));
  std::string wrong = bytes_;
  std::fill_n(wrong.begin() + long(place + 8), arenas, char(0x3f));
  Outcome outcome = repeat(wrong);
  EXPECT_EQ(outcome.exitCode, 3) << outcome.out;
  EXPECT_NE(
      outcome.err.find(
          "element 0 of 'tokens' is 1061109567, expected a value >= 0 and < "),
      std::string::npos)
      << outcome.err;
}

//===----------------------------------------------------------------------===//
// Distances
//===----------------------------------------------------------------------===//

ResultDistance between(const std::vector<float> &a, const std::vector<float> &b,
                       std::vector<float> before = {}) {
  before.resize(a.size(), 77);
  auto bytes = [](const std::vector<float> &values) {
    return reinterpret_cast<const char *>(values.data());
  };
  return tensorDistance(ElementType::F32, bytes(before), bytes(a), bytes(b),
                        int64_t(4 * a.size()), 64);
}

TEST(ResultDistanceTest, OfTensors) {
  EXPECT_TRUE(between({1, -2}, {1, -2}).same);
  EXPECT_EQ(between({1, -2}, {1, -2}).share(), 0);
  ResultDistance last = between({1, 1}, {1, 1 + FLT_EPSILON});
  EXPECT_FALSE(last.same);
  EXPECT_NEAR(last.share(), 1 / (64 * std::sqrt(2)), 1e-4);
  EXPECT_GT(between({1, 1}, {1, 1.001f}).share(), 1);
  // A CPU flushes subnormal numbers to zero, and a GPU does not. Such
  // differences are not errors.
  EXPECT_TRUE(between({1, 0}, {1, FLT_MIN / 2}).sameButSubnormals());
  EXPECT_TRUE(between({0, 0}, {-0.0f, 0}).sameButSubnormals());
  float nan = std::numeric_limits<float>::quiet_NaN();
  EXPECT_EQ(between({nan, 1}, {nan, 1}).share(), 0);
  EXPECT_EQ(between({nan, 1}, {1, 1}).share(), INFINITY);
  EXPECT_EQ(between({0, 0}, {0, 1}).share(), 1 / (64 * double(FLT_EPSILON)));
  // The third list has the values before the op. The distance ignores elements
  // that have the same bits in all three lists.
  EXPECT_GT(
      between({nan, 1, 1e30f}, {nan, 1.001f, 1e30f}, {nan, 1, 1e30f}).share(),
      1);
  EXPECT_LT(between({nan, 1}, {nan, 1 + FLT_EPSILON}, {nan, 1}).share(), 1);
  // The two arrays of 13 bytes differ only after the last whole element.
  double a[] = {1, 2}, b[] = {1, 2}, before[] = {0, 0};
  reinterpret_cast<char *>(b)[12] = 1;
  EXPECT_EQ(tensorDistance(ElementType::F64, reinterpret_cast<char *>(before),
                           reinterpret_cast<char *>(a),
                           reinterpret_cast<char *>(b), 13, 1)
                .share(),
            INFINITY);
}

/// The product [1 1] [1 -1]^T is 1 - 1 = 0. The allowed error also depends on
/// the norms of the operands, because the norm of the product is 0.
TEST(ResultDistanceTest, OfProducts) {
  Arenas arenas;
  ASSERT_TRUE(arenas.of(ArenaKind::Device).map(256).ok());
  auto *memory = reinterpret_cast<float *>(arenas.of(ArenaKind::Device).data());
  float *a = memory, *b = memory + 16, *c = memory + 32;
  a[0] = a[1] = b[0] = 1;
  b[1] = -1;
  Command command;
  command.kind = Command::Kind::Gemm;
  command.m = command.n = 1;
  command.k = 2;
  command.a.ld = command.b.ld = 2;
  command.b.trans = true;
  command.b.ref.offset = 64;
  command.c.ref.offset = 132;
  command.c.ld = 1;
  Slot slot;
  slot.offset = 128;
  slot.bytes = 12;
  float other[3] = {0, FLT_EPSILON, 0};
  auto distance = [&] {
    return gemmDistance(command, outsideMicrobatches(), arenas, slot,
                        reinterpret_cast<const char *>(other));
  };
  c[0] = c[1] = c[2] = 0;
  EXPECT_FALSE(distance().same);
  EXPECT_GT(distance().error, 0);
  EXPECT_LT(distance().share(), 1);
  other[1] = 1e-3f;
  EXPECT_GT(distance().share(), 1);
  // Bytes outside of the result are not compared.
  other[1] = 0;
  other[2] = 1;
  EXPECT_TRUE(distance().same);
}

} // namespace
