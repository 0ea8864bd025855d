//===- Pipelines.h - The named pipelines, one per level ---------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// kilnc, kiln-opt and kiln-run build a level with the same function. A name in
// kiln-opt is `--kiln-to-<level>-pipeline`; each takes the level before it.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_COMPILER_PIPELINES_H
#define KILN_COMPILER_PIPELINES_H

#include "mlir/Pass/PassManager.h"
#include "mlir/Pass/PassOptions.h"

#include <optional>

namespace kiln {

/// Checks what was imported or read.
void buildForwardPipeline(mlir::OpPassManager &passes);

/// forward -> step
struct StepOptions : mlir::PassPipelineOptions<StepOptions> {
  Option<std::string> precision{*this, "precision",
                                llvm::cl::desc("fp32 (as the model is) or bf16"),
                                llvm::cl::init("fp32")};
  Option<std::string> optimizer{*this, "optimizer",
                                llvm::cl::desc("as in kilnc --optimizer"),
                                llvm::cl::init("adamw")};
  Option<bool> clip{*this, "clip",
                    llvm::cl::desc("compute and clip the gradient norm"),
                    llvm::cl::init(true)};
  Option<int64_t> microbatches{*this, "microbatches",
                               llvm::cl::desc("micro-batches per step"),
                               llvm::cl::init(1)};
  Option<std::string> lossy{*this, "lossy",
                            llvm::cl::desc("as in kilnc --lossy"),
                            llvm::cl::init("")};
  Option<bool> rebuild{*this, "rebuild",
                       llvm::cl::desc("repeat cheap forward ops"),
                       llvm::cl::init(true)};
  Option<bool> evaluation{*this, "evaluation",
                          llvm::cl::desc("add @evaluate and @generate"),
                          llvm::cl::init(true)};
  Option<bool> keepGradients{*this, "keep-gradients",
                             llvm::cl::desc("return gradients too"),
                             llvm::cl::init(false)};
};
void buildStepPipeline(mlir::OpPassManager &passes, const StepOptions &options);

/// What goes to the host by hand.
struct OffloadSet {
  bool activations = false, optimizer = false, parameters = false;

  /// Of a list such as "activations,optimizer" or "none"; nothing if a name is
  /// unknown, given twice, or with none.
  static std::optional<OffloadSet> parse(llvm::StringRef list);
  std::string print() const;
  bool any() const { return activations || optimizer || parameters; }
};

/// step -> planned
struct PlanOptions : mlir::PassPipelineOptions<PlanOptions> {
  Option<int64_t> maxThreads{*this, "max-threads",
                             llvm::cl::desc("threads of the executable"),
                             llvm::cl::init(2)};
  Option<int64_t> logits{*this, "logits",
                         llvm::cl::desc("elements of a chunk of logits"),
                         llvm::cl::init(16 << 20)};
  Option<std::string> recompute{*this, "recompute",
                                llvm::cl::desc("as in kilnc --recompute"),
                                llvm::cl::init("none")};
  Option<std::string> offload{
      *this, "offload",
      llvm::cl::desc("of activations, optimizer, parameters, with commas "
                     "between; or none"),
      llvm::cl::init("none")};
};
void buildPlanPipeline(mlir::OpPassManager &passes, const PlanOptions &options);

/// planned -> dispatched
struct DispatchOptions : mlir::PassPipelineOptions<DispatchOptions> {
  Option<bool> fuse{*this, "fuse", llvm::cl::desc("fuse row ops"),
                    llvm::cl::init(true)};
  Option<bool> epilogues{*this, "epilogues",
                         llvm::cl::desc("run row ops on tiles of products"),
                         llvm::cl::init(true)};
};
void buildDispatchPipeline(mlir::OpPassManager &passes,
                           const DispatchOptions &options);

/// dispatched -> scheduled
void buildSchedulePipeline(mlir::OpPassManager &passes,
                           const PlanOptions &options);

void registerPipelines();

} // namespace kiln

#endif // KILN_COMPILER_PIPELINES_H
