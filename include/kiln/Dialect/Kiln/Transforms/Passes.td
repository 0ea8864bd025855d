//===- Passes.td - Passes over the kiln dialect ------------*- tablegen -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef KILN_DIALECT_KILN_TRANSFORMS_PASSES_TD
#define KILN_DIALECT_KILN_TRANSFORMS_PASSES_TD

include "mlir/Pass/PassBase.td"

def AddLora : Pass<"kiln-add-lora", "::mlir::ModuleOp"> {
  let summary = "Freeze a model and train low-rank adapters of its linear layers";
  let description = [{
    Implements LoRA (arXiv 2106.09685). Every parameter of the model is frozen. A
    linear layer is a matmul of a value and a parameter that it reads. Each linear
    layer that `lora` selects gets two trainable states: A of shape [r, inputs],
    drawn from U(-1/sqrt(inputs), 1/sqrt(inputs)), and B of shape [outputs, r],
    which is zero. A weight that several matmuls read has one adapter. The layer
    computes

    ```
    %y = kiln.matmul %x, %w          %d = kiln.dropout %x, %rng                  // only with dropout
                                     %p = kiln.matmul %d, %a trans_b
                              ->     %s = kiln.scale %p by alpha / r
                                     %l = kiln.matmul %s, %b trans_b
                                     %y = kiln.matmul %x, %w accumulate %l
    ```

    A target is the last part of the name of a layer, such as `c_attn`, or
    `all-linear`. Without targets, those that PEFT uses for the type of the model
    are selected. A target that selects no layer is an error. The states have the
    names that PEFT gives them. The attribute `kiln.lora` of the module has the
    options and the selected targets. Runs on the forward level.
  }];
  let options = [Option<"lora", "lora", "std::string", "\"\"",
    "options as in kilnc --lora: r=8,alpha=16,targets=c_attn:c_proj,dropout=0.05,rslora=on; empty: none">];
  let dependentDialects = ["::kiln::KilnDialect"];
}

def PartitionLayers : Pass<"kiln-partition-layers", "::mlir::ModuleOp"> {
  let summary = "Divide the matrices of layers over ranks";
  let description = [{
    Implements tensor parallelism (arXiv 1909.08053) over the axis `tp` of `mesh`.
    The ranks of this axis compute with the same tokens. Between two matmuls with
    parameters, the columns of values are divided: each rank has some columns of the
    first parameter and the same rows of the second one, whose matmul yields partial
    sums. Ops between them must compute each column from the same column, or be
    attention, whose heads are divided. Parameters that are divided get the attribute
    `shard`; columns that do not divide evenly are padded with zeros. A parameter that
    the program writes is not divided.

    ```
    %h = kiln.matmul %x, %w1          %s = kiln.share %x over "tp"
    %a = kiln.gelu %h          ->     %h = kiln.matmul %s, %w1
    %y = kiln.matmul %a, %w2          %a = kiln.gelu %h
                                      %p = kiln.matmul %a, %w2
                                      %y = kiln.all_reduce %p over "tp"
    ```

    Tables that only embeddings and the linear head read are divided by rows: the
    vocabulary. A lookup yields zeros for the rows of other ranks, and is summed, and
    the loss is combined from those of the ranks (`kiln.shard_softmax`). Masks of
    dropout are those of one rank. Runs on the forward level, before the program is
    differentiated; the derivative of `kiln.share` sums gradients over the ranks. An
    attention op with fewer key heads than ranks is an error.
  }];
  let options = [Option<"mesh", "mesh", "std::string", "\"\"", "ranks of each axis, such as tp=2; empty: one rank">];
  let dependentDialects = ["::kiln::KilnDialect"];
}

def SetPrecision : Pass<"kiln-set-precision", "::mlir::ModuleOp"> {
  let summary = "Run the forward program in mixed precision";
  let description = [{
    With `precision=bf16` or `fp16`, the tensors of the program of kind `forward`
    become bf16 or f16 where `PrecisionOpInterface` of their ops allows it: an op of
    precision low gets narrow operands and results, an op of precision full gets f32
    operands and results, and any other op follows the widest of its operands. States
    remain f32, because they are the master copies; an op that reads a state in the
    narrow type reads a cast of it. Gains, tables and statistics remain f32 as well.
    With `fp32`, the default, the pass changes nothing. It never changes f64 tensors.

    ```
    %w = kiln.read @w : tensor<4x8xf32>      %w = kiln.read @w : tensor<4x8xf32>
    %y = kiln.matmul %x, %w             ->   %c = kiln.cast %w : tensor<4x8xf32> to tensor<4x8xbf16>
                                             %y = kiln.matmul %x, %c : (tensor<2x4xbf16>, tensor<4x8xbf16>) -> tensor<2x8xbf16>
    ```
  }];
  let options = [Option<"precision", "precision", "std::string", "\"fp32\"", "fp32, bf16 or fp16">];
  let dependentDialects = ["::kiln::KilnDialect"];
}

