//===- BlockOpsTest.cpp - Codes of blocks against the reference -----------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Tests compiled kernels of block_scales, block_encode, block_decode and dither
// on the CPU and the emulated GPU. RowRunner.h describes the checks.
//
//===----------------------------------------------------------------------===//

#include "RowRunner.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

using namespace kiln;
using namespace kiln::test;

namespace {

class BlockOps : public testing::Test {
protected:
  void TearDown() override { runner.runAll(); }
  RowRunner runner;
};

const std::vector<std::pair<int64_t, int64_t>> kSizes = {
    {1, 256}, {6, 256}, {3, 128}, {5, 32}};

/// Blocks of numbers of very different magnitudes. The last block is zero.
void fillBlocks(HostTensor &tensor) {
  int64_t columns = tensor.shape().back();
  for (int64_t i = 0; i < tensor.size(); ++i) {
    int64_t row = i / columns;
    tensor.reals[i] =
        i + columns < tensor.size() || row == 0
            ? std::ldexp(static_cast<float>(tensor.reals[i]), int(row % 5) - 2)
            : 0;
  }
}

RowCase scales(const std::string &bits) {
  RowCase rowCase;
  rowCase.arguments = "%x: tensor<$Rx$Cx$T>";
  rowCase.body = "%s = kiln.block_scales %x {bits = " + bits +
                 "} : (tensor<$Rx$Cx$T>) -> tensor<$Rx$F>";
  rowCase.results = "%s : tensor<$Rx$F>";
  rowCase.fill = [](unsigned, HostTensor &tensor) { fillBlocks(tensor); };
  return rowCase;
}

/// Returns a case that encodes and decodes x with 8 bits or, if `isPacked` is
/// true, encodes x and z with 4 bits.
RowCase roundTrip(bool isPacked) {
  RowCase rowCase = scales(isPacked ? "4" : "8");
  const std::string tensor = "tensor<$Rx$Cx$T>", scale = "tensor<$Rx$F>",
                    codes = "tensor<$Rx$Cxi8>";
  if (!isPacked) {
    rowCase.body += "\n%c = kiln.block_encode %x, %s : (" + tensor + ", " +
                    scale + ") -> " + codes +
                    "\n%y = kiln.block_decode %c, %s : (" + codes + ", " +
                    scale + ") -> " + tensor;
    rowCase.results += ", %c : " + codes + ", %y : " + tensor;
    return rowCase;
  }
  rowCase.arguments += ", %z: " + tensor;
  rowCase.body += "\n%t = kiln.block_scales %z {bits = 4} : (" + tensor +
                  ") -> " + scale +
                  "\n%c = kiln.block_encode %x, %z, %s, %t : (" + tensor +
                  ", " + tensor + ", " + scale + ", " + scale + ") -> " + codes;
  rowCase.results += ", %t : " + scale + ", %c : " + codes;
  return rowCase;
}

TEST_F(BlockOps, Scales) {
  runner.add(scales("8"), kSizes);
  runner.add(scales("4"), kSizes);
}

TEST_F(BlockOps, EightBits) { runner.add(roundTrip(false), kSizes); }

TEST_F(BlockOps, FourBits) { runner.add(roundTrip(true), kSizes); }

TEST_F(BlockOps, Dither) {
  RowCase rowCase;
  rowCase.arguments =
      "%x: tensor<$Rx$Cx$T>, %s: tensor<$Rx$F>, %rng: tensor<1x3xi64>";
  rowCase.body = "%y = kiln.dither %x, %s, %rng {key = 16777217} : "
                 "(tensor<$Rx$Cx$T>, tensor<$Rx$F>, tensor<1x3xi64>) -> "
                 "tensor<$Rx$Cx$T>";
  rowCase.results = "%y : tensor<$Rx$Cx$T>";
  rowCase.fill = [](unsigned argument, HostTensor &tensor) {
    if (argument == 0)
      fillBlocks(tensor);
    else if (argument == 2)
      tensor.integers = {7, 11, 13};
  };
  runner.add(rowCase, kSizes);
}

TEST_F(BlockOps, DecodesBothHalvesOfBytes) {
  RowCase rowCase;
  rowCase.arguments = "%c: tensor<3x$Cxi8>, %s: tensor<$Rx$F>";
  rowCase.body = "%y = kiln.block_decode %c, %s : (tensor<3x$Cxi8>, "
                 "tensor<$Rx$F>) -> tensor<$Rx$Cx$T>";
  rowCase.results = "%y : tensor<$Rx$Cx$T>";
  rowCase.fill = [](unsigned argument, HostTensor &tensor) {
    if (argument == 0)
      for (int64_t i = 0; i < tensor.size(); ++i)
        tensor.integers[i] = i % 15 - 7 + 16 * (i / 15 % 15 - 7);
  };
  runner.add(rowCase, {{6, 256}, {6, 64}});
}

TEST_F(BlockOps, ABlockThatIsNotFiniteHasAnInfiniteScale) {
  RowCase rowCase = scales("8");
  rowCase.fill = [](unsigned, HostTensor &tensor) {
    tensor.reals[100] = std::nan("");
    tensor.reals[2 * 256 + 17] = -std::numeric_limits<float>::infinity();
  };
  runner.add(rowCase, {{5, 256}});
}

TEST_F(BlockOps, FusesWithElementwiseOps) {
  RowCase rowCase = scales("8");
  const std::string tensor = "tensor<$Rx$Cx$T>";
  rowCase.arguments += ", %z: " + tensor;
  rowCase.body =
      "%x2 = kiln.add %x, %z : " + tensor + "\n" +
      "%s = kiln.block_scales %x2 {bits = 8} : (" + tensor +
      ") -> tensor<$Rx$F>\n" + "%c = kiln.block_encode %x2, %s : (" + tensor +
      ", tensor<$Rx$F>) -> tensor<$Rx$Cxi8>\n%y = kiln.silu %x2 : " + tensor;
  rowCase.results = "%s : tensor<$Rx$F>, %c : tensor<$Rx$Cxi8>, %y : " + tensor;
  runner.add(rowCase, kSizes);
}

} // namespace
