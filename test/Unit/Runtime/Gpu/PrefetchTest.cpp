//===- PrefetchTest.cpp - Tests of copies from micro-batch to micro-batch -===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "EmuTesting.h"
#include "HandProgram.h"
#include "StreamOrder.h"
#include "kiln/Runtime/Gpu/EmuEngine.h"

#include <gtest/gtest.h>

using namespace kiln::runtime::testing;
using namespace kiln::runtime::toy;
using namespace kiln::runtime;
using namespace kiln;

namespace {

constexpr int64_t elements = 64, bytes = elements * 4;
/// Offsets in the device arena.
constexpr int64_t x = 0, arrived = 3 * bytes, current = 4 * bytes,
                  sum = 5 * bytes;

/// Computes x[i] = a i with the argument x and the immediate a.
void make(char *const *args, const int64_t *immediates, int64_t units) {
  int64_t i = blockId() * 32 + threadId();
  if (i < units)
    store(args[0], i, float(immediates[0] * i));
}

/// Computes sum += x with the arguments (x, sum).
void accumulate(char *const *args, const int64_t *, int64_t units) {
  int64_t i = blockId() * 32 + threadId();
  if (i < units)
    store(args[1], i, load<float>(args[1], i) + load<float>(args[0], i));
}

const void *const kernels[] = {reinterpret_cast<const void *>(make),
                               reinterpret_cast<const void *>(accumulate)};

Json add(const char *name, int64_t place) {
  return deviceLaunch(name, 1, {device(place), device(sum)}, bytes, {1},
                      Json::array(), elements);
}

Json fill(const char *name, Json ref) {
  return {{"op", "fill"},
          {"name", name},
          {"ref", std::move(ref)},
          {"bytes", bytes}};
}

/// Returns a program that copies three parts to the host and prefetches them
/// one by one into the same buffer: while one part is added to the sum, the
/// next is in flight.
Json prefetch() {
  Json commands = Json::array();
  for (int64_t i = 0, factor = 1; i < 3; ++i, factor *= 10) // 0 to 2
    commands.push_back(deviceLaunch("make", 0, {device(x + i * bytes)}, bytes,
                                    {0}, {{factor, 0}}, elements));
  for (const Json &command : std::vector<Json>{
           copyStart("out", device(x), host(0), 3 * bytes, 0),     // 3
           fill("zero", device(sum)),                              // 4
           copyWait("out", 0),                                     // 5
           copyStart("first", host(0), device(arrived), bytes, 1), // 6
           copyWait("first", 1),                                   // 7
           {{"op", "copy"},                                        // 8
            {"name", "keep"},
            {"from", device(arrived)},
            {"to", device(current)},
            {"bytes", bytes}},
           copyStart("next", host(bytes, bytes), device(arrived), bytes, 1),
           add("add", current),       // 10
           copyWait("next", 1),       // 11
           add("add_last", arrived)}) // 12
    commands.push_back(command);
  Json slots = {slot("x", "activation", x, 3 * bytes, 0, 5),
                slot("arrived", "activation", arrived, bytes, 6, 12),
                slot("current", "activation", current, bytes, 8, 10),
                slot("sum", "output", sum, bytes, 4, 13),
                slot("x_host", "activation", 0, 3 * bytes, 3, 11, true)};
  return handProgram(inMicrobatches(commands, {7, 9, 11, 2}), slots,
                     Json::array(), {value("sum", sum, elements)}, 6 * bytes);
}

Json &program(Json &description) { return description["programs"]["run"]; }

Json &slotOf(Json &description, std::size_t index) {
  return program(description)["slots"][index];
}

/// Returns the error of the reader or of the stream order check.
std::string refusal(const Json &description) {
  Result<ProgramFile> file = parseProgramFile(description.dump(), 2);
  if (!file.ok())
    return file.status().message();
  BufferNames names(*file, file->programs[0]);
  return checkStreamOrder(buildStreamProgram(*file, file->programs[0]), names)
      .message();
}

void refuses(const Json &description, const std::string &message) {
  std::string found = refusal(withQueues(description));
  EXPECT_NE(found.find(message), std::string::npos)
      << message << "\nbut: " << found;
}

TEST(PrefetchTest, RunsInEveryOrder) {
  for (uint64_t seed = 0; seed < 20; ++seed) {
    Result<std::unique_ptr<Engine>> engine =
        createEmuEngine(prefetch().dump(), kernels, 2);
    ASSERT_TRUE(engine.ok()) << engine.status().message();
    ASSERT_TRUE((*engine)->shuffle(seed).ok());
    Status status = (*engine)->start(1);
    for (int run = 0; run < 2 && status.ok(); ++run)
      status = (*engine)->run(0);
    ASSERT_TRUE(status.ok()) << status.message();
    const auto *data =
        reinterpret_cast<const float *>((*engine)->outputData(0, 0));
    for (int64_t i = 0; i < elements; ++i)
      ASSERT_EQ(data[i], float(111 * i));
    std::vector<MemoryCheckLine> lines;
    status = (*engine)->checkPlan([](size_t) { return Status(); }, lines);
    ASSERT_TRUE(status.ok()) << status.message();
    for (const MemoryCheckLine &line : lines)
      EXPECT_TRUE(line.ok) << line.check << ": " << line.found;
  }
}

TEST(PrefetchTest, NoCopyBeforeTheFirstWait) {
  Json description = prefetch();
  eraseCommand(program(description), 6);
  refuses(description, "(copy_wait 'first' for micro-batch 0) waits for token "
                       "1, but no earlier transfer has this token");
}

TEST(PrefetchTest, NoWaitInTheMicrobatches) {
  Json description = prefetch();
  eraseCommand(program(description), 7);
  // Erase the command that reads the destination.
  eraseCommand(program(description), 7);
  refuses(description,
          "(copy_start 'next' for micro-batch 0) writes the destination of "
          "copy_start 'first' at commands[6] while that copy is in flight");
  commandAt(program(description), 7)["bytes"] = 0;
  refuses(description, "(copy_start 'next' for micro-batch 0) uses token 1 "
                       "while copy_start 'first' at commands[6], which has the "
                       "same token, is in flight");
  // The copy of the first micro-batch is in flight in the second micro-batch.
  description = prefetch();
  Json wait = commandAt(program(description), 7);
  eraseCommand(program(description), 7);
  insertCommand(program(description), "begin", 7, wait);
  refuses(description,
          "(copy 'keep' for micro-batch 1) reads the destination of copy_start "
          "'next' for micro-batch 0 at commands[9] while that copy is in "
          "flight");
}

TEST(PrefetchTest, NoWaitAfterTheMicrobatches) {
  Json description = prefetch();
  eraseCommand(program(description), 11);
  refuses(description,
          "(launch 'add_last') reads the destination of copy_start 'next' for "
          "micro-batch 1 at commands[9] while that copy is in flight");
  eraseCommand(program(description), 11);
  refuses(description,
          "(copy_start 'next' for micro-batch 1) has no copy_wait");
}

TEST(PrefetchTest, AnotherMicrobatchWritesTheSource) {
  // The fill of micro-batch 1 conflicts with the copy of micro-batch 0.
  Json description = prefetch();
  insertCommand(program(description), 7,
                fill("clear", host(2 * bytes, -bytes)));
  refuses(description,
          "(fill 'clear' for micro-batch 1) writes the source of copy_start "
          "'next' for micro-batch 0 at commands[10] while that copy is in "
          "flight");
  description = prefetch();
  insertCommand(program(description), 7, fill("clear", host(2 * bytes, 0)));
  EXPECT_EQ(refusal(withQueues(description)).find("in flight"),
            std::string::npos);
  // A wait at the end of the backward segment completes the copy of micro-batch
  // 0 before micro-batch 1.
  description = prefetch();
  insertCommand(program(description), "backward", 2, copyWait("next", 1));
  insertCommand(program(description), 7,
                fill("clear", host(2 * bytes, -bytes)));
  EXPECT_EQ(refusal(withQueues(description)).find("in flight"),
            std::string::npos);
}

TEST(PrefetchTest, TheLastCopyIsInFlightAfterTheMicrobatches) {
  Json description = prefetch();
  insertCommand(program(description), 11, fill("clear", host(2 * bytes, 0)));
  refuses(description, "(fill 'clear') writes the source of copy_start 'next' "
                       "for micro-batch 1 at commands[9]");
  commandAt(program(description), 11)["ref"] = host(bytes, 0);
  EXPECT_EQ(refusal(withQueues(description)), "");
}

TEST(PrefetchTest, SlotsAreLiveFromTheStartToTheWait) {
  const std::string last = "(copy_wait 'next') waits for copy_start 'next' for "
                           "micro-batch 1 at commands[9], ",
                    first = "(copy_wait 'first' for micro-batch 0) waits for "
                            "copy_start 'first' at commands[6], ",
                    why = "but the bytes that this copy ",
                    end = " are in no slot that is live from its start to "
                          "this copy_wait";
  Json description = prefetch();
  slotOf(description, 1)["last"] = 10;
  refuses(description, last + why + "writes" + end);
  description = prefetch();
  slotOf(description, 1)["first"] = 7;
  refuses(description, first + why + "writes" + end);
  description = prefetch();
  slotOf(description, 4)["last"] = 10;
  refuses(description, last + why + "reads" + end);
}

TEST(PrefetchTest, MissingWaitsOfQueues) {
  EXPECT_EQ(refusal(prefetch()), "");
  // Without its wait, the copy of the next part could overwrite the current
  // part before 'keep' copies the current part.
  Json description = prefetch();
  commandAt(program(description), 9).erase("after");
  std::string message = refusal(description);
  EXPECT_NE(message.find("missing event: copy 'keep' (commands[8] for "
                         "micro-batch 0) on the compute stream reads "
                         "'arrived', and copy_start 'next' (commands[9] for "
                         "micro-batch 0) on the copy-in stream writes "
                         "'arrived'"),
            std::string::npos)
      << message;
  // The compute queue does not wait for the copy of the first part.
  description = prefetch();
  commandAt(program(description), 7)["queues"] = {"copy_out"};
  message = refusal(description);
  EXPECT_NE(message.find("missing event: copy_start 'first' (commands[6]) on "
                         "the copy-in stream writes 'arrived', and copy "
                         "'keep' (commands[8] for micro-batch 0)"),
            std::string::npos)
      << message;
}

} // namespace
