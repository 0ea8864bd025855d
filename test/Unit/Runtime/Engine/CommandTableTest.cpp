//===- CommandTableTest.cpp - Execution of commands -----------------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "CommandTable.h"
#include "TestArenas.h"
#include "TestPrograms.h"

#include "Gemm.h"

#include <cstring>
#include <gtest/gtest.h>
#include <random>

using namespace kiln::abi;
using namespace kiln::runtime;
using namespace kiln;

namespace {

template <typename T> T *as(char *pointer) {
  return reinterpret_cast<T *>(pointer);
}

/// Computes values[i] = imm[0] + i. The only argument is `values`.
void count(char *const *args, const int64_t *imm, int64_t begin, int64_t end,
           char *) {
  for (int64_t i = begin; i < end; ++i)
    as<int64_t>(args[0])[i] = imm[0] + i;
}

/// Computes values[i] += 1. The only argument is `values`.
void increment(char *const *args, const int64_t *, int64_t begin, int64_t end,
               char *) {
  for (int64_t i = begin; i < end; ++i)
    as<int64_t>(args[0])[i] += 1;
}

/// A gemm epilogue that adds a bias to rows, through scratch memory. The
/// arguments are (c, bias), and the immediates are (column begin, column end,
/// ld).
void addBias(char *const *args, const int64_t *imm, int64_t begin, int64_t end,
             char *scratch) {
  for (int64_t row = begin; row < end; ++row)
    for (int64_t column = imm[0]; column < imm[1]; ++column) {
      *as<float>(scratch) = as<float>(args[1])[column];
      as<float>(args[0])[row * imm[2] + column] += *as<float>(scratch);
    }
}

const void *const kernels[] = {reinterpret_cast<const void *>(count),
                               reinterpret_cast<const void *>(increment),
                               reinterpret_cast<const void *>(addBias)};

Command launch(int64_t kernel, KernelCall call, int64_t grain) {
  Command command;
  command.kernel = kernel;
  command.grain = grain;
  command.call = std::move(call);
  return command;
}

class CommandTableTest : public testing::Test {
protected:
  void run(Program program, int threads, CommandObserver *observer = nullptr) {
    ThreadTeam team(threads);
    prepareBlas(team);
    CommandTable table(program, arenas_, team, kernels);
    table.run(observer);
  }
  static constexpr std::size_t arenaBytes = 1 << 20;
  TestArenas arenas_{arenaBytes};
  char *const arena_ = arenas_.data();
};

TEST_F(CommandTableTest, LaunchCoversAllUnits) {
  for (int threads : {1, 2, 3}) {
    std::memset(arena_, 0, arenaBytes);
    run(programOf({launch(0, {{{64, 0}}, {{5, 0}}, {0}, 100}, 7)}), threads);
    for (int64_t i = 0; i < 100; ++i)
      EXPECT_EQ(as<int64_t>(arena_ + 64)[i], 5 + i);
    EXPECT_EQ(as<int64_t>(arena_ + 64)[100], 0);
  }
}

TEST_F(CommandTableTest, MicrobatchesMoveReferencesAndImmediates) {
  run(inMicrobatches({launch(0, {{{0, 800}}, {{1000, 10}}, {0}, 100}, 10),
                      launch(1, {{{800, 0}}, {}, {0}, 1}, 1)},
                     0, 1, 1, 3),
      2);
  for (int64_t i = 0; i < 3; ++i)
    EXPECT_EQ(as<int64_t>(arena_)[i * 100 + 1], 1000 + (i > 0 ? 10 : 0) + 1);
  EXPECT_EQ(as<int64_t>(arena_)[100], 1011);
}

/// The forward segment increments a counter and copies it to the buffer
/// instance (ring slot) of the micro-batch. The backward segment copies this
/// number to the micro-batch's element of the result.
TEST_F(CommandTableTest, RingsKeepTheValuesOfMicrobatchesInFlight) {
  Command make = launch(1, {{{0, 0}}, {}, {0}, 1}, 1), keep, store;
  keep.kind = store.kind = Command::Kind::Copy;
  keep.size = store.size = 8;
  keep.from = {0};
  keep.to = {64, 0, ArenaKind::Device, 8};
  store.from = keep.to;
  store.to = {512, 8};
  Result<SegmentOrder> order = SegmentOrder::parse("F3 F0 B3 F2 B0 F1 B1 B2");
  ASSERT_TRUE(order.ok());
  Program program = inMicrobatches({make, keep, store}, 0, 2, 3, 4, *order);
  EXPECT_EQ(program.microbatches.slots, 2);
  run(program, 1);
  const auto *numbers = as<int64_t>(arena_);
  EXPECT_EQ((std::vector<int64_t>(numbers + 64, numbers + 68)),
            (std::vector<int64_t>{2, 4, 3, 1}));
  EXPECT_EQ(numbers[10], 0);
}

TEST_F(CommandTableTest, CommandsOfTheFirstAndTheLastExecution) {
  std::vector<Command> commands;
  for (When when : {When::Always, When::First, When::Last}) {
    commands.push_back(
        launch(1, {{{int64_t(commands.size()) * 80, 8}}, {}, {0}, 1}, 1));
    commands.back().when = when;
  }
  Result<SegmentOrder> order = SegmentOrder::parse("F0 F1 F2 B1 B0 B2");
  ASSERT_TRUE(order.ok());
  run(inMicrobatches(commands, 0, 0, 3, 3, *order), 1);
  const auto *numbers = as<int64_t>(arena_);
  EXPECT_EQ((std::vector<int64_t>(numbers, numbers + 3)),
            (std::vector<int64_t>{1, 1, 1}));
  EXPECT_EQ((std::vector<int64_t>(numbers + 10, numbers + 13)),
            (std::vector<int64_t>{0, 1, 0}));
  EXPECT_EQ((std::vector<int64_t>(numbers + 20, numbers + 23)),
            (std::vector<int64_t>{0, 0, 1}));
}

/// A tensor of five elements is divided into shards of two elements: the shard
/// of rank 2 has the last element, followed by a zero, and the shard of rank 3
/// has only zeros.
TEST_F(CommandTableTest, ACopyOfAShardDependsOnTheRank) {
  const std::vector<int64_t> expected[] = {
      {10, 11, -1}, {12, 13, -1}, {14, 0, -1}, {0, 0, -1}};
  for (int rank = 0; rank < 4; ++rank) {
    for (int64_t i = 0; i < 5; ++i)
      as<int64_t>(arena_)[i] = 10 + i;
    std::fill_n(as<int64_t>(arena_ + 512), 3, -1);
    Command take;
    take.kind = Command::Kind::Copy;
    take.from = {0};
    take.to = {512};
    take.size = 16;
    take.wholeBytes = 40;
    take.axis = 1;
    Program program = programOf({take});
    ThreadTeam team(2);
    // The index of the rank on the axis selects the shard.
    support::Mesh mesh;
    mesh.axes = {{"dp", 3}, {"tp", 4}};
    CommandTable(program, arenas_, team, kernels, mesh, 2 * 4 + rank)
        .run(nullptr);
    const auto *copied = as<int64_t>(arena_ + 512);
    EXPECT_EQ(std::vector<int64_t>(copied, copied + 3), expected[rank]);
  }
}

/// The shard of the last rank ends inside a chunk that one thread copies.
TEST_F(CommandTableTest, ALargeShardIsCopiedInChunks) {
  constexpr int64_t shardBytes = arenaBytes / 4, wholeBytes = 700'001;
  for (int rank = 0; rank < 3; ++rank) {
    std::memset(arena_, 7, std::size_t(wholeBytes));
    std::memset(arena_ + 3 * shardBytes, 1, std::size_t(shardBytes));
    Command take;
    take.kind = Command::Kind::Copy;
    take.from = {0};
    take.to = {3 * shardBytes};
    take.size = shardBytes;
    take.wholeBytes = wholeBytes;
    take.axis = 0;
    Program program = programOf({take});
    ThreadTeam team(3);
    support::Mesh mesh;
    mesh.axes = {{"dp", 3}};
    CommandTable(program, arenas_, team, kernels, mesh, rank).run(nullptr);
    for (int64_t i = 0; i < shardBytes; ++i)
      ASSERT_EQ(arena_[3 * shardBytes + i],
                rank * shardBytes + i < wholeBytes ? 7 : 0)
          << i;
  }
}

TEST_F(CommandTableTest, TableRunsAgainFromTheFirstMicrobatch) {
  Program program =
      inMicrobatches({launch(1, {{{0, 8}}, {}, {0}, 1}, 1)}, 0, 1, 1, 2);
  ThreadTeam team(1);
  CommandTable table(program, arenas_, team, kernels);
  table.run(nullptr);
  table.run(nullptr);
  EXPECT_EQ(as<int64_t>(arena_)[0], 2);
  EXPECT_EQ(as<int64_t>(arena_)[1], 2);
  EXPECT_EQ(as<int64_t>(arena_)[2], 0);
}

TEST_F(CommandTableTest, LaunchesOfAllSizes) {
  for (int threads : {1, 2, 3}) {
    std::memset(arena_, 0, arenaBytes);
    // Numbers of units of work: zero, and numbers below, equal to and above the
    // grain, which is 4.
    int64_t sizes[] = {0, 10, 0, 4, 1, 0, 23, 0};
    std::vector<Command> commands;
    for (int64_t i = 0; i < 8; ++i)
      commands.push_back(launch(1, {{{i * 256, 0}}, {}, {0}, sizes[i]}, 4));
    run(programOf(commands), threads);
    for (int64_t i = 0; i < 8; ++i)
      for (int64_t unit = 0; unit < 32; ++unit)
        EXPECT_EQ(as<int64_t>(arena_ + i * 256)[unit], unit < sizes[i] ? 1 : 0)
            << i << " " << unit;
  }
}

TEST_F(CommandTableTest, FillAndCopyMoveLargeBlocks) {
  constexpr int64_t bytes = 400'001;
  std::memset(arena_, 7, arenaBytes);
  Command fill, copy;
  fill.kind = Command::Kind::Fill;
  fill.to = {16, 0};
  fill.size = bytes;
  copy.kind = Command::Kind::Copy;
  copy.from = {8, 0};
  copy.to = {500'000, 0};
  copy.size = bytes;
  run(programOf({fill, copy}), 2);
  EXPECT_EQ(arena_[15], 7);
  EXPECT_EQ(arena_[16], 0);
  EXPECT_EQ(arena_[16 + bytes - 1], 0);
  EXPECT_EQ(arena_[16 + bytes], 7);
  EXPECT_EQ(std::memcmp(arena_ + 8, arena_ + 500'000, bytes), 0);
  EXPECT_EQ(arena_[500'000 + bytes], 7);
}

TEST_F(CommandTableTest, ObserverSeesEveryExecutedCommand) {
  struct Recorder final : CommandObserver {
    void after(size_t command, const SegmentRun &run) override {
      seen.emplace_back(command, run.microbatch);
    }
    std::vector<std::pair<size_t, int64_t>> seen;
  } recorder;
  Command command = launch(1, {{{0, 0}}, {}, {0}, 1}, 1);
  run(inMicrobatches({command, command, command}, 0, 1, 2, 2), 1, &recorder);
  std::vector<std::pair<size_t, int64_t>> expected = {
      {0, 0}, {1, 0}, {0, 1}, {1, 1}, {2, 0}};
  EXPECT_EQ(recorder.seen, expected);
}

//===----------------------------------------------------------------------===//
// Gemm
//===----------------------------------------------------------------------===//

struct GemmShape {
  int64_t m, n, k, batch;
  bool transA, transB;
  int64_t gridM, gridN;
};

class GemmTest : public testing::TestWithParam<GemmShape> {};

/// Element offsets of the operands in the arena of a gemm test.
constexpr int64_t placeA = 0, placeB = 100'000, placeC = 200'000,
                  placeBias = 300'000, scratchPlace = 310'016;

template <typename T> Command gemmCommand(const GemmShape &shape) {
  Command command;
  command.kind = Command::Kind::Gemm;
  command.type = sizeof(T) == 8 ? ElementType::F64 : ElementType::F32;
  command.resultType = command.type;
  command.m = shape.m;
  command.n = shape.n;
  command.k = shape.k;
  command.batch = shape.batch;
  // Pad the leading dimensions, so that errors in their use are detected.
  command.a = {{placeA * int64_t(sizeof(T)), 0},
               (shape.transA ? shape.m : shape.k) + 3,
               shape.transA,
               0};
  command.b = {{placeB * int64_t(sizeof(T)), 0},
               (shape.transB ? shape.k : shape.n) + 1,
               shape.transB,
               0};
  command.c = {{placeC * int64_t(sizeof(T)), 0}, shape.n + 2, false, 0};
  command.a.batchStride = (shape.transA ? shape.k : shape.m) * command.a.ld;
  command.b.batchStride = (shape.transB ? shape.n : shape.k) * command.b.ld;
  command.c.batchStride = shape.m * command.c.ld;
  command.gridM = shape.gridM;
  command.gridN = shape.gridN;
  return command;
}

template <typename T> std::vector<T> randomArena() {
  std::mt19937 generator(3);
  std::uniform_real_distribution<T> uniform(-1, 1);
  std::vector<T> arena(350'000);
  for (T &value : arena)
    value = uniform(generator);
  return arena;
}

template <typename T>
std::vector<T> runGemm(const Program &program, int threads) {
  std::vector<T> values = randomArena<T>();
  TestArenas arenas(int64_t(values.size() * sizeof(T)));
  arenas.write(values);
  ThreadTeam team(threads);
  prepareBlas(team);
  CommandTable table(program, arenas, team, kernels);
  table.run(nullptr);
  return arenas.read<T>();
}

/// Returns the expected element (row, column) of matrix `entry` of the batch.
template <typename T>
double expectedElement(const Command &command, const std::vector<T> &arena,
                       int64_t entry, int64_t row, int64_t column) {
  const T *a = arena.data() + placeA + entry * command.a.batchStride;
  const T *b = arena.data() + placeB + entry * command.b.batchStride;
  double sum = 0;
  for (int64_t i = 0; i < command.k; ++i)
    sum += double(command.a.trans ? a[i * command.a.ld + row]
                                  : a[row * command.a.ld + i]) *
           double(command.b.trans ? b[column * command.b.ld + i]
                                  : b[i * command.b.ld + column]);
  return sum;
}

template <typename T> void checkGemm(const GemmShape &shape, bool accumulate) {
  Command command = gemmCommand<T>(shape);
  command.beta = accumulate ? GemmBeta::One : GemmBeta::Zero;
  Program program = programOf({command});
  std::vector<T> before = randomArena<T>();
  std::vector<T> after = runGemm<T>(program, 1);
  double tolerance = sizeof(T) == 8 ? 1e-12 : 1e-4;
  for (int64_t entry = 0; entry < shape.batch; ++entry)
    for (int64_t row = 0; row < shape.m; ++row)
      for (int64_t column = 0; column < command.c.ld; ++column) {
        size_t place = size_t(placeC + entry * command.c.batchStride +
                              row * command.c.ld + column);
        double expected =
            column >= shape.n
                ? double(before[place])
                : expectedElement(command, before, entry, row, column) +
                      (accumulate ? double(before[place]) : 0.0);
        ASSERT_NEAR(double(after[place]), expected, tolerance);
      }
  for (int threads : {2, 3})
    EXPECT_EQ(std::memcmp(runGemm<T>(program, threads).data(), after.data(),
                          after.size() * sizeof(T)),
              0)
        << "bits differ on " << threads << " threads";
}

TEST_P(GemmTest, EqualsTheNaiveProductOnAnyNumberOfThreads) {
  checkGemm<float>(GetParam(), false);
  checkGemm<float>(GetParam(), true);
  checkGemm<double>(GetParam(), false);
  checkGemm<double>(GetParam(), true);
}

INSTANTIATE_TEST_SUITE_P(
    Shapes, GemmTest,
    testing::Values(GemmShape{64, 96, 40, 1, false, false, 1, 1},
                    GemmShape{70, 90, 33, 1, false, false, 2, 3},
                    GemmShape{70, 90, 33, 1, true, false, 2, 2},
                    GemmShape{33, 150, 65, 1, false, true, 1, 4},
                    GemmShape{33, 150, 65, 1, true, true, 3, 2},
                    GemmShape{17, 15, 20, 3, false, true, 1, 1},
                    GemmShape{40, 40, 24, 4, true, false, 2, 2},
                    // Tiles begin at multiples of 16, so some are empty.
                    GemmShape{20, 20, 8, 1, false, false, 4, 4},
                    GemmShape{1, 300, 320, 1, false, false, 1, 2}));

TEST(GemmBetaTest, FirstStartsTheSum) {
  Command command = gemmCommand<float>({20, 30, 10, 1, false, false, 1, 2});
  command.beta = GemmBeta::First;
  Program program = inMicrobatches({command}, 0, 0, 1, 3);
  std::vector<float> after = runGemm<float>(program, 2);
  for (int64_t row = 0; row < 20; ++row)
    for (int64_t column = 0; column < 30; ++column)
      EXPECT_NEAR(double(after[size_t(placeC + row * command.c.ld + column)]),
                  3 * expectedElement(command, after, 0, row, column), 1e-4);
}

TEST(GemmBetaTest, ZeroIgnoresNotANumber) {
  Command command = gemmCommand<float>({20, 30, 10, 1, false, false, 1, 1});
  Program program = programOf({command});
  std::vector<float> values = randomArena<float>();
  std::fill_n(values.begin() + placeC, 20 * command.c.ld,
              std::numeric_limits<float>::quiet_NaN());
  TestArenas arenas(int64_t(values.size() * sizeof(float)));
  arenas.write(values);
  ThreadTeam team(1);
  CommandTable table(program, arenas, team, kernels);
  table.run(nullptr);
  EXPECT_FALSE(std::isnan(arenas.read<float>()[size_t(placeC)]));
}

TEST(GemmEpilogueTest, RunsOnEveryTile) {
  Command plain = gemmCommand<float>({50, 70, 10, 1, false, false, 2, 3});
  Command fused = plain;
  fused.epilogue = true;
  fused.kernel = 2;
  fused.call = {{fused.c.ref, {placeBias * 4, 0}}, {{fused.c.ld, 0}}, {0}, 0};
  fused.scratch = {scratchPlace * 4, 64};
  Program plainProgram = programOf({plain}), fusedProgram = programOf({fused});
  std::vector<float> products = runGemm<float>(plainProgram, 1);
  for (int threads : {1, 2, 3}) {
    std::vector<float> sums = runGemm<float>(fusedProgram, threads);
    for (int64_t row = 0; row < 50; ++row)
      for (int64_t column = 0; column < 70; ++column) {
        size_t place = size_t(placeC + row * plain.c.ld + column);
        ASSERT_EQ(sums[place],
                  products[place] + products[size_t(placeBias + column)]);
      }
  }
}

} // namespace