def NarrowFrozenStates : Pass<"kiln-narrow-frozen-states", "::mlir::ModuleOp"> {
  let summary = "Store frozen parameters in the type of the weight files";
  let description = [{
    The attribute `kiln.model` of the module may have an entry `storage`, the type in
    which the weight files of the model store its parameters. A frozen parameter of a
    wider type gets this type, so that no wider copy of it exists. Values from files
    of this type do not change; initial values, and values from files of a wider type,
    are rounded to it. Parameters that a program writes and parameters of integers do
    not change. Casts of the parameter read the new type;
    an embedding looks up narrow rows; other readers get a cast. Runs after
    kiln-set-precision, which decides which readers read casts.

    ```
    %w = kiln.read @w : tensor<4x8xf32>
    %c = kiln.cast %w : tensor<4x8xf32> to tensor<4x8xbf16>   ->   %c = kiln.read @w : tensor<4x8xbf16>
    ```
  }];
  let dependentDialects = ["::kiln::KilnDialect"];
}

def QuantizeWeights : Pass<"kiln-quantize-weights", "::mlir::ModuleOp"> {
  let summary = "Store frozen weights in a quantized encoding";
  let description = [{
    A frozen matrix that only matmuls read, as their right operand, and that no program
    writes is stored in the given encoding, and `kiln.dequantize` decodes it for its
    readers. Tables of
    embeddings, classifiers and matrices of f64 are not quantized. Inputs of a layer
    that `int8` stores as outliers are the columns of the matrix if the matmul
    transposes it, and its rows otherwise. Runs after
    kiln-set-precision and kiln-narrow-frozen-states, which decide the types that
    matmuls read, and before kiln-autodiff, so that gradients decode weights again.

    ```
    %w = kiln.read @w : tensor<8x8xf32>      ->   %c = kiln.read @w : tensor<44xi8>
    %y = kiln.matmul %x, %w                       %w = kiln.dequantize %c, %table
                                                  %y = kiln.matmul %x, %w
    ```
  }];
  let options = [
    Option<"encoding", "encoding", "std::string", "\"nf4\"", "encoding of the weights: nf4, or int8[:outliers=N][,scales=block|row]">,
  ];
  let dependentDialects = ["::kiln::KilnDialect"];
}

def WidenGradients : Pass<"kiln-widen-gradients", "::mlir::ModuleOp"> {
  let summary = "Do not round the gradients of f32 parameters to a narrow type";
  let description = [{
    The gradient of `kiln.cast` from f32 to bf16 is a cast back to f32. The pass
    moves this cast up through sums and changes of shape, and into ops that
    accumulate in f32 (`WideResultOpInterface`), whose result type becomes f32.
    Therefore every contribution to the gradient of a master copy reaches it in f32.
    Runs after autodiff.

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
    derivative. Activity analysis restricts it: only values that depend on a
    trainable state and influence the loss get a gradient. A `kiln.phase backward`
    separates the forward pass from the backward pass. `@train` returns the loss and one gradient per trainable state (result
    attribute `kiln.gradient`). A trainable state without a gradient is an error.

    Gradients of a value with several uses are added in the order in which the
    backward pass produces them; pads that tile a tensor become a concat.

    With `microbatches` > 1, the pass first proves that the losses of that many
    micro-batches add up to the loss of the batch (SplitLoss.h). Each term of the
    loss must be a sum over the sequences that is linear in `loss_scale`, or depend
    on neither inputs nor `loss_scale`; the latter are divided by the number of
    micro-batches in `@train`. Otherwise the pass fails and names the op that breaks
    the proof.

    With `scale-gradients`, `@train` has the input `gradient_scale`, and all
    gradients are multiplied by it: the gradient of the loss with respect to itself
    is `gradient_scale` instead of 1. `kiln-build-step` then unscales them.

    With `divide-rows`, ranks of the axis `tp` divide rows between divided layers
    before the program is differentiated (DivideRows.h). If all uses of a parameter
    are in divided computations, its gradient is left as the part of each rank: the
    result attribute `kiln.partial` names the axis, and `kiln-build-step` sums it.
  }];
  let options = [
    Option<"scaleGradients", "scale-gradients", "bool", "false", "multiply gradients by the input gradient_scale">,
    Option<"microbatches", "microbatches", "int64_t", "1", "number of micro-batches per step, as in kiln-build-step">,
    Option<"divideRows", "divide-rows", "bool", "false", "divide rows between divided layers over the axis tp">,
  ];
  let dependentDialects = ["::kiln::KilnDialect"];
}

