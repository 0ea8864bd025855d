//===- KilnRTAttrs.td - the scheduled level: dialect, enums *- tablegen -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef KILN_DIALECT_KILNRT_IR_KILNRTATTRS_TD
#define KILN_DIALECT_KILNRT_IR_KILNRTATTRS_TD

include "mlir/IR/AttrTypeBase.td"
include "mlir/IR/DialectBase.td"
include "mlir/IR/EnumAttr.td"

def KilnRT_Dialect : Dialect {
  let name = "kilnrt";
  let cppNamespace = "::kiln::rt";
  let summary = "Launches and library calls over planned slots of one arena";
  let description = [{
    The scheduled level: a total order of commands over slots with fixed
    offsets. Destination-passing; nothing is allocated at run time. A reference
    to memory is a slot, a byte offset in it, and a byte stride per iteration of
    the enclosing loop.
  }];
  let dependentDialects = ["::kiln::KilnDialect"];
  let useDefaultTypePrinterParser = 1;
  let useDefaultAttributePrinterParser = 1;
}

def KilnRT_SlotClass : I32EnumAttr<"SlotClass", "what a slot is for in reports and in the arena", [
  I32EnumAttrCase<"Parameter", 0, "parameter">,
  I32EnumAttrCase<"Optimizer", 1, "optimizer">,
  I32EnumAttrCase<"Gradient", 2, "gradient">,
  I32EnumAttrCase<"Activation", 3, "activation">,
  I32EnumAttrCase<"Workspace", 4, "workspace">,
  I32EnumAttrCase<"Communication", 5, "communication">,
  I32EnumAttrCase<"Input", 6, "input">,
  I32EnumAttrCase<"Output", 7, "output">,
  I32EnumAttrCase<"Constant", 8, "constant">]> {
  let cppNamespace = "::kiln::rt";
  let genSpecializedAttr = 0;
}
def KilnRT_SlotClassAttr : EnumAttr<KilnRT_Dialect, KilnRT_SlotClass, "slot_class"> {
  let assemblyFormat = "`<` $value `>`";
}

#endif // KILN_DIALECT_KILNRT_IR_KILNRTATTRS_TD
