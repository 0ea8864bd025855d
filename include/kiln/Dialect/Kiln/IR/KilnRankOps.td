//===- KilnRankOps.td - Communication between ranks --------*- tablegen -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Collective operations. All ranks of an axis of the module's mesh execute the
// same collectives in the same order, so none of these ops is pure: no pass
// merges, erases or reorders them.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_DIALECT_KILN_IR_KILNRANKOPS_TD
#define KILN_DIALECT_KILN_IR_KILNRANKOPS_TD

include "kiln/Dialect/Kiln/IR/KilnBase.td"
include "kiln/Dialect/Kiln/IR/KilnInterfaces.td"
include "mlir/Interfaces/InferTypeOpInterface.td"

class Kiln_CollectiveOp<string mnemonic> : Op<Kiln_Dialect, mnemonic, [Kiln_InProgram,
    DeclareOpInterfaceMethods<InferTypeOpInterface>,
    DeclareOpInterfaceMethods<DispatchableOpInterface, ["getFamily"]>,
    DeclareOpInterfaceMethods<ReferenceOpInterface>]> {
  let hasVerifier = 1;
}

def Kiln_AllReduceOp : Kiln_CollectiveOp<"all_reduce"> {
  let summary = "sums tensors over the ranks of an axis";
  let description = [{
    Result i is the elementwise sum of operand i over all ranks of `axis`, an axis
    of the module's mesh (C1), and has its type (C2). The tensors are in device
    memory and form one *bucket*: they are sent together.

    Example: `%s:2 = kiln.all_reduce %a, %b over "dp" : tensor<4x8xf32>, tensor<8xf32>`
  }];
  let arguments = (ins Variadic<Kiln_Tensor>:$inputs, StrAttr:$axis);
  let results = (outs Variadic<Kiln_Tensor>:$sums);
  let assemblyFormat = "$inputs `over` $axis attr-dict `:` type($inputs)";
}

def Kiln_AllReduceStartOp : Kiln_CollectiveOp<"all_reduce_start"> {
  let summary = "starts a kiln.all_reduce";
  let description = [{
    The transfer runs concurrently with the ops that follow. Result i is a token of
    the type of operand i, with exactly one user, the `kiln.all_reduce_wait` of all
    tokens of this op, in the same block (C1). `axis` is an axis of the module's mesh
    (C2). Transfers of one axis run in the order of their starts.

    Example: `%t:2 = kiln.all_reduce_start %a, %b over "dp" : tensor<4x8xf32>, tensor<8xf32>`
  }];
  let arguments = (ins Variadic<Kiln_Tensor>:$inputs, StrAttr:$axis);
  let results = (outs Variadic<Kiln_Tensor>:$tokens);
  let assemblyFormat = "$inputs `over` $axis attr-dict `:` type($inputs)";
}

def Kiln_AllReduceWaitOp : Kiln_CollectiveOp<"all_reduce_wait"> {
  let summary = "waits until a kiln.all_reduce is complete";
  let description = [{
    `tokens` are all results of one `kiln.all_reduce_start`, in order (C1). Result i is the
    sum of its operand i.

    Example: `%s:2 = kiln.all_reduce_wait %t#0, %t#1 : tensor<4x8xf32>, tensor<8xf32>`
  }];
  let arguments = (ins Variadic<Kiln_Tensor>:$tokens);
  let results = (outs Variadic<Kiln_Tensor>:$sums);
  let assemblyFormat = "$tokens attr-dict `:` type($tokens)";
  let extraClassDeclaration = [{
    /// Returns the op that started the transfer.
    ::kiln::AllReduceStartOp getStart() {
      return getTokens().front().getDefiningOp<::kiln::AllReduceStartOp>();
    }
  }];
}

#endif // KILN_DIALECT_KILN_IR_KILNRANKOPS_TD
