//===- RowEpilogueTest.cpp - Epilogues of matmuls -------------------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "RowPrograms.h"

using namespace kiln::support;
using namespace kiln::test;
using namespace kiln;

namespace {

class RowEpilogue : public RowFusion {};

TEST_F(RowEpilogue, EpiloguesOfColumnRanges) {
  row::RowProgram program =
      build("%x: tensor<$Rx$Cx$T>, %b: tensor<$Cx$T>, %r: tensor<1x3xi64>",
            "%c = kiln.broadcast %b dims [1] : tensor<$Cx$T> to "
            "tensor<$Rx$Cx$T>\n"
            "%s = kiln.add %x, %c : tensor<$Rx$Cx$T>\n"
            "%g = kiln.gelu %s tanh : tensor<$Rx$Cx$T>\n"
            "%y = kiln.dropout %g, %r {p = 2.5e-01, key = 3, sequences = 2} : "
            "(tensor<$Rx$Cx$T>, tensor<1x3xi64>) -> tensor<$Rx$Cx$T>",
            "%y : tensor<$Rx$Cx$T>");
  emit("whole", program, 4);
  const int64_t stride = 208;
  llvm::SmallVector<Layout> layouts(4, Layout{200});
  layouts[0].rowStride = stride;
  cpu::emitRowEpilogue(*module, "tile", RowShape{program, layouts});
  LoadedKernels library(*module);

  auto padded = normals<float>(6 * stride), bias = normals<float>(200);
  std::vector<float> x;
  for (int64_t i = 0; i < 6 * 200; ++i)
    x.push_back(padded[i / 200 * stride + i % 200]);
  std::vector<int64_t> rng = {1, 2, 3};
  std::vector<float> want(1200);
  char *args[] = {reinterpret_cast<char *>(x.data()),
                  reinterpret_cast<char *>(bias.data()),
                  reinterpret_cast<char *>(rng.data()),
                  reinterpret_cast<char *>(want.data())};
  library.find("whole")(args, program.immediates.data(), 0, 6, nullptr);

  std::vector<float> got(1200, -77);
  args[0] = reinterpret_cast<char *>(padded.data());
  args[3] = reinterpret_cast<char *>(got.data());
  const int64_t edges[] = {0, 16, 96, 112, 176, 200};
  for (int64_t first : {0, 1, 2, 3, 4})
    for (int64_t rows : {0, 4}) {
      std::vector<float> before = got;
      int64_t imm[] = {edges[first], edges[first + 1], program.immediates[0]};
      library.find("tile")(args, imm, rows, rows == 0 ? 4 : 6, nullptr);
      for (int64_t i = 0; i < 1200; ++i) {
        bool isInside = i / 200 >= rows && (rows == 4 || i / 200 < 4) &&
                        i % 200 >= imm[0] && i % 200 < imm[1];
        ASSERT_EQ(got[i], isInside ? want[i] : before[i]) << i;
      }
    }
  EXPECT_EQ(got, want);
}

/// Runs an epilogue in the way in which a GEMM runs it on its tiles. The bf16
/// results of the epilogue overwrite the result of the GEMM.
TEST_F(RowEpilogue, EpiloguesOfBfloatsInPlace) {
  row::RowProgram program =
      build("%x: tensor<$Rx$Cx$T>, %b: tensor<$Cx$T>, %r: tensor<$Rx$Cx$T>",
            "%d = kiln.broadcast %b dims [1] : tensor<$Cx$T> to "
            "tensor<$Rx$Cx$T>\n"
            "%s = kiln.add %x, %d : tensor<$Rx$Cx$T>\n"
            "%y = kiln.add %s, %r : tensor<$Rx$Cx$T>",
            "%y : tensor<$Rx$Cx$T>", "bf16");
  emit("whole", program, 4);
  llvm::SmallVector<Layout> layouts(4, Layout{200});
  cpu::emitRowEpilogue(*module, "tile", RowShape{program, layouts});
  LoadedKernels library(*module);
  auto x = asBfloats(normals<float>(1200)), r = asBfloats(normals<float>(1200));
  auto bias = asBfloats(normals<float>(200));
  std::vector<uint16_t> want(1200);
  call(library.find("whole"), 0, 6, x, bias, r, want);
  char *args[] = {
      reinterpret_cast<char *>(x.data()), reinterpret_cast<char *>(bias.data()),
      reinterpret_cast<char *>(r.data()), reinterpret_cast<char *>(x.data())};
  const int64_t edges[] = {0, 16, 96, 113, 176, 200};
  for (int64_t first : {4, 1, 0, 3, 2})
    library.find("tile")(args, edges + first, 0, 6, nullptr);
  EXPECT_EQ(x, want);
}

} // namespace
