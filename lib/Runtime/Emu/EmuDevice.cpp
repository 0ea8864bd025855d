//===- EmuDevice.cpp - Emulated GPU with race and memory checks -----------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "kiln/Runtime/Emu/EmuDevice.h"
#include "BlockRunner.h"
#include "kiln/Support/Messages.h"

#include <algorithm>
#include <numeric>

using namespace kiln::runtime::emu;
using namespace kiln::runtime;
using namespace kiln::support;
using namespace kiln;

/// The maximum number of blocks of a launch, or of all launches of a group
/// together.
static constexpr int64_t maxBlocks = INT32_MAX;

struct EmuDevice::State {
  explicit State(uint64_t seed) : seed(seed) {}

  uint64_t seed;
  uint64_t launches = 0;
  std::vector<std::unique_ptr<MemoryShadow>> memories;
  std::vector<int64_t> blockOrder;
  BlockRunner runner;

  MemoryShadow *find(const void *begin, int64_t bytes) const;
  Result<MemoryShadow *> require(const void *begin, int64_t bytes,
                                 std::string_view what) const;
  Status declareArguments(const EmuLaunch &launch);
  Status declareArgument(const EmuLaunch &launch, std::size_t index,
                         Bounds &bounds);
};

MemoryShadow *EmuDevice::State::find(const void *begin, int64_t bytes) const {
  for (const std::unique_ptr<MemoryShadow> &memory : memories)
    if (memory->contains(begin, bytes))
      return memory.get();
  return nullptr;
}

Result<MemoryShadow *> EmuDevice::State::require(const void *begin,
                                                 int64_t bytes,
                                                 std::string_view what) const {
  if (MemoryShadow *memory = bytes < 0 ? nullptr : find(begin, bytes))
    return memory;
  return Status::error("cuda-emu: " + printable(what) + ": the range of " +
                       std::to_string(bytes) +
                       " bytes is not within the device's memory");
}

Status EmuDevice::State::declareArgument(const EmuLaunch &launch,
                                         std::size_t index, Bounds &bounds) {
  const EmuArgument &argument = launch.arguments[index];
  Result<MemoryShadow *> memory =
      require(argument.begin, argument.end - argument.begin,
              "kernel " + inQuotes(launch.name) + ", argument " +
                  std::to_string(index));
  if (!memory.ok())
    return memory.status();
  bounds.readable.add(argument.begin, argument.end, *memory);
  if (argument.isWritten)
    bounds.writable.add(argument.begin, argument.end, *memory);
  return Status();
}

Status EmuDevice::State::declareArguments(const EmuLaunch &launch) {
  std::size_t members = std::max<std::size_t>(launch.members.size(), 1);
  std::size_t args = launch.arguments.size() / members;
  if (args * members != launch.arguments.size())
    return Status::error("cuda-emu: kernel " + inQuotes(launch.name) + ": " +
                         std::to_string(launch.arguments.size()) +
                         " arguments cannot be divided equally among " +
                         std::to_string(members) +
                         " members of the launch group");
  std::vector<Bounds> &bounds = runner.bounds();
  bounds.assign(members, Bounds());
  Status status;
  for (std::size_t i = 0; i < launch.arguments.size() && status.ok(); ++i)
    status = declareArgument(launch, i, bounds[i / args]);
  for (Bounds &member : bounds) {
    member.readable.sort();
    member.writable.sort();
  }
  return status;
}

EmuDevice::EmuDevice(uint64_t seed) : state_(new State(seed)) {}
EmuDevice::~EmuDevice() = default;

Status EmuDevice::addMemory(const char *begin, int64_t bytes) {
  if (bytes < 0 || uintptr_t(begin) % memoryAlignment)
    return Status::error("cuda-emu: a memory range of the device must have at "
                         "least 0 bytes and an address that is a multiple of " +
                         std::to_string(memoryAlignment) + " bytes");
  for (const std::unique_ptr<MemoryShadow> &memory : state_->memories)
    if (begin < memory->begin() + memory->bytes() &&
        memory->begin() < begin + bytes)
      return Status::error("cuda-emu: two memory ranges of the device overlap");
  auto memory = std::make_unique<MemoryShadow>(begin, bytes);
  if (!memory->ok())
    return Status::error("cuda-emu: cannot allocate host memory for the shadow "
                         "of " +
                         std::to_string(bytes) + " bytes of device memory");
  state_->memories.push_back(std::move(memory));
  return Status();
}

