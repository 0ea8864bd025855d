//===- MemberTableTest.cpp - Kernels with a member table ------------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A kernel with an argument table executes a group of launches as one launch.
// Checks that it computes the same results as separate launches of the kernel
// without a table, accesses the same memory sectors, and reads the table
// directly from the kernel parameters.
//
//===----------------------------------------------------------------------===//

#include "MemberTable.h"
#include "EmulatedKernels.h"
#include "SampleKernels.h"

#include "kiln/Target/Gpu/Cubin.h"
#include "kiln/Target/Gpu/Emulate.h"
#include "kiln/Target/Gpu/Ptx.h"

#include "mlir/IR/Verifier.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <cstring>

using namespace kiln::test;
using namespace kiln;
using kiln::runtime::EmuCounts;
using kiln::runtime::EmuDevice;
using kiln::runtime::EmuLaunch;
using namespace mlir;

namespace {

constexpr int64_t units = 999, members = 3, room = 5;

class MemberTableTest : public testing::Test {
protected:
  /// Parses the kernel curve(x, y), which has 256 elements per block. If `room`
  /// is not 0, adds a table for the arguments of up to `room` grouped launches.
  OwningOpRef<ModuleOp> curve(int64_t room) {
    OwningOpRef<ModuleOp> module = kernels.parse(curveKernel());
    if (room > 0)
      module->walk([&](mlir::gpu::GPUFuncOp kernel) {
        kiln::gpu::addMemberTable(kernel, room);
      });
    EXPECT_TRUE(succeeded(verify(*module)));
    return module;
  }

  KernelContext kernels;
};

TEST_F(MemberTableTest, MembersAreWhatLaunchesAre) {
  constexpr int64_t stride = 1024;
  size_t bytes = 2 * members * stride * sizeof(float);
  std::vector<float> results[2];
  EmuCounts counts[2];
  for (bool together : {false, true}) {
    OwningOpRef<ModuleOp> module = curve(together ? room : 0);
    EmulatedKernels emulated(*module);
    auto *memory = static_cast<float *>(std::aligned_alloc(256, bytes));
    for (int64_t i = 0; i < 2 * members * stride; ++i)
      memory[i] = std::sin(float(i));
    EmuDevice device(5);
    ASSERT_TRUE(device.addMemory(reinterpret_cast<char *>(memory), bytes).ok());
    ASSERT_TRUE(device.markInitialised(memory, bytes).ok());
    EmuLaunch launch;
    launch.kernel = emulated.find("curve");
    ASSERT_TRUE(launch.kernel);
    launch.units = units;
    launch.unitsPerBlock = 256;
    launch.threads = 64;
    for (int64_t member = 0; member < members; ++member) {
      for (int64_t i : {0, 1}) {
        auto *begin =
            reinterpret_cast<char *>(memory + (2 * member + i) * stride);
        launch.arguments.push_back(
            {begin, begin + stride * sizeof(float), i == 1, ""});
      }
      launch.members.push_back("member");
      if (together && member + 1 < members)
        continue;
      if (!together)
        launch.members.clear();
      Result<EmuCounts> moved = device.launch(launch);
      ASSERT_TRUE(moved.ok()) << moved.status().message();
      counts[together].readSectors += moved->readSectors;
      counts[together].writeSectors += moved->writeSectors;
      launch.arguments.clear();
    }
    results[together].assign(memory, memory + 2 * members * stride);
    std::free(memory);
  }
  EXPECT_EQ(0, std::memcmp(results[0].data(), results[1].data(), bytes));
  EXPECT_EQ(counts[0].readSectors, counts[1].readSectors);
  EXPECT_EQ(counts[0].writeSectors, counts[1].writeSectors);
}

TEST_F(MemberTableTest, IsReadWhereItLies) {
  for (const char *chip : {"sm_80", "sm_90"}) {
    OwningOpRef<ModuleOp> module = curve(room);
    auto compiled = kiln::gpu::compileToPtx(*module, chip);
    ASSERT_TRUE(!!compiled) << llvm::toString(compiled.takeError());
    const std::string &ptx = *compiled;
    // Five launches with two argument addresses each.
    EXPECT_NE(ptx.find(".param .align 8 .b8 curve_param_0[80]"),
              std::string::npos)
        << ptx;
    EXPECT_NE(ptx.find("%ctaid.y"), std::string::npos);
    EXPECT_NE(ptx.find("ld.param.b64"), std::string::npos);
    EXPECT_NE(ptx.find("ld.global.v4"), std::string::npos);
    EXPECT_EQ(ptx.find(".local"), std::string::npos) << ptx;
    auto cubin = kiln::gpu::assemble(ptx, chip);
    if (!cubin) {
      llvm::consumeError(cubin.takeError());
      continue;
    }
    for (const kiln::gpu::KernelResources &kernel : cubin->kernels)
      EXPECT_EQ(kernel.spillStores + kernel.spillLoads, 0);
  }
}

TEST_F(MemberTableTest, GridsHaveTwoDimensions) {
  OwningOpRef<ModuleOp> module =
      kernels.parse(kernel("k", "%x: !llvm.ptr<1>", 32, R"(
    %z = gpu.block_id z
    %i = arith.index_cast %z : index to i64
    llvm.store %i, %x : i64, !llvm.ptr<1>
)"));
  auto ptx = kiln::gpu::compileToPtx(*module, "sm_90");
  ASSERT_FALSE(!!ptx);
  EXPECT_EQ(
      llvm::toString(ptx.takeError()),
      "kernel 'k': 'gpu.block_id' is the block index of dimension z, but grids "
      "have only dimension x for the blocks of a launch and dimension y for "
      "merged launches");
}

} // namespace
