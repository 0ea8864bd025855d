//===- TensorCoreTest.cpp - Tests of warp-wide operations -----------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Compares the matrix fragments of lanes with plain loops over whole matrices,
// and tests faults of matrix operations and asynchronous copies.
//
//===----------------------------------------------------------------------===//

#include "EmuTesting.h"

#include <cmath>
#include <gtest/gtest.h>

using namespace kiln::runtime::testing;
using namespace kiln::runtime;
using namespace kiln;

namespace {

#define KERNEL(NAME)                                                           \
  void NAME([[maybe_unused]] char *const *args,                                \
            [[maybe_unused]] const int64_t *immediates, int64_t)

int64_t lane() { return threadId() % 32; }

uint16_t toBFloat16(float x) {
  uint32_t bits;
  std::memcpy(&bits, &x, 4);
  return uint16_t(bits >> 16);
}
float fromBFloat16(uint16_t x) {
  uint32_t bits = uint32_t(x) << 16;
  float value;
  std::memcpy(&value, &bits, 4);
  return value;
}

//===----------------------------------------------------------------------===//
// Matrix loads and multiplications
//===----------------------------------------------------------------------===//

/// Fills shared memory with 16-bit elements that equal their indices.
void numberShared() {
  for (int64_t i = threadId(); i < 128 && threadId() < 32; i += 32) {
    char *address = kiln_emu_shared(4 * i);
    kiln_emu_shared_access(address, 4, 1);
    uint32_t word = uint32_t(2 * i) | uint32_t(2 * i + 1) << 16;
    std::memcpy(address, &word, 4);
  }
  kiln_emu_barrier();
}

/// Returns the index of the first element of row `row` of matrix `matrix`.
/// Matrices and their rows are stored in reverse order, so that row addresses
/// do not increase with the lane.
int64_t rowOf(int64_t matrix, int64_t row) {
  return (3 - matrix) * 64 + (7 - row) * 8;
}

void storeMatrices(char *const *args, int32_t count, bool isTransposed) {
  numberShared();
  uint32_t words[4] = {};
  kiln_emu_load_matrices(kiln_emu_shared(2 * rowOf(lane() / 8, lane() % 8)),
                         count, isTransposed, words);
  for (int64_t m = 0; m < count; ++m)
    store(args[0], 4 * lane() + m, words[m]);
}
template <int32_t count, bool isTransposed> KERNEL(storeLoaded) {
  storeMatrices(args, count, isTransposed);
}

EmuLaunch makeLaunch(Device &device, EmuKernel kernel) {
  EmuLaunch launch;
  launch.kernel = kernel;
  launch.name = "k";
  launch.arguments = {device.argument(0, 1024, true, "y"),
                      device.argument(1024, 1024, false, "x")};
  launch.units = 1;
  launch.threads = 32;
  launch.sharedBytes = 1024;
  return launch;
}

void checkLoads(EmuKernel kernel, int64_t count, bool isTransposed) {
  Device device(1);
  ASSERT_EQ(device.run(makeLaunch(device, kernel)), "");
  for (int64_t l = 0; l < 32; ++l)
    for (int64_t m = 0; m < 4; ++m) {
      uint32_t word;
      std::memcpy(&word, device.at(4 * l + m), 4);
      int64_t row = l / 4, column = 2 * (l % 4);
      uint32_t first =
          isTransposed ? rowOf(m, column) + row : rowOf(m, row) + column;
      uint32_t second = isTransposed ? rowOf(m, column + 1) + row
                                     : rowOf(m, row) + column + 1;
      EXPECT_EQ(word, m < count ? first | second << 16 : 0)
          << "lane " << l << " matrix " << m;
    }
}

TEST(TensorCoreTest, LoadsMatrices) {
  checkLoads(storeLoaded<1, false>, 1, false);
  checkLoads(storeLoaded<2, false>, 2, false);
  checkLoads(storeLoaded<4, false>, 4, false);
  checkLoads(storeLoaded<1, true>, 1, true);
  checkLoads(storeLoaded<4, true>, 4, true);
}

/// Computes c += a b. args[0] is the f32 matrix c[16][8]. args[1] is the bf16
/// matrix a[16][16], followed by the bf16 matrix b[16][8].
KERNEL(multiply) {
  int64_t g = lane() / 4, t = lane() % 4;
  auto element = [&](int64_t at) { return load<uint16_t>(args[1], at); };
  auto a = [&](int64_t row, int64_t column) {
    return uint32_t(element(row * 16 + column)) |
           uint32_t(element(row * 16 + column + 1)) << 16;
  };
  auto b = [&](int64_t row) {
    return uint32_t(element(256 + row * 8 + g)) |
           uint32_t(element(256 + (row + 1) * 8 + g)) << 16;
  };
  uint32_t words[6] = {a(g, 2 * t),         a(g + 8, 2 * t), a(g, 2 * t + 8),
                       a(g + 8, 2 * t + 8), b(2 * t),        b(2 * t + 8)};
  float sums[4];
  auto place = [&](int64_t i) { return (g + i / 2 * 8) * 8 + 2 * t + i % 2; };
  for (int64_t i = 0; i < 4; ++i)
    sums[i] = load<float>(args[0], place(i));
  kiln_emu_multiply_matrices(words, sums, /*isHalf=*/0);
  for (int64_t i = 0; i < 4; ++i)
    store(args[0], place(i), sums[i]);
}

TEST(TensorCoreTest, MultipliesMatrices) {
  Device device(1);
  auto *ab = reinterpret_cast<uint16_t *>(device.at(1024));
  for (int64_t i = 0; i < 256 + 128; ++i)
    ab[i] = toBFloat16(std::sin(float(i * i)) * 3);
  float want[16][8];
  for (int64_t row = 0; row < 16; ++row)
    for (int64_t column = 0; column < 8; ++column) {
      float sum = *device.at(row * 8 + column) = std::cos(float(row + column));
      for (int64_t k = 0; k < 16; ++k)
        sum += fromBFloat16(ab[row * 16 + k]) *
               fromBFloat16(ab[256 + k * 8 + column]);
      want[row][column] = sum;
    }
  ASSERT_EQ(device.run(makeLaunch(device, multiply)), "");
  for (int64_t row = 0; row < 16; ++row)
    for (int64_t column = 0; column < 8; ++column)
      EXPECT_EQ(*device.at(row * 8 + column), want[row][column])
          << row << ", " << column;
}

TEST(TensorCoreTest, PowersOfTwo) {
  for (float x : {-126.0f, -1.0f, 0.0f, 1.0f, 127.0f})
    EXPECT_EQ(kiln_emu_exp2(x), std::exp2(x)) << x;
  for (float x = -125.9f; x < 127.9f; x += 0.0137f) {
    float want = std::exp2(double(x));
    EXPECT_LE(std::fabs(kiln_emu_exp2(x) - want), want * 0x1p-23f) << x;
  }
  EXPECT_EQ(kiln_emu_exp2(-126.1f), 0);
  EXPECT_EQ(kiln_emu_exp2(-1e30f), 0);
  EXPECT_EQ(kiln_emu_exp2(-INFINITY), 0);
  EXPECT_EQ(kiln_emu_exp2(128), INFINITY);
  EXPECT_TRUE(std::isnan(kiln_emu_exp2(NAN)));
}

//===----------------------------------------------------------------------===//
// Asynchronous copies
//===----------------------------------------------------------------------===//

/// Each thread copies 16 bytes: `present` bytes of global memory, and then
/// zeros.
void copyOwn(char *const *args, int64_t present = 16, int64_t to = -1) {
  kiln_emu_copy_async(kiln_emu_shared(16 * (to < 0 ? threadId() : to)),
                      args[1] + 16 * threadId(), 16, present);
}

KERNEL(copyAndSwap) {
  copyOwn(args, threadId() % 2 ? 12 : 16);
  kiln_emu_copy_commit();
  kiln_emu_copy_wait(0);
  kiln_emu_barrier();
  for (int64_t i = 0; i < 4; ++i)
    store(args[0], 4 * threadId() + i, loadShared(4 * (threadId() ^ 5) + i));
}

TEST(TensorCoreTest, CopiesAndFillsWithZeros) {
  for (uint64_t seed = 0; seed < 5; ++seed) {
    Device device(seed);
    for (int64_t i = 0; i < 256; ++i)
      *device.at(1024 + i) = float(i);
    EmuLaunch launch = makeLaunch(device, copyAndSwap);
    launch.threads = 64;
    ASSERT_EQ(device.run(launch), "");
    for (int64_t thread = 0; thread < 64; ++thread)
      for (int64_t i = 0; i < 4; ++i) {
        int64_t source = thread ^ 5;
        float want = source % 2 && i == 3 ? 0 : float(4 * source + i);
        EXPECT_EQ(*device.at(4 * thread + i), want);
      }
    EXPECT_EQ(device.counts.readSectors, 32);
  }
}

/// Copies two groups. When at most one group is pending, the first group is
/// complete.
KERNEL(copyTwice) {
  copyOwn(args);
  kiln_emu_copy_commit();
  copyOwn(args, 16, 32 + threadId());
  kiln_emu_copy_commit();
  kiln_emu_copy_wait(1);
  store(args[0], threadId(), loadShared(4 * threadId()));
  kiln_emu_copy_wait(0);
  store(args[0], 32 + threadId(), loadShared(4 * (32 + threadId())));
}

TEST(TensorCoreTest, WaitsForTheOldestGroups) {
  Device device(3);
  for (int64_t i = 0; i < 256; ++i)
    *device.at(1024 + i) = float(i);
  ASSERT_EQ(device.run(makeLaunch(device, copyTwice)), "");
  for (int64_t i = 0; i < 32; ++i) {
    EXPECT_EQ(*device.at(i), float(4 * i));
    EXPECT_EQ(*device.at(32 + i), float(4 * i));
  }
}

//===----------------------------------------------------------------------===//
// Faults
//===----------------------------------------------------------------------===//

KERNEL(laneMissesMma) {
  uint32_t words[6] = {};
  float sums[4] = {};
  if (threadId() != 40)
    kiln_emu_multiply_matrices(words, sums, /*isHalf=*/0);
}
KERNEL(laneMissesLoad) {
  numberShared();
  uint32_t words[4];
  if (threadId() == 41)
    kiln_emu_barrier();
  else
    kiln_emu_load_matrices(kiln_emu_shared(0), 4, 0, words);
}
KERNEL(laneLoadsOther) {
  numberShared();
  uint32_t words[4];
  kiln_emu_load_matrices(kiln_emu_shared(0), threadId() == 42 ? 2 : 4, 0,
                         words);
}
KERNEL(laneShuffles) {
  uint32_t words[6] = {};
  float sums[4] = {};
  if (threadId() == 43)
    kiln_emu_shuffle_xor(0, 1);
  else
    kiln_emu_multiply_matrices(words, sums, /*isHalf=*/0);
}
KERNEL(loadsUnwritten) {
  uint32_t words[4];
  numberShared();
  kiln_emu_load_matrices(kiln_emu_shared(16 * (40 + lane())), 4, 0, words);
}
KERNEL(loadsMisaligned) {
  uint32_t words[4];
  numberShared();
  kiln_emu_load_matrices(kiln_emu_shared(threadId() == 5 ? 8 : 0), 4, 0, words);
}
// Each lane writes its own row, but all lanes load all rows.
KERNEL(loadsWithoutBarrier) {
  uint32_t words[4];
  for (int64_t i = 0; i < 4; ++i)
    storeShared(4 * threadId() + i, 1);
  kiln_emu_load_matrices(kiln_emu_shared(16 * threadId()), 4, 0, words);
}
KERNEL(writesWhatWasLoaded) {
  uint32_t words[4];
  numberShared();
  if (threadId() < 32)
    kiln_emu_load_matrices(kiln_emu_shared(16 * threadId()), 4, 0, words);
  if (threadId() == 3)
    storeShared(4 * 3, 1);
}
KERNEL(readsBeforeWait) {
  copyOwn(args);
  kiln_emu_copy_commit();
  if (threadId() == 6)
    loadShared(4 * 6 + 1);
}
KERNEL(waitsForTooFew) {
  copyOwn(args);
  kiln_emu_copy_commit();
  kiln_emu_copy_wait(1);
  kiln_emu_barrier();
  if (threadId() == 7)
    loadShared(4 * 9);
}
KERNEL(waitsWithoutCommit) {
  copyOwn(args);
  kiln_emu_copy_wait(0);
  if (threadId() == 8)
    loadShared(4 * 8);
}
KERNEL(waitsWithoutBarrier) {
  copyOwn(args);
  kiln_emu_copy_commit();
  kiln_emu_copy_wait(0);
  if (threadId() == 9)
    loadShared(4 * 50);
}
KERNEL(barrierWithoutWait) {
  copyOwn(args);
  kiln_emu_copy_commit();
  if (threadId() != 50)
    kiln_emu_copy_wait(0);
  kiln_emu_barrier();
  if (threadId() == 9)
    loadShared(4 * 50);
}
KERNEL(copiesOverReads) {
  numberShared();
  if (threadId() == 10)
    loadShared(4 * 11);
  if (threadId() == 11)
    copyOwn(args);
}
KERNEL(copiesTwiceToOnePlace) {
  copyOwn(args);
  kiln_emu_copy_commit();
  kiln_emu_barrier();
  if (threadId() == 12)
    copyOwn(args, 16, 13);
}
KERNEL(copiesBehindTheEnd) { copyOwn(args, 16, 64); }
KERNEL(copiesMisaligned) {
  kiln_emu_copy_async(kiln_emu_shared(0), args[1] + 8, 16, 16);
}
KERNEL(copiesFromOutside) {
  kiln_emu_copy_async(kiln_emu_shared(16 * threadId()),
                      args[1] + 4096 - 16 * 40 + 16 * threadId(), 16, 16);
}
KERNEL(sourceIsWritten) {
  kiln_emu_copy_async(kiln_emu_shared(16 * threadId()),
                      args[0] + 16 * threadId(), 16, 16);
  kiln_emu_copy_commit();
  kiln_emu_barrier();
  if (threadId() == 14)
    store(args[0], 4 * 15, 1.0f);
  kiln_emu_copy_wait(0);
}

struct Mutant {
  const char *name;
  EmuKernel kernel;
  /// The error message must contain `piece` or `otherPiece`.
  const char *piece, *otherPiece = nullptr;
};

class TensorFaultTest : public ::testing::TestWithParam<Mutant> {};

TEST_P(TensorFaultTest, IsNamedWithEverySeed) {
  const Mutant &mutant = GetParam();
  for (uint64_t seed = 0; seed < 20; ++seed) {
    Device device(seed);
    EmuLaunch launch = makeLaunch(device, mutant.kernel);
    launch.threads = 64;
    std::string message = device.run(launch);
    bool isNamed =
        message.find(mutant.piece) != message.npos ||
        (mutant.otherPiece && message.find(mutant.otherPiece) != message.npos);
    EXPECT_TRUE(isNamed) << message;
    // The device can be used again after a fault.
    launch.kernel = copyAndSwap;
    EXPECT_EQ(device.run(launch), "");
  }
}

const Mutant mutants[] = {
    {"laneMissesMma", laneMissesMma,
     "thread 32: matrix multiplication reached by part of a warp only: 31 of "
     "32 lanes of the warp wait, thread 40 has ended"},
    {"laneMissesLoad", laneMissesLoad,
     "thread 32: matrix load reached by part of a warp only: 31 of 32 "
     "lanes of the warp wait, thread 41 waits at a barrier"},
    {"laneLoadsOther", laneLoadsOther,
     "thread 32: divergent warp: this thread waits at a matrix load, thread 42 "
     "at a different operation, a matrix load"},
    {"laneShuffles", laneShuffles,
     "thread 32: divergent warp: this thread waits at a matrix multiplication, "
     "thread 43 at a different operation, a shuffle by xor"},
    {"loadsUnwritten", loadsUnwritten,
     "out of bounds: read of 16 bytes at offset 1024 of shared memory",
     "uninitialised shared memory: read of 16 bytes at offset 640"},
    {"loadsMisaligned", loadsMisaligned,
     "thread 5: misaligned read of 16 bytes at offset 8 of shared memory: the "
     "address must be a multiple of 16"},
    {"loadsWithoutBarrier", loadsWithoutBarrier,
     "race in shared memory: read of 16 bytes at offset "},
    {"writesWhatWasLoaded", writesWhatWasLoaded,
     "thread 3: race in shared memory: write of 4 bytes at offset 48 of shared "
     "memory, where thread 2 read"},
    {"readsBeforeWait", readsBeforeWait,
     "thread 6: read of 4 bytes at offset 100 of shared memory, but an "
     "asynchronous copy of thread 6 to offset 100 of shared memory is still in "
     "flight"},
    {"waitsForTooFew", waitsForTooFew,
     "thread 7: read of 4 bytes at offset 144 of shared memory, but an "
     "asynchronous copy of thread 9 to offset "},
    {"waitsWithoutCommit", waitsWithoutCommit,
     "thread 8: read of 4 bytes at offset 128 of shared memory, but an "
     "asynchronous copy of thread 8 to offset "},
    {"waitsWithoutBarrier", waitsWithoutBarrier, "race in shared memory: ",
     "thread 9: uninitialised shared memory: read of 4 bytes at offset 800"},
    {"barrierWithoutWait", barrierWithoutWait,
     "thread 9: read of 4 bytes at offset 800 of shared memory, but an "
     "asynchronous copy of thread 50 to offset "},
    {"copiesOverReads", copiesOverReads,
     "thread 11: race in shared memory: write of 16 bytes at offset 176 of "
     "shared memory, where thread 10 read"},
    {"copiesTwiceToOnePlace", copiesTwiceToOnePlace,
     "thread 12: write of 16 bytes at offset 208 of shared memory, but an "
     "asynchronous copy of thread 13 to offset "},
    {"copiesBehindTheEnd", copiesBehindTheEnd,
     "out of bounds: write of 16 bytes at offset 1024 of shared memory"},
    {"copiesMisaligned", copiesMisaligned,
     "misaligned read of 16 bytes at argument 1 ('x') + 8"},
    {"copiesFromOutside", copiesFromOutside,
     "thread 40: out of bounds: read of 16 bytes at argument 1 ('x') + 4096"},
    {"sourceIsWritten", sourceIsWritten, "race in global memory: "},
};

INSTANTIATE_TEST_SUITE_P(Mutants, TensorFaultTest, ::testing::ValuesIn(mutants),
                         [](const auto &info) {
                           return std::string(info.param.name);
                         });

} // namespace
