//===- KilnInterfaces.td - Op interfaces of the dialect ----*- tablegen -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Passes query ops through these interfaces instead of testing for op classes.
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
      Builds the gradient of every operand `i` for which `wanted[i]` is true, and
      stores it in `gradients[i]`. `cotangents` has the cotangents of the results,
      with a null Value for each result that does not influence the loss. A
      gradient that stays null is zero.
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
    An op with a dispatch family, a cost, and operands that it updates in place.
  }];
  let methods = [
    InterfaceMethod<[{
      Returns the dispatch family. The default is row for an op that has a row
      program, kernel for an op that has its own kernel, and structure, which
      creates no dispatch, for others.
    }],
    "::kiln::Family", "getFamily", (ins), [{}],
      [{ return ::kiln::defaultFamily($_op); }]>,
    InterfaceMethod<"Returns the floating-point operations of one execution.", "int64_t",
      "getFlops", (ins), [{}],
      [{
        int64_t n = 0;
        for (::mlir::Type type : $_op->getResultTypes())
          if (auto tensor = ::llvm::dyn_cast<::mlir::RankedTensorType>(type))
            n += tensor.getNumElements();
        return n;
      }]>,
    InterfaceMethod<[{
      Returns the operand that result `result` accumulates onto or updates in
      place, or -1. Such a tie is part of the semantics of the op. Row dispatches
      may reuse operand buffers beyond these ties.
    }],
    "int64_t", "getTiedOperand", (ins "unsigned":$result), [{}], [{ return -1; }]>,
    InterfaceMethod<[{
      Returns true if repeating the op in the backward pass is cheaper than
      keeping its result: norms, activations, dropout, casts.
    }],
    "bool", "isCheapToRebuild", (ins), [{}], [{ return false; }]>,
    InterfaceMethod<[{
      Returns true if the op reads at most one row of each operand per row of its
      row space, so its cost does not grow with the size of the tables that it
      gathers from.
    }],
    "bool", "gathersRows", (ins), [{}], [{ return false; }]>,
  ];
}

def CollectiveOpInterface : OpInterface<"CollectiveOpInterface"> {
  let cppNamespace = "::kiln";
  let description = [{
    An op that all ranks of an axis of the mesh execute together, with one result
    per operand.
  }];
  let methods = [
    InterfaceMethod<"Returns what the ranks compute.", "::kiln::Collective", "getCollective">,
    InterfaceMethod<"Returns the name of the axis.", "::mlir::StringAttr", "getAxisAttr">,
  ];
}

def KernelOpInterface : OpInterface<"KernelOpInterface"> {
  let cppNamespace = "::kiln";
  let description = [{
    An op that is compiled to a separate kernel, because it has no row program and
    is neither a GEMM nor a view. Each backend has a table that maps the op name to
    an emitter of the kernel. The schedule and the planner query the properties of
    the kernel through this interface and `DispatchableOpInterface`.
  }];
  let methods = [
    InterfaceMethod<[{
      Returns the name of the kernel family. It is printed by dispatches and is
      part of kernel names.
    }],
    "::llvm::StringRef", "getKernelFamily">,
    InterfaceMethod<[{
      Returns true if the kernel can read operand `operand` with a row pitch larger
      than the row length. Rows run along the last dimension.
    }],
    "bool", "readsPitched", (ins "unsigned":$operand), [{}],
      [{ return false; }]>,
    InterfaceMethod<[{
      Returns true if the kernel can write result `result` with a row pitch larger
      than the row length.
    }],
    "bool", "writesPitched", (ins "unsigned":$result), [{}],
      [{ return false; }]>,
    InterfaceMethod<[{
      Returns true if each launch selects whether the kernel adds to the contents
      of result 0 or starts from zero. The kernel then has one more argument after
      the others, which is nonzero if it adds. The operand `getTiedOperand(0)`, if
      present, is the value that it adds to.
    }],
    "bool", "accumulatesInPlace", (ins), [{}], [{ return false; }]>,
    InterfaceMethod<[{
      Returns true if the arithmetic of the kernel takes long enough that the
      planner ends stages at it and overlaps transfers with it.
    }],
    "bool", "isHeavy", (ins), [{}], [{ return false; }]>,
  ];
}

def LaunchArgumentsOpInterface : OpInterface<"LaunchArgumentsOpInterface"> {
  let cppNamespace = "::kiln";
  let description = [{
    An op whose kernel does not depend on the values of some of its attributes.
    Every launch passes them as arguments, so that ops that differ only in these
    attributes share a kernel (see LaunchArguments.h).
  }];
  let methods = [
    InterfaceMethod<[{
      Returns the names of these attributes, in the order of the launch arguments.
      Each attribute is an integer, which is passed as an i64 argument, or an f64.
    }],
    "::llvm::SmallVector<::llvm::StringRef>", "getLaunchArgumentNames">,
  ];
}

