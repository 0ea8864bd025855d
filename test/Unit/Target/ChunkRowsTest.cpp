//===- ChunkRowsTest.cpp - Column sums of chunks of rows ------------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Tests kernels for the gradients of norms, which also compute column sums over
// chunks of 64 rows. All thread groups of a block share one chunk. The bits
// of the sums equal those of adding the rows one by one, and the kernels use
// enough threads and few enough registers to keep a large GPU busy.
//
//===----------------------------------------------------------------------===//

#include "AssemblerTesting.h"
#include "ModelRows.h"

#include "kiln/Target/Gpu/Cubin.h"
#include "kiln/Target/Gpu/KernelEmitters.h"
#include "kiln/Target/Gpu/Ptx.h"

#include "mlir/Dialect/GPU/IR/GPUDialect.h"

#include <gtest/gtest.h>

#include <cmath>

using namespace kiln;
using namespace kiln::test;

namespace {

class ChunkRows : public testing::Test {
protected:
  void TearDown() override { runner.runAll(); }
  RowRunner runner;
};

/// Returns a case with the gradients of an RMS norm. They need only one sum per
/// row, because an RMS norm does not subtract a mean.
RowCase rmsNormBackwardCase(int64_t rows) {
  std::string partial = partialSums(rows);
  return {"%x: tensor<$Rx$Cx$T>, %g: tensor<$Cx$F>, %s: tensor<$Rx$F>, "
          "%dy: tensor<$Rx$Cx$T>",
          "%dx = kiln.rms_norm_grad %x, %g, %s, %dy : (tensor<$Rx$Cx$T>, "
          "tensor<$Cx$F>, tensor<$Rx$F>, tensor<$Rx$Cx$T>) -> "
          "tensor<$Rx$Cx$T>\n"
          "%h = kiln.normalize %x, %s : (tensor<$Rx$Cx$T>, tensor<$Rx$F>) -> "
          "tensor<$Rx$Cx$F>\n"
          "%w = kiln.cast %dy : tensor<$Rx$Cx$T> to tensor<$Rx$Cx$F>\n"
          "%t = kiln.mul %w, %h : tensor<$Rx$Cx$F>\n"
          "%dg = kiln.reduce_partial %t chunk 64 : tensor<$Rx$Cx$F> to " +
              partial,
          "%dx : tensor<$Rx$Cx$T>, %dg : " + partial};
}

/// The last chunks of the four cases have 1, 63, 1 and 2 rows. Some column
/// blocks and some tiles are partial.
TEST_F(ChunkRows, Sizes) {
  runner.add(layerNormBackwardCase(1), {{1, 72}, {1, 1}});
  runner.add(layerNormBackwardCase(63), {{63, 71}});
  runner.add(layerNormBackwardCase(65), {{65, 66}, {65, 200}});
  runner.add(rmsNormBackwardCase(130), {{130, 128}, {130, 321}});
}

TEST_F(ChunkRows, Dropout) {
  runner.add(layerNormBackwardCase(2, true), {{2, 70}});
  runner.add(layerNormBackwardCase(66, true), {{66, 330}});
}

/// Some rows do not fit in registers. Some of these rows are so long that
/// shared memory cannot hold both the column sums and the weights of the norm,
/// and some are so long that it cannot even hold the column sums alone.
TEST_F(ChunkRows, LongRows) {
  runner.add(rmsNormBackwardCase(65), {{65, 1601}});
  runner.add(layerNormBackwardCase(3), {{3, 1100}, {3, 3998}, {3, 6200}});
}

/// Computes the column sums of %w, which need no statistics, and the column
/// sums of the result of the norm, which can be added only after the statistics
/// of a row are known.
TEST_F(ChunkRows, SumsOfTwoSweeps) {
  std::string partial = partialSums(70);
  RowCase rowCase = layerNormCase();
  rowCase.arguments += ", %w: tensor<$Rx$Cx$T>";
  rowCase.body += "\n%p = kiln.reduce_partial %w chunk 64 : tensor<$Rx$Cx$T> "
                  "to " +
                  partial +
                  "\n%q = kiln.reduce_partial %y chunk 64 : tensor<$Rx$Cx$T> "
                  "to " +
                  partial;
  rowCase.results += ", %q : " + partial + ", %p : " + partial;
  runner.add(rowCase, {{70, 72}, {70, 330}});
}

/// The last chunk has fewer than 64 rows. The missing rows must not change a
/// column sum of -0 to 0, nor a column sum of 0 to -0.
TEST_F(ChunkRows, SignsOfZeros) {
  RowCase rowCase = layerNormBackwardCase(67);
  rowCase.fill = [](unsigned argument, HostTensor &tensor) {
    for (auto [i, x] : llvm::enumerate(tensor.reals))
      if (argument == 4)
        x = i % 3 ? -0.0 : i % 2 ? 1e-38 : -1e-38;
  };
  runner.add(rowCase, {{67, 65}});
}

/// Rows are read once, and per-column values once per chunk.
TEST(ChunkRowsOnGpu, Sectors) {
  constexpr int64_t rows = 1024, columns = 768;
  for (const char *type : {"f32", "bf16"}) {
    RowRunner runner;
    double norm = runner.sectorRatio(rmsNormBackwardCase(rows), rows, columns,
                                     type),
           dropout = runner.sectorRatio(layerNormBackwardCase(rows, true), rows,
                                        columns, type);
    std::printf("%-4s rms_norm_grad with sums: %.3f of the least sectors, "
                "layer_norm_grad and dropout: %.3f\n",
                type, norm, dropout);
    EXPECT_LE(norm, 1.05) << type;
    EXPECT_LE(dropout, 1.05) << type;
  }
}

struct Kernel {
  const char *name;
  RowCase rowCase;
  int64_t columns;
};

/// 16 sequences of 1,024 tokens have 256 chunks. With one warp per chunk, there
/// would be only 8,192 threads for more than 100 multiprocessors.
TEST(ChunkRowsOnGpu, ThreadsAndRegisters) {
  constexpr int64_t rows = 16384;
  const std::vector<Kernel> cases = {
      {"norm", layerNormBackwardCase(rows), 768},
      {"norm_dropout", layerNormBackwardCase(rows, true), 768},
      {"norm_medium", layerNormBackwardCase(rows), 1024},
      {"norm_medium_dropout", layerNormBackwardCase(rows, true), 1024},
      {"norm_long", layerNormBackwardCase(rows), 1600},
      {"norm_long_dropout", layerNormBackwardCase(rows, true), 1600},
      {"norm_longer", layerNormBackwardCase(rows), 4096},
      {"rms_norm", rmsNormBackwardCase(rows), 4096},
      {"bias", biasGradientCase(rows), 768},
      {"gelu", geluBackwardCase(rows), 3072}};
  const std::vector<std::string> chips = {"sm_80", "sm_90"};
  RowRunner runner;
  mlir::OwningOpRef<mlir::ModuleOp> module =
      mlir::ModuleOp::create(mlir::UnknownLoc::get(&runner.context));
  for (const Kernel &kernel : cases)
    for (const char *type : {"f32", "bf16"}) {
      std::string name = std::string(kernel.name) + "_" + type;
      auto shape = runner.shapeOf(kernel.rowCase, rows, kernel.columns, type);
      ASSERT_TRUE(shape);
      std::vector<int64_t> alignments(shape->layouts.size(), 256);
      auto launch = gpu::emitRowKernel(gpu::getKernelModule(*module), name,
                                       *shape, alignments);
      ASSERT_TRUE(succeeded(launch));
      int64_t threads = llvm::divideCeil(launch->units, launch->unitsPerBlock) *
                        launch->threads;
      std::printf("%-28s %7ld threads, %5ld bytes of shared memory\n",
                  name.c_str(), long(threads), long(launch->sharedBytes));
      if (name.find("norm") != std::string::npos)
        EXPECT_EQ(threads, 65536) << name;
    }
  auto ptx = gpu::compileToPtx(*module, chips);
  ASSERT_TRUE(bool(ptx)) << llvm::toString(ptx.takeError());
  for (size_t i = 0; i < chips.size(); ++i) {
    auto cubin = gpu::assemble((*ptx)[i], chips[i]);
    KILN_REQUIRE_ASSEMBLED(cubin);
    ASSERT_EQ(cubin->kernels.size(), 2 * cases.size());
    for (const gpu::KernelResources &kernel : cubin->kernels) {
      std::printf("%s %-28s %3ld registers\n", chips[i].c_str(),
                  kernel.kernel.c_str(), long(kernel.registers));
      EXPECT_EQ(kernel.spillStores, 0) << kernel.kernel;
      EXPECT_EQ(kernel.spillLoads, 0) << kernel.kernel;
    }
  }
}

} // namespace
