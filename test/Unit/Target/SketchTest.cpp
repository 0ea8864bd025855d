//===- SketchTest.cpp - Sketch kernels against plain loops ----------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A sketch adds up rows with random signs. These tests check that the kernels
// use the signs of the reference implementation. LossyGradientTest.cpp checks
// that these signs give unbiased gradients.
//
//===----------------------------------------------------------------------===//

#include "KernelCalls.h"

#include "kiln/Dialect/Kiln/IR/Kiln.h"

using namespace kiln;
using namespace kiln::cpu;
using namespace kiln::test;

namespace {

/// Evaluates the op with its reference implementation.
template <typename T>
std::vector<double> reference(const SketchShape &shape, const std::vector<T> &x,
                              const std::vector<int64_t> &rng, int64_t key) {
  mlir::MLIRContext context(mlir::MLIRContext::Threading::DISABLED);
  context.loadDialect<KilnDialect>();
  mlir::OpBuilder b(&context);
  mlir::Location loc = b.getUnknownLoc();
  mlir::Type type = elementType<T>(b);
  auto from = mlir::RankedTensorType::get(
      {shape.sequences * shape.length, shape.columns}, type);
  auto to = from.clone({shape.sequences * shape.kept, shape.columns});
  auto rngType = mlir::RankedTensorType::get({1, 3}, b.getI64Type());
  mlir::Block block;
  block.addArguments({from, rngType}, {loc, loc});
  b.setInsertionPointToEnd(&block);
  auto op = SketchRowsOp::create(b, loc, to, block.getArgument(0),
                                 block.getArgument(1), b.getI64IntegerAttr(key),
                                 b.getI64IntegerAttr(shape.sequences));
  HostTensor source(from), state(rngType), result(to);
  for (int64_t row = 0; row < from.getDimSize(0); ++row)
    for (int64_t column = 0; column < shape.columns; ++column)
      source.reals[row * shape.columns + column] =
          x[row * shape.xStride + column];
  state.integers = rng;
  EXPECT_TRUE(succeeded(op.evaluate({&source, &state}, result)));
  return result.reals;
}

template <typename T>
void check(int64_t sequences, int64_t length, int64_t kept, int64_t columns) {
  SCOPED_TRACE(testing::Message()
               << kept << " of " << length << " rows of " << columns);
  SketchShape shape;
  shape.sequences = sequences;
  shape.length = length;
  shape.kept = kept;
  shape.columns = columns;
  shape.xStride = columns + 3;
  auto x = someValues<T>(sequences * length * shape.xStride, 1);
  CompiledKernel kernel([&](auto module, auto name, mlir::Builder b) {
    shape.elementType = elementType<T>(b);
    return emitSketch(module, name, shape);
  });
  std::vector<int64_t> rng = {-7, 5'000'000'123, 4'294'967'290};
  std::vector<double> want = reference(shape, x, rng, 11);
  std::vector<T> first;
  for (int calls : {1, 2, 3}) {
    std::vector<T> y(want.size() + 16, T(77));
    kernel.run({x.data(), rng.data(), y.data()}, {11}, calls);
    EXPECT_EQ(std::count(y.begin() + want.size(), y.end(), T(77)), 16);
    y.resize(want.size());
    if (first.empty())
      first = y;
    EXPECT_TRUE(sameBits(first, y));
  }
  // Sums of a few bf16 numbers are exact in f32, so the rounded sums must be
  // equal bit for bit.
  if constexpr (std::is_same_v<T, Bfloat>)
    EXPECT_TRUE(sameBits(first, converted<T>(want)));
  else
    EXPECT_LE(relativeError(first, want), tolerance<T>());
}

TEST(Sketch, AddsRows) {
  check<float>(3, 10, 4, 37);
  check<float>(1, 64, 16, 64);
  check<float>(2, 7, 6, 5);
  check<float>(2, 9, 1, 16);
  check<double>(2, 10, 3, 21);
}

TEST(Sketch, RoundsSumsOfBfloatsOnce) {
  check<Bfloat>(3, 10, 4, 37);
  check<Bfloat>(1, 64, 4, 64);
  check<Bfloat>(2, 7, 6, 5);
}

} // namespace
