//===- Pipelines.h - Pipelines from a model to its schedule -----*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// buildPipeline() builds every pipeline: those that kilnc runs, those
// registered in kiln-opt (`--kiln-to-<level>-pipeline`, each starting from the
// previous level), and those that the memory planner runs on its proposals. A
// pass that is added to buildPipeline() therefore runs in all these pipelines.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_COMPILER_PIPELINES_H
#define KILN_COMPILER_PIPELINES_H

#include "kiln/Compiler/Passes.h"
#include "kiln/Dialect/Kiln/Transforms/StateResidency.h"
#include "kiln/Support/Mesh.h"
#include "kiln/Support/Status.h"

#include "mlir/Pass/PassManager.h"
#include "mlir/Pass/PassOptions.h"

namespace kiln {

/// Points at which a pipeline can begin and end, in order. All points except
/// Imported, Formed and Grouped are levels (see docs/design/architecture.md).
enum class PipelinePoint {
  Imported, ///< An imported or parsed module that is not yet verified.
  Forward,
  Step,
  Planned,
  Formed, ///< Ops are in dispatches; copies are not yet inserted.
  Dispatched,
  Scheduled,
  Grouped ///< Scheduled, with groups of launches: input of code generation.
};

/// Options of the pipeline from the forward level to the step level.
struct StepOptions : mlir::PassPipelineOptions<StepOptions> {
  Option<std::string> precision{
      *this, "precision",
      llvm::cl::desc(
          "fp32 (keep the element types of the model), bf16 or fp16"),
      llvm::cl::init("fp32")};
  Option<std::string> lora{
      *this, "lora",
      llvm::cl::desc("options of low-rank adapters, as in kilnc --lora; empty: "
                     "none"),
      llvm::cl::init("")};
  Option<std::string> optimizer{
      *this, "optimizer",
      llvm::cl::desc(
          "name and options of the optimizer, as in kilnc --optimizer"),
      llvm::cl::init("adamw")};
  Option<std::string> states{
      *this, "states",
      llvm::cl::desc(
          "types of parameters, gradients and moments, as in kilnc --states"),
      llvm::cl::init("")};
  Option<std::string> quantizeWeights{
      *this, "quantize-weights",
      llvm::cl::desc(
          "encoding of frozen weights, as for kiln-quantize-weights (default: "
          "none)"),
      llvm::cl::init("")};
  Option<bool> clip{*this, "clip",
                    llvm::cl::desc("clip the gradients by their global norm"),
                    llvm::cl::init(true)};
  Option<int64_t> microbatches{*this, "microbatches",
                               llvm::cl::desc("micro-batches per step"),
                               llvm::cl::init(1)};
  Option<std::string> order{
      *this, "order",
      llvm::cl::desc("order of the forward and backward segments of "
                     "micro-batches: alternate, all-forward-first, "
                     "one-forward-one-backward:K or a list such as "
                     "F0,F1,B0,B1"),
      llvm::cl::init("alternate")};
  Option<std::string> lossy{
      *this, "lossy",
      llvm::cl::desc("techniques that save memory and change gradients, as in "
                     "kilnc --lossy"),
      llvm::cl::init("")};
  Option<bool> rebuild{
      *this, "rebuild",
      llvm::cl::desc("recompute cheap forward ops in the backward pass"),
      llvm::cl::init(true)};
  Option<bool> evaluation{*this, "evaluation",
                          llvm::cl::desc("add the programs @evaluate and "
                                         "@generate"),
                          llvm::cl::init(true)};
  Option<bool> keepGradients{
      *this, "keep-gradients",
      llvm::cl::desc("return the gradients in addition to the loss"),
      llvm::cl::init(false)};
  Option<std::string> mesh{
      *this, "mesh",
      llvm::cl::desc("ranks of each axis, as in kilnc --mesh (default: one "
                     "rank)"),
      llvm::cl::init("")};
  Option<bool> sequenceParallel{
      *this, "sequence-parallel",
      llvm::cl::desc("divide the tokens of norms and residuals over the axis "
                     "tp, as in kilnc --sequence-parallel"),
      llvm::cl::init(false)};
  Option<int64_t> zero{*this, "zero",
                       llvm::cl::desc("stage of ZeRO, as in kilnc --zero"),
                       llvm::cl::init(0)};
  Option<std::string> zeroBy{
      *this, "zero-by",
      llvm::cl::desc("how ranks divide states: elements, owner or server, as "
                     "in kiln-build-step"),
      llvm::cl::init("elements")};
  Option<int64_t> syncEvery{
      *this, "sync-every",
      llvm::cl::desc("steps between averages of states, as in kilnc "
                     "--sync-every"),
      llvm::cl::init(1)};
  Option<int64_t> bucketBytes{
      *this, "bucket-bytes",
      llvm::cl::desc("approximate size in bytes of the tensors that one "
                     "collective sums or gathers, as in kilnc --bucket-size"),
      llvm::cl::init(support::defaultBucketBytes)};
  Option<std::string> compressGradients{
      *this, "compress-gradients",
      llvm::cl::desc("compression of the gradients that ranks sum, as in kilnc "
                     "--compress-gradients (default: none)"),
      llvm::cl::init("")};
};

/// Tensors that are offloaded to the host on the user's request.
struct OffloadSet {
  bool activations = false;
  ResidencyShares shares;

