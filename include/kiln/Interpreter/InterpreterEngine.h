//===- InterpreterEngine.h - Interpreting as a training engine --*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Lets the training driver run a module that was not compiled. States and
// inputs have their declared types outside, so that initial values and
// checkpoints are those of the executable; an f64 evaluation keeps unrounded
// states beside them for as long as nobody writes over the rounded ones.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_INTERPRETER_INTERPRETERENGINE_H
#define KILN_INTERPRETER_INTERPRETERENGINE_H

#include "kiln/Interpreter/Interpreter.h"
#include "kiln/Runtime/Engine/Engine.h"

namespace kiln {

/// What the driver needs to know about a module: states, programs with their
/// inputs and outputs, and the model's facts from `kiln.model`. Outputs have
/// their evaluation types. A result without a name is "result<i>".
runtime::Description describeModule(mlir::ModuleOp module,
                                    const Interpreter &interpreter);

/// The initial value that a state declares.
runtime::InitialValue initialValueOf(StateOp state);

/// Runs `body`; a failure is the first diagnostic that it emitted, in one line.
Status withDiagnostics(mlir::MLIRContext *context,
                       llvm::function_ref<mlir::LogicalResult()> body);

/// Runs a program; a failure is the first diagnostic, in one line.
Result<llvm::SmallVector<TensorHandle>>
runProgram(Interpreter &interpreter, ProgramOp program,
           llvm::ArrayRef<TensorHandle> inputs);

/// An engine that also gives states as the evaluation has them.
class ReferenceEngine : public runtime::Engine {
public:
  Status start(int threads) override { return {}; }
  int threads() const override { return 1; }
  std::string libraryName() const override { return "interpreter"; }

  /// State `state` as the evaluation has it, at the latest known to the driver.
  virtual TensorHandle stateTensor(size_t state) = 0;
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
  Status run(size_t program) override;

  TensorHandle stateTensor(size_t state) override;

private:
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