def RowOpInterface : OpInterface<"RowOpInterface"> {
  let cppNamespace = "::kiln";
  let description = [{
    An op that describes the computation of one element of its results by a row
    program (see RowProgram.h).
  }];
  let methods = [
    InterfaceMethod<[{
      Returns the rows and columns that the op iterates over. If `flexible` is
      set, any rows and columns with the same number of elements are valid.
    }],
    "::kiln::RowSpace", "getRowSpace">,
    InterfaceMethod<[{
      Appends the row program of the op to the builder. Fails without a diagnostic
      if the operands cannot be accessed in the row space of the builder.
    }],
    "::llvm::LogicalResult", "buildRows", (ins "::kiln::RowBuilder &":$rows)>,
  ];
}

def RowNumberOpInterface : OpInterface<"RowNumberOpInterface"> {
  let cppNamespace = "::kiln";
  let description = [{
    An op with a row program in which the results of a row depend on the number of
    the row, as masks of dropout do.
  }];
  let methods = [
    InterfaceMethod<[{
      Makes the op compute a shard of its rows. The tensors of the op already have
      the rows rank*R, ..., rank*R + R - 1 of tensors with `rows` rows, where R is
      their number of rows and `rank` the index of this rank, an i32 scalar.
    }],
    "void", "setShardOfRows", (ins "::mlir::Value":$rank, "int64_t":$rows)>,
  ];
}

def GemmOpInterface : OpInterface<"GemmOpInterface"> {
  let cppNamespace = "::kiln";
  let description = [{
    A GEMM with or without an epilogue: `kiln.matmul`, an op of KilnVendorOps.td, or
    a `kiln.dispatch` of family gemm. The planner, the cost model, the schedule and
    the interpreter handle all GEMMs through this interface.

    The places of a GEMM command are those of its left operand, its right operand,
    the matrix that it stores, the epilogue operands and the epilogue results, in
    this order.
  }];
  // kiln.dispatch has this interface, but only a dispatch of the family 'gemm'
  // is a GEMM.
  let extraClassOf = "return $_op.isGemm();";
  let methods = [
    InterfaceMethod<"Returns true if the op is a GEMM.", "bool", "isGemm", (ins), [{}],
      [{ return true; }]>,
    InterfaceMethod<"Returns the kind of the epilogue.", "::kiln::EpilogueKind", "getEpilogueKind",
      (ins), [{}], [{
        return $_op.getVendorEpilogue() == ::kiln::abi::GemmEpilogue::None
                   ? ::kiln::EpilogueKind::None : ::kiln::EpilogueKind::Vendor;
      }]>,
    InterfaceMethod<"Returns the epilogue that the vendor library applies before it rounds the result.",
      "::kiln::abi::GemmEpilogue", "getVendorEpilogue", (ins), [{}],
      [{ return ::kiln::abi::GemmEpilogue::None; }]>,
    InterfaceMethod<"Returns the left operand.", "::mlir::Value", "getLeft", (ins), [{}],
      [{ return $_op->getOperand(0); }]>,
    InterfaceMethod<"Returns the right operand.", "::mlir::Value", "getRight", (ins), [{}],
      [{ return $_op->getOperand(1); }]>,
    InterfaceMethod<"Returns the matrix that the GEMM accumulates onto, or null.", "::mlir::Value",
      "getAccumulate", (ins), [{}], [{ return {}; }]>,
    InterfaceMethod<[{
      Returns the result that is the matrix of the GEMM without an epilogue on
      tiles. Returns null if only the kernel of such an epilogue reads that matrix.
    }], "::mlir::Value", "getMatrix", (ins), [{}], [{ return $_op->getResult(0); }]>,
    InterfaceMethod<"Returns the type of the matrix that the GEMM stores.", "::mlir::RankedTensorType",
      "getMatrixType", (ins), [{}],
      [{ return ::llvm::cast<::mlir::RankedTensorType>($_op->getResult(0).getType()); }]>,
    InterfaceMethod<"Returns the operands of the epilogue.", "::mlir::OperandRange",
      "getEpilogueOperands", (ins), [{}], [{
        auto operands = $_op->getOperands().drop_front(2);
        return $_op.getAccumulate() ? operands.drop_back() : operands;
      }]>,
    InterfaceMethod<"Returns the results of the epilogue, without the matrix.", "::mlir::ResultRange",
      "getEpilogueResults", (ins), [{}], [{ return $_op->getResults().drop_front(); }]>,
    InterfaceMethod<[{
      Returns the bias vector of a vendor epilogue: the operand that is added to
      each row, or the result with the sums of one operand. Returns null if the
      epilogue has no bias.
    }], "::mlir::Value", "getBiasRow", (ins), [{}], [{ return {}; }]>,
    InterfaceMethod<"Returns the operand or result of a vendor epilogue that is the input of gelu, or null.", "::mlir::Value", "getAux",
      (ins), [{}], [{ return {}; }]>,
    InterfaceMethod<"Returns true if the left operand is transposed.", "bool", "getTransA">,
    InterfaceMethod<"Returns true if the right operand is transposed.", "bool", "getTransB">,
    InterfaceMethod<"Returns the tile counts over rows and columns, or null if they are not chosen yet.",
      "::mlir::DenseI64ArrayAttr", "getGridAttr">,
    InterfaceMethod<"Sets the tile counts over rows and columns.", "void", "setGridAttr",
      (ins "::mlir::DenseI64ArrayAttr":$grid)>,
    InterfaceMethod<"Returns the kernel that computes the tiles on a CPU.", "::kiln::abi::GemmKernel",
      "getGemmKernel", (ins), [{}], [{ return ::kiln::abi::GemmKernel::Blas; }]>,
    InterfaceMethod<"Returns the number of rows of one result matrix.", "int64_t", "getM", (ins), [{}], [{
        auto type = tensorTypeOf($_op.getLeft());
        return type.getDimSize(type.getRank() - ($_op.getTransA() ? 1 : 2));
      }]>,
    InterfaceMethod<"Returns the number of columns of one result matrix.", "int64_t", "getN", (ins), [{}], [{
        auto type = tensorTypeOf($_op.getRight());
        return type.getDimSize(type.getRank() - ($_op.getTransB() ? 2 : 1));
      }]>,
    InterfaceMethod<"Returns the inner extent, which is the number of terms of each sum.", "int64_t", "getK", (ins), [{}], [{
        auto type = tensorTypeOf($_op.getLeft());
        return type.getDimSize(type.getRank() - ($_op.getTransA() ? 2 : 1));
      }]>,
    InterfaceMethod<"Returns the number of matrices in the batch.", "int64_t", "getBatch", (ins), [{}], [{
        int64_t batch = 1;
        for (int64_t size : tensorTypeOf($_op.getLeft()).getShape().drop_back(2))
          batch *= size;
        return batch;
      }]>,
  ];
}

