//===- FlashPtxTest.cpp - Machine code of attention on tensor cores -------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The attention kernels for tensor cores use most of the register file.
// Therefore the assembler report of each shape is checked: the kernels must not
// spill registers, and two blocks of 128 threads must fit on a multiprocessor.
//
//===----------------------------------------------------------------------===//

#include "../AssemblerTesting.h"
#include "Flash.h"
#include "GpuBuilder.h"

#include "kiln/Target/Gpu/Cubin.h"
#include "kiln/Target/Gpu/Ptx.h"

#include "mlir/Dialect/GPU/IR/GPUDialect.h"

#include <gtest/gtest.h>

using namespace kiln;
using namespace kiln::gpu;

namespace {

struct Case {
  int64_t length, heads, kvHeads, headDim;
  bool causal;
  double dropout = 0;
};

class FlashPtx : public testing::TestWithParam<Case> {
protected:
  FlashPtx() : context(mlir::MLIRContext::Threading::DISABLED) {
    context.loadDialect<mlir::gpu::GPUDialect>();
  }
  /// Emits the forward and the backward kernel of the case into a module.
  mlir::OwningOpRef<mlir::ModuleOp> emit() {
    const Case &c = GetParam();
    mlir::OpBuilder b(&context);
    mlir::OwningOpRef<mlir::ModuleOp> module(
        mlir::ModuleOp::create(b.getUnknownLoc()));
    b.setInsertionPointToEnd(module->getBody());
    auto kernels =
        mlir::gpu::GPUModuleOp::create(b, b.getUnknownLoc(), "kernels");
    AttentionGradShape shape;
    shape.sequences = 4;
    shape.length = c.length;
    shape.heads = c.heads;
    shape.kvHeads = c.kvHeads;
    shape.headDim = c.headDim;
    shape.causal = c.causal;
    shape.dropout = c.dropout;
    shape.takesRng = c.dropout > 0;
    shape.elementType = b.getBF16Type();
    shape.qStride = shape.kStride = shape.vStride =
        (c.heads + 2 * c.kvHeads) * c.headDim;
    shape.dqStride = shape.dkStride = shape.dvStride = shape.qStride;
    shape.oStride = shape.doutStride = c.heads * c.headDim;
    llvm::SmallVector<int64_t> alignments(10, 256);
    for (auto launch :
         {emitFlashAttention(kernels, "forward", shape, alignments),
          emitFlashAttentionGrad(kernels, "backward", shape, alignments)}) {
      EXPECT_TRUE(succeeded(launch));
      EXPECT_EQ(launch->threads, 128);
      EXPECT_LE(launch->sharedBytes, kSharedBytes);
    }
    return module;
  }

  mlir::MLIRContext context;
};

TEST_P(FlashPtx, AssemblesWithoutSpills) {
  auto module = emit();
  std::vector<PtxText> texts;
  for (const char *chip : {"sm_80", "sm_90"}) {
    auto ptx = compileToPtx(*module, chip);
    ASSERT_TRUE(!!ptx) << llvm::toString(ptx.takeError());
    llvm::StringRef text(*ptx);
    // The code uses no local memory and no library calls.
    EXPECT_EQ(text.count(".local"), 0u);
    EXPECT_EQ(text.count("call"), 0u);
    EXPECT_NE(text.count("cp.async.cg.shared.global"), 0u);
    EXPECT_EQ(text.count("st.shared.b16"), 0u);
    texts.push_back({chip, *ptx});
  }
  auto cubins = assemble(texts);
  KILN_REQUIRE_ASSEMBLED(cubins);
  for (const Cubin &cubin : *cubins)
    for (const KernelResources &kernel : cubin.kernels) {
      EXPECT_EQ(kernel.spillStores, 0) << kernel.kernel << " " << cubin.chip;
      EXPECT_EQ(kernel.spillLoads, 0) << kernel.kernel << " " << cubin.chip;
      EXPECT_LE(kernel.registers, 255);
      // Two blocks, each with 1 KiB of reserved shared memory, must fit into
      // 100 KiB.
      EXPECT_LE(2 * kernel.sharedBytes, 98 * 1024);
    }
}

// The shapes of GPT-2 124M, with and without dropout, and shapes with grouped
// queries and head dimensions of 64 and 128.
INSTANTIATE_TEST_SUITE_P(Shapes, FlashPtx,
                         testing::Values(Case{1024, 12, 12, 64, true},
                                         Case{1024, 12, 12, 64, true, 0.1},
                                         Case{1024, 32, 4, 64, true},
                                         Case{2048, 32, 8, 128, true}),
                         [](const auto &info) {
                           return std::to_string(info.index);
                         });

} // namespace
