//===- FakeCuda.h - A CUDA driver without a GPU -----------------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A shared library with the functions of the driver, cuBLASLt and cuDNN that
// kiln calls, on memory of the host. What is queued waits until somebody waits
// for it, and is then carried out in an order that a seed chooses among those
// that streams and events allow. Device pointers cannot be read by the host.
//
// Misuse is written down (violations) and refused: handles that are no more,
// copies beyond an allocation, calls that a capture forbids, streams that do
// not join a capture, waits for what never comes.
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

/// A launch of a kernel. Parameters have 8 bytes each, those of a table one
/// after the other.
struct Launch {
  unsigned blocks;
  unsigned threads;
  const uint64_t *parameters;
  unsigned members = 1;     ///< The grid's second dimension.
  unsigned sharedBytes = 0; ///< Beside what the kernel has by itself.
};

struct Kernel {
  std::size_t parameters;
  std::function<void(const Launch &)> run;
  std::size_t tableWords = 0; ///< Of the first parameter; 0: it is no table.
};

/// C = alpha op(A) op(B) + beta C, along columns first. A and B are of `type`,
/// C of `resultType`, as the library numbers them: 0 f32, 1 f64, 14 bf16.
struct Product {
  int type, resultType;
  bool transA, transB;
  int64_t m, n, k, lda, ldb, ldc;
  const char *a, *b;
  char *c;
  /// As the library numbers it: 1 is none.
  uint32_t epilogue = 1;
  char *bias = nullptr, *aux = nullptr;
  int64_t auxLd = 0;
  double beta;
};

struct Settings {
  int initCode = 0;
  int driverVersion = 13000;
  int devices = 1;
  int major = 9, minor = 0;
  int64_t totalBytes = int64_t(1) << 30;
  int64_t bytesOfOthers = int64_t(100) << 20;
  uint64_t seed = 0;
  /// Code that the call with this number (from 0) ends with; -1: none.
  int64_t failingCall = -1;
  int failingCode = 999;
  /// Images that cannot be loaded, and why.
  std::map<const void *, int> refusedImages;
  /// Whether images that are no text cannot be loaded either.
  bool onlyPtx = false;
  /// Of a block, that launches may ask for.
  int mostSharedBytes = 163 * 1024;
  /// A kernel that accesses what it may not, at its launch with this number.
  std::string faultyKernel;
  int64_t faultyLaunch = 0;
  /// How long the ways take that the library knows for any product, in
  /// milliseconds, in the order of its proposals.
  std::vector<double> gemmTimes = {1};
  /// cuDNN: its version, whether it has an engine for a graph, what that needs
  /// and says of itself, and how far its results are off, of themselves.
  std::size_t dnnVersion = 91900;
  bool dnnKnows = true;
  int64_t dnnWorkspace = 4096;
  bool dnnIsDeterministic = true;
  double dnnError = 0;
  /// Instead of the naive product, which is then compared with it.
  std::function<void(const Product &)> product;
};

/// Forgets everything, but for kernels.
void reset(const Settings &settings = {});
/// A kernel of every image.
void addKernel(const std::string &name, Kernel kernel);
/// Asked for a kernel that was not added, with the image that was loaded last.
void setKernelFinder(std::function<std::optional<Kernel>(
                         const std::string &name, const void *image)>
                         finder);

/// Of the driver and the library since reset().
int64_t calls();
/// The function of the call that failed as the settings say, or nothing.
std::string failedFunction();
/// Number of calls of one function.
int64_t callsOf(const std::string &function);
/// Handles that exist, by kind.
std::map<std::string, int64_t> live();
std::vector<std::string> violations();
/// Matmuls that were computed in each of the ways.
std::vector<int64_t> gemmsByAlgorithm();
/// The most shared memory that a launch has asked for.
int64_t sharedBytesOfLaunches();
/// The image that was loaded last.
const void *loadedImage();
/// Host memory of a device pointer.
char *hostPointer(uint64_t device);

} // namespace kiln::runtime::fakecuda

#endif // KILN_TEST_UNIT_RUNTIME_CUDA_FAKECUDA_H
