//===- PrefetchTest.cpp - Tests of copies across loop iterations ----------===//
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
           {{"op", "loop_begin"}, {"count", 2}},                   // 7
           copyWait("first", 1),                                   // 8
           {{"op", "copy"},                                        // 9
            {"name", "keep"},
            {"from", device(arrived)},
            {"to", device(current)},
            {"bytes", bytes}},
           copyStart("next", host(bytes, bytes), device(arrived), bytes, 1),
           add("add", current),       // 11
           {{"op", "loop_end"}},      // 12
           copyWait("next", 1),       // 13
           add("add_last", arrived)}) // 14
    commands.push_back(command);
  Json slots = {slot("x", "activation", x, 3 * bytes, 0, 5),
                slot("arrived", "activation", arrived, bytes, 6, 14),
                slot("current", "activation", current, bytes, 9, 11),
                slot("sum", "output", sum, bytes, 4, 15),
                slot("x_host", "activation", 0, 3 * bytes, 3, 13, true)};
  return handProgram(commands, slots, Json::array(),
                     {value("sum", sum, elements)}, 6 * bytes);
}

Json &commandsOf(Json &description) {
  return toy::commandsOf(description["programs"]["run"]);
}

Json &slotOf(Json &description, std::size_t index) {
  return description["programs"]["run"]["slots"][index];
}

void insert(Json &description, std::size_t at, const Json &command) {
  Json &commands = commandsOf(description);
  commands.insert(commands.begin() + long(at), command);
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
  commandsOf(description).erase(6);
  refuses(description, "commands[7]' waits for token 1, but no earlier "
                       "copy_start has this token");
}

TEST(PrefetchTest, NoWaitInTheLoop) {
  Json description = prefetch();
  commandsOf(description).erase(8);
  // Erase the command that reads the destination.
  commandsOf(description).erase(8);
  refuses(description,
          "commands[8]' (copy_start 'next') writes the destination of "
          "copy_start 'first' at commands[6] while that copy is in flight");
  commandsOf(description)[8]["bytes"] = 0;
  refuses(description, "commands[8]' uses token 1 while copy_start 'first' at "
                       "commands[6] is in flight");
  // The copy of the first iteration is in flight in the second iteration.
  description = prefetch();
  Json wait = commandsOf(description)[8];
  commandsOf(description).erase(8);
  insert(description, 7, wait);
  refuses(description,
          "commands[9]' (copy 'keep') reads the destination of copy_start "
          "'next' at commands[10] while that copy is in flight");
}

TEST(PrefetchTest, NoWaitAfterTheLoop) {
  Json description = prefetch();
  commandsOf(description).erase(13);
  refuses(description,
          "commands[13]' (launch 'add_last') reads the destination of "
          "copy_start 'next' at commands[10] while that copy is in flight");
  commandsOf(description).erase(13);
  refuses(description, "commands[10]' (copy_start 'next') has no copy_wait");
}

TEST(PrefetchTest, AnotherIterationWritesTheSource) {
  // The fill of iteration 1 conflicts with the copy of iteration 0.
  Json description = prefetch();
  insert(description, 8, fill("clear", host(2 * bytes, -bytes)));
  refuses(description,
          "commands[8]' (fill 'clear') writes the source of copy_start 'next' "
          "at commands[11] while that copy is in flight");
  description = prefetch();
  insert(description, 8, fill("clear", host(2 * bytes, 0)));
  EXPECT_EQ(refusal(withQueues(description)).find("in flight"),
            std::string::npos);
  // A wait at the end of the loop body completes the copy of iteration 0 before
  // iteration 1.
  description = prefetch();
  insert(description, 12, copyWait("next", 1));
  insert(description, 8, fill("clear", host(2 * bytes, -bytes)));
  EXPECT_EQ(refusal(withQueues(description)).find("in flight"),
            std::string::npos);
}

TEST(PrefetchTest, TheLastCopyIsInFlightAfterTheLoop) {
  Json description = prefetch();
  insert(description, 13, fill("clear", host(2 * bytes, 0)));
  refuses(description, "commands[13]' (fill 'clear') writes the source of "
                       "copy_start 'next' at commands[10]");
  commandsOf(description)[13]["ref"] = host(bytes, 0);
  EXPECT_EQ(refusal(withQueues(description)), "");
}

TEST(PrefetchTest, SlotsLiveAllAroundTheLoop) {
  const char *whole =
      "waits for copy_start 'next' at commands[10] of the previous iteration; "
      "a slot that is live during the whole loop, from commands[7] to "
      "commands[12], must contain the bytes that this copy ";
  Json description = prefetch();
  slotOf(description, 1)["last"] = 11;
  refuses(description, std::string(whole) + "writes");
  description = prefetch();
  slotOf(description, 1)["first"] = 8;
  refuses(description, std::string(whole) + "writes");
  description = prefetch();
  slotOf(description, 4)["last"] = 11;
  refuses(description, std::string(whole) + "reads");
}

TEST(PrefetchTest, MissingWaitsOfQueues) {
  EXPECT_EQ(refusal(prefetch()), "");
  // The copy of the next part may overwrite the current part before 'keep'
  // copies the current part.
  Json description = prefetch();
  commandsOf(description)[10].erase("after");
  std::string message = refusal(description);
  EXPECT_NE(message.find("missing event: copy 'keep' (commands[9]) on the "
                         "compute stream reads 'arrived', and copy_start "
                         "'next' (commands[10]) on the copy-in stream writes "
                         "'arrived'"),
            std::string::npos)
      << message;
  // The compute queue does not wait for the copy of the part.
  description = prefetch();
  commandsOf(description)[8]["queues"] = {"copy_out"};
  message = refusal(description);
  EXPECT_NE(message.find("missing event: copy_start 'first' (commands[6]) on "
                         "the copy-in stream writes 'arrived', and copy "
                         "'keep' (commands[9])"),
            std::string::npos)
      << message;
}

} // namespace
