//===- RowPtxTest.cpp - PTX of bf16 row kernels ---------------------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Checks the PTX and the machine code of row programs: packed conversions round
// elements in pairs, accesses have the maximum width, the code has no calls,
// and no register is spilled.
//
//===----------------------------------------------------------------------===//

#include "AssemblerTesting.h"
#include "ModelRows.h"

#include "kiln/Target/Gpu/Cubin.h"
#include "kiln/Target/Gpu/KernelEmitters.h"
#include "kiln/Target/Gpu/Ptx.h"

#include "mlir/Dialect/GPU/IR/GPUDialect.h"

#include <gtest/gtest.h>

#include <map>

using namespace kiln;
using namespace kiln::test;

namespace {

constexpr int64_t kRows = 4096, kColumns = 768;
const std::vector<std::string> kChips = {"sm_80", "sm_90"};

class RowPtx : public testing::Test {
protected:
  RowPtx()
      : module(mlir::ModuleOp::create(mlir::UnknownLoc::get(&runner.context))) {
  }

  /// Adds the kernel of a case, in bf16 by default, for arguments with the
  /// alignment of an arena.
  void add(const std::string &name, const RowCase &rowCase,
           int64_t columns = kColumns, int64_t rows = kRows,
           const char *type = "bf16") {
    std::optional<RowShape> shape =
        runner.shapeOf(rowCase, rows, columns, type);
    ASSERT_TRUE(shape);
    std::vector<int64_t> alignments(shape->layouts.size(), 256);
    ASSERT_TRUE(succeeded(gpu::emitRowKernel(gpu::getKernelModule(*module),
                                             name, *shape, alignments)));
  }
  std::vector<std::string> compile() {
    auto ptx = gpu::compileToPtx(*module, kChips);
    if (ptx)
      return *ptx;
    ADD_FAILURE() << llvm::toString(ptx.takeError());
    return {};
  }
  /// Returns the PTX of one kernel.
  static std::string bodyOf(const std::string &ptx, const std::string &name) {
    size_t begin = ptx.find(".entry " + name + "(");
    EXPECT_NE(begin, std::string::npos) << name;
    return ptx.substr(begin, ptx.find("\n}", begin) - begin);
  }
  static size_t count(const std::string &text, const std::string &what) {
    size_t found = 0;
    for (size_t at = 0; (at = text.find(what, at)) != std::string::npos; ++at)
      ++found;
    return found;
  }

  RowRunner runner;
  mlir::OwningOpRef<mlir::ModuleOp> module;
};

TEST_F(RowPtx, WideAccessesAndRoundingInPairs) {
  add("gelu", geluCase());
  add("affine", affineCase());
  add("sums", biasGradientCase(kRows));
  add("random", dropoutAndAddCase());
  add("weights", castCase());
  add("residual", residualCase());
  add("classifier", classifierCase(50257), 50257, 304);
  for (const std::string &ptx : compile()) {
    // All arithmetic is f32.
    for (const char *narrowed :
         {"add.rn.bf16", "sub.rn.bf16", "mul.rn.bf16", "fma.rn.bf16"})
      EXPECT_EQ(count(ptx, narrowed), 0u) << narrowed;
    for (const char *name : {"residual", "classifier"})
      EXPECT_NE(count(bodyOf(ptx, name), "cvt.rn.bf16x2.f32"), 0u);
    EXPECT_EQ(count(ptx, "cvt.rn.bf16.f32"), 0u);
    for (const char *name : {"gelu", "affine", "random", "weights"}) {
      SCOPED_TRACE(name);
      std::string body = bodyOf(ptx, name);
      EXPECT_GE(count(body, "cvt.rn.bf16x2.f32"), 2u);
      EXPECT_EQ(count(body, "call"), 0u);
      EXPECT_NE(count(body, "ld.global.v4.b32"), 0u);
    }
    // Every access transfers eight elements.
    for (const char *name : {"affine", "random"}) {
      SCOPED_TRACE(name);
      std::string body = bodyOf(ptx, name);
      EXPECT_NE(count(body, "st.global.v4.b32"), 0u);
      EXPECT_EQ(count(body, "global.b16"), 0u);
    }
    // If a kernel needs more than 48 KiB of shared memory, the launch specifies
    // the size, and the array in the PTX has no size.
    EXPECT_EQ(count(ptx, ".extern .shared .align 16 .b8 classifier_shared[]"),
              1u);
    // The results are sums in f32, so nothing is rounded to bf16.
    std::string sums = bodyOf(ptx, "sums");
    EXPECT_EQ(count(sums, "cvt.rn.bf16"), 0u);
    EXPECT_NE(count(sums, "ld.global.v4.b32"), 0u);
    EXPECT_NE(count(sums, "add.rn.f32"), 0u);
  }
}

TEST_F(RowPtx, NoRegisterSpills) {
  add("gelu", geluCase());
  add("affine", affineCase());
  add("norm", layerNormCase());
  add("residual", residualCase());
  add("norm_backward", layerNormBackwardCase(kRows));
  add("norm_backward_dropout", layerNormBackwardCase(kRows, true));
  add("gelu_backward", geluBackwardCase(kRows), 3072);
  add("sums", biasGradientCase(kRows));
  add("random", dropoutAndAddCase());
  add("classifier", classifierCase(50257), 50257, 304);
  add("odd", residualCase(), 70);
  add("long", residualCase(), 2048);
  add("long_norm", layerNormCase(), 4096);
  add("classifier_f32", classifierCase(50257), 50257, 304, "f32");
  std::vector<std::string> ptx = compile();
  ASSERT_EQ(ptx.size(), kChips.size());
  for (size_t i = 0; i < ptx.size(); ++i) {
    auto cubin = gpu::assemble(ptx[i], kChips[i]);
    KILN_REQUIRE_ASSEMBLED(cubin);
    ASSERT_EQ(cubin->kernels.size(), 14u);
    for (const gpu::KernelResources &kernel : cubin->kernels) {
      std::printf("%s %-24s %3ld registers\n", kChips[i].c_str(),
                  kernel.kernel.c_str(), long(kernel.registers));
      EXPECT_EQ(kernel.spillStores, 0) << kernel.kernel;
      EXPECT_EQ(kernel.spillLoads, 0) << kernel.kernel;
    }
  }
}

} // namespace