def GatherAgain : Pass<"kiln-gather-again", "::mlir::ModuleOp"> {
  let summary = "Gather activations again in the backward pass";
  let description = [{
    If the backward pass reads an activation that the forward pass gathers from
    the ranks, the pass gathers it again in the backward pass, so that the step keeps
    the shard of each rank instead of the whole tensor. The all-gather precedes the
    matmul that reads the same cotangent, and overlaps with it. A shard that is the
    result of a norm, or of another op that is cheap to rebuild, is recomputed if the
    backward pass keeps the operands of the op anyway. Runs before
    kiln-rebuild-activations.

    ```
    %g = kiln.all_gather %s over "tp"      %g = kiln.all_gather %s over "tp"
    %y = kiln.matmul %g, %w                %y = kiln.matmul %g, %w
    kiln.phase backward              ->    kiln.phase backward
    %dg = kiln.matmul %dy, %w trans_b      %h = kiln.all_gather %s over "tp"
    %dw = kiln.matmul %g, %dy trans_a      %dg = kiln.matmul %dy, %w trans_b
                                           %dw = kiln.matmul %h, %dy trans_a
    ```
  }];
  let dependentDialects = ["::kiln::KilnDialect"];
}

def NarrowGradients : Pass<"kiln-narrow-gradients", "::mlir::ModuleOp"> {
  let summary = "Store gradients in a narrow type";
  let description = [{
    Rounds every f32 gradient that `@train` returns to `type`. A gradient that has
    been widened from this type is returned as it was, so that no wider copy exists.
    Sums over micro-batches then have this type, too. Runs after autodiff and before
    kiln-widen-gradients, which does not widen the gradients that this pass narrows.
  }];
  let options = [Option<"type", "type", "std::string", "\"bf16\"", "the element type of gradients">];
  let dependentDialects = ["::kiln::KilnDialect"];
}

def CompressResiduals : Pass<"kiln-compress-residuals", "::mlir::ModuleOp"> {
  let summary = "Store encodings of residuals instead of their values";
  let description = [{
    In `@train`, a value that the backward pass reads only in one of these ways is
    replaced by an encoding that the forward pass makes of it:

    - `relu_grad`: one bit per element, exactly; needs no `lossy`;
    - `gelu_grad`, `silu_grad`, with `fewbit:B`: B bits per element, the step of
      the best piecewise-constant derivative (`bucket_encode`, `bucket_decode`);
    - weight gradients x^T dy, with `rmm:RHO`: the sketch s^T x, which has RHO times
      the rows of x (`sketch_rows`); the backward pass sketches dy with the same
      random signs and estimates the gradient by (s^T x)^T (s^T dy), whose
      expectation is x^T dy. A sketch combines only rows of the same sequence, and
      its signs depend on the same inputs as dropout masks do, so the estimate does
      not depend on the number of micro-batches.

    A residual is encoded only if that reduces the bytes that are stored until the
    backward pass. With `rebuild`, a value that `kiln-rebuild-activations` will
    recompute from other stored values counts as no bytes. The module attribute
    `kiln.encoded` lists the encoded residuals. With `q8` or `q4`, a value that is
    not encoded here counts as the bytes with which `kiln-quantize-residuals` will
    store it. Runs between autodiff and `kiln-rebuild-activations`, in time linear
    in the size of the program.

    ```
    %h = kiln.matmul %x, %w                      %h = kiln.matmul %x, %w
    %a = kiln.gelu %h                            %c = kiln.bucket_encode %h {borders = ...}
    kiln.phase backward                   ->     %a = kiln.gelu %h
    %dh = kiln.gelu_grad %h, %da                 kiln.phase backward
                                                 %dh = kiln.bucket_decode %c, %da {levels = ...}
    ```
  }];
  let options = [
    Option<"lossy", "lossy", "std::string", "\"\"", "as in kilnc --lossy: fewbit:B,rmm:RHO,q8">,
    Option<"rebuild", "rebuild", "bool", "true", "kiln-rebuild-activations runs next">,
  ];
  let dependentDialects = ["::kiln::KilnDialect"];
}

