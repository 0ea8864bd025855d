//===- ErrorsTest.cpp - Tests of device errors ----------------------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// After a fault, the process cannot use the GPU any more. Therefore the GPU
// suite and ctest run each test in a process of its own.
//
//===----------------------------------------------------------------------===//

#include "DeviceUnderTest.h"

using namespace kiln::runtime::devicetest;
using namespace kiln::runtime::testing;
using namespace kiln::runtime;
using namespace kiln;

namespace {

constexpr int64_t count = 64, bytes = 4 * count;

Json oneLaunch(const char *name, int64_t kernel, Json args, Json immediates) {
  Json commands = {deviceLaunch(name, kernel, std::move(args), bytes,
                                Json::array({kernel == Fault ? 0 : 1}),
                                std::move(immediates), count)};
  Json slots = {slot("i", "input", 0, bytes, 0, 1),
                slot("o", "output", alignment, bytes, 0, 1)};
  return handProgram(commands, slots, {value("i", 0, count)},
                     {value("o", alignment, count)}, 2 * alignment);
}

Json scaling() {
  return oneLaunch("scale", Scale, {device(0), device(alignment)}, {{0, 0}});
}

void isOneLine(const Status &status, const std::vector<std::string> &texts) {
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.message().find('\n'), std::string::npos) << status.message();
  for (const std::string &text : texts)
    EXPECT_NE(status.message().find(text), std::string::npos)
        << text << "\nbut: " << status.message();
}

TEST(ErrorsTest, KernelThatFaultsIsNamed) {
  expectFault();
  std::unique_ptr<Engine> engine = startEngine(
      oneLaunch("h.0.ln_1", Fault, {device(alignment)}, Json::array()));
  ASSERT_TRUE(engine);
  Status status = engine->run(0);
  EXPECT_EQ(status.code(), ExitCode::Error);
  isOneLine(status, {"a kernel has faulted",
                     "in program 'run', launch 'h.0.ln_1' (commands[0])"});
  // The engine cannot run again, but is destroyed without an error.
  EXPECT_FALSE(engine->run(0).ok());
}

TEST(ErrorsTest, MoreMemoryThanThereIs) {
  Json description = scaling();
  description["arena"]["bytes"] = int64_t(1) << 44;
  Result<std::unique_ptr<Engine>> engine = makeEngine(description);
  ASSERT_TRUE(engine.ok()) << engine.status().message();
  Status status = (*engine)->start(1);
  EXPECT_EQ(status.code(), ExitCode::OverBudget);
  isOneLine(status, {"the plan needs", "are free on", "--memory-budget="});
}

TEST(ErrorsTest, CodeForOtherGpus) {
  cuda::GpuImage future = ptxImage(), other = {70, 0, "code", 4};
  future.architecture = 999;
  Result<std::unique_ptr<Engine>> engine =
      makeEngine(scaling(), {other, future});
  ASSERT_TRUE(engine.ok()) << engine.status().message();
  isOneLine((*engine)->start(1),
            {"machine code for 7.0, PTX for 99.9", "has compute capability"});
}

/// If the driver rejects the machine code for the GPU, the PTX is used instead.
TEST(ErrorsTest, UnreadableMachineCodeIsPassedOver) {
  static const char junk[64] = "no machine code";
  std::vector<cuda::GpuImage> images;
  for (int64_t architecture : {80, 90, 100, 120})
    images.push_back({architecture, 0, junk, sizeof(junk)});
  images.push_back(ptxImage());
  Result<std::unique_ptr<Engine>> engine = makeEngine(scaling(), images);
  ASSERT_TRUE(engine.ok()) << engine.status().message();
  Status status = (*engine)->start(1);
  ASSERT_TRUE(status.ok()) << status.message();
  for (int64_t i = 0; i < count; ++i)
    input(**engine, 0)[i] = float(i);
  status = (*engine)->run(0);
  ASSERT_TRUE(status.ok()) << status.message();
  for (int64_t i = 0; i < count; ++i)
    EXPECT_EQ(output(**engine, 0)[i], float(3 * i));
}

TEST(ErrorsTest, KernelThatIsNotThere) {
  if (!isReal())
    GTEST_SKIP() << "the stand-in resolves kernels by their names alone";
  static const char ptx[] = ".version 7.0\n.target sm_80\n.address_size 64\n";
  Result<std::unique_ptr<Engine>> engine =
      makeEngine(scaling(), {{80, 1, ptx, sizeof(ptx)}});
  ASSERT_TRUE(engine.ok()) << engine.status().message();
  Status status = (*engine)->start(1);
  isOneLine(status, {"kernel 'scale' of launch 'scale'"});
}

} // namespace
