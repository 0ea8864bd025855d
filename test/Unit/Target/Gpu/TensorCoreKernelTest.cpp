//===- TensorCoreKernelTest.cpp - Tensor core operations in kernels -------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// One warp copies the matrices x and y to shared memory and multiplies
// 2^(x y^T) by y. On the emulated device, the results equal those of plain
// loops, and the PTX contains the expected instructions.
//
//===----------------------------------------------------------------------===//

#include "KernelPair.h"
#include "TensorCore.h"

#include "kiln/Support/ElementConversion.h"
#include "kiln/Target/Gpu/Cubin.h"
#include "kiln/Target/Gpu/Ptx.h"

#include <gtest/gtest.h>

using namespace kiln;
using namespace kiln::gpu;
using namespace kiln::support;
using namespace kiln::test;
using mlir::Value;

namespace {

constexpr int64_t kSide = 16;
constexpr int64_t kPitch = kSide + 8;

uint16_t narrowed(bool isHalf, float x) {
  return isHalf ? doubleToHalf(x) : doubleToBfloat(x);
}

float widened(bool isHalf, uint16_t x) {
  return isHalf ? halfToFloat(x) : bfloatToFloat(x);
}

/// Emits z = 2^(x y^T) y on 16 x 16 matrices, with z in f32 and x and y in f16
/// or bf16.
llvm::FailureOr<KernelLaunch> emitMatmuls(mlir::gpu::GPUModuleOp kernels,
                                          llvm::StringRef name, bool isHalf) {
  GpuBuilder k(kernels, name, /*numArgs=*/3, /*numImmediates=*/0,
               /*threads=*/kWarp);
  mlir::Type type =
      isHalf ? mlir::Type(k.b.getF16Type()) : mlir::Type(k.b.getBF16Type());
  auto constant = [&](int64_t x) { return k.i64Constant(x); };
  auto bits = [&](Value x, int64_t mask) {
    return k.bitAnd(x, constant(mask));
  };
  Value x = k.shared(type, kSide * kPitch), y = k.shared(type, kSide * kPitch);
  Value lane = k.thread();
  // Each lane copies half a row. The last row of x is filled with zeros.
  Value row = k.shiftRight(lane, 1);
  Value column = k.mul(bits(lane, 1), constant(8));
  Value from = k.add(k.mul(row, constant(kSide)), column);
  Value to = k.add(k.mul(row, constant(kPitch)), column);
  Value present = k.select(k.less(row, constant(kSide - 1)),
                           k.constantI(16, k.i32()), k.constantI(0, k.i32()));
  copyAsync(k, k.element(x, type, to), k.element(k.arg(0), type, from), 16,
            present);
  copyAsync(k, k.element(y, type, to), k.element(k.arg(1), type, from), 16, {});
  waitCopies(k);
  k.barrier();

  // To load four 8 x 8 matrices, lane l provides the address of row l % 8 of
  // matrix l / 8. Returns this address. The matrices form a square, numbered in
  // column-major order if `downFirst`, otherwise in row-major order.
  auto place = [&](bool downFirst) {
    Value first = k.mul(bits(k.shiftRight(lane, 3), 1), constant(8));
    Value second = k.mul(k.shiftRight(lane, 4), constant(8));
    Value row = k.add(bits(lane, 7), downFirst ? first : second);
    return k.add(k.mul(row, constant(kPitch)), downFirst ? second : first);
  };
  FourValues a = loadMatrices(k, k.element(x, type, place(true)), false);
  FourValues b = loadMatrices(k, k.element(y, type, place(false)), false);
  FourValues zeros;
  zeros.fill(k.constantF(0, k.f32()));
  llvm::SmallVector<Value> words;
  for (int64_t half : {0, 1}) {
    auto s =
        multiplyAdd(k, type, a, llvm::ArrayRef(b).slice(2 * half, 2), zeros);
    for (Value &value : s)
      value = exp2(k, value);
    words.push_back(packWord(k, type, s[0], s[1]));
    words.push_back(packWord(k, type, s[2], s[3]));
  }
  b = loadMatrices(k, k.element(y, type, place(true)), true);
  for (int64_t half : {0, 1}) {
    auto z = multiplyAdd(k, type, words, llvm::ArrayRef(b).slice(2 * half, 2),
                         zeros);
    for (int64_t i : {0, 1, 2, 3}) {
      Value row = k.add(k.shiftRight(lane, 2), constant(i / 2 * 8));
      Value column =
          k.add(k.mul(bits(lane, 3), constant(2)), constant(half * 8 + i % 2));
      k.store(z[i], k.element(k.arg(2), k.f32(),
                              k.add(k.mul(row, constant(kSide)), column)));
    }
  }
  if (failed(k.finish()))
    return mlir::failure();
  return KernelLaunch{1, 1, kWarp, k.sharedBytes()};
}

void checkMatmuls(bool isHalf) {
  Memory memory;
  std::vector<uint16_t> x, y;
  for (float value : someFloats(kSide * kSide, 1))
    x.push_back(narrowed(isHalf, value / 4));
  for (float value : someFloats(kSide * kSide, 2))
    y.push_back(narrowed(isHalf, value));
  Place xPlace = memory.add(x), yPlace = memory.add(y);
  Place z = written(memory.add(std::vector<float>(kSide * kSide)));
  std::vector<char> bytes =
      runOnGpu(memory, {xPlace, yPlace, z}, {},
               [=](auto kernels, auto name, auto b, auto alignments) {
                 return emitMatmuls(kernels, name, isHalf);
               });
  ASSERT_EQ(bytes.size(), memory.bytes.size());
  for (int64_t i = 0; i < kSide; ++i) {
    float p[kSide];
    for (int64_t j = 0; j < kSide; ++j) {
      float sum = 0;
      for (int64_t c = 0; c < kSide && i < kSide - 1; ++c)
        sum += widened(isHalf, x[i * kSide + c]) *
               widened(isHalf, y[j * kSide + c]);
      p[j] = widened(isHalf, narrowed(isHalf, std::exp2(double(sum))));
    }
    for (int64_t c = 0; c < kSide; ++c) {
      float want = 0, got;
      for (int64_t j = 0; j < kSide; ++j)
        want += p[j] * widened(isHalf, y[j * kSide + c]);
      std::memcpy(&got, &bytes[z.offset + (i * kSide + c) * 4], 4);
      EXPECT_EQ(got, want) << i << ", " << c;
    }
  }
}

TEST(TensorCoreKernel, MultipliesAsPlainLoopsDo) {
  for (bool isHalf : {false, true})
    checkMatmuls(isHalf);
}

static void checkInstructions(bool isHalf) {
  mlir::MLIRContext context(mlir::MLIRContext::Threading::DISABLED);
  context.loadDialect<mlir::gpu::GPUDialect>();
  mlir::OpBuilder b(&context);
  auto module = mlir::OwningOpRef<mlir::ModuleOp>(
      mlir::ModuleOp::create(b.getUnknownLoc()));
  b.setInsertionPointToEnd(module->getBody());
  auto kernels =
      mlir::gpu::GPUModuleOp::create(b, b.getUnknownLoc(), "kernels");
  ASSERT_TRUE(succeeded(emitMatmuls(kernels, "kernel", isHalf)));
  for (const char *chip : {"sm_80", "sm_90"}) {
    auto ptx = compileToPtx(*module, chip);
    ASSERT_TRUE(!!ptx) << llvm::toString(ptx.takeError());
    llvm::StringRef text(*ptx);
    EXPECT_EQ(
        text.count(isHalf
                       ? "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32"
                       : "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32"),
        4u)
        << *ptx;
    EXPECT_EQ(text.count("ldmatrix.sync.aligned.m8n8.x4.shared.b16"), 2u);
    EXPECT_EQ(text.count("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16"), 1u);
    EXPECT_EQ(text.count("cp.async.cg.shared.global"), 2u);
    EXPECT_EQ(text.count("cp.async.commit_group"), 1u);
    EXPECT_EQ(text.count("cp.async.wait_group"), 1u);
    EXPECT_EQ(text.count("ex2.approx.ftz.f32"), 8u);
    EXPECT_EQ(text.count(isHalf ? "cvt.rn.f16x2.f32" : "cvt.rn.bf16x2.f32"), 4u)
        << *ptx;
  }
}

TEST(TensorCoreKernel, HasTheInstructions) {
  for (bool isHalf : {false, true})
    checkInstructions(isHalf);
}

} // namespace
