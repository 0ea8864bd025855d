//===- KilnUpdateOps.td - Optimizer update ops -------------*- tablegen -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// An optimizer consists of an op in this file, a source file in lib that
// implements the interfaces of the op (row program, reference semantics, name),
// and a rule in the registry of Transforms/Optimizer.h, which builds the op
// from command-line options.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_DIALECT_KILN_IR_KILNUPDATEOPS_TD
#define KILN_DIALECT_KILN_IR_KILNUPDATEOPS_TD

include "kiln/Dialect/Kiln/IR/KilnBase.td"
include "kiln/Dialect/Kiln/IR/KilnInterfaces.td"

/// An update of `tensors`, which are the parameter and its optimizer states, by
/// the gradient and `scalars`. The result `copy` is the new parameter, rounded to
/// a narrower type.
class Kiln_UpdateOp<string mnemonic, dag tensors, dag scalars, dag attributes, dag newTensors>
    : Kiln_Op<mnemonic, [Pure,
        DeclareOpInterfaceMethods<DispatchableOpInterface, ["getTiedOperand"]>,
        DeclareOpInterfaceMethods<RowOpInterface>,
        DeclareOpInterfaceMethods<ReferenceOpInterface>,
        DeclareOpInterfaceMethods<UpdateOpInterface, ["describeUpdate"]>]> {
  let arguments = !con(tensors, (ins Kiln_StoredReal:$g, Kiln_RealScalar:$factor, Kiln_RealScalar:$lr), scalars,
                       (ins Optional<Kiln_IntScalar>:$apply), attributes);
  let results = !con(newTensors, (outs Optional<Kiln_StoredReal>:$copy));
  let assemblyFormat = "operands attr-dict `:` functional-type(operands, results)";
  let extraClassDefinition = [{
    int64_t $cppClass::getTiedOperand(unsigned result) {
      return result < getNumUpdated() ? int64_t(result) : -1;
    }
    ::kiln::RowSpace $cppClass::getRowSpace() { return ::kiln::rowSpaceOfUpdate(getOperation()); }
  }];
}

def Kiln_AdamOp : Kiln_UpdateOp<"adam",
    (ins Kiln_StoredReal:$p, Kiln_StoredReal:$m, Kiln_StoredReal:$v), (ins Kiln_IntScalar:$step),
    (ins F64Attr:$beta1, F64Attr:$beta2, F64Attr:$eps, F64Attr:$weight_decay, UnitAttr:$decoupled),
    (outs Kiln_StoredReal:$newP, Kiln_StoredReal:$newM, Kiln_StoredReal:$newV)> {
  let summary = "Adam and AdamW update of one parameter";
  let assemblyFormat = "operands (`decoupled` $decoupled^)? attr-dict `:` functional-type(operands, results)";
  let description = [{
    With `decoupled` (AdamW), g' = factor*g and p' = p*(1 - lr*weight_decay);
    otherwise (Adam), g' = factor*g + weight_decay*p and p' = p. Computes
    m1 = b1*m + (1-b1)*g', v1 = b2*v + (1-b2)*g'^2 and
    p1 = p' - lr/(1-b1^step) * m1 / (sqrt(v1)/sqrt(1-b2^step) + eps).

    Example: `%p1, %m1, %v1 = kiln.adam %p, %m, %v, %g, %factor, %lr, %step decoupled {beta1 = 9.0e-01, beta2 = 9.99e-01, eps = 1.0e-08, weight_decay = 1.0e-01} : (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<f64>, tensor<f64>, tensor<i64>) -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>)`
  }];
}
def Kiln_SgdOp : Kiln_UpdateOp<"sgd", (ins Kiln_StoredReal:$p), (ins), (ins F64Attr:$weight_decay),
    (outs Kiln_StoredReal:$newP)> {
  let summary = "stochastic gradient descent update of one parameter";
  let description = "p1 = p - lr*(factor*g + weight_decay*p).\n\nExample: `%p1 = kiln.sgd %p, %g, %factor, %lr {weight_decay = 0.0} : (tensor<4xf32>, tensor<4xf32>, tensor<f64>, tensor<f64>) -> tensor<4xf32>`";
}
def Kiln_MomentumOp : Kiln_UpdateOp<"momentum", (ins Kiln_StoredReal:$p, Kiln_StoredReal:$b), (ins),
    (ins F64Attr:$mu, F64Attr:$weight_decay, UnitAttr:$nesterov), (outs Kiln_StoredReal:$newP, Kiln_StoredReal:$newB)> {
  let summary = "gradient descent update with momentum of one parameter";
  let assemblyFormat = "operands (`nesterov` $nesterov^)? attr-dict `:` functional-type(operands, results)";
  let description = [{
    Computes g' = factor*g + weight_decay*p, b1 = mu*b + g' and
    p1 = p - lr*(nesterov ? g' + mu*b1 : b1).

    Example: `%p1, %b1 = kiln.momentum %p, %b, %g, %factor, %lr {mu = 9.0e-01, weight_decay = 0.0} : (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<f64>, tensor<f64>) -> (tensor<4xf32>, tensor<4xf32>)`
  }];
}
def Kiln_LionOp : Kiln_UpdateOp<"lion", (ins Kiln_StoredReal:$p, Kiln_StoredReal:$m), (ins),
    (ins F64Attr:$beta1, F64Attr:$beta2, F64Attr:$weight_decay), (outs Kiln_StoredReal:$newP, Kiln_StoredReal:$newM)> {
  let summary = "Lion update of one parameter";
  let description = [{
    With g' = factor*g, computes
    p1 = p*(1 - lr*weight_decay) - lr*sign(b1*m + (1-b1)*g') and
    m1 = b2*m + (1-b2)*g' (Chen et al., "Symbolic Discovery of Optimization
    Algorithms", 2023).

    Example: `%p1, %m1 = kiln.lion %p, %m, %g, %factor, %lr {beta1 = 9.0e-01, beta2 = 9.9e-01, weight_decay = 0.0} : (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<f64>, tensor<f64>) -> (tensor<4xf32>, tensor<4xf32>)`
  }];
}

#endif // KILN_DIALECT_KILN_IR_KILNUPDATEOPS_TD
