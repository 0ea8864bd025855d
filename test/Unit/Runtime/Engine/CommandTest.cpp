//===- CommandTest.cpp - Accesses and order of commands -------------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "kiln/Runtime/Engine/Command.h"

#include "CommandWalk.h"
#include "TestPrograms.h"
#include "ToyOffload.h"
#include "kiln/Runtime/Engine/Program.h"

#include <gtest/gtest.h>
#include <map>
#include <ostream>
#include <tuple>
#include <utility>

namespace kiln::runtime {

static auto fieldsOf(const MemoryAccess &access) {
  return std::tuple(access.ref.offset, access.ref.stride, access.ref.arena,
                    access.bytes, access.mode, access.use);
}

static bool operator==(const MemoryAccess &a, const MemoryAccess &b) {
  return fieldsOf(a) == fieldsOf(b);
}

static void PrintTo(const MemoryAccess &access, std::ostream *out) {
  *out << "[" << access.ref.offset << ", " << access.ref.stride << ", "
       << (access.ref.arena == ArenaKind::Host ? "host" : "device") << "] of "
       << access.bytes << ", mode " << int(access.mode) << ", use "
       << int(access.use);
}

} // namespace kiln::runtime

using namespace kiln::abi;
using namespace kiln::runtime;
using namespace kiln;

