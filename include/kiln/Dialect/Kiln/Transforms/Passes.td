//===- Passes.td - Passes over the kiln dialect ------------*- tablegen -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef KILN_DIALECT_KILN_TRANSFORMS_PASSES_TD
#define KILN_DIALECT_KILN_TRANSFORMS_PASSES_TD

include "mlir/Pass/PassBase.td"

def SetPrecision : Pass<"kiln-set-precision", "::mlir::ModuleOp"> {
  let summary = "Run the forward program in mixed precision";
  let description = [{
    With `precision=bf16`, the tensors of the program of kind `forward` become
    bf16 where their ops say so (`PrecisionOpInterface`): an op of precision low
    gets bf16 operands and results, one of precision full f32 ones, any other
    follows the widest of its operands. States stay f32: they are the masters, and
    what an op reads of them in bf16 is a cast. Gains, tables and statistics stay
    f32, too. With `fp32`, the default, nothing changes. f64 is left alone.

    ```
    %w = kiln.read @w : tensor<4x8xf32>      %w = kiln.read @w : tensor<4x8xf32>
    %y = kiln.matmul %x, %w             ->   %c = kiln.cast %w : tensor<4x8xf32> to tensor<4x8xbf16>
                                             %y = kiln.matmul %x, %c : (tensor<2x4xbf16>, tensor<4x8xbf16>) -> tensor<2x8xbf16>
    ```
  }];
  let options = [Option<"precision", "precision", "std::string", "\"fp32\"", "fp32 or bf16">];
  let dependentDialects = ["::kiln::KilnDialect"];
}

def WidenGradients : Pass<"kiln-widen-gradients", "::mlir::ModuleOp"> {
  let summary = "Do not round the gradients of f32 parameters to bf16";
  let description = [{
    The gradient of `kiln.cast` from f32 to bf16 is a cast back. It moves up through
    sums and changes of shape, and into an op that adds up in f32 anyway
    (`WideResultOpInterface`), whose result then is f32: so every contribution to the
    gradient of a master reaches it in f32. Runs behind autodiff.

    ```
    %d = kiln.matmul %x, %dy trans_a : (..bf16) -> tensor<4x8xbf16>
    %g = kiln.cast %d : tensor<4x8xbf16> to tensor<4x8xf32>
      -> %g = kiln.matmul %x, %dy trans_a : (..bf16) -> tensor<4x8xf32>
    ```
  }];
  let dependentDialects = ["::kiln::KilnDialect"];
}

def Autodiff : Pass<"kiln-autodiff", "::mlir::ModuleOp"> {
  let summary = "Build the program that returns the loss and its gradients";
  let description = [{
    Copies the program of kind `forward` to `@train` and appends its reverse-mode
    derivative, driven by activity: only values that depend on a trainable state
    and influence the loss get a gradient. A `kiln.phase backward` separates the
    two. `@train` returns the loss and one gradient per trainable state (result
    attribute `kiln.gradient`). A trainable state without a gradient is an error.

    Gradients of a value with several uses are added in the order in which the
    backward pass produces them; pads that tile a tensor become a concat.

    With `microbatches` > 1, the pass first proves that the losses of that many
    micro-batches add up to the loss of the batch (SplitLoss.h). Each term of the
    loss must be a sum over the sequences that is linear in `loss_scale`, or depend
    on neither inputs nor `loss_scale`; the latter are divided by the number of
    micro-batches in `@train`. Otherwise the pass fails and names the op that breaks
    the proof.
  }];
  let options = [
    Option<"microbatches", "microbatches", "int64_t", "1", "number of micro-batches per step, as in kiln-build-step">,
  ];
  let dependentDialects = ["::kiln::KilnDialect"];
}

