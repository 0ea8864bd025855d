//===- KernelPair.cpp - Compares a kernel on two targets ------------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "KernelPair.h"

#include "../KernelRunner.h"
#include "EmulatedKernels.h"

#include "mlir/IR/Verifier.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <memory>

using namespace mlir;
using kiln::runtime::EmuCounts;
using kiln::runtime::EmuDevice;
using kiln::runtime::EmuLaunch;

namespace kiln::test {

namespace {

using Bytes = std::unique_ptr<char, decltype(&std::free)>;

Bytes aligned(int64_t size, const std::vector<char> &content) {
  Bytes bytes(static_cast<char *>(
                  std::aligned_alloc(256, llvm::alignTo(size + 1, 256))),
              &std::free);
  std::memcpy(bytes.get(), content.data(), content.size());
  return bytes;
}

Bytes runCpu(ModuleOp module, const cpu::KernelLaunch &launch,
             const Memory &memory, ArrayRef<Place> args,
             ArrayRef<int64_t> immediates) {
  EXPECT_TRUE(succeeded(verify(module)));
  LoadedKernels library(module);
  Kernel function = library.find("kernel");
  Bytes bytes = aligned(memory.bytes.size(), memory.bytes);
  Bytes scratch = aligned(launch.scratchBytes, {});
  std::vector<char *> pointers;
  for (const Place &place : args)
    pointers.push_back(bytes.get() + place.offset);
  if (function)
    function(pointers.data(), immediates.data(), 0, launch.units,
             scratch.get());
  return bytes;
}

/// Runs `kernel` on a new device and returns its access counts.
EmuCounts runGpu(EmuKernel kernel, const gpu::KernelLaunch &launch,
                 uint64_t seed, char *bytes, int64_t size, ArrayRef<Place> args,
                 ArrayRef<int64_t> immediates) {
  EmuDevice device(seed);
  EXPECT_TRUE(device.addMemory(bytes, size).ok());
  EmuLaunch command;
  for (const Place &place : args) {
    char *begin = bytes + place.offset;
    if (place.isRead) {
      EXPECT_TRUE(device.markInitialised(begin, place.bytes).ok());
    }
    command.arguments.push_back(
        {begin, begin + place.bytes, place.isWritten, ""});
  }
  command.kernel = kernel;
  command.name = "kernel";
  command.immediates.assign(immediates.begin(), immediates.end());
  command.units = launch.units;
  command.unitsPerBlock = launch.unitsPerBlock;
  command.threads = launch.threads;
  command.sharedBytes = launch.sharedBytes;
  auto counts = device.launch(command);
  if (counts.ok())
    return *counts;
  ADD_FAILURE() << counts.status().message();
  return {};
}

/// Returns the largest power of two that divides `offset`, limited to the
/// alignment of the device.
int64_t alignmentOf(int64_t offset) {
  int64_t alignment = 1;
  while (alignment < EmuDevice::memoryAlignment &&
         offset % (2 * alignment) == 0)
    alignment *= 2;
  return alignment;
}

} // namespace

/// Runs the kernel once for each seed, which determines the schedule. Calls
/// `body` after each run with the memory and the access counts.
static void
runSchedules(const Memory &memory, ArrayRef<Place> args,
             ArrayRef<int64_t> immediates, EmitGpu emitGpu,
             ArrayRef<uint64_t> seeds,
             llvm::function_ref<void(std::vector<char>, EmuCounts)> body) {
  MLIRContext context(MLIRContext::Threading::DISABLED);
  context.loadDialect<mlir::gpu::GPUDialect>();
  OpBuilder builder(&context);
  Location loc = builder.getUnknownLoc();
  OwningOpRef<ModuleOp> device = ModuleOp::create(loc);
  builder.setInsertionPointToEnd(device->getBody());
  auto kernels = mlir::gpu::GPUModuleOp::create(builder, loc, "kernels");
  SmallVector<int64_t> alignments;
  for (const Place &place : args)
    alignments.push_back(alignmentOf(place.offset));
  auto launch = emitGpu(kernels, "kernel", builder, alignments);
  EXPECT_TRUE(succeeded(launch));
  EXPECT_TRUE(succeeded(verify(*device)));
  EmulatedKernels loaded(*device);
  EmuKernel kernel = loaded.find("kernel");
  EXPECT_NE(kernel, nullptr);
  if (failed(launch) || !kernel)
    return;
  int64_t size = memory.bytes.size();
  for (uint64_t seed : seeds) {
    SCOPED_TRACE(testing::Message() << "schedule " << seed);
    Bytes bytes = aligned(size, memory.bytes);
    EmuCounts counts =
        runGpu(kernel, *launch, seed, bytes.get(), size, args, immediates);
    body(std::vector<char>(bytes.get(), bytes.get() + size), counts);
  }
}

std::vector<char> runOnGpu(const Memory &memory, ArrayRef<Place> args,
                           ArrayRef<int64_t> immediates, EmitGpu emitGpu) {
  std::vector<char> first;
  auto check = [&](std::vector<char> got, EmuCounts) {
    if (first.empty())
      first = std::move(got);
    else
      EXPECT_TRUE(got == first) << "results differ from those of schedule 1";
  };
  runSchedules(memory, args, immediates, emitGpu, {1, 2, 3}, check);
  return first;
}

double sectorRatio(const Memory &memory, ArrayRef<Place> args,
                   ArrayRef<int64_t> immediates, EmitGpu emitGpu) {
  int64_t least = 0, moved = 0;
  for (const Place &place : args)
    least += (place.isRead + place.isWritten) *
             llvm::divideCeil(place.bytes, EmuDevice::sectorBytes);
  runSchedules(memory, args, immediates, emitGpu, {1},
               [&](std::vector<char>, EmuCounts counts) {
                 moved = counts.readSectors + counts.writeSectors;
               });
  return double(moved) / double(least);
}

void expectSameBits(const Memory &memory, ArrayRef<Place> args,
                    ArrayRef<int64_t> immediates, EmitCpu emitCpu,
                    EmitGpu emitGpu) {
  MLIRContext context(MLIRContext::Threading::DISABLED);
  OpBuilder builder(&context);
  OwningOpRef<ModuleOp> host = ModuleOp::create(builder.getUnknownLoc());
  cpu::KernelLaunch cpuLaunch = emitCpu(*host, "kernel", builder);
  Bytes want = runCpu(*host, cpuLaunch, memory, args, immediates);

  std::vector<char> got = runOnGpu(memory, args, immediates, emitGpu);
  int64_t different = 0, first = got.size();
  ASSERT_EQ(got.size(), memory.bytes.size());
  for (int64_t i = got.size(); i-- > 0;)
    if (got[i] != want.get()[i]) {
      ++different;
      first = i;
    }
  EXPECT_EQ(different, 0) << "bytes differ, the first at " << first;
}

} // namespace kiln::test
