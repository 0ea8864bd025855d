//===- KilnBase.td - kiln dialect and base classes ---------*- tablegen -*-===//
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
  }];
  let useDefaultAttributePrinterParser = 1;
  let hasRegionArgAttrVerify = 1;
  let hasRegionResultAttrVerify = 1;
  let hasOperationAttrVerify = 1;
}

class Kiln_Op<string mnemonic, list<Trait> traits = []>
    : Op<Kiln_Dialect, mnemonic, traits>;

def Kiln_Float : AnyTypeOf<[F32, F64], "f32 or f64">;
def Kiln_Tensor : StaticShapeTensorOf<[F32, F64]>;
def Kiln_IndexTensor : StaticShapeTensorOf<[I32]>;
def Kiln_IntScalar : 0DTensorOf<[I64]>;
def Kiln_RealScalar : 0DTensorOf<[F64]>;
def Kiln_Rng : StaticShapeTensorOf<[I64]>;
def Kiln_AnyTensor : StaticShapeTensorOf<[F32, F64, I32, I64]>;

#endif // KILN_DIALECT_KILN_IR_KILNBASE_TD
