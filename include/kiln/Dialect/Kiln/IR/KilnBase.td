//===- KilnBase.td - Definition of the kiln dialect --------*- tablegen -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef KILN_DIALECT_KILN_IR_KILNBASE_TD
#define KILN_DIALECT_KILN_IR_KILNBASE_TD

include "mlir/IR/OpBase.td"
include "mlir/IR/AttrTypeBase.td"
include "mlir/IR/EnumAttr.td"
include "mlir/IR/BuiltinAttributes.td"
include "mlir/IR/SymbolInterfaces.td"
include "mlir/Interfaces/SideEffectInterfaces.td"
include "mlir/Interfaces/InferTypeOpInterface.td"
include "mlir/Interfaces/FunctionInterfaces.td"
include "mlir/Interfaces/ControlFlowInterfaces.td"

def Kiln_Dialect : Dialect {
  let name = "kiln";
  let cppNamespace = "::kiln";
  let summary = "A whole training step as one graph of tensor operations";
  let description = [{
    The kiln dialect describes the training step of a neural network: the
    forward pass, its gradient, clipping, the optimizer and the update of every
    state. Values are tensors with static shapes; parameters and optimizer
    moments are module-level `kiln.state` symbols.

    The type of a tensor determines its memory: a tensor with the encoding
    `#kiln.memory<host>` is stored on the host, and one without an encoding on the
    device. An op runs where its results are stored, and its operands must be
    stored there; as an exception, an op on the host may read a scalar on the
    device. GEMMs only run on the device. `kiln.copy_out` and `kiln.copy_in` copy
    tensors between the memories.

    A module may carry `kiln.model`, a dictionary that describes the model to
    the runtime: `type` and `name` (strings), `vocab_size`, `batch` and
    `sequence_length` (positive i64), `has_weights` (a bool), `storage` (the type in
    which weight files store all tensors), `files` (names of files beside the
    model), `adapter_targets` (the layers that get adapters by default) and
    `unused_tensors` (names of tensors that weight
    files may contain and the model does not use, where `*` stands for a number).
    kilnc adds entries that a model file omits. Entries that are present must agree
    with the forward program.
  }];
  let useDefaultAttributePrinterParser = 1;
  let hasRegionArgAttrVerify = 1;
  let hasRegionResultAttrVerify = 1;
  let hasOperationAttrVerify = 1;
}

// All results and operands of an op are in one memory. Exception: an op on the
// host may read scalars on the device.
def Kiln_RunsInOneMemory : NativeOpTrait<"RunsInOneMemory"> {
  let cppNamespace = "::kiln";
}

class Kiln_Op<string mnemonic, list<Trait> traits = []>
    : Op<Kiln_Dialect, mnemonic, !listconcat(traits, [Kiln_RunsInOneMemory])>;
// Base class of ops that start a copy between memories or wait for such a copy.
class Kiln_CopyOp<string mnemonic, list<Trait> traits = []>
    : Op<Kiln_Dialect, mnemonic, traits>;

// Extents are positive, because a kernel is launched over at least one row. The
// limit of 2^48 elements keeps the element and byte counts of any op within 64
// bits.
def Kiln_SaneExtents : CPred<
    "::kiln::hasSaneExtents(::llvm::cast<::mlir::RankedTensorType>($_self))">;
// The type has no encoding, or its encoding implements
// TensorEncodingAttrInterface.
def Kiln_KnownEncoding : CPred<
    "::kiln::hasKnownEncoding(::llvm::cast<::mlir::RankedTensorType>($_self))">;
class Kiln_TensorOf<list<Type> elements>
    : RankedTensorOf<elements, [Kiln_SaneExtents, Kiln_KnownEncoding],
                     "tensor with static positive extents (at most 2^48 elements) and no encoding but #kiln.memory<host>">;
class Kiln_ScalarOf<list<Type> elements>
    : RankedTensorOf<elements, [HasAnyRankOfPred<[0]>, Kiln_KnownEncoding], "0D tensor">;
// The table in lib/Support/ElementType.cpp lists the floating-point types.
// Arithmetic on elements of fewer than 32 bits is in f32.
def Kiln_ComputedReal : Type<CPred<"::kiln::isComputedReal($_self)">,
                             "16-bit float or bfloat16 type or 32-bit float or 64-bit float">;
def Kiln_AnyReal : Type<CPred<"::kiln::isStoredReal($_self)">,
                        "floating point type that can be stored">;
def Kiln_Tensor : Kiln_TensorOf<[Kiln_ComputedReal]>;
// Tensors of floating-point numbers that casts and updates can store.
def Kiln_StoredReal : Kiln_TensorOf<[Kiln_AnyReal]>;
// The tensor types of states.
def Kiln_StateTensor : Kiln_TensorOf<[Kiln_AnyReal, I8, I32, I64]>;
def Kiln_IndexTensor : Kiln_TensorOf<[I32]>;
def Kiln_RankScalar : Kiln_ScalarOf<[I32]>; // the index of a rank on an axis
def Kiln_IntScalar : Kiln_ScalarOf<[I64]>;
def Kiln_RealScalar : Kiln_ScalarOf<[F64]>;
def Kiln_Rng : Kiln_TensorOf<[I64]>;
def Kiln_Codes : Kiln_TensorOf<[I8]>;
def Kiln_AnyTensor : Kiln_TensorOf<[Kiln_AnyReal, I8, I32, I64]>;

#endif // KILN_DIALECT_KILN_IR_KILNBASE_TD
