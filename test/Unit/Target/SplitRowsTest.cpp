//===- SplitRowsTest.cpp - Few long rows on a GPU -------------------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Tests kernels that load many column blocks of a row at the same time, up to a
// maximum number of blocks. Some rows have slightly more columns than fill a
// multiple of this number of blocks, and other rows have fewer columns than
// fill this number of blocks.
//
//===----------------------------------------------------------------------===//

#include "AssemblerTesting.h"
#include "RowRunner.h"

#include "kiln/Target/Gpu/Cubin.h"
#include "kiln/Target/Gpu/KernelEmitters.h"
#include "kiln/Target/Gpu/Ptx.h"

#include "mlir/Dialect/GPU/IR/GPUDialect.h"

#include <gtest/gtest.h>

#include <cmath>

using namespace kiln;
using namespace kiln::test;

namespace {

/// Returns a case with the norm of all gradients and the clipping factor.
RowCase clipCase() {
  RowCase clip = {"%x: tensor<$Cxf64>, %c: tensor<f64>",
                  "%f, %n = kiln.clip_factor %x, %c : (tensor<$Cxf64>, "
                  "tensor<f64>) -> (tensor<f64>, tensor<f64>)",
                  "%f : tensor<f64>, %n : tensor<f64>"};
  clip.hasNarrowFloats = false;
  clip.fill = [](unsigned, HostTensor &tensor) {
    for (double &x : tensor.reals)
      x = std::abs(x);
  };
  return clip;
}

RowCase squaresCase() {
  return {"%x: tensor<$Rx$Cx$T>",
          "%l = kiln.sum_squares %x : (tensor<$Rx$Cx$T>) -> tensor<$Rxf64>",
          "%l : tensor<$Rxf64>", 1e-13};
}

TEST(SplitRows, HaveTheBitsOfTheCpu) {
  RowRunner runner;
  const std::vector<std::pair<int64_t, int64_t>> sizes = {
      {1, 320}, {2, 1100}, {1, 8300}};
  runner.add({"%x: tensor<$Rx$Cx$T>, %s: tensor<f64>",
              "%l = kiln.scaled_total %x, %s : (tensor<$Rx$Cx$T>, "
              "tensor<f64>) -> tensor<f64>",
              "%l : tensor<f64>", 1e-13},
             sizes);
  runner.add(squaresCase(), sizes);
  runner.add(clipCase(), {{1, 321}, {1, 4096}, {1, 13001}});
  for (const char *kind : {"sum", "max"})
    runner.add({"%x: tensor<$Rx$Cx$T>",
                std::string("%y = kiln.reduce ") + kind +
                    " %x dims [1] : tensor<$Rx$Cx$T> to tensor<$Rx$T>",
                "%y : tensor<$Rx$T>"},
               {{3, 1101}, {1, 8300}, {5, 260}});
  // These rows do not fit in shared memory.
  runner.add({"%x: tensor<$Rx$Cx$F>",
              "%y = kiln.softmax %x : (tensor<$Rx$Cx$F>) -> tensor<$Rx$Cx$F>",
              "%y : tensor<$Rx$Cx$F>"},
             {{2, 60001}});
  // These programs sum slices in order. A thread loads 5 slices all at once,
  // but 77 slices in several groups, one after another.
  for (int64_t slices : {5, 32, 77}) {
    std::string from = "tensor<" + std::to_string(slices) + "x$Cx$T>";
    runner.add({"%x: " + from,
                "%y = kiln.reduce_combine %x : (" + from + ") -> tensor<$Cx$T>",
                "%y : tensor<$Cx$T>"},
               {{1, 70}, {1, 768}});
    runner.add({"%x: " + from,
                "%y = kiln.reduce_combine %x : (" + from +
                    ") -> tensor<$Cx$T>\n%s = kiln.sum_squares %y : "
                    "(tensor<$Cx$T>) -> tensor<1xf64>",
                "%y : tensor<$Cx$T>, %s : tensor<1xf64>"},
               {{1, 330}});
  }
  runner.runAll();
}

TEST(SplitRows, LoadsComeFirst) {
  RowRunner runner;
  mlir::OwningOpRef<mlir::ModuleOp> module =
      mlir::ModuleOp::create(mlir::UnknownLoc::get(&runner.context));
  auto add = [&](const char *name, const RowCase &rowCase, int64_t rows,
                 int64_t columns, const char *type) {
    std::optional<RowShape> shape =
        runner.shapeOf(rowCase, rows, columns, type);
    ASSERT_TRUE(shape);
    std::vector<int64_t> alignments(shape->layouts.size(), 256);
    ASSERT_TRUE(succeeded(gpu::emitRowKernel(gpu::getKernelModule(*module),
                                             name, *shape, alignments)));
  };
  add("clip", clipCase(), 1, 115891, "f32");
  add("squares", squaresCase(), 4, 3072, "f32");
  add("squares_bf16", squaresCase(), 4, 3072, "bf16");
  const std::vector<std::string> chips = {"sm_80", "sm_90"};
  auto ptx = gpu::compileToPtx(*module, chips);
  ASSERT_TRUE(bool(ptx)) << llvm::toString(ptx.takeError());
  for (const std::string &text : *ptx)
    for (auto [name, least] :
         {std::pair("clip", 64), {"squares", 32}, {"squares_bf16", 16}}) {
      size_t begin = text.find(std::string(".entry ") + name + "(");
      ASSERT_NE(begin, std::string::npos) << name;
      size_t end = text.find("add.rn.f64", begin);
      int count = 0;
      for (size_t at = begin; (at = text.find("ld.global", at)) < end; ++at)
        ++count;
      EXPECT_GE(count, least) << name;
    }
  for (auto [text, chip] : llvm::zip(*ptx, chips)) {
    auto cubin = gpu::assemble(text, chip);
    KILN_REQUIRE_ASSEMBLED(cubin);
    for (const gpu::KernelResources &kernel : cubin->kernels) {
      std::printf("%s %-16s %3ld registers\n", chip.c_str(),
                  kernel.kernel.c_str(), long(kernel.registers));
      EXPECT_EQ(kernel.spillStores + kernel.spillLoads, 0) << kernel.kernel;
    }
  }
}

/// Rounds f32 values to bf16 within a kernel. A thread with one column has no
/// pair of elements for a packed conversion.
TEST(SplitRows, SingleElementsAreRounded) {
  RowRunner runner;
  std::optional<RowShape> shape = runner.shapeOf(
      {"%x: tensor<$Rx$Cxf32>",
       "%n = kiln.cast %x : tensor<$Rx$Cxf32> to tensor<$Rx$Cxbf16> "
       "%w = kiln.cast %n : tensor<$Rx$Cxbf16> to tensor<$Rx$Cxf32> "
       "%l = kiln.sum_squares %w : (tensor<$Rx$Cxf32>) -> tensor<$Rxf64>",
       "%l : tensor<$Rxf64>"},
      4, 3072, "f32");
  ASSERT_TRUE(shape);
  mlir::OwningOpRef<mlir::ModuleOp> module =
      mlir::ModuleOp::create(mlir::UnknownLoc::get(&runner.context));
  ASSERT_TRUE(succeeded(gpu::emitRowKernel(gpu::getKernelModule(*module),
                                           "rounded", *shape, {256, 256})));
  auto ptx = gpu::compileToPtx(*module, llvm::StringRef("sm_80"));
  ASSERT_TRUE(bool(ptx)) << llvm::toString(ptx.takeError());
  EXPECT_NE(ptx->find("cvt.rn.bf16.f32"), std::string::npos);
}

} // namespace