def PrecisionOpInterface : OpInterface<"PrecisionOpInterface"> {
  let cppNamespace = "::kiln";
  let description = [{
    A forward op that determines the element types of its tensors when the model
    runs in mixed precision. Only storage is affected: arithmetic on bf16 elements
    is in f32, and an op rounds each result once.
  }];
  let methods = [
    InterfaceMethod<[{
      Returns the precision of the op. Low: the op runs in low precision. Full:
      the op runs in f32. Follow: the op runs in the widest type of its operands,
      without regard to parameters and constants.
    }],
    "::kiln::Precision", "getPrecision", (ins), [{}],
      [{ return ::kiln::Precision::Follow; }]>,
    InterfaceMethod<[{
      Returns true if operand `operand` is f32 in any precision, such as the gain
      of a norm or the table of a lookup.
    }],
    "bool", "keepsFullOperand", (ins "unsigned":$operand), [{}],
      [{ return false; }]>,
    InterfaceMethod<[{
      Returns true if result `result` is f32 in any precision, such as statistics
      and losses.
    }],
    "bool", "keepsFullResult", (ins "unsigned":$result), [{}],
      [{ return false; }]>,
  ];
}

def WideResultOpInterface : OpInterface<"WideResultOpInterface"> {
  let cppNamespace = "::kiln";
  let description = [{
    An op that sums many terms in f32 and may return the result
    `getWideResult()` in f32 although its operands are bf16. This avoids rounding
    the gradients of parameters.
  }];
  let methods = [
    InterfaceMethod<"Returns the index of the result that may be f32.",
    "unsigned", "getWideResult", (ins), [{}], [{ return 0; }]>,
  ];
}