Status EmuDevice::markInitialised(const void *begin, int64_t bytes) {
  Result<MemoryShadow *> memory = state_->require(begin, bytes, "write");
  if (!memory.ok())
    return memory.status();
  int64_t offset = static_cast<const char *>(begin) - (*memory)->begin();
  (*memory)->setInitialised(offset, bytes, true);
  return Status();
}

Status EmuDevice::invalidate(const void *begin, int64_t bytes) {
  Result<MemoryShadow *> memory = state_->require(begin, bytes, "invalidate");
  if (!memory.ok())
    return memory.status();
  int64_t offset = static_cast<const char *>(begin) - (*memory)->begin();
  (*memory)->setInitialised(offset, bytes, false);
  return Status();
}

Status EmuDevice::copyInitialised(const void *to, const void *from,
                                  int64_t bytes) {
  Result<MemoryShadow *> source = state_->require(from, bytes, "copy from");
  if (!source.ok())
    return source.status();
  Result<MemoryShadow *> target = state_->require(to, bytes, "copy to");
  if (!target.ok())
    return target.status();
  (*target)->copyInitialised(
      static_cast<const char *>(to) - (*target)->begin(), **source,
      static_cast<const char *>(from) - (*source)->begin(), bytes);
  return Status();
}

Status EmuDevice::checkInitialised(const void *begin, int64_t bytes,
                                   std::string_view what) const {
  Result<MemoryShadow *> memory = state_->require(begin, bytes, what);
  if (!memory.ok())
    return memory.status();
  int64_t offset = static_cast<const char *>(begin) - (*memory)->begin();
  int64_t missing = (*memory)->findUninitialised(offset, bytes);
  if (missing < 0)
    return Status();
  return Status::error("cuda-emu: " + printable(what) + " reads " +
                       std::to_string(bytes) +
                       " bytes of global memory, but the byte at offset " +
                       std::to_string(missing - offset) +
                       " of these bytes has not been written");
}

static Status checkSizes(const EmuLaunch &launch) {
  auto refuse = [&](std::string_view what, int64_t value, int64_t low,
                    int64_t high) {
    if (value >= low && value <= high)
      return Status();
    return Status::error("cuda-emu: kernel " + inQuotes(launch.name) +
                         ": expected " + std::to_string(low) + " to " +
                         std::to_string(high) + " " + std::string(what) +
                         ", got " + std::to_string(value));
  };
  Status status = refuse("threads", launch.threads, 1, EmuDevice::maxThreads);
  if (status.ok())
    status = refuse("bytes of shared memory", launch.sharedBytes, 0,
                    EmuDevice::maxSharedBytes);
  if (status.ok())
    status = refuse("units", launch.units, 0, INT64_MAX);
  if (status.ok())
    status = refuse("units per block", launch.unitsPerBlock, 1, INT64_MAX);
  if (status.ok() && launch.units > 0)
    status =
        refuse("blocks", blocksOf(launch), 1, maxBlocks / memberCount(launch));
  return status;
}

Result<EmuCounts> EmuDevice::launch(const EmuLaunch &launch) {
  Status status = checkSizes(launch);
  if (status.ok())
    status = state_->runner.prepare();
  if (status.ok())
    status = state_->declareArguments(launch);
  if (!status.ok())
    return status;
  for (const std::unique_ptr<MemoryShadow> &memory : state_->memories)
    memory->newGeneration();

  Random random(state_->seed ^ splitmix64(state_->launches++));
  std::vector<int64_t> &order = state_->blockOrder;
  order.resize(std::size_t(blocksOf(launch) * memberCount(launch)));
  std::iota(order.begin(), order.end(), int64_t{0});
  random.shuffle(order);

  state_->runner.begin(launch, random);
  for (int64_t block : order) {
    status = state_->runner.runBlock(block);
    if (!status.ok())
      return status;
  }
  return state_->runner.counts();
}
