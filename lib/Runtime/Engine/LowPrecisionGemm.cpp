//===- LowPrecisionGemm.cpp - GEMMs of bf16 and f16 on a CPU --------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "LowPrecisionGemm.h"

#include "NarrowRows.h"
#include "kiln/Abi/GemmWorkspace.h"

using namespace kiln::abi;

namespace kiln::runtime {

namespace {

/// A block of op(a) or op(b).
struct Part {
  int64_t row, rows, column, columns;
};

} // namespace

/// Converts a block of op(x) to f32. The result has the storage order of x.
/// Returns the leading dimension of the result.
static int64_t widenPart(ElementType type, const char *x, int64_t ld,
                         bool isTransposed, Part part, float *to) {
  if (isTransposed) {
    std::swap(part.row, part.column);
    std::swap(part.rows, part.columns);
  }
  widenRows(type, x + 2 * (part.row * ld + part.column), ld, part.rows,
            part.columns, to, part.columns);
  return part.columns;
}

void lowPrecisionGemm(const GemmCall &call, ElementType resultType,
                      char *scratch, const TileEpilogue &epilogue) {
  const int64_t m = blockExtent(call.m, blockRows),
                n = blockExtent(call.n, blockColumns),
                k = blockExtent(call.k, blockDepth);
  auto *a = reinterpret_cast<float *>(scratch);
  float *b = a + m * k, *c = b + k * n;
  bool isNarrow = isNarrowFloat(resultType);

  // Computes one block of c.
  auto compute = [&](int64_t row, int64_t column) {
    GemmCall block = call;
    block.type = ElementType::F32;
    block.m = std::min(m, call.m - row);
    block.n = std::min(n, call.n - column);
    block.a = reinterpret_cast<char *>(a);
    block.b = reinterpret_cast<char *>(b);
    int64_t place = row * call.ldc + column;
    if (isNarrow) {
      block.c = reinterpret_cast<char *>(c);
      block.ldc = block.n;
      if (call.accumulate)
        widenRows(resultType, call.c + 2 * place, call.ldc, block.m, block.n, c,
                  block.n);
    } else {
      block.c = call.c + 4 * place;
    }
    for (int64_t depth = 0; depth < call.k; depth += k) {
      block.k = std::min(k, call.k - depth);
      block.lda = widenPart(call.type, call.a, call.lda, call.transA,
                            {row, block.m, depth, block.k}, a);
      block.ldb = widenPart(call.type, call.b, call.ldb, call.transB,
                            {depth, block.k, column, block.n}, b);
      gemm(block);
      block.accumulate = true;
    }
    if (isNarrow)
      finishTile(epilogue.at(row, column), block.m, block.n, block.c, block.n);
    if (isNarrow)
      narrowRows(resultType, c, block.n, block.m, block.n, call.c + 2 * place,
                 call.ldc);
  };
  for (int64_t row = 0; row < call.m; row += m)
    for (int64_t column = 0; column < call.n; column += n)
      compute(row, column);
}

} // namespace kiln::runtime
