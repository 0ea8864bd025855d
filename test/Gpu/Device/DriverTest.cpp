//===- DriverTest.cpp - Tests of driver properties and memory -------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "DeviceUnderTest.h"
#include "Gpu.h"

#include <cstring>

using namespace kiln::runtime::cuda;
using namespace kiln::runtime;
using namespace kiln;

namespace {

constexpr int64_t granularity = int64_t(2) << 20;

class DriverTest : public ::testing::Test {
protected:
  void SetUp() override {
    Result<Driver> driver = Driver::open(devicetest::libraries().driver);
    ASSERT_TRUE(driver.ok()) << driver.status().message();
    driver_.emplace(std::move(*driver));
    Result<Gpu> gpu = Gpu::open(*driver_);
    ASSERT_TRUE(gpu.ok()) << gpu.status().message();
    gpu_.emplace(std::move(*gpu));
  }
  int64_t freeBytes() {
    Result<Gpu::Memory> memory = gpu_->memory();
    EXPECT_TRUE(memory.ok());
    return memory->free;
  }
  std::optional<Driver> driver_;
  std::optional<Gpu> gpu_;
};

TEST_F(DriverTest, OpensADevice) {
  EXPECT_FALSE(gpu_->name().empty());
  EXPECT_GE(gpu_->architecture(), 80);
  Result<Gpu::Memory> memory = gpu_->memory();
  ASSERT_TRUE(memory.ok()) << memory.status().message();
  EXPECT_GT(memory->free, 0);
  EXPECT_LE(memory->free, memory->total);
  RecordProperty("gpu", gpu_->name());
  RecordProperty("capability", capabilityText(gpu_->architecture()));
  RecordProperty("driver", driver_->version());
}

TEST_F(DriverTest, AllocationsTakeTheirSizeRoundedUp) {
  // The driver may reserve memory for itself at the first allocation, so
  // allocate once before measuring.
  ASSERT_TRUE(gpu_->allocate(1, "a test").ok());
  for (int64_t bytes : {64 * granularity, 64 * granularity + 1}) {
    int64_t before = freeBytes();
    {
      Result<DeviceMemory> memory = gpu_->allocate(bytes, "a test");
      ASSERT_TRUE(memory.ok()) << memory.status().message();
      EXPECT_EQ(before - freeBytes(),
                (bytes + granularity - 1) / granularity * granularity);
    }
    EXPECT_EQ(freeBytes(), before);
  }
}

TEST_F(DriverTest, RefusesMoreMemoryThanThereIs) {
  Result<Gpu::Memory> memory = gpu_->memory();
  Result<DeviceMemory> all = gpu_->allocate(2 * memory->total, "a test");
  ASSERT_FALSE(all.ok());
  EXPECT_EQ(all.status().code(), ExitCode::OverBudget)
      << all.status().message();
  EXPECT_NE(all.status().message().find("a test"), std::string::npos);
}

TEST_F(DriverTest, CopiesAnyNumberOfBytes) {
  StreamHandle handle = nullptr;
  const DriverApi &api = driver_->api();
  ASSERT_TRUE(
      driver_->call(api.cuStreamCreate, &handle, streamNonBlocking).ok());
  QueueStream stream(handle, api.cuStreamDestroy_v2);
  constexpr int64_t most = (1 << 20) + 3;
  Result<DeviceMemory> device = gpu_->allocate(most, "a test");
  Result<PinnedMemory> pinned = gpu_->allocatePinned(most, "a test");
  ASSERT_TRUE(device.ok() && pinned.ok());
  std::vector<char> ordinary(most), result(most);
  for (char *from : {ordinary.data(), static_cast<char *>(pinned->get())}) {
    for (int64_t bytes : {int64_t(1), int64_t(3), int64_t(255), most}) {
      for (int64_t i = 0; i < bytes; ++i)
        from[i] = char(i * 7 + bytes);
      std::fill(result.begin(), result.end(), 0);
      Status status = driver_->call(api.cuMemcpyHtoDAsync_v2, device->get(),
                                    static_cast<const void *>(from),
                                    std::size_t(bytes), stream.get());
      if (status.ok())
        status = driver_->call(api.cuMemcpyDtoHAsync_v2,
                               static_cast<void *>(result.data()),
                               device->get(), std::size_t(bytes), stream.get());
      if (status.ok())
        status = driver_->call(api.cuStreamSynchronize, stream.get());
      ASSERT_TRUE(status.ok()) << status.message();
      EXPECT_EQ(std::memcmp(from, result.data(), std::size_t(bytes)), 0);
      for (int64_t i = bytes; i < std::min(bytes + 16, most); ++i)
        EXPECT_EQ(result[std::size_t(i)], 0);
    }
  }
}

} // namespace
