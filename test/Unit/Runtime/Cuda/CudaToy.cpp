//===- CudaToy.cpp - Toy model for the CUDA engine ------------------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "CudaToy.h"

#include "Gemm.h"
#include "kiln/Runtime/Engine/CommandEngine.h"

#include <array>

namespace kiln::runtime::toy {

using Json = nlohmann::json;

/// The number of arguments of a toy kernel, including its scratch memory, and
/// the number of its immediates.
struct Shape {
  std::size_t args, immediates;
};
static constexpr std::array<Shape, std::size_t(kernelCount)> shapes = {
    {{3, 1}, {5, 1}, {2, 2}, {3, 2}, {3, 1}, {6, 0}, {3, 1}}};

static constexpr std::array<const char *, std::size_t(kernelCount)> names = {
    "gather", "cross_entropy", "sum_loss", "scatter",
    "norm",   "update",        "take_row"};

/// Runs a kernel. The parameters of the launch are the arguments, the
/// immediates that EmuToy.cpp describes, and the number of work units.
static void runKernel(std::size_t index, const fakecuda::Launch &launch) {
  DenormalsFlushed flushed;
  std::vector<char *> args;
  for (std::size_t i = 0; i < shapes[index].args; ++i)
    args.push_back(fakecuda::hostPointer(launch.parameters[i]));
  const auto *immediates =
      reinterpret_cast<const int64_t *>(launch.parameters + shapes[index].args);
  immediates += 1 + 2 * shapes[index].args;
  int64_t scratch = *immediates++;
  auto kernel = reinterpret_cast<KernelFunction>(
      const_cast<void *>(kernelTable()[index]));
  kernel(args.data(), immediates, 0, immediates[shapes[index].immediates],
         scratch < 0 ? nullptr : args[std::size_t(scratch)]);
}

/// Computes a column-major matmul as the row-major matmul of the swapped
/// operands.
static void multiply(const fakecuda::Product &product) {
  DenormalsFlushed flushed;
  GemmCall call;
  call.type = product.type == 1 ? ElementType::F64 : ElementType::F32;
  call.transA = product.transB;
  call.transB = product.transA;
  call.m = product.n;
  call.n = product.m;
  call.k = product.k;
  call.a = product.b;
  call.lda = product.ldb;
  call.b = product.a;
  call.ldb = product.lda;
  call.c = product.c;
  call.ldc = product.ldc;
  call.accumulate = product.beta != 0;
  gemm(call);
}

Json withWholeMatmuls(Json description) {
  for (auto &[name, program] : description["programs"].items())
    for (Json *command : allCommands(program))
      if ((*command)["op"] == "gemm")
        (*command)["grid"] = {1, 1};
  return description;
}

Json onCuda(const Json &description) {
  Json result = emulated(withWholeMatmuls(description));
  result["target"]["kind"] = "cuda";
  result["options"]["target"] = "cuda";
  return result;
}

cuda::GpuImages toyImages() {
  static constexpr char ptx[] = "//\n.version 7.0\n.target sm_80\n";
  static const cuda::GpuImage images[] = {
      {80, 0, "machine code of 8.0", 20},
      {90, 0, "machine code of 9.0", 20},
      {80, 1, ptx, sizeof(ptx)},
  };
  return {images, 3};
}

cuda::Libraries fakeLibraries() { return {{KILN_FAKE_CUDA}, {KILN_FAKE_CUDA}}; }

fakecuda::Settings toySettings() {
  fakecuda::Settings settings;
  settings.product = multiply;
  return settings;
}

Result<std::unique_ptr<Engine>> makeCudaEngine(const Json &description) {
  return makeCudaEngine(description, "");
}

Result<std::unique_ptr<Engine>>
makeCudaEngine(const Json &description, const std::string &algorithmFile) {
  static const void *table[emuKernelCount];
  for (std::size_t i = 0; i < std::size_t(kernelCount); ++i) {
    table[i] = names[i];
    table[std::size_t(kernelCount) + i] = kernelTable()[i];
    fakecuda::addKernel(
        names[i],
        {3 * shapes[i].args + 3 + shapes[i].immediates,
         [i](const fakecuda::Launch &launch) { runKernel(i, launch); }});
  }
  return cuda::createCudaEngine(description.dump(), table, emuKernelCount,
                                toyImages(), fakeLibraries(), algorithmFile);
}

} // namespace kiln::runtime::toy
