//===- MemoryTest.cpp - The memory in a tensor type -----------------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "kiln/Dialect/Kiln/IR/Kiln.h"

#include <gtest/gtest.h>

using namespace kiln;
using namespace mlir;

namespace {

class TensorMemory : public testing::Test {
protected:
  TensorMemory() : b(&context) {
    context.loadDialect<KilnDialect>();
    onDevice = RankedTensorType::get({4, 8}, b.getF32Type());
    onHost = inMemory(onDevice, MemorySpace::Host);
  }

  MLIRContext context;
  Builder b;
  RankedTensorType onDevice, onHost;
};

TEST_F(TensorMemory, IsPartOfTheType) {
  EXPECT_EQ(memoryOf(onDevice), MemorySpace::Device);
  EXPECT_EQ(memoryOf(onHost), MemorySpace::Host);
  EXPECT_NE(onDevice, onHost);
  EXPECT_EQ(onHost.getEncoding(),
            MemorySpaceAttr::get(&context, MemorySpace::Host));
}

TEST_F(TensorMemory, HasOneTypeOnTheDevice) {
  EXPECT_EQ(inMemory(onHost, MemorySpace::Device), onDevice);
  EXPECT_EQ(inMemory(onDevice, MemorySpace::Device), onDevice);
  EXPECT_EQ(inMemory(onHost, MemorySpace::Host), onHost);
}

TEST_F(TensorMemory, SurvivesShapeLogic) {
  EXPECT_EQ(memoryOf(onHost.clone({2, 16})), MemorySpace::Host);
  auto narrow = cast<RankedTensorType>(onHost.clone(b.getBF16Type()));
  EXPECT_EQ(memoryOf(narrow), MemorySpace::Host);
  EXPECT_EQ(fullPrecision(narrow), onHost);
  EXPECT_EQ(bytesOf(onHost), bytesOf(onDevice));
}

TEST_F(TensorMemory, OtherEncodingsAreUnknown) {
  EXPECT_TRUE(hasKnownEncoding(onDevice));
  EXPECT_TRUE(hasKnownEncoding(onHost));
  auto unknown = onDevice.cloneWithEncoding(b.getStringAttr("elsewhere"));
  EXPECT_FALSE(hasKnownEncoding(unknown));
  EXPECT_FALSE(isKilnTensor(unknown));
  EXPECT_TRUE(isKilnTensor(onHost));
}

} // namespace
