//===- FaultTest.cpp - Tests of faults of emulated kernels ----------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "EmuTesting.h"
#include "FiberPool.h"

#include <gtest/gtest.h>

using namespace kiln::runtime::testing;
using namespace kiln::runtime;
using namespace kiln;

namespace {

struct alignas(16) Float4 {
  float elements[4];
};

#define KERNEL(NAME)                                                           \
  void NAME([[maybe_unused]] char *const *args,                                \
            [[maybe_unused]] const int64_t *immediates, int64_t)

KERNEL(storeBehind) { store(args[1], threadId() + (threadId() == 40), 1.0f); }
KERNEL(storeBefore) {
  if (blockId() == 2 && threadId() == 9)
    store(args[1], -3, 1.0f);
}
KERNEL(loadAcross) {
  if (threadId() == 0)
    load<Float4>(args[0], 15);
}
KERNEL(storeReadOnly) {
  if (blockId() == 1 && threadId() == 3)
    store(args[0], 5, 1.0f);
}
KERNEL(loadMisaligned) {
  if (blockId() == 0 && threadId() == 2)
    load<Float4>(args[0] + 4);
}
KERNEL(loadUninitialised) {
  if (blockId() == 0 && threadId() == 7)
    load<Float4>(args[2], 1);
}
KERNEL(sharedOutOfBounds) { storeShared(threadId(), 1); }
KERNEL(sharedUninitialised) {
  if (threadId() < 63)
    storeShared(threadId(), 1);
  kiln_emu_barrier();
  if (threadId() == 1)
    loadShared(63);
}
KERNEL(blocksWriteTheSame) {
  if (threadId() == 5)
    store(args[1], 3, 1.0f);
}
KERNEL(blocksReadWhatOneWrites) {
  if (blockId() == 1 && threadId() == 6)
    store(args[1], 4, 1.0f);
  kiln_emu_barrier();
  if (blockId() != 1 && threadId() == 7)
    load<float>(args[1], 4);
}
KERNEL(threadsWriteTheSame) {
  if (blockId() == 0 && threadId() % 32 == 4)
    store(args[1], 8, 1.0f);
}
KERNEL(writeAfterRead) {
  if (blockId() == 0 && threadId() == 4)
    load<float>(args[1], 8);
  if (blockId() == 0 && threadId() == 50)
    store(args[1], 8, 1.0f);
}
KERNEL(partialShuffle) {
  if (threadId() != 37)
    kiln_emu_shuffle_xor(0, 1);
}
KERNEL(shuffleBesideBarrier) {
  if (threadId() == 37)
    kiln_emu_barrier();
  else
    kiln_emu_shuffle_xor(0, 1);
}
KERNEL(mixedShuffle) {
  if (threadId() == 37)
    kiln_emu_shuffle_idx(0, 1);
  else
    kiln_emu_shuffle_xor(0, 1);
}
KERNEL(shuffleAll) { kiln_emu_shuffle_xor(0, 1); }
KERNEL(partialBarrier) {
  if (threadId() < 32)
    kiln_emu_barrier();
}
KERNEL(secondBarrierPartial) {
  kiln_emu_barrier();
  if (threadId() == 33)
    return;
  kiln_emu_barrier();
}
KERNEL(hugeFrame) {
  char frame[emu::FiberPool::stackBytes / 16 * 15];
  asm volatile("" ::"r"(frame) : "memory");
  kiln_emu_barrier();
  asm volatile("" ::"r"(frame) : "memory");
}
// Overwrites the stack below the frame, as nested calls of a kernel would.
KERNEL(spoilsStack) {
  char *frame = static_cast<char *>(__builtin_frame_address(0));
  if (threadId() == 1)
    std::memset(frame - emu::FiberPool::stackBytes, 0, 4096);
}

struct Mutant {
  const char *name;
  EmuKernel kernel;
  /// Strings that the error message must contain; unused entries are null.
  const char *pieces[3];
  int64_t threads = 64;
};

class FaultTest : public ::testing::TestWithParam<Mutant> {};

/// Creates a launch with the arguments x (62 floats, read), y (64 floats,
/// written) and z (64 floats, read; the eighth is uninitialised).
EmuLaunch makeLaunch(Device &device, const Mutant &mutant) {
  EXPECT_TRUE(device.device.invalidate(device.at(128 + 7), 4).ok());
  EmuLaunch launch;
  launch.kernel = mutant.kernel;
  launch.name = mutant.name;
  launch.arguments = {device.argument(0, 62, false, "x"),
                      device.argument(64, 64, true, "y"),
                      device.argument(128, 64, true)};
  launch.units = 3;
  launch.threads = mutant.threads;
  launch.sharedBytes = 256;
  return launch;
}

KERNEL(nothing) {}

TEST_P(FaultTest, IsNamedWithEverySeed) {
  const Mutant &mutant = GetParam();
  for (uint64_t seed = 0; seed < 20; ++seed) {
    Device device(seed);
    EmuLaunch launch = makeLaunch(device, mutant);
    std::string message = device.run(launch);
    std::string start =
        "cuda-emu: kernel '" + std::string(mutant.name) + "', block ";
    EXPECT_EQ(message.substr(0, start.size()), start);
    for (const char *piece : mutant.pieces)
      EXPECT_NE(message.find(piece ? piece : ""), message.npos)
          << message << "\nlacks " << piece;
    EXPECT_EQ(message.find('\n'), message.npos);
    // The device can be used again after a fault.
    launch.kernel = nothing;
    EXPECT_EQ(device.run(launch), "");
    launch.kernel = mutant.kernel;
    EXPECT_NE(device.run(launch), "");
  }
}

// An expected message contains the index of a thread or block only if the index
// is the same for every seed.
const Mutant mutants[] = {
    {"storeBehind",
     storeBehind,
     {"race in global memory: write of 4 bytes at "
      "argument 1 ('y') + 164, where thread 4"}},
    {"storeBefore",
     storeBefore,
     {"block 2, thread 9: write of 4 bytes at argument 0 ('x') + 244, which "
      "the launch only reads"}},
    {"loadAcross",
     loadAcross,
     {"thread 0: out of bounds: read of 16 bytes at argument 0 ('x') + 240, "
      "but the argument has 248 bytes"}},
    {"storeReadOnly",
     storeReadOnly,
     {"block 1, thread 3: write of 4 bytes at argument 0 ('x') + 20, which "
      "the launch only reads"}},
    {"loadMisaligned",
     loadMisaligned,
     {"block 0, thread 2: misaligned read of 16 bytes at argument 0 ('x') + "
      "4: the address must be a multiple of 16"}},
    {"loadUninitialised",
     loadUninitialised,
     {"block 0, thread 7: uninitialised global memory: read of 16 bytes at "
      "argument 2 + 16, but nothing wrote the byte at argument 2 + 28"}},
    {"sharedOutOfBounds",
     sharedOutOfBounds,
     {"thread 64: out of bounds: write of 4 bytes at offset 256 of shared "
      "memory, but the block has 256 bytes of shared memory"},
     96},
    {"sharedUninitialised",
     sharedUninitialised,
     {"thread 1: uninitialised shared memory: read of 4 bytes at offset 252 "
      "of shared memory, but nothing wrote the byte at offset 252"}},
    {"blocksWriteTheSame",
     blocksWriteTheSame,
     {"thread 5: race in global memory: write of 4 bytes at argument 1 ('y') "
      "+ 12, where block ",
      ", thread 5 wrote argument 1 ('y') + 12 in the same launch"}},
    {"blocksReadWhatOneWrites",
     blocksReadWhatOneWrites,
     {"race in global memory: ", "argument 1 ('y') + 16, where block ",
      "in the same launch"}},
    {"threadsWriteTheSame",
     threadsWriteTheSame,
     {"race in global memory: write of 4 bytes at argument 1 ('y') + 32, "
      "where thread ",
      " wrote argument 1 ('y') + 32 with no barrier between"}},
    {"writeAfterRead",
     writeAfterRead,
     {"race in global memory: ", "with no barrier between"}},
    {"partialShuffle",
     partialShuffle,
     {"thread 32: shuffle by xor reached by part of a warp only: 31 of 32 "
      "lanes of the warp wait, thread 37 has ended"}},
    {"shuffleBesideBarrier",
     shuffleBesideBarrier,
     {"thread 32: shuffle by xor reached by part of a warp only: 31 of 32 "
      "lanes of the warp wait, thread 37 waits at a barrier"}},
    {"mixedShuffle",
     mixedShuffle,
     {"thread 32: divergent warp: this thread waits at a shuffle by xor, "
      "thread 37 at a different operation, a shuffle by index"}},
    {"shuffleOfHalfAWarp",
     shuffleAll,
     {"thread 32: shuffle by xor reached by part of a warp only: the warp has "
      "16 lanes of 32"},
     48},
    {"partialBarrier",
     partialBarrier,
     {"thread 0: barrier reached by part of the block only: 32 of 64 threads "
      "wait, thread 32 has ended"}},
    {"secondBarrierPartial",
     secondBarrierPartial,
     {"thread 0: barrier reached by part of the block only: 63 of 64 threads "
      "wait, thread 33 has ended"}},
    {"hugeFrame", hugeFrame, {"stack overflow: the kernel needs more than "}},
    {"spoilsStack",
     spoilsStack,
     {"thread 1: stack overflow: the kernel needs more than "}},
};

INSTANTIATE_TEST_SUITE_P(Mutants, FaultTest, ::testing::ValuesIn(mutants),
                         [](const auto &info) {
                           return std::string(info.param.name);
                         });

KERNEL(storeFirst) { store(args[0], blockId() * 64 + threadId(), 1.0f); }

TEST(FaultTest, StoreOutsideOfAllMemoryIsOutOfBounds) {
  for (uint64_t seed = 0; seed < 20; ++seed) {
    Device device(seed);
    EmuLaunch launch;
    launch.kernel = storeFirst;
    launch.name = "grows";
    launch.arguments = {device.argument(100, 100, true, "dx")};
    launch.units = 2;
    launch.threads = 64;
    EXPECT_EQ(device.run(launch),
              "cuda-emu: kernel 'grows', block 1, thread 36: out of bounds: "
              "write of 4 bytes at argument 0 ('dx') + 400, but the argument "
              "has 400 bytes");
    EXPECT_EQ(*device.at(200), 0.0f);
    launch.arguments = {};
    launch.kernel = nothing;
    EXPECT_EQ(device.run(launch), "");
  }
}

TEST(FaultTest, LibraryCallsAndCopiesAreChecked) {
  Device device(1);
  EmuDevice &emu = device.device;
  auto check = [&](int64_t index, int64_t count) {
    return emu.checkInitialised(device.at(index), count * 4, "gemm (h.0)")
        .message();
  };
  EXPECT_EQ(check(0, 100), "");
  ASSERT_TRUE(emu.invalidate(device.at(10), 8).ok());
  EXPECT_EQ(check(8, 8),
            "cuda-emu: gemm (h.0) reads 32 bytes of global memory, but the "
            "byte at offset 8 of these bytes has not been written");
  EXPECT_EQ(check(12, 8), "");
  ASSERT_TRUE(emu.copyInitialised(device.at(20), device.at(8), 32).ok());
  EXPECT_NE(check(22, 1), "");
  EXPECT_NE(check(23, 1), "");
  EXPECT_EQ(check(24, 8), "");
  ASSERT_TRUE(emu.markInitialised(device.at(10), 8).ok());
  EXPECT_EQ(check(8, 8), "");

  EXPECT_EQ(emu.invalidate(device.at(Device::floats), 4).message(),
            "cuda-emu: invalidate: the range of 4 bytes is not within the "
            "device's memory");
  EXPECT_FALSE(emu.markInitialised(device.at(-1), 8).ok());
  EXPECT_FALSE(emu.copyInitialised(device.at(0), device.at(-1), 8).ok());
  EXPECT_FALSE(emu.addMemory(reinterpret_cast<char *>(device.at(64)), 8).ok());
  EXPECT_FALSE(emu.addMemory(reinterpret_cast<char *>(device.at(1)), 8).ok());
}

} // namespace
