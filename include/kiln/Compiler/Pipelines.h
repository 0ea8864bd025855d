//===- Pipelines.h - From a model to its schedule ---------------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// One builder makes every pipeline: those that kilnc runs, those that kiln-opt
// knows by name (`--kiln-to-<level>-pipeline`, each from the level before it),
// and those that the memory planner tries its proposals with. So a pass that is
// added to the builder runs everywhere.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_COMPILER_PIPELINES_H
#define KILN_COMPILER_PIPELINES_H

#include "kiln/Compiler/Passes.h"

#include "mlir/Pass/PassManager.h"
#include "mlir/Pass/PassOptions.h"

#include <optional>

namespace kiln {

/// Where a pipeline can begin and end, in order. Each is a level
/// (docs/design/architecture.md), except for Imported, Formed and Grouped.
enum class PipelinePoint {
  Imported, ///< as an importer or a file gives it, not checked
  Forward,
  Step,
  Planned,
  Formed, ///< ops are dispatches, and no copy is placed
  Dispatched,
  Scheduled,
  Grouped ///< scheduled, with launch groups: what code is generated from
};

/// forward -> step
struct StepOptions : mlir::PassPipelineOptions<StepOptions> {
  Option<std::string> precision{
      *this, "precision", llvm::cl::desc("fp32 (as the model is) or bf16"),
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
  Option<std::string> recompute{
      *this, "recompute",
      llvm::cl::desc("as in kilnc --recompute (default: none, and optimal with "
                     "a budget)"),
      llvm::cl::init("")};
  Option<std::string> offload{
      *this, "offload",
      llvm::cl::desc("of activations, optimizer, parameters, with commas "
                     "between; or none"),
      llvm::cl::init("none")};
  Option<int64_t> budget{
      *this, "budget",
      llvm::cl::desc("bytes that the arena may have; 0: nothing is planned"),
      llvm::cl::init(0)};
  Option<int64_t> hostBudget{
      *this, "host-budget",
      llvm::cl::desc("bytes that the host's arena may have; 0: no limit"),
      llvm::cl::init(0)};
  Option<std::string> machine{
      *this, "machine",
      llvm::cl::desc("figures to plan with, as in kilnc --machine"),
      llvm::cl::init(defaultMachine)};
  Option<std::string> link{*this, "link",
                           llvm::cl::desc("as in kilnc --simulate-link"),
                           llvm::cl::init("")};
  Option<bool> suggestMicrobatches{
      *this, "suggest-microbatches",
      llvm::cl::desc("a refusal may suggest other numbers of micro-batches"),
      llvm::cl::init(false)};
};

/// planned -> dispatched
struct DispatchOptions : mlir::PassPipelineOptions<DispatchOptions> {
  Option<bool> fuse{*this, "fuse", llvm::cl::desc("fuse row ops"),
                    llvm::cl::init(true)};
  Option<bool> epilogues{*this, "epilogues",
                         llvm::cl::desc("run row ops on tiles of products"),
                         llvm::cl::init(true)};
};

/// dispatched -> scheduled
struct SchedulingOptions : mlir::PassPipelineOptions<SchedulingOptions> {
  Option<int64_t> maxThreads{*this, "max-threads",
                             llvm::cl::desc("threads of the executable"),
                             llvm::cl::init(2)};
};

struct PipelineOptions {
  StepOptions step;
  PlanOptions plan;
  DispatchOptions dispatch;
  SchedulingOptions schedule;
  /// The session of kiln-plan-memory; null: it has none, as in kiln-opt.
  PlanningSession *session = nullptr;
};

/// Adds the passes that lead from a module at one point to a later one.
void buildPipeline(mlir::OpPassManager &passes, const PipelineOptions &options,
                   PipelinePoint from, PipelinePoint to);

/// Registers the named pipelines of kiln-opt.
void registerPipelines();

} // namespace kiln

#endif // KILN_COMPILER_PIPELINES_H
