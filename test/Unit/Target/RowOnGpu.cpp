//===- RowOnGpu.cpp - Row kernels on the emulated GPU ---------------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "RowOnGpu.h"

#include "kiln/Target/Gpu/KernelEmitters.h"

#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "llvm/Support/MathExtras.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>

using namespace mlir;
using kiln::runtime::EmuCounts;
using kiln::runtime::EmuDevice;
using kiln::runtime::EmuLaunch;

namespace kiln::test {

constexpr int64_t kAlignment = EmuDevice::memoryAlignment;
/// Offset of shifted arguments in bytes: a multiple of the size of every
/// element type, but not of 16.
constexpr int64_t kShift = 8;

RowOnGpu::RowOnGpu(MLIRContext &context)
    : module(ModuleOp::create(UnknownLoc::get(&context))) {}

void RowOnGpu::add(const std::string &name, const RowShape &shape) {
  for (bool isShifted : {false, true}) {
    std::vector<int64_t> alignments(shape.layouts.size(),
                                    isShifted ? kShift : kAlignment);
    std::string full = variant(name, isShifted);
    auto launch = gpu::emitRowKernel(gpu::getKernelModule(*module), full, shape,
                                     alignments);
    if (failed(launch)) {
      ADD_FAILURE() << full << " has no GPU kernel";
      return;
    }
    launches[full] = *launch;
  }
}

void RowOnGpu::compile() {
  if (!launches.empty())
    kernels = std::make_unique<EmulatedKernels>(*module);
}

EmuCounts RowOnGpu::run(const std::string &name, bool isShifted,
                        llvm::MutableArrayRef<Buffer> buffers,
                        size_t numOperands, ArrayRef<int64_t> immediates,
                        std::pair<int, int> shared, uint64_t seed) {
  std::string full = variant(name, isShifted);
  const gpu::KernelLaunch &shape = launches.at(full);
  std::vector<int64_t> offsets;
  int64_t bytes = 0;
  for (Buffer &buffer : buffers) {
    offsets.push_back(bytes + (isShifted ? kShift : 0));
    bytes = llvm::alignTo(offsets.back() + buffer.size(), kAlignment);
  }
  std::unique_ptr<char, decltype(&std::free)> memory(
      static_cast<char *>(std::aligned_alloc(kAlignment, bytes)), &std::free);
  EmuDevice device(seed);
  EXPECT_TRUE(device.addMemory(memory.get(), bytes).ok());

  EmuLaunch launch;
  launch.kernel = kernels->find(full);
  launch.name = full;
  launch.immediates.assign(immediates.begin(), immediates.end());
  launch.units = shape.units;
  launch.unitsPerBlock = shape.unitsPerBlock;
  launch.threads = shape.threads;
  launch.sharedBytes = shape.sharedBytes;
  for (size_t i = 0; i < buffers.size(); ++i) {
    bool isResult = i >= numOperands;
    bool inPlace =
        shared.first >= 0 && i == numOperands + size_t(shared.second);
    if (inPlace)
      offsets[i] = offsets[shared.first];
    char *begin = memory.get() + offsets[i];
    if (!isResult) {
      std::memcpy(begin, buffers[i].data(), buffers[i].size());
      EXPECT_TRUE(device.markInitialised(begin, buffers[i].size()).ok());
    }
    launch.arguments.push_back(
        {begin, begin + buffers[i].size(), isResult, "argument"});
  }
  auto counts = device.launch(launch);
  if (!counts.ok()) {
    ADD_FAILURE() << counts.status().message();
    return {};
  }
  for (size_t i = numOperands; i < buffers.size(); ++i)
    std::memcpy(buffers[i].data(), memory.get() + offsets[i],
                buffers[i].size());
  return *counts;
}

} // namespace kiln::test