def RebuildActivations : Pass<"kiln-rebuild-activations", "::mlir::ModuleOp"> {
  let summary = "Repeat cheap forward ops in the backward pass";
  let description = [{
    If the backward pass reads both the input and the output of a norm or an
    activation, only the input is stored. A `kiln.recompute` before the gradient op
    that reads the input computes the output again, bit for bit, and the weight
    gradients that read the output move after that gradient op, so that one kernel
    computes both. Runs between autodiff and `kiln-build-step`.
  }];
  let dependentDialects = ["::kiln::KilnDialect"];
}

def QuantizeResiduals : Pass<"kiln-quantize-residuals", "::mlir::ModuleOp"> {
  let summary = "Store residuals as codes of 8 or 4 bits";
  let description = [{
    With `q8` or `q4` in `lossy`, the backward pass of `@train` reads decoded values
    of residuals: the forward pass stores a code of 8 or 4 bits for each element and
    a scale for each block of 16 to 256 elements of one sequence. The ops of the
    forward pass read the exact values. A floating-point value of at least 1024
    elements per sequence is encoded if it depends on an input of the program and an
    op of the forward pass reads it; sketches of `kiln-compress-residuals` are
    encoded as well.
    Statistics of rows and gradients that the loss computes, which only the backward
    pass reads, remain exact. Ops of the backward pass that are close to each other
    share a decoded value.

    The encodings are appended to the module attribute `kiln.encoded`. Runs after
    `kiln-rebuild-activations`, so that values which are recomputed from residuals
    are recomputed from decoded residuals, and before `kiln-build-step`.

    ```
    %h = kiln.matmul %x, %w          %h = kiln.matmul %x, %w
    kiln.phase backward              %s = kiln.block_scales %h {bits = 8}
    %dh = kiln.silu_grad %h, %da ->  %c = kiln.block_encode %h, %s
                                     kiln.phase backward
                                     %d = kiln.block_decode %c, %s
                                     %dh = kiln.silu_grad %d, %da
    ```
  }];
  let options = [
    Option<"lossy", "lossy", "std::string", "\"\"",
           "as in kilnc --lossy: q8 or q4, and techniques of kiln-compress-residuals">,
  ];
  let dependentDialects = ["::kiln::KilnDialect"];
}

def BuildStep : Pass<"kiln-build-step", "::mlir::ModuleOp"> {
  let summary = "Turn gradients into state updates";
  let description = [{
    Wraps the ops of a micro-batch in `kiln.microbatches`, and adds clipping, the
    states of the optimizer and its updates. `kiln-autodiff` must have run with the same
    `microbatches`: it proves that the losses of micro-batches add up to the loss
    of the batch and leaves their number on `@train` (`kiln.microbatches`). `@train`
    then returns the loss and, with clipping, the gradient norm. Without clipping
    and with one micro-batch, each update immediately follows its gradient.

    If the gradients are scaled (`kiln-autodiff` with `scale-gradients`), the updates
    unscale them, and a step whose gradients are not finite changes no state: the
    norm is computed with and without clipping, and every update reads the verdict
    of `kiln.clip_factor`.

    With an axis `dp` in the mesh, every rank computes the gradients of its part of
    the batch. The loss and the gradients are summed over the ranks by `kiln.all_reduce`,
    in buckets and in the order in which the gradients are complete; readers of a
    bucket follow the next bucket, so that transfers overlap with the backward pass.

    `zero` is a stage of ZeRO. From stage 1 on, each rank stores and updates shards: a
    `kiln.reduce_scatter` replaces the `kiln.all_reduce` of gradients, the states of
    the optimizer have the attribute `shard`, an update reads a `kiln.take_shard` of its
    parameter, and a `kiln.all_gather` joins the updated shards. In stage 1,
    micro-batches add to whole gradients, whose sums are reduced at the end of the
    step. In stage 2, the gradients of each micro-batch are reduced, and added to
    shards, unless `whole-gradients` is set, as for `kiln-compress-gradients`, which
    compresses only the sums of a step.

    If `sync-every` is above 1, a step is local: each rank updates its states with
    the gradients of its own part of the batch, and only the loss and the norm that
    the step reports are averaged over the ranks. `kiln-build-sync` adds the program
    that averages the states.
  }];
  let options = [
    Option<"optimizer", "optimizer", "std::string", "\"adamw\"", "NAME[:key=value,...]: adamw, adam, sgd, momentum, nesterov, lion">,
    Option<"states", "states", "std::string", "\"\"", "types of optimizer states, as in kilnc --states">,
    Option<"clip", "clip", "bool", "true", "compute the gradient norm and scale by clip / norm">,
    Option<"microbatches", "microbatches", "int64_t", "1", "number of micro-batches per step">,
    Option<"order", "order", "std::string", "\"alternate\"", "order of the segments of micro-batches: alternate, all-forward-first, one-forward-one-backward:K or a list such as F0 F1 B0 B1">,
    Option<"keepGradients", "keep-gradients", "bool", "false", "also return the gradients">,
    Option<"mesh", "mesh", "std::string", "\"\"", "ranks of each axis, such as dp=2; empty: one rank">,
    Option<"bucketBytes", "bucket-bytes", "int64_t", "::kiln::support::defaultBucketBytes", "gradients that are summed over ranks together have about this many bytes">,
    Option<"zero", "zero", "int64_t", "0", "what is divided over the data-parallel ranks: 0: nothing; 1: optimizer states; 2 or 3: also gradients">,
    Option<"wholeGradients", "whole-gradients", "bool", "false", "let micro-batches add to whole gradients in all stages of ZeRO">,
    Option<"zeroBy", "zero-by", "std::string", "\"elements\"", "elements: each tensor is divided; owner: each tensor belongs to a rank, and those of a layer to the same; server: all tensors belong to rank 0">,
    Option<"syncEvery", "sync-every", "int64_t", "1", "steps after which data-parallel ranks average their states; 1: ranks sum gradients in each step">,
  ];
  let dependentDialects = ["::kiln::KilnDialect"];
}

