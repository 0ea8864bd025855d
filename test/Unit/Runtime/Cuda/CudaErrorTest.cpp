//===- CudaErrorTest.cpp - Tests of the CUDA engine's errors --------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "CudaToy.h"
#include "RunToy.h"

using namespace kiln::runtime::toy;
using namespace kiln::runtime;
using namespace kiln;
using Json = nlohmann::json;

namespace {

class CudaErrorTest : public ToyTest {
protected:
  Outcome run(const Json &description, const fakecuda::Settings &settings,
              std::vector<std::string> flags = {}) {
    fakecuda::reset(settings);
    flags.insert(flags.begin(), {data(), "--steps=2"});
    Outcome outcome = runToy(description, flags, makeCudaEngine);
    EXPECT_TRUE(fakecuda::live().empty())
        << fakecuda::live().begin()->first << " is left; " << outcome.err;
    EXPECT_TRUE(fakecuda::violations().empty())
        << fakecuda::violations().front() << "; " << outcome.err;
    return outcome;
  }
  /// Expects an error of one line that contains all of the texts.
  void fails(const Outcome &outcome, std::vector<std::string> texts,
             int exitCode = 1) {
    EXPECT_EQ(outcome.exitCode, exitCode) << outcome.err;
    EXPECT_EQ(outcome.err.rfind("error: ", 0), 0u) << outcome.err;
    EXPECT_EQ(std::count(outcome.err.begin(), outcome.err.end(), '\n'), 1)
        << outcome.err;
    for (const std::string &text : texts)
      EXPECT_NE(outcome.err.find(text), std::string::npos)
          << text << "\nbut: " << outcome.err;
  }

  /// Returns true if a directory contains neither a checkpoint nor a part of a
  /// checkpoint.
  bool nothingIn(const char *name) {
    if (!std::filesystem::exists(path(name)))
      return true;
    for (auto &entry : std::filesystem::directory_iterator(path(name)))
      if (entry.path().filename() != ".lock")
        return false;
    return true;
  }

