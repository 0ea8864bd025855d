//===- SlotTypesTest.cpp - Element types of slots -------------------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "kiln/Target/AllTargets.h"
#include "kiln/Target/Common/ProgramWriter.h"
#include "kiln/Target/Interface/TargetRegistry.h"

#include "mlir/Parser/Parser.h"

#include <gtest/gtest.h>

using namespace kiln;
using namespace mlir;

namespace {

/// The name of each slot is the type that the slot must have in the program
/// description.
const char *const program = R"(
kiln.state @w : tensor<8xf64> {role = #kiln.role<parameter>, init = #kiln.splat<value = 0.0>}
kiln.state @u : tensor<32xbf16> {role = #kiln.role<parameter>, init = #kiln.splat<value = 0.0>}
kilnrt.queue @compute engine device
kilnrt.queue @copy_out engine link
kilnrt.arena states 128 height 512 host states 0 height 64
kilnrt.program @train kind<train> {
  %unread = kilnrt.slot "f64" class parameter offset 0 bytes 64 lifetime [0, 2] state @w
  %state = kilnrt.slot "bf16" class parameter offset 64 bytes 64 lifetime [0, 2] state @u
  %tokens = kilnrt.slot "i32" class input offset 128 bytes 64 lifetime [0, 2]
  %many = kilnrt.slot "f32" class activation offset 192 bytes 64 lifetime [0, 2]
  %sliced = kilnrt.slot "bf16" class activation offset 256 bytes 64 lifetime [0, 2]
  %both = kilnrt.slot "none" class activation offset 320 bytes 64 lifetime [0, 2]
  %scratch = kilnrt.slot "none" class workspace offset 384 bytes 64 lifetime [0, 2]
  %host = kilnrt.slot "f32" class activation in host offset 0 bytes 64 lifetime [0, 2]
  %t = kilnrt.token
  %v0 = kilnrt.view %tokens[0] : memref<16xi32>
  kilnrt.input "tokens" at %v0
  %v1 = kilnrt.view %state[0] : memref<32xbf16>
  %v2 = kilnrt.view %many[0] : memref<16xf32>
  %v3 = kilnrt.view %many[16] : memref<2x4xf32>
  %v4 = kilnrt.view %both[0] : memref<16xf32>
  %v5 = kilnrt.view %both[0] : memref<32xbf16>
  %v6 = kilnrt.view %host[0] : memref<16xf32, #kiln.memory<host>>
  kilnrt.begin copy %t on @copy_out after [@compute] (ro %v2, wo %v6)
  kilnrt.wait %t on @compute
  kilnrt.microbatches 2 forward {
  } backward {
    %v7 = kilnrt.view %sliced[0 + 32 * microbatch] : memref<16xbf16>
    kilnrt.fill on @compute (wo %v7)
  }
}
)";

TEST(SlotTypes, AreThoseOfViewsThatAgree) {
  DialectRegistry registry;
  registerAllTargets(registry);
  MLIRContext context(registry);
  context.loadDialect<KilnDialect, rt::KilnRTDialect>();
  OwningOpRef<ModuleOp> module = parseSourceString<ModuleOp>(program, &context);
  ASSERT_TRUE(!!module);
  llvm::json::Object description =
      writeProgram(*module, *backendOf(*module), KernelIndex(), BuildRecord());
  llvm::json::Object *train =
      description.getObject("programs")->getObject("train");
  llvm::json::Array *slots = train->getArray("slots");
  EXPECT_EQ(slots->size(), 8u);
  for (const llvm::json::Value &slot : *slots) {
    const llvm::json::Object &object = *slot.getAsObject();
    EXPECT_EQ(object.getString("dtype").value_or("none"),
              object.getString("name").value())
        << "slot at " << object.getInteger("offset").value();
  }
}

} // namespace