def CompressGradients : Pass<"kiln-compress-gradients", "::mlir::ModuleOp"> {
  let summary = "Sum compressed gradients over ranks";
  let description = [{
    Data-parallel ranks sum the gradients in fewer bytes, which changes them. The
    gradients are listed in the module attribute `kiln.encoded`. With a
    `kiln.reduce_scatter`, each rank takes its shard of the sum. Runs after
    `kiln-build-step`.

    `powersgd:R` is PowerSGD (Vogels et al., 2019): in place of an [n, m] gradient, data-parallel
    ranks sum a [R, n] and a [R, m] matrix. A gradient is compressed if that
    at least halves the number of bytes. What a rank has not sent, it adds to its
    gradient of the next step.

    Adds two states of the optimizer per gradient: the `error` of each rank, which has
    the size of the gradient, and the `basis`, a [R, m] matrix that the ranks
    share. With U(X), the matrix X with orthonormal rows:

    ```
                                  %e = kiln.read @w.error
                                  %q = kiln.read @w.basis
                                  %d = kiln.add %g, %e
    %s = kiln.all_reduce %g  -->  %p = kiln.all_reduce (U(%q) %d^T)
                                  %t = U(%p) %d
                                  %r = kiln.all_reduce %t
                                  %s = U(%p)^T %r
                                  kiln.write @w.error, (%d - U(%p)^T %t)
                                  kiln.write @w.basis, %r
    ```

    `gradzip:R` has a second basis, `row_basis`, a [R, n] matrix, and the `turn`, 0 or 1. In one
    step, ranks sum the factor U(%q) %d^T, which becomes the next `row_basis`, and in the next
    step the factor U(%p) %d for the `row_basis` %p, which becomes the next `basis`. The
    other factor is fixed. Both are computed, and multiplied by the turn, so that all steps have
    the same commands.

    `count-sketch:C` sums count sketches of the matrices %d, which have at most 1/C of their
    rows. Of each block of 8 C elements, the ranks then sum one with a second collective: the
    element whose estimate has the largest magnitude. Each rank keeps the other elements in its
    `error`. The state `signs` has numbers whose signs are those of the rows in the three
    tables of a sketch. Matrices of at least 12 C rows are compressed; those in 16 bits, if at most
    three quarters of the bytes are sent.

    `int8` sums codes of 8 bits for gradients of at least 4096 elements, a multiple of
    256. The ranks first sum the scales of blocks of 256 elements, so that they have
    common scales, with which the sums of their codes are at most 127. Each rank adds
    noise of its own before it rounds, so that the sums are unbiased:

    ```
                                  %t = kiln.block_scales %g {bits = 8}
                                  %u = kiln.scale %t by (127 / (127 - ranks))
                                  %a = kiln.all_reduce %u
    %s = kiln.all_reduce %g  -->  %d = kiln.dither %g, %a, %rng
                                  %c = kiln.block_encode %d, %a
                                  %b = kiln.all_reduce %c
                                  %s = kiln.block_decode %b, %a
    ```
  }];
  let options = [
    Option<"scheme", "scheme", "std::string", "\"\"", "as in kilnc --compress-gradients: int8, powersgd:R, gradzip:R or count-sketch:C">,
  ];
  let dependentDialects = ["::kiln::KilnDialect"];
}

