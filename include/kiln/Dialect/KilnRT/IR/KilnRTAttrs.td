//===- KilnRTAttrs.td - KilnRT dialect, enums --------------*- tablegen -*-===//
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
  let summary = "Launches and vendor-library calls over planned slots of one arena";
  let description = [{
    The scheduled level: a total order of commands over slots with fixed
    offsets. Commands are in destination-passing style; nothing is allocated at
    run time. A command reads and writes places, which are typed views of slots
    with a byte offset and a byte stride per micro-batch.

    Every command belongs to a queue. The commands of one queue execute one
    after another, in program order. Commands of different queues run
    concurrently, unless one is `after` the other's queue or waits for its
    token: a `kilnrt.begin` signals a token when its transfer is complete, and a
    `kilnrt.wait` blocks queues until the latest preceding signal. All queues
    are idle when a program begins and when it ends.
  }];
  let dependentDialects = ["::kiln::KilnDialect"];
  let useDefaultTypePrinterParser = 1;
  let useDefaultAttributePrinterParser = 1;
}

def KilnRT_SlotClass : I32EnumAttr<"SlotClass", "purpose of a slot in reports and in the arena", [
  I32EnumAttrCase<"Parameter", 0, "parameter">,
  I32EnumAttrCase<"Optimizer", 1, "optimizer">,
  I32EnumAttrCase<"Gradient", 2, "gradient">,
  I32EnumAttrCase<"Activation", 3, "activation">,
  I32EnumAttrCase<"Workspace", 4, "workspace">,
  I32EnumAttrCase<"Communication", 5, "communication">,
  I32EnumAttrCase<"Input", 6, "input">,
  I32EnumAttrCase<"Output", 7, "output">,
  I32EnumAttrCase<"Constant", 8, "constant">,
  I32EnumAttrCase<"Materialized", 9, "materialized">]> {
  let cppNamespace = "::kiln::rt";
  let genSpecializedAttr = 0;
}
def KilnRT_SlotClassAttr : EnumAttr<KilnRT_Dialect, KilnRT_SlotClass, "slot_class"> {
  let assemblyFormat = "`<` $value `>`";
}

def KilnRT_Access : I32EnumAttr<"Access", "how a command accesses a place", [
  I32EnumAttrCase<"Read", 0, "ro">,
  I32EnumAttrCase<"Write", 1, "wo">,
  I32EnumAttrCase<"ReadWrite", 2, "rw">]> {
  let cppNamespace = "::kiln::rt";
}

def KilnRT_Accumulation : I32EnumAttr<"Accumulation", "how a command combines its result with the previous value", [
  I32EnumAttrCase<"Overwrite", 0, "overwrite">,
  I32EnumAttrCase<"Add", 1, "add">,
  // Overwrites the result in the first execution of the enclosing forward or
  // backward segment, and adds to the result in all later executions.
  I32EnumAttrCase<"AddAfterFirst", 2, "add_after_first">]> {
  let cppNamespace = "::kiln::rt";
  let genSpecializedAttr = 0;
}
def KilnRT_AccumulationAttr : EnumAttr<KilnRT_Dialect, KilnRT_Accumulation, "accumulation">;

def KilnRT_Engine : I32EnumAttr<"Engine", "executor of the commands of a queue", [
  I32EnumAttrCase<"Device", 0, "device">, // Kernels and vendor-library calls on device memory.
  I32EnumAttrCase<"Host", 1, "host">,     // Kernels and BLAS calls on host memory.
  I32EnumAttrCase<"Link", 2, "link">]> {  // Asynchronous copies and collectives.
  let cppNamespace = "::kiln::rt";
  let genSpecializedAttr = 0;
}
def KilnRT_EngineAttr : EnumAttr<KilnRT_Dialect, KilnRT_Engine, "engine">;

def KilnRT_When : I32EnumAttr<"When", "executions of its segment in which a command is executed", [
  I32EnumAttrCase<"Always", 0, "always">,
  I32EnumAttrCase<"First", 1, "first">,
  I32EnumAttrCase<"Last", 2, "last">]> {
  let cppNamespace = "::kiln::rt";
  let genSpecializedAttr = 0;
}
def KilnRT_WhenAttr : EnumAttr<KilnRT_Dialect, KilnRT_When, "when">;

def KilnRT_TransferKind : I32EnumAttr<"TransferKind", "kind of transfer", [
  I32EnumAttrCase<"Copy", 0, "copy">,         // Between device memory and host memory.
  I32EnumAttrCase<"Send", 1, "send">,         // To another rank.
  I32EnumAttrCase<"Receive", 2, "receive">,
  I32EnumAttrCase<"AllReduce", 3, "all_reduce">,  // Sums over all ranks of an axis.
  I32EnumAttrCase<"ReduceScatter", 4, "reduce_scatter">, // Shards of the sums.
  I32EnumAttrCase<"AllGather", 5, "all_gather">]> { // Tensors from the shards of all ranks.
  let cppNamespace = "::kiln::rt";
  let genSpecializedAttr = 0;
}
def KilnRT_TransferKindAttr : EnumAttr<KilnRT_Dialect, KilnRT_TransferKind, "transfer">;

#endif // KILN_DIALECT_KILNRT_IR_KILNRTATTRS_TD