namespace {

using Accesses = std::vector<MemoryAccess>;
constexpr AccessMode Read = AccessMode::Read, Write = AccessMode::Write,
                     ReadWrite = AccessMode::ReadWrite;
constexpr AccessUse Argument = AccessUse::Argument, Matrix = AccessUse::Matrix,
                    Beside = AccessUse::Beside, Transfer = AccessUse::Transfer,
                    Scratch = AccessUse::Scratch,
                    AsWorkspace = AccessUse::Workspace;
constexpr ArenaKind Host = ArenaKind::Host;

Command ofKind(Command::Kind kind) {
  Command command;
  command.kind = kind;
  return command;
}

/// Returns a launch that reads its second argument and writes the first and the
/// third.
Command launch() {
  Command command = ofKind(Command::Kind::Launch);
  command.kernel = 0;
  command.call = {{{64, 0}, {128, 32}, {256, 0, Host}}, {}, {2, 0}, 10};
  return command;
}

Command gemm() {
  Command command = ofKind(Command::Kind::Gemm);
  command.m = 2;
  command.n = 8;
  command.k = 3;
  command.a = {{0, 24}, 3, false, 0, 24};
  command.b = {{1024, 0}, 8, false, 0, 96};
  command.c = {{2048, 64}, 8, false, 0, 64};
  return command;
}

/// Returns the accesses of gemm() without bias, aux and workspace.
Accesses matrices(AccessMode result) {
  return {{{0, 24}, 24, Read, Matrix},
          {{1024, 0}, 96, Read, Matrix},
          {{2048, 64}, 64, result, Matrix}};
}

TEST(CommandAccessTest, LaunchOnACpu) {
  Command command = launch();
  EXPECT_EQ(accessesOf(command),
            (Accesses{{{64, 0}, unknownBytes, ReadWrite, Argument},
                      {{128, 32}, unknownBytes, Read, Argument},
                      {{256, 0, Host}, unknownBytes, ReadWrite, Argument}}));
  command.scratch = {4096, 64, 192};
  Accesses accesses = accessesOf(command);
  ASSERT_EQ(accesses.size(), 4u);
  EXPECT_EQ(accesses[3], (MemoryAccess{{4096}, 192, Write, Scratch}));
}

TEST(CommandAccessTest, LaunchOnAGpu) {
  Command command = launch();
  command.threads = 128;
  command.call->extents = {40, 32, 0};
  EXPECT_EQ(accessesOf(command),
            (Accesses{{{64, 0}, 40, ReadWrite, Argument},
                      {{128, 32}, 32, Read, Argument},
                      {{256, 0, Host}, 0, ReadWrite, Argument}}));
}

TEST(CommandAccessTest, AttentionOfAVendorLibrary) {
  Command command = launch();
  command.threads = 128;
  command.call->extents = {40, 32, 8};
  command.attention.emplace();
  command.workspace = {8192, 256};
  Accesses accesses = accessesOf(command);
  ASSERT_EQ(accesses.size(), 4u);
  EXPECT_EQ(accesses[3], (MemoryAccess{{8192}, 256, Write, AsWorkspace}));
}

TEST(CommandAccessTest, GemmReadsItsResultToAddToIt) {
  Command command = gemm();
  EXPECT_EQ(accessesOf(command), matrices(Write));
  for (GemmBeta beta : {GemmBeta::One, GemmBeta::First}) {
    command.beta = beta;
    EXPECT_EQ(accessesOf(command), matrices(ReadWrite));
  }
}

TEST(CommandAccessTest, GemmWithAnEpilogue) {
  Command command = gemm();
  command.epilogue = true;
  command.kernel = 1;
  command.call = {{{2048, 64}, {512, 0}}, {}, {0}, 0};
  command.scratch = {4096, 64, 128};
  command.workspace = {8192, 64};
  Accesses expected = {{{2048, 64}, unknownBytes, ReadWrite, Argument},
                       {{512, 0}, unknownBytes, Read, Argument},
                       {{4096}, 128, Write, Scratch}};
  for (const MemoryAccess &access : matrices(Write))
    expected.push_back(access);
  expected.push_back({{8192}, 64, Write, AsWorkspace});
  EXPECT_EQ(accessesOf(command), expected);
}

TEST(CommandAccessTest, GemmWithALibraryEpilogue) {
  Command command = gemm();
  command.bias = {{512, 4}, 32};
  command.aux = {{768, 8}, 64};
  MemoryAccess readBias = {{512, 4}, 32, Read, Beside},
               writtenBias = {{512, 4}, 32, Write, Beside},
               readAux = {{768, 8}, 64, Read, Beside},
               writtenAux = {{768, 8}, 64, Write, Beside};
  const std::pair<GemmEpilogue, Accesses> cases[] = {
      {GemmEpilogue::None, {}},
      {GemmEpilogue::Bias, {readBias}},
      {GemmEpilogue::GeluBias, {readBias}},
      {GemmEpilogue::GeluAuxBias, {readBias, writtenAux}},
      {GemmEpilogue::GeluGrad, {readAux}},
      {GemmEpilogue::BiasGradA, {writtenBias}},
      {GemmEpilogue::BiasGradB, {writtenBias}}};
  for (const auto &[library, beside] : cases) {
    command.library = library;
    Accesses expected = matrices(Write);
    expected.insert(expected.end(), beside.begin(), beside.end());
    EXPECT_EQ(accessesOf(command), expected) << nameOf(library);
  }
}

TEST(CommandAccessTest, FillsAndCopies) {
  for (Command::Kind kind :
       {Command::Kind::Fill, Command::Kind::Copy, Command::Kind::CopyStart}) {
    Command command = ofKind(kind);
    command.from = {64, 16};
    command.to = {128, 0, Host};
    command.size = 16;
    Accesses expected = {{{64, 16}, 16, Read, Transfer},
                         {{128, 0, Host}, 16, Write, Transfer}};
    if (kind == Command::Kind::Fill)
      expected.erase(expected.begin());
    EXPECT_EQ(accessesOf(command), expected) << commandKindName(ofKind(kind));
    // An access of zero bytes is included, because it appears in traces.
    command.size = 0;
    EXPECT_EQ(accessesOf(command).size(), expected.size());
  }
}

TEST(CommandAccessTest, ACopyOfAShardReadsTheWholeTensor) {
  Command command = ofKind(Command::Kind::Copy);
  command.from = {64, 16};
  command.to = {128, 0};
  command.size = 16;
  command.wholeBytes = 40;
  EXPECT_EQ(accessesOf(command), (Accesses{{{64, 16}, 40, Read, Transfer},
                                           {{128, 0}, 16, Write, Transfer}}));
}

TEST(CommandAccessTest, Collectives) {
  Command command = ofKind(Command::Kind::Collective);
  command.tensors = {{{{64}, 5, 20}, {}}, {{{128}, 2, 8}, {}}};
  EXPECT_EQ(accessesOf(command), (Accesses{{{64}, 20, ReadWrite, Transfer},
                                           {{128}, 8, ReadWrite, Transfer}}));
  EXPECT_EQ(resultsOf(command), accessesOf(command));
  command.tensors[0].shard = {{256}, 3, 12};
  command.tensors[1].shard = {{512}, 1, 4};
  // A reduce-scatter leaves partial sums in the memory of the whole tensors.
  command.collective = Collective::ReduceScatter;
  EXPECT_EQ(accessesOf(command), (Accesses{{{64}, 20, ReadWrite, Transfer},
                                           {{256}, 12, Write, Transfer},
                                           {{128}, 8, ReadWrite, Transfer},
                                           {{512}, 4, Write, Transfer}}));
  command.collective = Collective::AllGather;
  EXPECT_EQ(accessesOf(command), (Accesses{{{64}, 20, Write, Transfer},
                                           {{256}, 12, Read, Transfer},
                                           {{128}, 8, Write, Transfer},
                                           {{512}, 4, Read, Transfer}}));
  EXPECT_EQ(resultsOf(command), (Accesses{{{64}, 20, Write, Transfer},
                                          {{128}, 8, Write, Transfer}}));
}

TEST(CommandAccessTest, AWaitTouchesNothing) {
  EXPECT_EQ(accessesOf(ofKind(Command::Kind::CopyWait)), Accesses());
}

TEST(CommandAccessTest, ModesSayWhetherBytesAreReadAndWritten) {
  auto does = [](AccessMode mode) {
    MemoryAccess access;
    access.mode = mode;
    return std::pair(access.reads(), access.writes());
  };
  EXPECT_EQ(does(Read), std::pair(true, false));
  EXPECT_EQ(does(Write), std::pair(false, true));
  EXPECT_EQ(does(ReadWrite), std::pair(true, true));
}

TEST(CommandAccessTest, ResultsLeaveOutReadsAndTemporaryMemory) {
  Command command = gemm();
  command.library = GemmEpilogue::GeluAuxBias;
  command.bias = {{512, 0}, 32};
  command.aux = {{768, 0}, 64};
  command.workspace = {8192, 64};
  EXPECT_EQ(resultsOf(command), (Accesses{{{2048, 64}, 64, Write, Matrix},
                                          {{768, 0}, 64, Write, Beside}}));
  command = launch();
  command.scratch = {4096, 64, 192};
  EXPECT_EQ(resultsOf(command),
            (Accesses{{{64, 0}, unknownBytes, ReadWrite, Argument},
                      {{256, 0, Host}, unknownBytes, ReadWrite, Argument}}));
}

/// Every access of a description is within its arena in every execution, and
/// scratch memory has room for all threads.
TEST(CommandAccessTest, AccessesOfADescription) {
  Result<ProgramFile> file =
      parseProgramFile(toy::describeOffloaded().dump(), toy::kernelCount);
  ASSERT_TRUE(file.ok()) << file.status().message();
  std::map<Command::Kind, std::size_t> seen;
  for (const Program &program : file->programs) {
    for (CommandWalk walk(program); walk.next();) {
      const Command &command = program.commands[walk.command()];
      for (const MemoryAccess &access : accessesOf(command)) {
        ++seen[command.kind];
        Place place = access.ref.at(walk.run());
        EXPECT_GE(place.offset, 0) << command.name;
        EXPECT_LE(place.offset + std::max<int64_t>(access.bytes, 1),
                  file->bytesOf(place.arena))
            << command.name;
        if (access.use == Scratch) {
          EXPECT_EQ(access.bytes,
                    command.scratch.bytesPerThread * toy::maxThreads);
        }
      }
    }
  }
  for (Command::Kind kind :
       {Command::Kind::Launch, Command::Kind::Gemm, Command::Kind::Fill,
        Command::Kind::Copy, Command::Kind::CopyStart})
    EXPECT_GT(seen[kind], 0u) << commandKindName(ofKind(kind));
  EXPECT_EQ(seen.size(), 5u);
}

//===----------------------------------------------------------------------===//
// Order
//===----------------------------------------------------------------------===//

TEST(CommandOrderTest, EachQuestionIsAboutOneKind) {
  using Kind = Command::Kind;
  const std::pair<bool (*)(const Command &), Kind> questions[] = {
      {startsTransfer, Kind::CopyStart}, {waitsForTransfer, Kind::CopyWait}};
  EXPECT_TRUE(startsTransfer(ofKind(Kind::Collective)));
  EXPECT_FALSE(waitsForTransfer(ofKind(Kind::Collective)));
  for (auto [question, yes] : questions)
    for (Kind kind : {Kind::Launch, Kind::Gemm, Kind::Fill, Kind::Copy,
                      Kind::CopyStart, Kind::CopyWait})
      EXPECT_EQ(question(ofKind(kind)), kind == yes)
          << commandKindName(ofKind(kind));
}

/// Returns a program with two micro-batches and these commands:
///   begin      0 fill
///   forward    1 copy, 2 fill
///   backward   3 copy, 4 fill (only in the first execution of the segment),
///              5 fill (only in the last execution)
///   end        6 copy
Program twoMicrobatches(const char *text) {
  using Kind = Command::Kind;
  std::vector<Command> commands;
  for (Kind kind : {Kind::Fill, Kind::Copy, Kind::Fill, Kind::Copy, Kind::Fill,
                    Kind::Fill, Kind::Copy})
    commands.push_back(ofKind(kind));
  commands[4].when = When::First;
  commands[5].when = When::Last;
  Result<SegmentOrder> order = SegmentOrder::parse(text);
  EXPECT_TRUE(order.ok() && order->check(2).ok());
  return inMicrobatches(commands, 1, 3, 6, 2, *order);
}

TEST(CommandOrderTest, CountsExecutions) {
  Program program = twoMicrobatches("alternate");
  std::vector<int64_t> counts;
  for (std::size_t i = 0; i < program.commands.size(); ++i)
    counts.push_back(program.executionsOf(i));
  EXPECT_EQ(counts, (std::vector<int64_t>{1, 2, 2, 2, 1, 1, 1}));
}

TEST(CommandOrderTest, AWalkVisitsWhatIsExecuted) {
  using Visits = std::vector<std::tuple<std::size_t, int64_t, int64_t>>;
  auto visits = [](const char *order) {
    Program program = twoMicrobatches(order);
    Visits seen;
    for (CommandWalk walk(program); walk.next();)
      seen.emplace_back(walk.command(), walk.run().microbatch, walk.run().slot);
    return seen;
  };
  EXPECT_EQ(visits("alternate"), (Visits{{0, 0, 0},
                                         {1, 0, 0},
                                         {2, 0, 0},
                                         {3, 0, 0},
                                         {4, 0, 0},
                                         {1, 1, 0},
                                         {2, 1, 0},
                                         {3, 1, 0},
                                         {5, 1, 0},
                                         {6, 0, 0}}));
  EXPECT_EQ(visits("F1 F0 B0 B1"), (Visits{{0, 0, 0},
                                           {1, 1, 0},
                                           {2, 1, 0},
                                           {1, 0, 1},
                                           {2, 0, 1},
                                           {3, 0, 1},
                                           {4, 0, 1},
                                           {3, 1, 0},
                                           {5, 1, 0},
                                           {6, 0, 0}}));
}

TEST(CommandOrderTest, LifetimesOfSlots) {
  Program program = twoMicrobatches("alternate");
  auto life = [&](int64_t first, int64_t last, bool isOutside = false) {
    Slot slot;
    slot.isOutside = isOutside;
    slot.first = first;
    slot.last = last;
    Lifetime found = program.lifetimeOf(slot);
    return std::tuple(program.livesPerMicrobatch(slot), found.first,
                      found.last);
  };
  EXPECT_EQ(life(1, 5), std::tuple(true, 1, 5));
  EXPECT_EQ(life(2, 2), std::tuple(true, 2, 2));
  EXPECT_EQ(life(0, 2), std::tuple(false, 0, 5));
  EXPECT_EQ(life(2, 7), std::tuple(false, 1, 7));
  // If a slot begins in the backward segment and ends after all micro-batches,
  // it is live from the last execution of the segment.
  EXPECT_EQ(life(4, 7), std::tuple(false, 4, 7));
  EXPECT_EQ(life(4, 7, true), std::tuple(false, 1, 7));
  EXPECT_EQ(life(0, 6), std::tuple(false, 0, 6));
}

TEST(CommandOrderTest, AWalkThroughNothing) {
  Program program = twoMicrobatches("alternate");
  program.runs.clear();
  CommandWalk walk(program);
  EXPECT_FALSE(walk.next());
  EXPECT_FALSE(walk.next());
}

} // namespace