def ShardParameters : Pass<"kiln-shard-parameters", "::mlir::ModuleOp"> {
  let summary = "Store a shard of each parameter, which programs gather";
  let description = [{
    Runs after `kiln-build-step` with `zero`, on the step level. Each rank then stores
    its shard of every parameter that it updates. Updates read and write the shard,
    and other readers a `kiln.all_gather` of the shards of all ranks. The gathered
    parameter is computed from a state alone: it is kept until the backward pass, or
    gathered again, as the memory plan decides (see StageChain.h). If all readers cast
    the parameter to the same narrower type, its shards are cast and then gathered.

    ```
    %w = kiln.read @w : tensor<4x8xf32>                          %s = kiln.read @w : tensor<2x8xf32>
                                                                 %w = kiln.all_gather %s over "dp"
    ... kiln.matmul %x, %w                                -->    ... kiln.matmul %x, %w
    %s = kiln.take_shard %w over "dp"
    %s1 = kiln.adam %s, ...                                      %s1 = kiln.adam %s, ...
    %w1 = kiln.all_gather %s1 over "dp"
    kiln.write @w, %w1                                           kiln.write @w, %s1
    ```
  }];
  let options = [
    Option<"castShards", "cast-shards", "bool", "true", "cast a shard before it is gathered if all its readers cast the parameter to the same narrower type">,
  ];
  let dependentDialects = ["::kiln::KilnDialect"];
}

def AddWorkingCopies : Pass<"kiln-add-working-copies", "::mlir::ModuleOp"> {
  let summary = "Store a narrow copy of each parameter, which programs read";
  let description = [{
    Adds a state of role `mirror` and element type `type` for each f32 parameter that
    `@train` updates. Programs read the copy instead of the parameter, which only its
    update still reads: it is the master copy. Casts of the parameter to `type` read
    the copy, an embedding looks up narrow rows, and other readers get a cast of the
    copy to f32. The update returns the copy as an additional result. Runs on the
    step level, after `kiln-shard-parameters` if parameters are divided over ranks. The
    copy of a shard is then a shard, or with `gather` the whole parameter, which a
    `kiln.all_gather` joins after the updates.

    ```
    %w = kiln.read @w : tensor<4x8xf32>                          %w = kiln.read @w : tensor<4x8xf32>
    %c = kiln.cast %w : tensor<4x8xf32> to tensor<4x8xf16>       %c = kiln.read @w.f16 : tensor<4x8xf16>
    %w1, %m1, %v1 = kiln.adam %w, ...                      ->    %w1, %m1, %v1, %c1 = kiln.adam %w, ...
    kiln.write @w, %w1                                           kiln.write @w, %w1
                                                                 kiln.write @w.f16, %c1
    ```
  }];
  let options = [
    Option<"type", "type", "std::string", "\"bf16\"", "the element type of copies">,
    Option<"gather", "gather", "bool", "true", "store the whole copy of a parameter of which each rank has a shard">,
    Option<"bucketBytes", "bucket-bytes", "int64_t", "::kiln::support::defaultBucketBytes", "copies that are gathered together have about this many bytes">,
  ];
  let dependentDialects = ["::kiln::KilnDialect"];
}