def CompressResiduals : Pass<"kiln-compress-residuals", "::mlir::ModuleOp"> {
  let summary = "Keep small encodings of residuals instead of their values";
  let description = [{
    In `@train`, a value that the backward pass reads only in one of these ways is
    replaced by an encoding that the forward pass makes of it:

    - `relu_grad`: one bit per element, exactly; needs no `lossy`;
    - `gelu_grad`, `silu_grad`, with `fewbit:B`: B bits per element, the step of
      the best piecewise-constant derivative (`bucket_encode`, `bucket_decode`);
    - weight gradients x^T dy, with `rmm:RHO`: the sketch s^T x, RHO times the
      rows of x (`sketch_rows`); the backward pass sketches dy with the same random
      signs and estimates the product by (s^T x)^T (s^T dy), which is right on
      average. Rows are mixed within a sequence only, and the signs depend on what
      dropout's mask depends on: the estimate does not depend on the number of
      micro-batches.

    Encodings are made only where fewer bytes are kept: with `rebuild`, a value that
    `kiln-rebuild-activations` makes again from what is kept anyway costs nothing.
    What was done is listed by the module's `kiln.encoded`. Runs between
    autodiff and rebuild. Its cost is linear in the program.

    ```
    %h = kiln.matmul %x, %w                      %h = kiln.matmul %x, %w
    %a = kiln.gelu %h                            %c = kiln.bucket_encode %h {borders = ...}
    kiln.phase backward                   ->     %a = kiln.gelu %h
    %dh = kiln.gelu_grad %h, %da                 kiln.phase backward
                                                 %dh = kiln.bucket_decode %c, %da {levels = ...}
    ```
  }];
  let options = [
    Option<"lossy", "lossy", "std::string", "\"\"", "as in kilnc --lossy: fewbit:B,rmm:RHO">,
    Option<"rebuild", "rebuild", "bool", "true", "kiln-rebuild-activations runs next">,
  ];
  let dependentDialects = ["::kiln::KilnDialect"];
}

def RebuildActivations : Pass<"kiln-rebuild-activations", "::mlir::ModuleOp"> {
  let summary = "Repeat cheap forward ops in the backward pass";
  let description = [{
    The output of a norm or an activation is not kept when the backward pass
    needs the op's input anyway: a `kiln.recompute` in front of the op that does
    rebuilds it, bit for bit, and the weight gradients that want it move behind
    that op, so that one kernel does both. Runs between autodiff and step.
  }];
  let dependentDialects = ["::kiln::KilnDialect"];
}

def BuildStep : Pass<"kiln-build-step", "::mlir::ModuleOp"> {
  let summary = "Turn gradients into state updates";
  let description = [{
    Wraps the micro-batch into `kiln.accumulate`, adds clipping and the
    optimizer's states and updates. `kiln-autodiff` must have run with the same
    `microbatches`: it proves that the losses of micro-batches add up to the loss
    of the batch and leaves their number on `@train` (`kiln.microbatches`). `@train`
    then returns the loss and, with clipping, the gradient norm. Without clipping
    and with one micro-batch each update directly follows its gradient.
  }];
  let options = [
    Option<"optimizer", "optimizer", "std::string", "\"adamw\"", "NAME[:key=value,...]: adamw, adam, sgd, momentum, nesterov, lion">,
    Option<"clip", "clip", "bool", "true", "compute the gradient norm and scale by clip / norm">,
    Option<"microbatches", "microbatches", "int64_t", "1", "number of micro-batches per step">,
    Option<"keepGradients", "keep-gradients", "bool", "false", "also return the gradients">,
  ];
  let dependentDialects = ["::kiln::KilnDialect"];
}

def BuildEvaluation : Pass<"kiln-build-eval", "::mlir::ModuleOp"> {
  let summary = "Add the programs that evaluate and generate";
  let description = [{
    `@evaluate` is the forward program without dropout; `@generate` returns the
    logits of the row named by its argument `position`. With `remove-forward` the
    forward program is erased.
  }];
  let options = [
    Option<"evaluation", "evaluation", "bool", "true", "build @evaluate and @generate">,
    Option<"removeForward", "remove-forward", "bool", "true", "erase the forward program">,
  ];
  let dependentDialects = ["::kiln::KilnDialect"];
}

def ExpandLoss : Pass<"kiln-expand-loss", "::mlir::ModuleOp"> {
  let summary = "Expand head and loss into plain ops per chunk of rows";
  let description = [{
    `linear_cross_entropy` works on `rows` rows at a time, so that the logits
    never exist as a whole; weight gradients accumulate over the chunks. An op
    without `rows` gets as many as make chunks of equal size with at most `logits`
    elements, but 64 rows at least.
  }];
  let options = [
    Option<"logits", "logits", "int64_t", "16777216", "elements of a chunk of logits: 64 MiB of f32">,
  ];
  let dependentDialects = ["::kiln::KilnDialect"];
}

def SetNumerics : Pass<"kiln-set-numerics", "::mlir::ModuleOp"> {
  let summary = "Fix everything that can change rounding";
  let description = [{
    From shapes and the number of threads alone: BLAS grids, attention's key tile,
    chunks of column reductions, and which sums a matrix product
    or scatter accumulates itself. No later pass changes any of these.
  }];
  let options = [
    Option<"maxThreads", "max-threads", "int64_t", "2", "threads the executable may use">,
  ];
  let dependentDialects = ["::kiln::KilnDialect"];
}

