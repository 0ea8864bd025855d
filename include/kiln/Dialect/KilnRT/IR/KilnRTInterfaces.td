//===- KilnRTInterfaces.td - memory accesses of commands ---*- tablegen -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef KILN_DIALECT_KILNRT_IR_KILNRTINTERFACES_TD
#define KILN_DIALECT_KILNRT_IR_KILNRTINTERFACES_TD

include "mlir/IR/OpBase.td"

def CommandOpInterface : OpInterface<"CommandOpInterface"> {
  let cppNamespace = "::kiln::rt";
  let description = [{
    A command of a scheduled program: its memory accesses, the queue that
    executes it, and its position in the order of queues. Verifiers, cost
    models, launch groups and writers query this interface instead of testing
    for specific ops.
  }];
  let methods = [
    InterfaceMethod<[{
      The slots that the command accesses, operands before results, with the
      view of each access. Scratch memory comes last and has no view.
    }],
    "::llvm::SmallVector<::kiln::rt::MemoryAccess>", "getAccesses", (ins), [{}],
      [{ return {}; }]>,
    InterfaceMethod<"The queue that executes the command.",
    "::mlir::FlatSymbolRefAttr", "getQueueAttr">,
    InterfaceMethod<[{
      The queues whose commands before this one, in program order, are complete
      when it begins; or null.
    }],
    "::mlir::ArrayAttr", "getAfterAttr", (ins), [{}], [{ return {}; }]>,
    InterfaceMethod<"The token that is signaled when the command is complete, or null.",
    "::mlir::Value", "getSignaledToken", (ins), [{}], [{ return {}; }]>,
    InterfaceMethod<"The token for which the command blocks its queues, or null.",
    "::mlir::Value", "getAwaitedToken", (ins), [{}], [{ return {}; }]>,
    InterfaceMethod<[{
      The executions of its segment in which the command is executed. `Always`
      outside of micro-batches.
    }],
    "::kiln::rt::When", "getWhen">,
    InterfaceMethod<"Sets the executions in which the command is executed.",
    "void", "setWhen", (ins "::kiln::rt::When":$when)>,
  ];
  let verify = [{ return ::kiln::rt::verifyCommand($_op); }];
}

#endif // KILN_DIALECT_KILNRT_IR_KILNRTINTERFACES_TD