def BuildSync : Pass<"kiln-build-sync", "::mlir::ModuleOp"> {
  let summary = "Add the program that averages the states of ranks";
  let description = [{
    Adds the program `@sync`, which replaces each state that `@train` writes by its
    average over the ranks of data parallelism. `@train` was built by
    `kiln-build-step` with the same `sync-every`, which the module keeps as the attribute
    `kiln.sync_every`: the runtime runs `@sync` after as many steps. This is local
    SGD (Stich, 2018, arXiv:1805.09767), with averages of the optimizer states too, so
    that all ranks continue from the same states. A state is averaged in its type.
    Working copies are casts of the averages. Moments that are stored as codes
    cannot be averaged.

    Runs after `kiln-add-working-copies`, on the step level.

    ```
    kiln.program @sync() attributes {kind = #kiln.program_kind<sync>} {
      %w = kiln.read @w : tensor<4x8xf32>
      %s = kiln.scale %w by 5.0e-01 : tensor<4x8xf32>
      %a = kiln.all_reduce %s over "dp" : tensor<4x8xf32>
      kiln.write @w, %a : tensor<4x8xf32>
      kiln.return
    }
    ```
  }];
  let options = [
    Option<"syncEvery", "sync-every", "int64_t", "2", "number of steps between averages">,
    Option<"bucketBytes", "bucket-bytes", "int64_t", "::kiln::support::defaultBucketBytes", "states that are averaged together have about this many bytes">,
  ];
  let dependentDialects = ["::kiln::KilnDialect"];
}

def BuildEvaluation : Pass<"kiln-build-eval", "::mlir::ModuleOp"> {
  let summary = "Add the programs that evaluate and generate";
  let description = [{
    `@evaluate` is the forward program without dropout; `@generate` returns the
    logits of the row named by its argument `position`. It is built if the loss is a
    cross entropy whose rows are those of the tokens. With `remove-forward` the
    forward program is erased. With `divide-rows`, ranks of the axis `tp` divide rows
    between divided layers, as in kiln-autodiff.
  }];
  let options = [
    Option<"divideRows", "divide-rows", "bool", "false", "divide rows between divided layers over the axis tp">,
    Option<"evaluation", "evaluation", "bool", "true", "build @evaluate and @generate">,
    Option<"removeForward", "remove-forward", "bool", "true", "erase the forward program">,
  ];
  let dependentDialects = ["::kiln::KilnDialect"];
}

def ExpandLoss : Pass<"kiln-expand-loss", "::mlir::ModuleOp"> {
  let summary = "Expand the classifier and the loss into plain ops per chunk of rows";
  let description = [{
    Expands `linear_cross_entropy` into ops on `rows` rows at a time, so that only
    one chunk of the logits exists at any time; weight gradients accumulate over
    the chunks. If an op has no `rows`, the pass chooses chunks of equal size with
    at most `logits` elements of logits, but at least 64 rows.
  }];
  let options = [
    Option<"logits", "logits", "int64_t", "16777216", "elements of a chunk of logits: 64 MiB of f32">,
  ];
  let dependentDialects = ["::kiln::KilnDialect"];
}

def SetNumerics : Pass<"kiln-set-numerics", "::mlir::ModuleOp"> {
  let summary = "Set all attributes that affect rounding";
  let description = [{
    Sets the grids and kernels of GEMMs, the key tile of attention and the chunks of
    column reductions, and decides which sums a matmul or a scatter accumulates
    itself. All of these depend only on shapes, types, the number of threads and the
    kernels that the processor supports. If the module has
    `kiln.library_epilogues` and its target supports such epilogues, GEMMs get those
    of the vendor library. No later pass changes any of these.
  }];
  let options = [
    Option<"maxThreads", "max-threads", "int64_t", "2", "maximum number of threads of the executable">,
    ListOption<"gemmKernels", "gemm-kernels", "std::string", "kernels of GEMMs by element type, such as bf16:avx512; types that are not listed use blas">,
  ];
  let dependentDialects = ["::kiln::KilnDialect"];
}

def Recompute : Pass<"kiln-recompute", "::mlir::ModuleOp"> {
  let summary = "Recompute forward stages in the backward pass by a named policy";
  let description = [{
    Divides the forward pass of `@train` into a chain of stages and stores only some
    of the stages' inputs; a `kiln.recompute` immediately before its reader computes
    every other value that the backward pass reads. `full` stores the input of every
    stage, `blocks` the input of every layer, `sqrt` the inputs of about sqrt(n)
    segments, and `poor` only the input of the program. Gradients do not change by a
    bit. Runs on the planned level, where every property that affects rounding is an
    attribute of its op.

    A value that is computed from states alone, such as a parameter that is cast to
    bf16, is stored or repeated like an activation. With `hoist`, stored ones are
    computed before the micro-batches, once per step.
  }];
  let options = [
    Option<"policy", "policy", "std::string", "\"none\"", "none, full, blocks, sqrt or poor">,
    Option<"hoist", "hoist", "bool", "false", "compute stored values that depend only on states once per step">,
  ];
  let dependentDialects = ["::kiln::KilnDialect"];
}

