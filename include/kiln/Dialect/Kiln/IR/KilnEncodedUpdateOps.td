//===- KilnEncodedUpdateOps.td - Updates of 8-bit states ---*- tablegen -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef KILN_DIALECT_KILN_IR_KILNENCODEDUPDATEOPS_TD
#define KILN_DIALECT_KILN_IR_KILNENCODEDUPDATEOPS_TD

include "kiln/Dialect/Kiln/IR/KilnBase.td"
include "kiln/Dialect/Kiln/IR/KilnAttrs.td"
include "kiln/Dialect/Kiln/IR/KilnInterfaces.td"

def Kiln_EncodedUpdateOp : Kiln_Op<"encoded_update", [Pure, SingleBlock, IsolatedFromAbove,
    DeclareOpInterfaceMethods<DispatchableOpInterface, ["getTiedOperand"]>,
    DeclareOpInterfaceMethods<RowOpInterface>,
    DeclareOpInterfaceMethods<ReferenceOpInterface>]> {
  let summary = "update of a parameter whose optimizer states are 8-bit codes";
  let description = [{
    Decodes optimizer states, updates the parameter, and encodes the new states, all
    in one kernel: no decoded state is stored in memory. The body has one op with
    `UpdateOpInterface` and yields its results (C1). The arguments of the body are the
    operands of this op, in order and without regard to the memory that stores them
    (C2).

    `storage` has an entry for each optimizer state (C3). A `plain` state is an
    operand. A state that is `signed` or `unsigned` is two operands of `inputs`: codes,
    with the shape of the parameter, and the scales of blocks of 256 codes in row-major
    order (C4). Each number is its code's value in the map times the scale of its
    block. The argument of the body is f32 and has the decoded state. The number of
    elements of the parameter is a multiple of 256, and its arithmetic is f32 (C5).
    kiln/Support/Dynamic8.h defines the maps and the encoding.

    The results are the new parameter and the new states, in the order and of the types
    of their operands, and are updated in place. If the update returns a copy of the
    parameter, the last result is this copy (C6). If the scalar `apply` of the
    update is 0, codes and scales keep their bits.

    Example: `%p1, %c1, %s1 = kiln.encoded_update(%p, %c, %s, %g, %factor, %lr) stores [#kiln.moment_storage<signed>] : (tensor<2x128xf32>, tensor<2x128xi8>, tensor<1xf32>, tensor<2x128xf32>, tensor<f64>, tensor<f64>) -> (tensor<2x128xf32>, tensor<2x128xi8>, tensor<1xf32>) { ^bb0(%p0: tensor<2x128xf32>, %b0: tensor<2x128xf32>, %g0: tensor<2x128xf32>, %f0: tensor<f64>, %r0: tensor<f64>): %q:2 = kiln.momentum %p0, %b0, %g0, %f0, %r0 {mu = 9.0e-01, weight_decay = 0.0} : (tensor<2x128xf32>, tensor<2x128xf32>, tensor<2x128xf32>, tensor<f64>, tensor<f64>) -> (tensor<2x128xf32>, tensor<2x128xf32>) kiln.yield %q#0, %q#1 : tensor<2x128xf32>, tensor<2x128xf32> }`
  }];
  let arguments = (ins Variadic<Kiln_AnyTensor>:$inputs,
    TypedArrayAttrBase<Kiln_MomentStorageAttr, "array of moment storages">:$storage);
  let results = (outs Variadic<Kiln_AnyTensor>:$outputs);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = "`(` $inputs `)` `stores` $storage attr-dict `:` functional-type(operands, results) $body";
  let hasVerifier = 1;
  let hasRegionVerifier = 1;
  let extraClassDeclaration = [{
    /// Returns the update in the body.
    ::kiln::UpdateOpInterface getUpdate() {
      return ::llvm::cast<::kiln::UpdateOpInterface>(getBody().front().front());
    }
    /// Returns how optimizer state `i` is stored.
    ::kiln::MomentStorage getStorageOf(unsigned i) {
      return ::llvm::cast<::kiln::MomentStorageAttr>(getStorage()[i]).getValue();
    }
    /// Returns the number of results that are updated in place: all but the copy
    /// of the parameter.
    unsigned getNumUpdated();
    /// Returns the operand that is the gradient.
    ::mlir::Value getGradient() { return getInputs()[getNumUpdated()]; }
  }];
}

#endif // KILN_DIALECT_KILN_IR_KILNENCODEDUPDATEOPS_TD