  /// Parses a comma-separated list such as "activations,optimizer:0.3", or
  /// "none". The number after a colon is the share of the states that are
  /// offloaded. It is above 0 and at most 1; the default is 1. Fails, with the
  /// exit code Usage, if a name is unknown or repeated or is combined with
  /// "none", if a share is not valid, or if the shares of `optimizer` and
  /// `moments` add up to more than 1. The message is a fragment such as "lists
  /// 'gradients', expected none, auto, ...".
  static Result<OffloadSet> parse(llvm::StringRef list);
  std::string print() const;
};

/// Options of the pipeline from the step level to the planned level.
struct PlanOptions : mlir::PassPipelineOptions<PlanOptions> {
  Option<int64_t> maxThreads{
      *this, "max-threads",
      llvm::cl::desc("maximum number of threads of the executable"),
      llvm::cl::init(2)};
  ListOption<std::string> gemmKernels{
      *this, "gemm-kernels",
      llvm::cl::desc("GEMM kernels by element type, such as bf16:avx512, as in "
                     "kiln-set-numerics")};
  Option<int64_t> logits{
      *this, "logits",
      llvm::cl::desc("maximum number of elements in a chunk of logits"),
      llvm::cl::init(16 << 20)};
  Option<std::string> recompute{
      *this, "recompute",
      llvm::cl::desc("which forward results are recomputed, as in kilnc "
                     "--recompute (default: none without "
                     "a budget, optimal with a budget)"),
      llvm::cl::init("")};
  Option<std::string> offload{
      *this, "offload",
      llvm::cl::desc("tensors to offload: none; auto (the planner chooses, "
                     "requires a budget); or a comma-separated list of "
                     "activations, optimizer, moments and parameters, the last "
                     "three optionally with a share, as in optimizer:0.3"),
      llvm::cl::init("none")};
  Option<int64_t> budget{
      *this, "budget",
      llvm::cl::desc("maximum size of the arena in bytes; 0: no planning"),
      llvm::cl::init(0)};
  Option<int64_t> hostBudget{
      *this, "host-budget",
      llvm::cl::desc("maximum size of the host arena in bytes; 0: no limit"),
      llvm::cl::init(0)};
  Option<std::string> machine{
      *this, "machine",
      llvm::cl::desc(
          "description of the machine for the planner, as in kilnc --machine"),
      llvm::cl::init(defaultMachine)};
  Option<std::string> link{*this, "link",
                           llvm::cl::desc("rate of the simulated link between "
                                          "device and host, as in kilnc "
                                          "--simulate-link"),
                           llvm::cl::init("")};
  Option<bool> suggestMicrobatches{
      *this, "suggest-microbatches",
      llvm::cl::desc("if no plan fits the budget, suggest numbers of "
                     "micro-batches for which a plan fits"),
      llvm::cl::init(false)};
};

/// Options of the pipeline from the planned level to the dispatched level.
struct DispatchOptions : mlir::PassPipelineOptions<DispatchOptions> {
  Option<bool> fuse{*this, "fuse",
                    llvm::cl::desc("fuse row-wise ops into one dispatch"),
                    llvm::cl::init(true)};
  Option<bool> epilogues{
      *this, "epilogues",
      llvm::cl::desc("run row-wise ops as epilogues on the tiles of GEMMs"),
      llvm::cl::init(true)};
};

/// Options of the pipeline from the dispatched level to the scheduled level.
struct SchedulingOptions : mlir::PassPipelineOptions<SchedulingOptions> {
  Option<int64_t> maxThreads{
      *this, "max-threads",
      llvm::cl::desc("maximum number of threads of the executable"),
      llvm::cl::init(2)};
};

struct PipelineOptions {
  StepOptions step;
  PlanOptions plan;
  DispatchOptions dispatch;
  SchedulingOptions schedule;
  /// Data that the tool exchanges with the pass kiln-plan-memory; null if the
  /// tool exchanges none, like kiln-opt.
  PlanningSession *session = nullptr;
};

/// Adds the passes between two points of the pipeline.
void buildPipeline(mlir::OpPassManager &passes, const PipelineOptions &options,
                   PipelinePoint from, PipelinePoint to);

/// Registers the pipelines that kiln-opt offers by name.
void registerPipelines();

} // namespace kiln

#endif // KILN_COMPILER_PIPELINES_H
