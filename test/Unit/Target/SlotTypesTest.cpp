//===- SlotTypesTest.cpp - Of which elements slots are --------------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "kiln/Target/Common/SlotTypes.h"

#include "mlir/Parser/Parser.h"

#include <gtest/gtest.h>

using namespace kiln;
using namespace mlir;

namespace {

/// One slot per way in which one gets a type, and those that get none.
const char *const program = R"(
kiln.state @w : tensor<4xf64> {role = #kiln.role<parameter>, init = #kiln.splat<value = 0.0>}
kilnrt.kernel @narrow attributes {family = #kiln.family<row>, row_strides = array<i64: 16, 16>, space = array<i64: 1, 16>} {
^bb0(%x: tensor<16xf32>):
  %y = kiln.cast %x : tensor<16xf32> to tensor<16xbf16>
  kiln.yield %y : tensor<16xbf16>
}
kilnrt.kernel @again attributes {family = #kiln.family<row>, row_strides = array<i64: 16, 16>, space = array<i64: 1, 16>} {
^bb0(%x: tensor<16xf32>):
  %y = kiln.neg %x : tensor<16xf32>
  kiln.yield %y : tensor<16xf32>
}
kilnrt.program @train attributes {kind = #kiln.program_kind<train>} {
  %tokens = kilnrt.slot "i32" class input offset 0 bytes 64 lifetime [0, 5]
  %state = kilnrt.slot "f64" class parameter offset 64 bytes 64 lifetime [0, 5] state @w
  %read = kilnrt.slot "f32" class activation offset 128 bytes 64 lifetime [0, 5]
  %written = kilnrt.slot "bf16" class activation offset 192 bytes 64 lifetime [0, 5]
  %factor = kilnrt.slot "bf16" class activation offset 256 bytes 64 lifetime [0, 5]
  %sums = kilnrt.slot "f32" class activation offset 320 bytes 64 lifetime [0, 5]
  %scratch = kilnrt.slot "none" class workspace offset 384 bytes 64 lifetime [0, 5]
  %host = kilnrt.slot "bf16" class activation offset 0 bytes 64 lifetime [0, 5] {host}
  %back = kilnrt.slot "bf16" class activation offset 448 bytes 64 lifetime [0, 5]
  %both = kilnrt.slot "none" class activation offset 512 bytes 64 lifetime [0, 5]
  kilnrt.input "tokens" at %tokens + 0 : tensor<16xi32>
  // Behind what it copies to, as far as the list of copies goes.
  %in = kilnrt.copy_start %host to %back offsets [0, 0] strides [0, 0] bytes 32
  kilnrt.wait %in
  kilnrt.launch @narrow(%read, %written) offsets [0, 0] strides [0, 0] immediates []
  %out = kilnrt.copy_start %written to %host offsets [0, 0] strides [0, 0] bytes 32
  kilnrt.wait %out
  kilnrt.launch @narrow(%read, %both) offsets [0, 0] strides [0, 0] immediates []
  kilnrt.launch @again(%read, %both) offsets [0, 0] strides [0, 0] immediates []
  kilnrt.gemm(%factor, %factor, %sums) scratch(%scratch) offsets [0, 0, 0] strides [0, 0, 0] {batch = 1 : i64, batch_strides = array<i64: 0, 0, 0>, beta = 0 : i64, element = bf16, wide, grid = array<i64: 1, 1>, k = 4 : i64, lead = array<i64: 4, 4, 4>, m = 4 : i64, n = 4 : i64}
}
)";

TEST(SlotTypes, FollowFromWhoTouchesThem) {
  MLIRContext context;
  context.loadDialect<KilnDialect, rt::KilnRTDialect>();
  OwningOpRef<ModuleOp> module = parseSourceString<ModuleOp>(program, &context);
  ASSERT_TRUE(!!module);
  rt::ProgramOp train = *module->getOps<rt::ProgramOp>().begin();
  SlotTypes types(train);
  int64_t count = 0;
  for (auto slot : train.getBody().front().getOps<rt::SlotOp>()) {
    std::string text = "none";
    if (Type type = types.of(slot)) {
      text.clear();
      llvm::raw_string_ostream(text) << type;
    }
    EXPECT_EQ(text, slot.getName()) << "slot " << count;
    ++count;
  }
  EXPECT_EQ(count, 10);
}

} // namespace
