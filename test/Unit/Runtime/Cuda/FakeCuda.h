//===- FakeCuda.h - Fake CUDA driver without a GPU --------------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A shared library that implements the functions of the driver, cuBLASLt, cuDNN
// and NCCL that kiln calls, on host memory. Queued work is executed when the
// host synchronizes, in a random order that streams and events permit. Device
// pointers cannot be dereferenced by the host. Misuse is rejected and recorded
// in violations(): use of destroyed handles, copies outside of an allocation,
// calls that are forbidden during a capture, streams that do not join a
// capture, and waits that never end.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_TEST_UNIT_RUNTIME_CUDA_FAKECUDA_H
#define KILN_TEST_UNIT_RUNTIME_CUDA_FAKECUDA_H

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace kiln::runtime::fakecuda {

/// A kernel launch. Each parameter has 8 bytes. If the first parameter of the
/// kernel is an argument table, each word of the table is one parameter.
struct Launch {
  unsigned blocks;
  unsigned threads;
  const uint64_t *parameters;
  unsigned members = 1;     ///< Second grid dimension.
  unsigned sharedBytes = 0; ///< Dynamic shared memory.
};

struct Kernel {
  std::size_t parameters;
  std::function<void(const Launch &)> run;
  /// Number of 8-byte words of the argument table, which has the arguments of
  /// several launches; 0 if the kernel has no table.
  std::size_t tableWords = 0;
};

/// A column-major matmul C = alpha op(A) op(B) + beta C. A and B have the type
/// `type`, C has `resultType`, as cudaDataType_t: 0 f32, 1 f64, 14 bf16.
struct Product {
  int type, resultType;
  bool transA, transB;
  int64_t m, n, k, lda, ldb, ldc;
  const char *a, *b;
  char *c;
  /// A cublasLtEpilogue_t. The value 1 means no epilogue.
  uint32_t epilogue = 1;
  char *bias = nullptr, *aux = nullptr;
  int64_t auxLd = 0;
  double beta;
};

struct Settings {
  int initCode = 0;
  int driverVersion = 13000;
  int devices = 1;
  std::string deviceName = "Fake GPU";
  int major = 9, minor = 0;
  int64_t totalBytes = int64_t(1) << 30;
  int64_t bytesOfOthers = int64_t(100) << 20;
  uint64_t seed = 0;
  /// The index (from 0) of the call that fails, or -1.
  int64_t failingCall = -1;
  /// If not empty, `failingCall` counts the calls of this function only.
  std::string failingFunction;
  int failingCode = 999;
  /// The images that cannot be loaded and their error codes.
  std::map<const void *, int> refusedImages;
  /// If true, only PTX images can be loaded.
  bool onlyPtx = false;
  /// The limit of dynamic shared memory per block.
  int mostSharedBytes = 163 * 1024;
  /// The kernel that faults, and the index of the faulty launch among the
  /// launches of this kernel.
  std::string faultyKernel;
  int64_t faultyLaunch = 0;
  /// The times in milliseconds of the algorithms that cuBLASLt proposes for
  /// every matmul, in the order of its proposals.
  std::vector<double> gemmTimes = {1};
  /// Properties of cuDNN: the version, whether graphs are supported, the
  /// workspace of the engine, whether the engine is reported as deterministic,
  /// and the relative error of results.
  std::size_t dnnVersion = 91900;
  bool dnnKnows = true;
  int64_t dnnWorkspace = 4096;
  bool dnnIsDeterministic = true;
  double dnnError = 0;
  /// The version of NCCL. If `ncclIsSilent` is true, NCCL does not report ranks
  /// that have ended, so that collectives wait for these ranks forever.
  int ncclVersion = 22809;
  bool ncclIsSilent = false;
  /// If true, ncclCommInitRank() does not return.
  bool ncclHangs = false;
  /// The index of the first reported device among the devices of the machine.
  int firstDevice = 0;
  /// If set, this function computes matmuls, and its results are compared with
  /// those of a naive matmul.
  std::function<void(const Product &)> product;
};

/// Resets everything except kernels.
void reset(const Settings &settings = {});
/// Adds a kernel to every image.
void addKernel(const std::string &name, Kernel kernel);
/// Sets a function that finds the kernels that addKernel() has not added, by
/// name and by the image that was loaded last.
void setKernelFinder(std::function<std::optional<Kernel>(
                         const std::string &name, const void *image)>
                         finder);

/// Returns the number of calls since reset().
int64_t calls();
/// Returns the function of the call that failed because of `failingCall`, or an
/// empty string.
std::string failedFunction();
/// Returns the number of calls of a function.
int64_t callsOf(const std::string &function);
/// Returns the number of live handles by kind.
std::map<std::string, int64_t> live();
std::vector<std::string> violations();
/// Returns the number of matmuls executed with each algorithm.
std::vector<int64_t> gemmsByAlgorithm();
/// Returns the maximum dynamic shared memory of all launches.
int64_t sharedBytesOfLaunches();
/// Returns the image that was loaded last.
const void *loadedImage();
/// Returns the host memory of a device pointer.
char *hostPointer(uint64_t device);

} // namespace kiln::runtime::fakecuda

#endif // KILN_TEST_UNIT_RUNTIME_CUDA_FAKECUDA_H
