//===- Compilation.h - One compilation of a model ---------------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Reads the model, runs the levels, writes the result. Everything that a
// compilation may choose is fixed in its options; Compile.cpp makes several to
// choose among them.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_LIB_COMPILER_COMPILATION_H
#define KILN_LIB_COMPILER_COMPILATION_H

#include "MemoryPlanner.h"
#include "PlanRemarks.h"

#include "kiln/Compiler/Compile.h"
#include "kiln/Compiler/Pipelines.h"
#include "kiln/Target/Interface/TargetBackend.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/IR/OwningOpRef.h"
#include "mlir/Pass/PassManager.h"
#include "llvm/Support/JSON.h"

namespace kiln {

/// One compilation: reads the model, runs the levels, writes the result.
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
  /// Reads the model and goes on to the planned level, or to the level that the
  /// stage asks for if that comes first.
  Status plan();
  /// Goes on from there and writes the result. The remarks say why this is the
  /// trial that was chosen.
  Status finish(llvm::ArrayRef<PlanTrial> trials, const PlanTrial &chosen);
  /// Prints the passes from the forward graph to the schedule, as kiln-opt
  /// reads them.
  Status printPipeline();
  /// Seconds of a step, as the planner predicts them.
  double predictedSeconds();
  /// Whether states on the host might make the step faster: not if it is about
  /// as fast as without a budget, nor if their copies alone take longer.
  bool mayGainFromStates();
  /// After a budget was refused: the smallest that would not be.
  int64_t smallestBudget() const { return session.leastBudget; }

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
  std::string remarks; ///< of the context's engine
  mlir::MLIRContext context;
  const TargetBackend *target = nullptr; ///< set before anything else is done
  mlir::OwningOpRef<mlir::ModuleOp> module;
  std::string diagnostics;
  mlir::ScopedDiagnosticHandler handler;
  std::optional<Machine> machine;    ///< the figures that plans are priced with
  std::vector<std::string> warnings; ///< said once, of the chosen plan's model
  std::string precision;             ///< fp32, fp64, or bf16 with fp32 states
  PipelineOptions pipeline;          ///< from the module as it was read
  PlanningSession session;           ///< of the pipeline
  PipelinePoint reached = PipelinePoint::Imported; ///< by the module
  double dropout = 0; ///< the largest probability in the model
};

} // namespace kiln

#endif // KILN_LIB_COMPILER_COMPILATION_H
