//===- KilnRankOps.td - Communication between ranks --------*- tablegen -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Collective operations. All ranks of an axis of the module's mesh execute the
// same collectives in the same order, so these ops are not pure: no pass merges,
// erases or reorders them. Ops that need no other rank are pure.
//
// A tensor of N elements is divided over n ranks into shards of K elements,
// where n K >= N. The shard of rank r has the elements r K, ..., r K + K - 1 of
// the row-major tensor; elements from N on are zero.
//
// A tensor can instead have an owner: the shard of the owner is the whole
// tensor, and the other ranks have no shard. Values that are computed from such
// a shard exist on the owner only (see Owners.h).
//
//===----------------------------------------------------------------------===//

#ifndef KILN_DIALECT_KILN_IR_KILNRANKOPS_TD
#define KILN_DIALECT_KILN_IR_KILNRANKOPS_TD

include "kiln/Dialect/Kiln/IR/KilnBase.td"
include "kiln/Dialect/Kiln/IR/KilnAttrs.td"
include "kiln/Dialect/Kiln/IR/KilnInterfaces.td"
include "mlir/Interfaces/InferTypeOpInterface.td"

// The permitted parents of ops of this file. A kiln.recompute contains such ops
// only to gather the parameters that it reads.
defvar Kiln_OutsideOfKernels = ParentOneOf<["::kiln::ProgramOp", "::kiln::MicrobatchesOp", "::kiln::RecomputeOp"]>;

class Kiln_RankOp<string mnemonic, list<Trait> traits = []> : Op<Kiln_Dialect, mnemonic, [Kiln_OutsideOfKernels,
    DeclareOpInterfaceMethods<DispatchableOpInterface, ["getFamily"]>,
    DeclareOpInterfaceMethods<ReferenceOpInterface>] # traits> {
  let hasVerifier = 1;
}

// The tensors that collectives accept. Of the collectives that sum, only
// all_reduce accepts 8-bit codes. Each sum of codes must be within [-128, 127].
// Exception: if an element of a block (a group of elements that share a scale)
// is infinite or NaN, the scale is infinite, and the sums may have any value.
def Kiln_RankTensor : Kiln_TensorOf<[Kiln_ComputedReal, I8]>;

class Kiln_CollectiveOp<string mnemonic, list<Trait> traits = []> : Kiln_RankOp<mnemonic,
    [DeclareOpInterfaceMethods<CollectiveOpInterface, ["getCollective"]>] # traits> {
  let arguments = (ins Variadic<Kiln_RankTensor>:$inputs, StrAttr:$axis);
}

def Kiln_AllReduceOp : Kiln_CollectiveOp<"all_reduce", [DeclareOpInterfaceMethods<InferTypeOpInterface>,
    PrecisionOpInterface, DeclareOpInterfaceMethods<SequenceOpInterface, ["isLinear"]>,
    DeclareOpInterfaceMethods<DifferentiableOpInterface>]> {
  let summary = "sums tensors over the ranks of an axis";
  let description = [{
    Result i is the elementwise sum of operand i over all ranks of `axis`, an axis
    of the module's mesh (C1), and has its type (C2). Codes of 8 bits are summed as
    integers. The tensors are in device memory and form one *bucket*: they are sent
    together.

    The derivative assumes that all ranks compute the same loss from the results, as
    tensor parallelism does: the gradient of an operand is the cotangent of the
    result, which is the same on all ranks. `kiln.share` is the counterpart.

    Example: `%s:2 = kiln.all_reduce %a, %b over "dp" : tensor<4x8xf32>, tensor<8xf32>`
  }];
  let results = (outs Variadic<Kiln_RankTensor>:$outputs);
  let assemblyFormat = "$inputs `over` $axis attr-dict `:` type($inputs)";
}

class Kiln_ShardingOp<string mnemonic> : Kiln_CollectiveOp<mnemonic, [DeclareOpInterfaceMethods<DifferentiableOpInterface>]> {
  let arguments = (ins Variadic<Kiln_RankTensor>:$inputs, StrAttr:$axis, OptionalAttr<DenseI64ArrayAttr>:$owners);
  let results = (outs Variadic<Kiln_RankTensor>:$outputs);
  let builders = [OpBuilder<(ins "::mlir::TypeRange":$outputs, "::mlir::ValueRange":$inputs, "::llvm::StringRef":$axis), [{
    build($_builder, $_state, outputs, inputs, axis, /*owners=*/::mlir::DenseI64ArrayAttr());
  }]>];
  let assemblyFormat = "$inputs `over` $axis (`owners` $owners^)? attr-dict `:` type($inputs) `->` type($outputs)";
}

def Kiln_ReduceScatterOp : Kiln_ShardingOp<"reduce_scatter"> {
  let summary = "sums tensors over the ranks of an axis and divides the sums into shards";
  let description = [{
    Result i is the shard of this rank of the elementwise sum of operand i over all
    ranks of `axis`, an axis of the module's mesh (C1). The shards of all ranks have
    at least as many elements as the operand (C2). The tensors form one bucket. With
    `owners`, result i is the sum on the rank with the index owners[i], has the type of
    operand i, and does not exist on other ranks (C3).

    Example: `%s = kiln.reduce_scatter %g over "dp" : tensor<5x8xf32> -> tensor<3x8xf32>`,
    `%s = kiln.reduce_scatter %g over "dp" owners [1] : tensor<5x8xf32> -> tensor<5x8xf32>`
  }];
}

