//===- BfloatPtxTest.cpp - PTX of bf16 kernels ----------------------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Checks bf16 kernels of all kernel families except row programs
// (RowPtxTest.cpp) and flash attention (FlashPtxTest.cpp): copies access 16
// bytes, packed conversions round elements in pairs, arithmetic is f32, and no
// register is spilled.
//
//===----------------------------------------------------------------------===//

#include "../AssemblerTesting.h"
#include "kiln/Target/Gpu/Cubin.h"
#include "kiln/Target/Gpu/KernelEmitters.h"
#include "kiln/Target/Gpu/Ptx.h"

#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "mlir/IR/Builders.h"

#include <gtest/gtest.h>

using namespace kiln;

namespace {

const std::vector<std::string> kChips = {"sm_80", "sm_90"};

class BfloatPtx : public testing::Test {
protected:
  BfloatPtx()
      : context(mlir::MLIRContext::Threading::DISABLED), b(&context),
        module(mlir::ModuleOp::create(b.getUnknownLoc())) {}

  template <typename Shape, typename Emit>
  void add(const char *name, const Shape &shape, Emit emit) {
    std::vector<int64_t> alignments(10, 256);
    EXPECT_TRUE(succeeded(
        emit(gpu::getKernelModule(*module), name, shape, alignments)));
  }
  void addAll();

  static std::string bodyOf(const std::string &ptx, const std::string &name) {
    size_t begin = ptx.find(".entry " + name + "(");
    EXPECT_NE(begin, std::string::npos) << name;
    return ptx.substr(begin, ptx.find("\n}", begin) - begin);
  }
  static bool contains(const std::string &text, const std::string &what) {
    return text.find(what) != std::string::npos;
  }

  mlir::MLIRContext context;
  mlir::Builder b;
  mlir::OwningOpRef<mlir::ModuleOp> module;
  const std::vector<double> borders = {-0.5, 0, 0.5}, levels = {0, 0.2, 0.7, 1};
};

void BfloatPtx::addAll() {
  mlir::Type bf16 = b.getBF16Type(), f32 = b.getF32Type();
  PermuteShape permute;
  permute.elementType = permute.sourceType = bf16;
  permute.shape = {4, 12, 64, 64};
  permute.srcStrides = {49152, 64, 768, 1};
  permute.dstStrides = {49152, 4096, 64, 1};
  add("copy", permute, gpu::emitPermute);
  permute.shape = {512, 768};
  permute.srcStrides = {1, 512};
  permute.dstStrides = {768, 1};
  add("transpose", permute, gpu::emitPermute);
  permute.shape = {768};
  permute.srcStrides = permute.dstStrides = {1};
  permute.reduceShape = {256};
  permute.srcReduceStrides = {768};
  add("reduce", permute, gpu::emitPermute);

  RopeShape rope;
  rope.rows = 4096;
  rope.period = 1024;
  rope.heads = 12;
  rope.headDim = 64;
  rope.xStride = rope.yStride = 768;
  rope.elementType = bf16;
  add("rope", rope, gpu::emitRope);

  ScatterShape scatter;
  scatter.tokens = 4096;
  scatter.vocabulary = 50257;
  scatter.cols = scatter.dyStride = 768;
  scatter.elementType = f32;
  scatter.dyType = bf16;
  add("scatter", scatter, gpu::emitScatter);

  BucketEncodeShape encode = {{1 << 20, bf16, borders}};
  BucketDecodeShape decode = {{1 << 20, bf16, levels}};
  add("encode", encode, gpu::emitBucketEncode);
  add("decode", decode, gpu::emitBucketDecode);

  SketchShape sketch;
  sketch.sequences = 4;
  sketch.length = 1024;
  sketch.kept = 512;
  sketch.columns = sketch.xStride = 768;
  sketch.elementType = bf16;
  add("sketch", sketch, gpu::emitSketch);

  AttentionGradShape attention;
  attention.sequences = 4;
  attention.length = 1024;
  attention.heads = attention.kvHeads = 12;
  attention.headDim = 60;
  attention.causal = true;
  attention.elementType = bf16;
  attention.qStride = attention.kStride = attention.vStride = 720 * 3;
  attention.dqStride = attention.dkStride = attention.dvStride = 720 * 3;
  attention.oStride = attention.doutStride = 720;
  add("attention", attention, gpu::emitAttention);
  add("attention_grad", attention, gpu::emitAttentionGrad);
}

TEST_F(BfloatPtx, Instructions) {
  addAll();
  auto texts = gpu::compileToPtx(*module, kChips);
  ASSERT_TRUE(!!texts) << llvm::toString(texts.takeError());
  for (const std::string &ptx : *texts) {
    for (const char *absent : {"add.rn.bf16", "sub.rn.bf16", "mul.rn.bf16",
                               "fma.rn.bf16", "cvt.rn.bf16.f32", "call"})
      EXPECT_FALSE(contains(ptx, absent)) << absent;
    for (const char *name :
         {"reduce", "rope", "decode", "sketch", "attention", "attention_grad"})
      EXPECT_TRUE(contains(bodyOf(ptx, name), "cvt.rn.bf16x2.f32")) << name;
    for (const char *name : {"copy", "reduce", "encode", "decode", "sketch"})
      EXPECT_TRUE(contains(bodyOf(ptx, name), "ld.global.v4.b32")) << name;
    // Copies contain no conversions.
    for (const char *name : {"copy", "transpose"})
      EXPECT_FALSE(contains(bodyOf(ptx, name), "cvt.rn.bf16")) << name;
    EXPECT_FALSE(contains(bodyOf(ptx, "transpose"), "global.b16"));
  }
}

TEST_F(BfloatPtx, NoRegisterSpills) {
  addAll();
  auto texts = gpu::compileToPtx(*module, kChips);
  ASSERT_TRUE(!!texts) << llvm::toString(texts.takeError());
  for (size_t i = 0; i < kChips.size(); ++i) {
    auto cubin = gpu::assemble((*texts)[i], kChips[i]);
    KILN_REQUIRE_ASSEMBLED(cubin);
    ASSERT_EQ(cubin->kernels.size(), 10u);
    for (const gpu::KernelResources &kernel : cubin->kernels) {
      std::printf("%s %-16s %3ld registers\n", kChips[i].c_str(),
                  kernel.kernel.c_str(), long(kernel.registers));
      EXPECT_EQ(kernel.spillStores, 0) << kernel.kernel;
      EXPECT_EQ(kernel.spillLoads, 0) << kernel.kernel;
    }
  }
}

} // namespace