  fakecuda::Settings settings_ = toySettings();
  Json plain_ = onCuda(describe());
  Json offloaded_ = onCuda(describeOffloaded());
};

bool isDestructor(const std::string &function) {
  for (const char *part : {"Destroy", "Free", "Release", "Unload"})
    if (function.find(part) != std::string::npos)
      return true;
  return false;
}

TEST_F(CudaErrorTest, EveryCallMayFail) {
  std::vector<std::string> flags = {"--save=" + path("checkpoints")};
  ASSERT_EQ(run(offloaded_, settings_, flags).exitCode, 0);
  std::filesystem::remove_all(path("checkpoints"));
  int64_t calls = fakecuda::calls();
  ASSERT_GT(calls, 100);
  for (int64_t call = 0; call < calls; ++call) {
    settings_.failingCall = call;
    Outcome outcome = run(offloaded_, settings_, flags);
    std::string function = fakecuda::failedFunction();
    ASSERT_FALSE(function.empty()) << call;
    SCOPED_TRACE(function + ", call " + std::to_string(call));
    // cuCtxSynchronize is called last, when the engine is destroyed. The engine
    // ignores failures of this call and of functions that destroy objects.
    if (isDestructor(function) || function == "cuCtxSynchronize") {
      EXPECT_EQ(outcome.exitCode, 0) << outcome.err;
    } else {
      fails(outcome, {function == "cuInit" ? "cannot start" : function});
      EXPECT_TRUE(nothingIn("checkpoints"));
    }
    std::filesystem::remove_all(path("checkpoints"));
    if (HasFailure())
      break;
  }
}

TEST_F(CudaErrorTest, NoDriver) {
  Result<std::unique_ptr<Engine>> engine = cuda::createCudaEngine(
      plain_.dump(), kernelTable(), emuKernelCount, toyImages(),
      {{"libcuda-that-is-nowhere.so.1"}, {}});
  ASSERT_TRUE(engine.ok());
  Status status = (*engine)->start(1);
  EXPECT_EQ(status.code(), ExitCode::Error);
  EXPECT_EQ(status.message(),
            "this executable needs an NVIDIA GPU, and the CUDA driver "
            "(libcuda.so.1) cannot be loaded: libcuda-that-is-nowhere.so.1: "
            "cannot open shared object file: No such file or directory; "
            "compile with --target=cpu or --target=cuda-emu to run here");
}

TEST_F(CudaErrorTest, NoLibraryOfProducts) {
  fakecuda::reset();
  Result<std::unique_ptr<Engine>> engine = cuda::createCudaEngine(
      plain_.dump(), kernelTable(), emuKernelCount, toyImages(),
      {fakeLibraries().driver, {"libnowhere.so.13", "libnowhere.so.12"}});
  ASSERT_TRUE(engine.ok());
  Status status = (*engine)->start(1);
  EXPECT_EQ(status.code(), ExitCode::Error);
  EXPECT_NE(status.message().find("libnowhere.so.13"), std::string::npos);
  EXPECT_NE(status.message().find("LD_LIBRARY_PATH"), std::string::npos);
}

TEST_F(CudaErrorTest, LibraryWithoutTheFunctions) {
  Result<std::unique_ptr<Engine>> engine =
      cuda::createCudaEngine(plain_.dump(), kernelTable(), emuKernelCount,
                             toyImages(), {{"libm.so.6"}, {}});
  Status status = (*engine)->start(1);
  EXPECT_NE(status.message().find("libm.so.6 is too old: it lacks"),
            std::string::npos);
}

TEST_F(CudaErrorTest, NoDevice) {
  settings_.devices = 0;
  fails(run(plain_, settings_), {"reports none", "--target=cpu"});
  settings_.initCode = 100;
  fails(run(plain_, settings_), {"CUDA_ERROR_NO_DEVICE", "--target=cpu"});
  settings_.initCode = 34;
  fails(run(plain_, settings_), {"stub", "LD_LIBRARY_PATH"});
}

TEST_F(CudaErrorTest, OldGpu) {
  settings_.major = 7;
  settings_.minor = 5;
  fails(run(plain_, settings_),
        {"machine code for 8.0, machine code for 9.0, PTX for 8.0",
         "'Fake GPU' has compute capability 7.5",
         "compute capability 7.5; compile with --target=cpu"});
}

TEST_F(CudaErrorTest, OldDriver) {
  const cuda::GpuImage *images = toyImages().first;
  settings_.driverVersion = 11080;
  // The driver rejects the machine code and accepts the PTX.
  settings_.refusedImages = {{images[1].bytes, 200}};
  EXPECT_EQ(run(plain_, settings_).exitCode, 0);
  EXPECT_EQ(fakecuda::loadedImage(), images[2].bytes);
  settings_.refusedImages[images[2].bytes] = 222;
  fails(run(plain_, settings_),
        {"CUDA 11.8", "machine code for 9.0: error 200",
         "PTX 7.0 for 8.0: CUDA_ERROR_UNSUPPORTED_PTX_VERSION",
         "ptxas says\\x0ano"});
}

TEST_F(CudaErrorTest, TooLittleMemory) {
  settings_.bytesOfOthers = settings_.totalBytes - (int64_t(1) << 20);
  int64_t arena = plain_["arena"]["bytes"];
  fails(run(plain_, settings_),
        {"the plan needs", std::to_string(arena) + " for the arena",
         "1048576 of 1073741824 are free", "--memory-budget="},
        4);
}

TEST_F(CudaErrorTest, UnknownProduct) {
  settings_.gemmTimes.clear();
  fails(run(plain_, settings_),
        {"has no algorithm for this matmul", "gemm 'logits'"});
}

TEST_F(CudaErrorTest, UnknownKernel) {
  fakecuda::reset(settings_);
  static const void *table[emuKernelCount] = {
      "nobody", "nobody", "nobody", "nobody", "nobody", "nobody", "nobody"};
  Result<std::unique_ptr<Engine>> engine = cuda::createCudaEngine(
      plain_.dump(), table, emuKernelCount, toyImages(), fakeLibraries());
  Status status = (*engine)->start(1);
  EXPECT_NE(status.message().find("kernel 'nobody' of launch"),
            std::string::npos)
      << status.message();
}

/// Tests that the limit of dynamic shared memory is set once per kernel, and
/// that each launch specifies the size of its shared memory.
TEST_F(CudaErrorTest, SharedMemory) {
  Json description = plain_;
  std::function<void(Json &)> share = [&](Json &node) {
    if (node.is_object() && node.contains("shared"))
      node["shared"] = 163 * 1024;
    for (Json &child : node)
      if (child.is_structured())
        share(child);
  };
  share(description);
  ASSERT_EQ(run(description, settings_).exitCode, 0);
  EXPECT_EQ(fakecuda::sharedBytesOfLaunches(), 163 * 1024);
  EXPECT_LE(fakecuda::callsOf("cuFuncSetAttribute"), emuKernelCount);
  settings_.mostSharedBytes = 99 * 1024;
  fails(run(description, settings_),
        {"kernel '", "of launch '", "cuFuncSetAttribute",
         "needs 166912 bytes of shared memory per block"});
  run(plain_, settings_);
  EXPECT_EQ(fakecuda::sharedBytesOfLaunches(), 0);
  EXPECT_EQ(fakecuda::callsOf("cuFuncSetAttribute"), 0);
}

TEST_F(CudaErrorTest, KernelThatFaults) {
  settings_.faultyKernel = "scatter";
  std::string fault = "CUDA_ERROR_ILLEGAL_ADDRESS (an illegal memory access "
                      "was encountered): a kernel has faulted";
  fails(run(plain_, settings_, {"--save=" + path("saved")}),
        {fault, "in program 'train', launch 'scatter'"});
  // The fault occurs in the graph of the second step.
  settings_.faultyLaunch = 3;
  fails(run(plain_, settings_, {"--save=" + path("saved")}),
        {fault, "in program 'train', whose commands ran as one graph",
         "--sync-ops"});
  EXPECT_TRUE(nothingIn("saved"));
  fails(run(plain_, settings_, {"--sync-ops"}),
        {fault, "in program 'train', launch 'scatter'", "for micro-batch 1"});
}

} // namespace