def Recompute : Pass<"kiln-recompute", "::mlir::ModuleOp"> {
  let summary = "Repeat forward stages in the backward pass by a named policy";
  let description = [{
    Cuts the forward pass of `@train` into a chain of stages and keeps only some
    of the stages' inputs; what else the backward pass reads is repeated by a
    `kiln.recompute` right in front of its reader. `full` keeps every stage's
    input, `blocks` every layer's, `sqrt` those of about sqrt(n) segments, `poor`
    the program's alone. The gradients keep every bit. Runs on the planned level,
    where everything that can change rounding is an attribute of the op already.
  }];
  let options = [
    Option<"policy", "policy", "std::string", "\"none\"", "none, full, blocks, sqrt or poor">,
  ];
  let dependentDialects = ["::kiln::KilnDialect"];
}

def OffloadStates : Pass<"kiln-offload-states", "::mlir::ModuleOp"> {
  let summary = "Move states to host memory";
  let description = [{
    `optimizer`: parameters and moments lie on the host and the updates run there,
    after the method of ZeRO-Offload. A gradient is copied out as soon as it is
    complete; a `mirror` state on the device, which all programs read, gets the
    new parameter back. Two gradients may be under way before the first update
    waits for its own.

    `parameters`: parameters are stored on the host alone. Each group of readers
    gets a copy (kiln-place-copies); an update on the device sends the result back.
    Frozen parameters and buffers that no program writes move as well: they have no
    update.

    Exact: every op computes what it did, on the same values.
  }];
  let options = [
    Option<"optimizer", "optimizer", "bool", "false", "moments and updates">,
    Option<"parameters", "parameters", "bool", "false", "parameters">,
  ];
  let dependentDialects = ["::kiln::KilnDialect"];
}

def OffloadActivations : Pass<"kiln-offload-activations", "::mlir::ModuleOp"> {
  let summary = "Mark what the forward pass leaves to be moved to host memory";
  let description = [{
    Gives every op of the forward pass of `@train` whose result waits for the
    backward pass a `kiln.offload` that says so; kiln-place-copies acts on it.
    What is small (statistics of rows) stays.
  }];
  let options = [
    Option<"lag", "lag", "int64_t", "6", "commands that run before the copy to the host must be complete">,
    Option<"lead", "lead", "int64_t", "6", "commands that run between the beginning of the copy back and its first reader">,
  ];
  let dependentDialects = ["::kiln::KilnDialect"];
}

def PlaceCopies : Pass<"kiln-place-copies", "::mlir::ModuleOp"> {
  let summary = "Copy tensors between device and host where their marks say";
  let description = [{
    Runs on the dispatched level, where values are what kernels really leave in
    memory. A result that `kiln.offload` names is copied out when it is made, and
    back across the longest stretch of commands without a reader. What reads a state on the
    host from the device gets a copy of it, one for each group of readers that
    are near each other; `kiln.prefetch` has the leads, 6 without.
  }];
  let dependentDialects = ["::kiln::KilnDialect"];
}

def FormDispatches : Pass<"kiln-form-dispatches", "::mlir::ModuleOp"> {
  let summary = "Group ops into dispatches";
  let description = [{
    Every op ends in exactly one `kiln.dispatch`, stays as a library call
    (`matmul`), or is a view. Row ops of one iteration space are fused where this
    keeps the order of everything else; fusion never changes a bit.

    With `epilogues`, a row dispatch that reads a matrix product and computes each
    element from elements in the same place, row or column moves into a dispatch
    of family gemm with the product, if all else that it reads exists by then.
  }];
  let options = [
    Option<"fuse", "fuse", "bool", "true", "fuse row ops; off gives one op per dispatch and no epilogues">,
    Option<"epilogues", "epilogues", "bool", "true", "run row ops on the tiles of the matrix product that they read">,
  ];
  let dependentDialects = ["::kiln::KilnDialect"];
}

def VerifyLevel : Pass<"kiln-verify-level", "::mlir::ModuleOp"> {
  let summary = "Check the invariant of a level of the pipeline";
  let options = [
    Option<"level", "level", "std::string", "\"\"", "forward, step, planned or dispatched">,
  ];
}

#endif // KILN_DIALECT_KILN_TRANSFORMS_PASSES_TD
