//===- DeviceUnderTest.cpp - Device of the tests --------------------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "DeviceUnderTest.h"

#include "kiln/Runtime/Engine/CommandEngine.h"
#include "kiln/Support/Rng.h"

using namespace kiln::runtime;
using namespace kiln::support;
using namespace kiln;

// Embeds the file kernels.ptx as a NUL-terminated string.
asm(R"(
  .section .rodata
  .p2align 4
kiln_test_ptx:
  .incbin ")" KILN_TEST_PTX R"("
  .byte 0
kiln_test_ptx_end:
  .previous
)");
extern "C" const char kiln_test_ptx[], kiln_test_ptx_end[];

cuda::GpuImage devicetest::ptxImage() {
  return {80, 1, kiln_test_ptx, kiln_test_ptx_end - kiln_test_ptx};
}

/// Divides the array args[1] in host memory by the scalar args[0], which is
/// computed on the device.
static void hostDivide(char *const *args, const int64_t *, int64_t begin,
                       int64_t end, char *) {
  float divisor = *reinterpret_cast<const float *>(args[0]);
  auto *array = reinterpret_cast<float *>(args[1]);
  for (int64_t i = begin; i < end; ++i)
    array[i] /= divisor;
}

Result<std::unique_ptr<Engine>>
devicetest::makeEngine(testing::Json description,
                       const std::vector<cuda::GpuImage> &images) {
  static const void *const kernels[] = {
      "scale", "block_sum", "fault",
      reinterpret_cast<const void *>(&hostDivide)};
  description["target"]["kind"] = "cuda";
  description["options"]["target"] = "cuda";
  // start() reads the images, so they must outlive this function.
  static std::vector<cuda::GpuImage> kept;
  kept = images;
  return cuda::createCudaEngine(description.dump(), kernels, 4,
                                {kept.data(), int64_t(kept.size())},
                                libraries());
}

std::unique_ptr<Engine>
devicetest::startEngine(const testing::Json &description) {
  Result<std::unique_ptr<Engine>> engine = makeEngine(description);
  if (!engine.ok()) {
    ADD_FAILURE() << engine.status().message();
    return nullptr;
  }
  if (Status status = (*engine)->start(1); !status.ok()) {
    ADD_FAILURE() << status.message();
    return nullptr;
  }
  return std::move(*engine);
}

float *devicetest::input(Engine &engine, std::size_t index) {
  return reinterpret_cast<float *>(engine.inputData(0, index));
}

float *devicetest::output(Engine &engine, std::size_t index) {
  return reinterpret_cast<float *>(engine.outputData(0, index));
}

std::vector<float> devicetest::numbers(int64_t count, uint64_t seed) {
  std::vector<float> result;
  for (int64_t i = 0; i < count; ++i) {
    uint64_t bits = splitmix64(seed * 0x100000001 + uint64_t(i));
    float value = float(int64_t(bits >> 40) - (int64_t(1) << 23)) * 0x1p-23f;
    result.push_back(value * float(1 << (bits & 3)));
  }
  return result;
}
