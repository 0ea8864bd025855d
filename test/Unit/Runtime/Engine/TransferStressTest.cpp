//===- TransferStressTest.cpp - Copies at random points -----------------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "TransferStress.h"
#include "TestArenas.h"
#include "TestPrograms.h"

#include "CommandTable.h"
#include "TransferEngine.h"
#include "RunToy.h"
#include "ToyOffload.h"

#include <cstring>

using namespace kiln::runtime::toy;
using namespace kiln::runtime;
using namespace kiln;

namespace {

/// Computes values[i] = imm[0] + i. The only argument is `values`.
void count(char *const *args, const int64_t *imm, int64_t begin, int64_t end,
           char *) {
  for (int64_t i = begin; i < end; ++i)
    reinterpret_cast<int64_t *>(args[0])[i] = imm[0] + i;
}

/// Computes sums[i] += values[i]. The arguments are (sums, values).
void accumulate(char *const *args, const int64_t *, int64_t begin, int64_t end,
                char *) {
  for (int64_t i = begin; i < end; ++i)
    reinterpret_cast<int64_t *>(args[0])[i] +=
        reinterpret_cast<int64_t *>(args[1])[i];
}

const void *const kernels[] = {reinterpret_cast<const void *>(count),
                               reinterpret_cast<const void *>(accumulate)};

constexpr int64_t values = 1000, bytes = values * 8;
/// Device offsets: a is copied to the host and back to b; c is unrelated.
constexpr int64_t a = 0, b = bytes, c = 2 * bytes, sum = 3 * bytes;

Command fillWith(int64_t place, int64_t first) {
  Command command;
  command.kernel = 0;
  command.call = {{{place, 0}}, {{first, 0}}, {0}, values};
  return command;
}

Command add(int64_t place) {
  Command command;
  command.kernel = 1;
  command.call = {{{sum, 0}, {place, 0}}, {}, {0}, values};
  return command;
}

Command startCopy(Ref from, Ref to, int64_t token) {
  Command command;
  command.kind = Command::Kind::CopyStart;
  command.from = from;
  command.to = to;
  command.size = bytes;
  command.token.number = token;
  return command;
}

Command waitFor(int64_t token) {
  Command command;
  command.kind = Command::Kind::CopyWait;
  command.token.number = token;
  return command;
}

/// Returns a program that, in each of two micro-batches, copies the results of
/// count() to the host, reuses their device memory, and copies the results
/// back.
Program roundTrip() {
  Ref host = {0, bytes, ArenaKind::Host};
  Program program = inMicrobatches({fillWith(a, 100),           // 0
                                    startCopy({a, 0}, host, 0), // 1
                                    fillWith(c, 7),             // 2
                                    add(c),                     // 3
                                    waitFor(0),                 // 4
                                    fillWith(a, 90'000),        // 5
                                    startCopy(host, {b, 0}, 1), // 6
                                    add(a),                     // 7
                                    fillWith(c, 70),            // 8
                                    waitFor(1),                 // 9
                                    add(b)},                    // 10
                                   0, 4, 11, 2);
  program.tokens = 2;
  return program;
}

/// Returns roundTrip() with command `from` moved to the position of command
/// `to`.
Program moved(size_t from, size_t to) {
  Program program = roundTrip();
  Command command = program.commands[from];
  program.commands.erase(program.commands.begin() + long(from));
  program.commands.insert(program.commands.begin() + long(to), command);
  return program;
}

/// Returns the device arena after a run.
std::vector<char> run(const Program &program, Transfers &transfers) {
  TestArenas arenas(4 * bytes, 2 * bytes);
  ThreadTeam team(1);
  CommandTable table(program, arenas, team, kernels);
  table.run(nullptr, &transfers);
  return arenas.read<char>();
}

std::vector<char> runSerial(SerialTransfers::When when) {
  SerialTransfers transfers(when);
  return run(roundTrip(), transfers);
}

/// Returns the number of seeds that change the results of the program.
int changes(const Program &program) {
  std::vector<char> expected = runSerial(SerialTransfers::When::Start);
  int changes = 0;
  for (uint64_t seed = 0; seed < 20; ++seed) {
    StressTransfers transfers(seed, 2);
    changes += run(program, transfers) != expected;
  }
  return changes;
}

TEST(TransferStressTest, SoundProgramsGiveTheSameBits) {
  EXPECT_EQ(runSerial(SerialTransfers::When::Wait),
            runSerial(SerialTransfers::When::Start));
  EXPECT_EQ(changes(roundTrip()), 0);
}

TEST(TransferStressTest, WaitBehindAWriteToTheSource) {
  EXPECT_GT(changes(moved(4, 5)), 5);
}

TEST(TransferStressTest, StartBeforeTheSourceIsWritten) {
  EXPECT_GT(changes(moved(1, 0)), 5);
}

TEST(TransferStressTest, WaitBehindAUseOfTheResult) {
  EXPECT_GT(changes(moved(9, 10)), 5);
}

TEST(TransferStressTest, CopyBackBeforeTheFirstHasArrived) {
  // The copy in starts right after the copy out, without a wait.
  EXPECT_GT(changes(moved(6, 2)), 5);
}

TEST(TransferStressTest, ASeedAlwaysDoesTheSame) {
  Program broken = moved(4, 5);
  std::vector<std::vector<char>> results;
  for (uint64_t seed : {1, 2, 3, 4}) {
    StressTransfers first(seed, 2), second(seed, 2);
    results.push_back(run(broken, first));
    EXPECT_EQ(results.back(), run(broken, second));
    EXPECT_EQ(first.counts().outBytes, 2 * bytes);
    EXPECT_EQ(first.counts().inBytes, 2 * bytes);
  }
  EXPECT_FALSE(results[0] == results[1] && results[1] == results[2] &&
               results[2] == results[3]);
}

//===----------------------------------------------------------------------===//
// Copies that the next micro-batch waits for
//===----------------------------------------------------------------------===//

constexpr int64_t parts = 40;

/// Returns a program that adds `parts` parts of the host arena. While a part is
/// added, the next part is copied in and the previous sum is copied out.
Program prefetch() {
  auto part = [](int64_t first, int64_t stride) {
    return Ref{first * bytes, stride * bytes, ArenaKind::Host};
  };
  Command keep;
  keep.kind = Command::Kind::Copy;
  keep.from = {a, 0};
  keep.to = {b, 0};
  keep.size = bytes;
  Program program =
      inMicrobatches({startCopy(part(0, 0), {a, 0}, 0),               // 0
                      startCopy({sum, 0}, part(2 * parts - 1, 0), 1), // 1
                      waitFor(0),                                     // 2
                      keep,                                           // 3
                      startCopy(part(1, 1), {a, 0}, 0),               // 4
                      waitFor(1),                                     // 5
                      add(b),                                         // 6
                      startCopy({sum, 0}, part(parts, 1), 1),         // 7
                      waitFor(0),                                     // 8
                      waitFor(1),                                     // 9
                      add(a)},                                        // 10
                     2, 5, 8, parts - 1);
  program.tokens = 4;
  return program;
}

/// Fills each part of the host arena with different values, runs the program,
/// and returns the contents of both arenas.
std::pair<std::vector<char>, std::vector<char>>
runOnParts(const Program &program, Transfers &transfers) {
  TestArenas arenas(4 * bytes, 2 * parts * bytes);
  std::vector<int64_t> host(parts * values);
  for (int64_t i = 0; i < parts * values; ++i)
    host[i] = i % values + 7 * (i / values);
  arenas.write(host, ArenaKind::Host);
  ThreadTeam team(1);
  CommandTable table(program, arenas, team, kernels);
  table.run(nullptr, &transfers);
  return {arenas.read<char>(), arenas.read<char>(ArenaKind::Host)};
}

TEST(PrefetchTest, AllTransfersGiveTheSameBits) {
  Program program = prefetch();
  SerialTransfers early(SerialTransfers::When::Start), late(SerialTransfers::When::Wait);
  auto expected = runOnParts(program, early);
  const auto *sums = reinterpret_cast<int64_t *>(expected.first.data() + sum);
  for (int64_t i = 0; i < values; ++i)
    ASSERT_EQ(sums[i], parts * i + 7 * parts * (parts - 1) / 2);
  EXPECT_EQ(runOnParts(program, late), expected);
  for (uint64_t seed = 0; seed < 20; ++seed) {
    StressTransfers transfers(seed, program.tokens);
    EXPECT_EQ(runOnParts(program, transfers), expected) << seed;
  }
  // The program executes many more copies than there are entries in the ring
  // buffers in which the engine stores pending copies.
  for (double rate : {0.0, 2e8}) {
    TransferEngine engine({rate, rate}, program.tokens);
    ASSERT_TRUE(engine.status().ok());
    EXPECT_EQ(runOnParts(program, engine), expected);
    EXPECT_EQ(engine.counts().inBytes, parts * bytes);
    EXPECT_EQ(engine.counts().outBytes, parts * bytes);
  }
}

TEST(PrefetchTest, AWaitTooLateGivesOtherBits) {
  Program broken = prefetch();
  std::swap(broken.commands[2], broken.commands[3]);
  SerialTransfers early(SerialTransfers::When::Start), late(SerialTransfers::When::Wait);
  EXPECT_NE(runOnParts(broken, late), runOnParts(broken, early));
}

class StressedToyTest : public ToyTest {};

TEST_F(StressedToyTest, TrainsLikeTheToy) {
  auto losses = [&](const nlohmann::json &description, std::string flag) {
    std::string log = path("log.jsonl");
    Outcome outcome =
        runToy(description, {data(), "--steps=4", "--log=" + log, flag});
    EXPECT_EQ(outcome.exitCode, 0) << outcome.err;
    EXPECT_EQ(readLog(log).back()["copied_in_bytes_per_step"],
              description["arena"]["host_bytes"] == 0 ? 0 : copiedInBytes);
    return lossTexts(log);
  };
  nlohmann::json offloaded = describeOffloaded();
  // StressTransfers ignores the rate of the link.
  offloaded["link"] = {{"out_bytes_per_second", 1}, {"in_bytes_per_second", 1}};
  std::vector<std::string> expected = losses(describe(), "--seed=0");
  EXPECT_EQ(expected.size(), 4u);
  for (int seed = 0; seed < 8; ++seed)
    EXPECT_EQ(losses(offloaded, "--stress-copies=" + std::to_string(seed)),
              expected);
  // Without copies the flag has no effect.
  EXPECT_EQ(losses(describe(), "--stress-copies=5"), expected);
}

TEST_F(StressedToyTest, NeedsASeed) {
  EXPECT_EQ(runToy({data(), "--steps=1", "--stress-copies=x"}).exitCode, 2);
}

TEST_F(StressedToyTest, AllocatesNothingInAStepEither) {
  Outcome outcome =
      runToy(describeOffloaded(), {"--check-memory", "--stress-copies=3"});
  EXPECT_EQ(outcome.exitCode, 0) << outcome.out << outcome.err;
}

} // namespace
