//===- InterpreterEngine.h - Interpreter as a training engine ---*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Lets the training driver run a module that is not compiled. The driver sees
// states and inputs in their declared types, so that initial values and
// checkpoints are equal to those of the compiled executable. In an f64
// evaluation, the engine also stores the unrounded value of each state until
// the driver changes the state.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_INTERPRETER_INTERPRETERENGINE_H
#define KILN_INTERPRETER_INTERPRETERENGINE_H

#include "kiln/Interpreter/Interpreter.h"
#include "kiln/Runtime/Engine/Engine.h"

#include <memory>

namespace kiln {

class RankGroup;

/// Describes a module for the driver: states, programs with their inputs and
/// outputs, and the properties of the model in `kiln.model`. Outputs have the
/// types in which the interpreter evaluates them (see EvalType). A result
/// without a name is called "result<i>".
runtime::Description describeModule(mlir::ModuleOp module,
                                    const Interpreter &interpreter);

/// Returns the initial value that a state declares.
runtime::InitialValue initialValueOf(StateOp state);

/// Runs `body`. On failure, returns the first diagnostic of `body` as a
/// one-line status.
Status withDiagnostics(mlir::MLIRContext *context,
                       llvm::function_ref<mlir::LogicalResult()> body);

/// Runs a program. On failure, returns the first diagnostic as a one-line
/// status.
Result<llvm::SmallVector<TensorHandle>>
runProgram(Interpreter &interpreter, ProgramOp program,
           llvm::ArrayRef<TensorHandle> inputs);

/// An engine that also returns states in the types in which the interpreter
/// evaluates them (see EvalType).
class ReferenceEngine : public runtime::Engine {
public:
  ReferenceEngine();
  ~ReferenceEngine() override;

  Status join(runtime::World &world) override;
  Status start(int threads) override { return {}; }
  int threads() const override { return 1; }
  std::string libraryName() const override { return "interpreter"; }

  /// Returns state `state` in the type in which the interpreter evaluates it
  /// (see EvalType). Includes changes that the driver has made to the state.
  virtual TensorHandle stateTensor(size_t state) = 0;

protected:
  /// Calls `body`. Collectives that `body` evaluates communicate with the ranks
  /// of the `world` that was passed to join().
  Status withRanks(llvm::function_ref<Status()> body);

private:
  std::unique_ptr<RankGroup> ranks; ///< Null if there is only one rank.
};

class InterpreterEngine : public ReferenceEngine {
public:
  InterpreterEngine(mlir::ModuleOp module, EvalType evalType);

  const runtime::Description &description() const override {
    return description_;
  }

  char *stateData(size_t state) override { return states[state].data(); }
  char *inputData(size_t program, size_t input) override {
    return programs[program].inputs[input].data();
  }
  char *outputData(size_t program, size_t output) override {
    return programs[program].outputs[output].data();
  }
  Status run(size_t program) override {
    return withRanks([&] { return runAlone(program); });
  }

  TensorHandle stateTensor(size_t state) override;

private:
  Status runAlone(size_t program);

  using Bytes = std::vector<char>;
  struct Program {
    ProgramOp op;
    std::vector<Bytes> inputs, outputs;
  };

  mlir::RankedTensorType stateType(size_t state);

  Interpreter interpreter;
  runtime::Description description_;
  llvm::SmallVector<StateOp> stateOps;
  std::vector<Bytes> states;
  std::vector<Program> programs;
};

} // namespace kiln

#endif // KILN_INTERPRETER_INTERPRETERENGINE_H