def SequenceOpInterface : OpInterface<"SequenceOpInterface"> {
  let cppNamespace = "::kiln";
  let description = [{
    A forward op with a transfer function for the sequence analysis, which proves
    that the losses of micro-batches add up to the loss of the batch (see
    Sequences.h). The defaults are correct for elementwise ops.
  }];
  let methods = [
    InterfaceMethod<[{
      Infers the facts of the results from the facts of the operands. `batch` is
      the number of sequences.
    }],
    "void", "inferSequences",
    (ins "::llvm::ArrayRef<::kiln::SequenceFact>":$operands, "int64_t":$batch,
         "::llvm::MutableArrayRef<::kiln::SequenceFact>":$results), [{}],
      [{ ::kiln::inferElementwise($_op, operands, batch, results); }]>,
    InterfaceMethod<[{
      Returns true if the results are a linear function of all operands together:
      f(a + b) = f(a) + f(b) for tuples of operands a and b.
    }],
    "bool", "isLinear", (ins), [{}], [{ return false; }]>,
  ];
}

def UpdateOpInterface : OpInterface<"UpdateOpInterface"> {
  let cppNamespace = "::kiln";
  let description = [{
    The update of one parameter by an optimizer. The operands are the parameter,
    its optimizer states, the gradient, and then scalars. The results are the new
    parameter and the new states in the same order, and are updated in place. All
    tensors have the shape of the parameter. They may have different element
    types, which must have the same compute type. An update may have one more
    result, the copy of the new parameter in a narrower type.

    If the scalar `apply` is present and 0, the step is skipped: the results are
    the old parameter and the old states.
  }];
  let methods = [
    InterfaceMethod<"Returns the old parameter.", "::mlir::Value", "getParameter",
      (ins), [{}], [{ return $_op->getOperand(0); }]>,
    InterfaceMethod<"Returns the gradient of the parameter.", "::mlir::Value",
      "getGradient", (ins), [{}],
      [{ return $_op->getOperand($_op.getNumUpdated()); }]>,
    InterfaceMethod<"Returns the copy of the new parameter, or null.",
      "::mlir::Value", "getCopy">,
    InterfaceMethod<"Returns the number of updated tensors: the parameter and its states.",
      "unsigned", "getNumUpdated", (ins), [{}],
      [{ return $_op->getNumResults() - ($_op.getCopy() ? 1 : 0); }]>,
    InterfaceMethod<"Returns the i64 scalar that is 0 in a skipped step, or null.",
      "::mlir::Value", "getApply">,
    InterfaceMethod<[{
      Returns the name of the optimizer and its options as on the command line.
    }],
    "::kiln::UpdateDescription", "describeUpdate">,
  ];
  let verify = [{ return ::kiln::verifyUpdate($_op); }];
}

def ReferenceOpInterface : OpInterface<"ReferenceOpInterface"> {
  let cppNamespace = "::kiln";
  let description = [{
    An op with a reference evaluation in plain f64 loops. The caller rounds the
    results to the evaluation type. The reference is the test oracle of every
    backend, so it shares no code with them.
  }];
  let methods = [
    InterfaceMethod<"Evaluates the op on host tensors.",
    "::llvm::LogicalResult", "evaluate",
    (ins "::llvm::ArrayRef<const ::kiln::HostTensor *>":$operands,
         "::llvm::MutableArrayRef<::kiln::HostTensor>":$results)>,
    InterfaceMethod<[{
      Returns which values a compiled op rounds, which bounds the difference of
      its results from the reference. Nothing: the op copies, selects or negates
      values. Results: the op rounds only its results. Inside: the op also rounds
      intermediate values, such as sums. The default is Inside, which gives the
      widest bound.
    }],
    "::kiln::Rounding", "getRounding", (ins), [{}],
      [{ return ::kiln::Rounding::Inside; }]>,
    InterfaceMethod<[{
      Returns the number of terms of the longest sum that the op computes. The
      rounding error grows with it.
    }],
    "int64_t", "getLongestSum", (ins), [{}], [{ return 1; }]>,
    InterfaceMethod<[{
      Returns true for an operand of an op with Rounding::Inside that the op only
      uses in a difference with another operand or a mean, before any rounding.
      Such an operand is not perturbed.
    }],
    "bool", "entersExactly", (ins "unsigned":$operand), [{}],
      [{ return false; }]>,
    InterfaceMethod<[{
      Perturbs results by the rounding of those intermediate values that may be
      far larger than the results, such as a mean that is subtracted, or the sum
      of about one of a logarithm. Perturbing the operands does not model these.
      `noise` returns a random number below its argument in magnitude.
    }],
    "void", "addInnerNoise",
    (ins "::llvm::ArrayRef<const ::kiln::HostTensor *>":$operands,
         "::llvm::MutableArrayRef<::kiln::HostTensor>":$results,
         "double":$epsilon, "::kiln::NoiseSource":$noise), [{}], [{ return; }]>,
  ];
}

#endif // KILN_DIALECT_KILN_IR_KILNINTERFACES_TD