def Kiln_AllGatherOp : Kiln_ShardingOp<"all_gather"> {
  let summary = "joins the shards of all ranks of an axis";
  let description = [{
    Result i is the tensor whose shard of each rank of `axis`, an axis of the
    module's mesh (C1), is operand i of that rank. The shards of all ranks have at
    least as many elements as the result (C2). The tensors form one bucket. With
    `owners`, result i is operand i of the rank with the index owners[i] (C3).

    The derivative assumes that all ranks compute the same loss from the results, as
    that of `kiln.all_reduce` does: the gradient of an operand is the shard of the
    cotangent. If the cotangent is the sum over the ranks of a `kiln.share` of the
    result, the sum and the shard are one `kiln.reduce_scatter`.

    Example: `%w = kiln.all_gather %s over "dp" : tensor<3x8xf32> -> tensor<5x8xf32>`,
    `%w = kiln.all_gather %s over "dp" owners [1] : tensor<5x8xf32> -> tensor<5x8xf32>`
  }];
}

def Kiln_CollectiveStartOp : Kiln_RankOp<"collective_start"> {
  let summary = "starts a collective";
  let description = [{
    The transfer runs concurrently with the ops that follow. Result i is a token of
    the type of result i of the collective, with exactly one user, the
    `kiln.collective_wait` of all tokens of this op, in the same block (C1). `axis` is
    an axis of the module's mesh (C2). Transfers of one axis run in the order of
    their starts. `owners` are those of the collective (C3).

    Example: `%t = kiln.collective_start all_gather %a over "dp" : tensor<3x8xf32> -> tensor<5x8xf32>`
  }];
  let arguments = (ins Kiln_CollectiveAttr:$collective, Variadic<Kiln_RankTensor>:$inputs, StrAttr:$axis,
    OptionalAttr<DenseI64ArrayAttr>:$owners);
  let results = (outs Variadic<Kiln_RankTensor>:$tokens);
  let assemblyFormat = "`` $collective $inputs `over` $axis (`owners` $owners^)? attr-dict `:` type($inputs) `->` type($tokens)";
  let extraClassDeclaration = [{
    /// Returns the op that waits for the transfer.
    ::kiln::CollectiveWaitOp getWait();
  }];
}

def Kiln_CollectiveWaitOp : Kiln_RankOp<"collective_wait", [DeclareOpInterfaceMethods<InferTypeOpInterface>]> {
  let summary = "waits until a collective is complete";
  let description = [{
    `tokens` are all results of one `kiln.collective_start`, in order (C1). Result i is
    result i of the collective.

    Example: `%s:2 = kiln.collective_wait %t#0, %t#1 : tensor<4x8xf32>, tensor<8xf32>`
  }];
  let arguments = (ins Variadic<Kiln_RankTensor>:$tokens);
  let results = (outs Variadic<Kiln_RankTensor>:$outputs);
  let assemblyFormat = "$tokens attr-dict `:` type($tokens)";
  let extraClassDeclaration = [{
    /// Returns the op that started the transfer.
    ::kiln::CollectiveStartOp getStart() {
      return getTokens().front().getDefiningOp<::kiln::CollectiveStartOp>();
    }
  }];
}

def Kiln_ShareOp : Kiln_RankOp<"share", [Pure, AllTypesMatch<["x", "y"]>, PrecisionOpInterface,
    DeclareOpInterfaceMethods<SequenceOpInterface, ["isLinear"]>,
    DeclareOpInterfaceMethods<DifferentiableOpInterface>]> {
  let summary = "passes a value that all ranks have to a computation that they divide";
  let description = [{
    `y` is `x`, which has the same value on all ranks of `axis`, an axis of the
    module's mesh (C1). Each rank computes another part of the loss from `y`, so the
    gradient of `x` is the sum of the gradients of `y` over the ranks, a
    `kiln.all_reduce`. The op exists for this derivative: `kiln-autodiff` removes it
    from the program that it differentiates, and other programs than a forward
    program fold it.

    Example: `%y = kiln.share %x over "tp" : tensor<8x16xf32>`
  }];
  let arguments = (ins Kiln_Tensor:$x, StrAttr:$axis);
  let results = (outs Kiln_Tensor:$y);
  let assemblyFormat = "$x `over` $axis attr-dict `:` type($x)";
  let hasFolder = 1;
}

// The tensors that have shards: floating-point numbers, and tokens (i32).
def Kiln_Sharded : Kiln_TensorOf<[Kiln_ComputedReal, I32]>;

def Kiln_TakeShardOp : Kiln_RankOp<"take_shard", [Pure, DeclareOpInterfaceMethods<DifferentiableOpInterface>]> {
  let summary = "copies the shard of this rank";
  let description = [{
    The result is the shard of this rank of `x`, over `axis`, an axis of the module's
    mesh (C1), and in the memory of `x`. The shards of all ranks have at least as many elements as `x` (C2).
    With an `owner`, the result is `x`, on the rank with this index only (C3).
    The gradient of `x` is the `kiln.all_gather` of the cotangents of all ranks.

    Example: `%s = kiln.take_shard %w over "dp" : tensor<5x8xf32> -> tensor<3x8xf32>`,
    `%s = kiln.take_shard %w over "dp" owner 1 : tensor<5x8xf32> -> tensor<5x8xf32>`
  }];
  let arguments = (ins Kiln_Sharded:$x, StrAttr:$axis, OptionalAttr<I64Attr>:$owner);
  let results = (outs Kiln_Sharded:$shard);
  let builders = [OpBuilder<(ins "::mlir::Type":$shard, "::mlir::Value":$x, "::llvm::StringRef":$axis), [{
    build($_builder, $_state, shard, x, axis, /*owner=*/::mlir::IntegerAttr());
  }]>];
  let assemblyFormat = "$x `over` $axis (`owner` $owner^)? attr-dict `:` type($x) `->` type($shard)";
}

#endif // KILN_DIALECT_KILN_IR_KILNRANKOPS_TD
