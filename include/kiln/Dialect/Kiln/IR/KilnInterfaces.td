//===- KilnInterfaces.td - what an op knows about itself ---*- tablegen -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// No pass asks an op for its class. It asks one of these interfaces.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_DIALECT_KILN_IR_KILNINTERFACES_TD
#define KILN_DIALECT_KILN_IR_KILNINTERFACES_TD

include "mlir/IR/OpBase.td"

def DifferentiableOpInterface : OpInterface<"DifferentiableOpInterface"> {
  let cppNamespace = "::kiln";
  let description = [{
    An op that can build its own reverse-mode derivative (vector-Jacobian
    product). The derivative may refer to any primal SSA value; each such use is
    a residual.
  }];
  let methods = [
    InterfaceMethod<[{
      Builds the gradient of every operand `i` with `wanted[i]` into
      `gradients[i]`, given the cotangents of the results (a null Value where
      the result does not influence the loss). A gradient left null is zero.
    }],
    "::llvm::LogicalResult", "buildGradient",
    (ins "::mlir::OpBuilder &":$builder, "::mlir::ValueRange":$cotangents,
         "::llvm::ArrayRef<bool>":$wanted,
         "::llvm::MutableArrayRef<::mlir::Value>":$gradients)>,
  ];
}

def DispatchableOpInterface : OpInterface<"DispatchableOpInterface"> {
  let cppNamespace = "::kiln";
  let description = [{
    Which kind of dispatch an op becomes, what it costs, and which result may
    take the slot of which operand.
  }];
  let methods = [
    InterfaceMethod<[{
      The dispatch family. The default is row for an op that has a row program,
      and structure, which makes no dispatch, for others.
    }],
    "::kiln::Family", "getFamily", (ins), [{}],
      [{ return ::kiln::defaultFamily($_op); }]>,
    InterfaceMethod<"Floating point operations of one execution.", "int64_t",
      "getFlops", (ins), [{}],
      [{
        int64_t n = 0;
        for (::mlir::Type type : $_op->getResultTypes())
          if (auto tensor = ::llvm::dyn_cast<::mlir::RankedTensorType>(type))
            n += tensor.getNumElements();
        return n;
      }]>,
    InterfaceMethod<[{
      The operand that result `result` accumulates onto or updates in place, or
      -1. Such a tie is part of the op's meaning; row dispatches find further
      ones themselves.
    }],
    "int64_t", "getTiedOperand", (ins "unsigned":$result), [{}], [{ return -1; }]>,
    InterfaceMethod<[{
      True when the op is cheap enough to be repeated in the backward pass
      instead of keeping its result: norms, activations, dropout, casts.
    }],
    "bool", "isCheapToRebuild", (ins), [{}], [{ return false; }]>,
  ];
}

def LaunchArgumentsOpInterface : OpInterface<"LaunchArgumentsOpInterface"> {
  let cppNamespace = "::kiln";
  let description = [{
    An op whose kernel does not depend on the values of some of its attributes:
    every launch passes them as arguments, so that ops which differ in nothing
    else share a kernel (see LaunchArguments.h).
  }];
  let methods = [
    InterfaceMethod<[{
      The names of these attributes, in the order in which a launch passes them.
      Each is an integer, which becomes an i64 argument, or an f64.
    }],
    "::llvm::SmallVector<::llvm::StringRef>", "getLaunchArgumentNames">,
  ];
}

def RowOpInterface : OpInterface<"RowOpInterface"> {
  let cppNamespace = "::kiln";
  let description = [{
    An op of the row family: describes one element of its results as a row
    program (see RowProgram.h).
  }];
  let methods = [
    InterfaceMethod<[{
      The rows and columns that the op iterates over. `flexible` means any
      factorization of the same number of elements will do.
    }],
    "::kiln::RowSpace", "getRowSpace">,
    InterfaceMethod<[{
      Appends the op's row program. Fails, without a diagnostic, when the
      operands cannot be accessed in the builder's row space.
    }],
    "::llvm::LogicalResult", "buildRows", (ins "::kiln::RowBuilder &":$rows)>,
  ];
}

def PrecisionOpInterface : OpInterface<"PrecisionOpInterface"> {
  let cppNamespace = "::kiln";
  let description = [{
    In which element type a forward op keeps its tensors when the model runs in
    mixed precision. It is about memory alone: arithmetic on bf16 elements is f32,
    and what an op writes is rounded once.
  }];
  let methods = [
    InterfaceMethod<[{
      Low: the op runs in the low precision. Full: in f32. Follow: in the wider
      one of its operands, where a parameter or constant has no say.
    }],
    "::kiln::Precision", "getPrecision", (ins), [{}],
      [{ return ::kiln::Precision::Follow; }]>,
    InterfaceMethod<[{
      Whether operand `operand` is f32 in any precision: gains, tables.
    }],
    "bool", "keepsFullOperand", (ins "unsigned":$operand), [{}],
      [{ return false; }]>,
    InterfaceMethod<[{
      Whether result `result` is f32 in any precision: statistics, losses.
    }],
    "bool", "keepsFullResult", (ins "unsigned":$result), [{}],
      [{ return false; }]>,
  ];
}