def OffloadStates : Pass<"kiln-offload-states", "::mlir::ModuleOp"> {
  let summary = "Move states to host memory";
  let description = [{
    Moves every state that has the attribute `kiln.residency`, and removes the
    attribute. The options set it first, for a share of the bytes of the
    parameters:

    `optimizer`: parameters and moments are stored on the host, and updates run
    there, as in ZeRO-Offload. A gradient is copied to the host as soon as it is
    complete. A `mirror` state on the device, which all programs read, receives the
    new parameter. Two further gradients may be in flight when an update waits for
    its own gradient.

    `moments`: moments are stored on the host. `kiln-place-copies` copies them to the
    device for the update, whose results are copied back.

    `parameters`: parameters are stored only on the host. `kiln-place-copies` copies
    them to the device for each group of readers; an update on the device copies its
    result back. Frozen parameters, and buffers that no program writes, move as
    well.

    With ZeRO 1 and 2, an update reads the shard of a parameter (`kiln.take_shard`), and
    its result is gathered. If it runs on the host, the parameter remains on the
    device: its shard is copied to the host, and the new shard back, before it is
    gathered. If the parameter is on the host, too, its shard is taken there, and the
    gathered tensor is copied to the host.

    Every op computes the same results from the same values as before.
  }];
  let options = [
    Option<"optimizer", "optimizer", "double", "0", "share of the updates that run on the host">,
    Option<"moments", "moments", "double", "0", "share of the moments that are stored on the host and updated on the device">,
    Option<"parameters", "parameters", "double", "0", "share of the parameters that are stored only on the host">,
  ];
  let dependentDialects = ["::kiln::KilnDialect"];
}

def OffloadActivations : Pass<"kiln-offload-activations", "::mlir::ModuleOp"> {
  let summary = "Mark residuals for copies to host memory";
  let description = [{
    Adds a `kiln.offload` attribute to every op in the forward pass of `@train` whose
    result the backward pass reads; `kiln-place-copies` inserts the copies. Small
    results, such as statistics of rows, remain on the device.
  }];
  let options = [
    Option<"lag", "lag", "int64_t", "6", "commands that run before the copy to the host must be complete">,
    Option<"lead", "lead", "int64_t", "6", "commands that run between the begin of the copy back and its first reader">,
  ];
  let dependentDialects = ["::kiln::KilnDialect"];
}

def PlaceCopies : Pass<"kiln-place-copies", "::mlir::ModuleOp"> {
  let summary = "Insert copies between device and host";
  let description = [{
    Runs on the dispatched level, where every value is stored in memory. A result
    that `kiln.offload` names is copied to the host after its definition, and back to
    the device before the first reader after the longest run of commands that do not
    read it. First divides collectives into their starts and waits; they and
    `kiln.take_shard` read copies as commands do. Readers on the device of a state on the host read a copy of the state;
    readers that are close to each other share one. `kiln.prefetch` on the read has
    the leads of these copies (default: 6). If the read has `kiln.keep`, the state is
    copied once, at the beginning of the program, and all readers share the copy.
  }];
  let dependentDialects = ["::kiln::KilnDialect"];
}

def DivideMicrobatches : Pass<"kiln-divide-microbatches", "::mlir::ModuleOp"> {
  let summary = "Divide micro-batches into forward and backward segments";
  let description = [{
    Divides the region of each `kiln.microbatches`. The backward segment begins with
    the first op that reads the loss scale or a sum, or with the GEMM before it that
    computes its logits. Values of the forward segment that the backward segment
    reads become residuals; views of them are computed again in the backward
    segment. The order of the ops of a micro-batch does not change.
  }];
  let dependentDialects = ["::kiln::KilnDialect"];
}

def FormDispatches : Pass<"kiln-form-dispatches", "::mlir::ModuleOp"> {
  let summary = "Group ops into dispatches";
  let description = [{
    After this pass, every op is in exactly one `kiln.dispatch`, is a call of a
    library (`matmul`), or is a view. Row ops with the same iteration space are fused
    if no other op has to move; fusion never changes a bit of any result.

    With `epilogues`, and if the target runs epilogues on tiles, a row dispatch that
    reads a matmul and computes each element from elements at the same position, row
    or column is merged with the matmul into a dispatch of family gemm, if its other
    operands are defined before the matmul.
  }];
  let options = [
    Option<"fuse", "fuse", "bool", "true", "fuse row ops; off gives one op per dispatch and no epilogues">,
    Option<"epilogues", "epilogues", "bool", "true", "run row ops on the tiles of the matmul that they read">,
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
