//===- Compilation.h - One compilation of a model ---------------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A compilation reads the model, runs the pipeline and writes the result.
// FastestCompilation runs several compilations with different options and
// selects the one with the fastest step.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_LIB_COMPILER_COMPILATION_H
#define KILN_LIB_COMPILER_COMPILATION_H

#include "MemoryPlanner.h"
#include "PlanRemarks.h"

#include "kiln/Compiler/Compile.h"
#include "kiln/Compiler/Pipelines.h"
#include "kiln/Support/Mesh.h"
#include "kiln/Target/Common/ProgramWriter.h"
#include "kiln/Target/Interface/TargetBackend.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/IR/OwningOpRef.h"
#include "mlir/Pass/PassManager.h"
#include "llvm/Support/JSON.h"

namespace kiln {

/// Compiles a model with a fixed set of options.
class Compilation {
public:
  explicit Compilation(const CompileOptions &options)
      : options(options), context(makeRegistry()),
        handler(&context, [this](mlir::Diagnostic &diagnostic) {
          collectDiagnostic(diagnostic);
          return mlir::success();
        }) {
    context.printOpOnDiagnostic(false);
  }
  /// Reads the model and runs the pipeline up to the planned level or the level
  /// of the output stage, whichever comes first.
  Status plan();
  /// Runs the rest of the pipeline and writes the output. The trials are
  /// reported in the remarks, which explain why `chosen` was selected.
  Status finish(llvm::ArrayRef<PlanTrial> trials, const PlanTrial &chosen);
  /// Prints the passes from the forward graph to the schedule as a textual
  /// pipeline for kiln-opt.
  Status printPipeline();
  /// Returns the predicted duration of a step in seconds.
  double predictedSeconds();
  /// Returns true if storing states on the host might make the step faster.
  /// Storing states on the host cannot help if the step is already about as
  /// fast as without a budget, or if copying the states takes longer than the
  /// step.
  bool mayGainFromStates();
  /// Returns the smallest feasible budget. May be called only if no plan fits
  /// the given budget.
  int64_t smallestBudget() const { return session.leastBudget; }
  /// Makes plan() fail if no plan has a step time below `seconds`. isBeaten()
  /// then returns true.
  void mustBeat(double seconds) { session.mustBeat = seconds; }
  bool isBeaten() const { return session.isBeaten; }
  /// Runs the pipeline up to the level Planned (see Levels.h), but makes no
  /// plan: computes only the memory and the step time without recomputation,
  /// and a lower bound on the step time of the plans that fit a budget.
  /// `chooseBudget` returns this budget, given the height of the device arena
  /// in bytes.
  Result<PlanOutlook>
  outlook(std::function<int64_t(int64_t height)> chooseBudget);
  /// Reads the model and returns the number of its layers.
  Result<int64_t> countLayers();

private:
  static mlir::DialectRegistry makeRegistry();
  void collectDiagnostic(mlir::Diagnostic &diagnostic);
  Status findBackend();
  std::string targetsWith(llvm::function_ref<bool(const TargetBackend &)> has);
  Status checkOptions();
  Status readModel();
  Status readModelFile();
  Status setModuleTarget();
  Status readMachine();
  OffloadSet offloadByHand() const;
  Status checkSyncEvery(const support::Mesh &mesh) const;
  Status checkCompression(const support::Mesh &mesh) const;
  void choosePipeline();
  Status runTo(PipelinePoint point);
  /// Returns the planner's prediction, or null if nothing was planned.
  PlanAttr decidedPlan();
  Status checkPrediction();
  Status generateCode();
  Status writeReport(const llvm::json::Object &plan);
  Status write(llvm::StringRef what);
  Status writeModule(mlir::ModuleOp module);

  const CompileOptions &options;
  std::string remarks; ///< Output of the context's remark engine.
  mlir::MLIRContext context;
  /// Backend of the target; set before the options are checked.
  const TargetBackend *target = nullptr;
  /// Processor that runs the host code; set when the options are checked.
  Processor processor;
  mlir::OwningOpRef<mlir::ModuleOp> module;
  std::string diagnostics;
  mlir::ScopedDiagnosticHandler handler;
  std::optional<Machine> machine; ///< Speeds of the machine, for the planner.
  /// Warnings about the weights of the model, printed only for the chosen plan.
  std::vector<std::string> warnings;
  std::string precision;    ///< fp32, fp64, bf16 or fp16.
  PipelineOptions pipeline; ///< Options of the passes.
  PlanningSession session;
  PipelinePoint reached = PipelinePoint::Imported; ///< Level of the module.
  double dropout = 0; ///< Largest dropout probability in the model.
};

} // namespace kiln

#endif // KILN_LIB_COMPILER_COMPILATION_H