def WideResultOpInterface : OpInterface<"WideResultOpInterface"> {
  let cppNamespace = "::kiln";
  let description = [{
    An op that adds up many terms in f32 and may leave result `getWideResult()` as
    it is, in f32, though its operands are bf16. So the gradient of a parameter is
    not rounded on its way.
  }];
  let methods = [
    InterfaceMethod<"The index of the result that may be f32.",
    "unsigned", "getWideResult", (ins), [{}], [{ return 0; }]>,
  ];
}

def SequenceOpInterface : OpInterface<"SequenceOpInterface"> {
  let cppNamespace = "::kiln";
  let description = [{
    How a forward op treats the sequences of a batch (see Sequences.h): from it
    follows whether the losses of micro-batches add up to the loss of the batch.
    The defaults are those of an op that computes every element of its results
    from the elements at the same place of its operands.
  }];
  let methods = [
    InterfaceMethod<[{
      Infers the facts of the results from those of the operands. `batch` is the
      number of sequences.
    }],
    "void", "inferSequences",
    (ins "::llvm::ArrayRef<::kiln::SequenceFact>":$operands, "int64_t":$batch,
         "::llvm::MutableArrayRef<::kiln::SequenceFact>":$results), [{}],
      [{ ::kiln::inferElementwise($_op, operands, batch, results); }]>,
    InterfaceMethod<[{
      True when the results are a linear function of all operands together: that
      of a sum of operands is the sum of the results.
    }],
    "bool", "isLinear", (ins), [{}], [{ return false; }]>,
  ];
}

def UpdateOpInterface : OpInterface<"UpdateOpInterface"> {
  let cppNamespace = "::kiln";
  let description = [{
    An optimizer's update of one parameter. The operands are the parameter, the
    optimizer's states of it, the gradient, and then scalars; the results are the
    new parameter and the new states, in the same order, and take their places in
    memory. All have the shape of the parameter. They may be stored in different
    element types, which are computed with in one type.

    With the scalar `apply`, and if that is 0, the results are the old parameter
    and the old states: a skipped step is a matter of data flow.
  }];
  let methods = [
    InterfaceMethod<"The parameter at entry.", "::mlir::Value", "getParameter",
      (ins), [{}], [{ return $_op->getOperand(0); }]>,
    InterfaceMethod<"The gradient of the parameter.", "::mlir::Value",
      "getGradient", (ins), [{}],
      [{ return $_op->getOperand($_op->getNumResults()); }]>,
    InterfaceMethod<"The i64 scalar that is 0 in a skipped step, or null.",
      "::mlir::Value", "getApply">,
    InterfaceMethod<[{
      The optimizer and its options, as users name them.
    }],
    "::kiln::UpdateDescription", "describeUpdate">,
  ];
  let verify = [{ return ::kiln::verifyUpdate($_op); }];
}

def ReferenceOpInterface : OpInterface<"ReferenceOpInterface"> {
  let cppNamespace = "::kiln";
  let description = [{
    The naive evaluation of an op: plain loops in f64; the caller rounds results
    to the type of the evaluation. It is the oracle of every backend, so it
    shares no code with them.
  }];
  let methods = [
    InterfaceMethod<"Evaluates the op on host tensors.",
    "::llvm::LogicalResult", "evaluate",
    (ins "::llvm::ArrayRef<const ::kiln::HostTensor *>":$operands,
         "::llvm::MutableArrayRef<::kiln::HostTensor>":$results)>,
    InterfaceMethod<[{
      What a compiled op rounds, which decides how far its results may be from
      the reference: nothing (a copy, a choice, a sign), only its results, or
      also what it computes inside, such as a sum. The default, inside, gives the
      widest bound.
    }],
    "::kiln::Rounding", "getRounding", (ins), [{}],
      [{ return ::kiln::Rounding::Inside; }]>,
    InterfaceMethod<[{
      True for an operand that an op which rounds inside only subtracts from
      another one, before anything was rounded.
    }],
    "bool", "entersExactly", (ins "unsigned":$operand), [{}],
      [{ return false; }]>,
    InterfaceMethod<[{
      Moves results as rounding of terms inside the op does that no rounding of
      the operands accounts for, because such a term may be far larger than the
      results: a mean that is subtracted, the logarithm of a sum of about one.
      `noise` returns a random number below its argument in magnitude.
    }],
    "void", "addInnerNoise",
    (ins "::llvm::ArrayRef<const ::kiln::HostTensor *>":$operands,
         "::llvm::MutableArrayRef<::kiln::HostTensor>":$results,
         "double":$epsilon, "::kiln::NoiseSource":$noise), [{}], [{}]>,
  ];
}

#endif // KILN_DIALECT_KILN_IR_KILNINTERFACES_TD
