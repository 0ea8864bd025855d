//===- AttentionKernelTest.cpp - Attention on the emulated GPU ------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// q, k and v are stored in the rows of one fused tensor, and so are their
// gradients. The results, including those with dropout, equal the results of
// the CPU kernels bit for bit.
//
//===----------------------------------------------------------------------===//

#include "KernelPair.h"

#include "../KernelCalls.h"

#include <gtest/gtest.h>

using namespace kiln;
using namespace kiln::test;

namespace {

struct Case {
  int64_t sequences, length, heads, kvHeads, headDim;
  bool causal;
  double dropout = 0;
  int64_t kvTile = 64;
  int64_t padding = 0; ///< Padding columns per row of qkv.
  int64_t skip = 0;    ///< Offset of each argument in bytes.
  int64_t rank = -1;   ///< The rank with these heads, or -1 for all heads.
};

template <typename T> class AttentionCase {
public:
  explicit AttentionCase(const Case &c);
  void checkForward();
  void checkBackward();

private:
  AttentionGradShape shape;
  Memory memory;
  std::vector<int64_t> immediates;
  Place q, k, v, rng, o, lse, dout, dq, dk, dv;
};

template <typename T> AttentionCase<T>::AttentionCase(const Case &c) {
  int64_t columns = (c.heads + 2 * c.kvHeads) * c.headDim + c.padding;
  int64_t oColumns = c.heads * c.headDim, rows = c.sequences * c.length;
  shape.sequences = c.sequences;
  shape.length = c.length;
  shape.heads = c.heads;
  shape.kvHeads = c.kvHeads;
  shape.headDim = c.headDim;
  shape.causal = c.causal;
  shape.dropout = c.dropout;
  shape.takesRng = c.dropout > 0;
  shape.dividesHeads = c.rank >= 0;
  shape.kvTile = c.kvTile;
  shape.qStride = shape.kStride = shape.vStride = columns;
  shape.dqStride = shape.dkStride = shape.dvStride = columns;
  shape.oStride = shape.doutStride = oColumns;

  Place qkv = memory.add(someValues<T>(rows * columns, 1), c.skip);
  q = qkv;
  k = from<T>(qkv, c.heads * c.headDim);
  v = from<T>(qkv, (c.heads + c.kvHeads) * c.headDim);
  rng = memory.add(std::vector<int64_t>{42, 7, 5, c.rank});
  o = memory.add(someValues<T>(rows * oColumns, 2), c.skip);
  // The gradients need lse, the logarithms of the sums of exp(score). Here,
  // inexact values suffice if no probability exp(score - lse) is much above 1.
  std::vector<float> sums = someFloats(c.sequences * c.heads * c.length, 3);
  for (float &x : sums)
    x += 8;
  lse = memory.add(sums, c.skip);
  dout = memory.add(someValues<T>(rows * oColumns, 4), c.skip);
  Place gradients = memory.add(someValues<T>(rows * columns, 5), c.skip);
  dq = gradients;
  dk = from<T>(gradients, c.heads * c.headDim);
  dv = from<T>(gradients, (c.heads + c.kvHeads) * c.headDim);
  double scale = 1.1 / std::sqrt(c.headDim);
  int64_t bits;
  std::memcpy(&bits, &scale, sizeof(bits));
  immediates = {3, bits};
}

template <typename T> void AttentionCase<T>::checkForward() {
  std::vector<Place> args = {q, k, v};
  if (shape.takesRng)
    args.push_back(rng);
  args.insert(args.end(), {written(o), written(lse)});
  expectSameBits(
      memory, args, immediates,
      [&](auto module, auto name, auto b) {
        shape.elementType = elementType<T>(b);
        return cpu::emitAttention(module, name, shape);
      },
      [&](auto kernels, auto name, auto b, auto alignments) {
        shape.elementType = elementType<T>(b);
        return gpu::emitAttention(kernels, name, shape, alignments);
      });
}

template <typename T> void AttentionCase<T>::checkBackward() {
  std::vector<Place> args = {q, k, v, o, lse, dout};
  if (shape.takesRng)
    args.push_back(rng);
  args.insert(args.end(), {written(dq), written(dk), written(dv)});
  expectSameBits(
      memory, args, immediates,
      [&](auto module, auto name, auto b) {
        shape.elementType = elementType<T>(b);
        return cpu::emitAttentionGrad(module, name, shape);
      },
      [&](auto kernels, auto name, auto b, auto alignments) {
        shape.elementType = elementType<T>(b);
        return gpu::emitAttentionGrad(kernels, name, shape, alignments);
      });
}

template <typename T = float> void check(const Case &c) {
  SCOPED_TRACE(testing::Message()
               << "sequences " << c.sequences << " length " << c.length
               << " heads " << c.heads << "/" << c.kvHeads << " head dim "
               << c.headDim << " causal " << c.causal << " dropout "
               << c.dropout << " tile " << c.kvTile << " padding " << c.padding
               << " skip " << c.skip);
  AttentionCase<T> problem(c);
  {
    SCOPED_TRACE("forward");
    problem.checkForward();
  }
  SCOPED_TRACE("backward");
  problem.checkBackward();
}

TEST(GpuAttention, Causal) {
  check({1, 130, 1, 1, 64, true});
  check({1, 70, 1, 1, 128, true});
}

TEST(GpuAttention, NotCausal) {
  check({1, 128, 1, 1, 64, false});
  check({1, 50, 2, 2, 40, false});
}

TEST(GpuAttention, GroupedQueries) {
  check({2, 65, 4, 2, 24, true});
  check({1, 34, 6, 2, 32, true});
}

TEST(GpuAttention, OddSizes) {
  check({1, 1, 1, 1, 16, true});
  check({2, 50, 1, 1, 60, true});
  check({1, 20, 1, 1, 256, true});
  check({1, 65, 1, 1, 96, false});
  check({1, 30, 2, 1, 7, true});
}

TEST(GpuAttention, OddPlaces) {
  check({1, 70, 2, 2, 32, true, 0, 64, /*padding=*/4});
  check({1, 33, 2, 2, 32, true, 0, 64, /*padding=*/3});
  check({1, 33, 2, 2, 32, true, 0, 64, 0, /*skip=*/8});
}

TEST(GpuAttention, Dropout) {
  check({2, 70, 2, 1, 32, true, 0.1});
  check({1, 100, 1, 1, 24, false, 0.3});
  check({2, 70, 2, 1, 32, true, 0.1, 64, 0, 0, /*rank=*/2});
}

TEST(GpuAttention, OtherKeyTiles) {
  check({1, 140, 1, 1, 24, true, 0.2, 128});
  check({1, 70, 1, 1, 64, false, 0, 256});
}

TEST(GpuAttention, BfloatsAreRoundedOnce) {
  check<Bfloat>({1, 130, 1, 1, 64, true});
  check<Bfloat>({2, 65, 4, 2, 24, true});
  check<Bfloat>({1, 65, 1, 1, 96, false});
  check<Bfloat>({1, 30, 2, 1, 7, true});
  check<Bfloat>({1, 33, 2, 2, 32, true, 0, 64, /*padding=*/3});
  check<Bfloat>({1, 33, 2, 2, 32, true, 0, 64, 0, /*skip=*/8});
  check<Bfloat>({1, 100, 1, 1, 24, false, 0.3});
  check<Bfloat>({1, 140, 1, 1, 24, true, 0.2, 128});
}

/// Emits the forward kernel, which must fail, and returns the error message.
std::string refusal(AttentionGradShape shape, bool isDouble) {
  mlir::MLIRContext context(mlir::MLIRContext::Threading::DISABLED);
  context.loadDialect<mlir::gpu::GPUDialect>();
  mlir::OpBuilder b(&context);
  auto module = mlir::OwningOpRef<mlir::ModuleOp>(
      mlir::ModuleOp::create(b.getUnknownLoc()));
  b.setInsertionPointToEnd(module->getBody());
  auto kernels =
      mlir::gpu::GPUModuleOp::create(b, b.getUnknownLoc(), "kernels");
  std::string message;
  mlir::ScopedDiagnosticHandler handler(
      &context, [&](mlir::Diagnostic &d) { message = d.str(); });
  shape.sequences = shape.heads = shape.kvHeads = 1;
  shape.length = shape.headDim = 64;
  shape.elementType = isDouble ? b.getF64Type() : b.getF32Type();
  llvm::SmallVector<int64_t> alignments(10, 256);
  EXPECT_TRUE(failed(gpu::emitAttention(kernels, "kernel", shape, alignments)));
  return message;
}

TEST(GpuAttention, RefusesWhatDoesNotFit) {
  AttentionGradShape shape;
  EXPECT_EQ(refusal(shape, /*isDouble=*/true),
            "kernel 'kernel' needs exp of f64, which GPU kernels do not have; "
            "cast its operands to f32");
  shape.kvTile = 1024;
  EXPECT_EQ(refusal(shape, /*isDouble=*/false),
            "kernel 'kernel': tiles of 1024 keys do not fit into shared "
            "memory");
}

} // namespace
