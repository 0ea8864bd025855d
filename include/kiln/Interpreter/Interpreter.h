//===- Interpreter.h - Naive evaluation of kiln programs --------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Runs a program of a module op by op. Ops evaluate themselves in f64 through
// ReferenceOpInterface. The interpreter rounds every result to its type during
// evaluation (see EvalType), supplies the values of states to ops that read
// them, applies writes of states at the end of the program, and runs the bodies
// of ops with regions.
//
// Tensors are immutable and shared, so that reading a state copies nothing. A
// value is released after its last use.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_INTERPRETER_INTERPRETER_H
#define KILN_INTERPRETER_INTERPRETER_H

#include "kiln/Dialect/Kiln/IR/Kiln.h"

#include "llvm/ADT/StringMap.h"

#include <functional>
#include <memory>

namespace kiln {

/// Floating-point types of values during interpretation.
enum class EvalType {
  Own, ///< Types of the IR; results are rounded to them after every op.
  F64, ///< f64 for all values; nothing is rounded.
};

using TensorHandle = std::shared_ptr<const HostTensor>;

class Interpreter {
public:
  /// Called for every evaluated op with the operands and the rounded results of
  /// the op.
  using Observer =
      std::function<void(mlir::Operation *, llvm::ArrayRef<const HostTensor *>,
                         llvm::ArrayRef<const HostTensor *>)>;

  Interpreter(mlir::ModuleOp module, EvalType evalType)
      : module(module), evalType(evalType) {}

  mlir::ModuleOp getModule() const { return module; }
  EvalType getEvalType() const { return evalType; }
  void setObserver(Observer newObserver) { observer = std::move(newObserver); }

  /// Returns the type that a value of tensor type `type` has during evaluation.
  mlir::RankedTensorType evaluationType(mlir::Type type) const;

  /// Sets the value of a state. `value` must have the evaluation type of the
  /// state. Every state that a program reads must have a value.
  void setState(llvm::StringRef name, HostTensor value);
  /// Returns the value of a state, or null if the state has no value yet.
  TensorHandle getState(llvm::StringRef name) const;

  /// Runs `program` on `inputs`. Input i is the value of argument i of the
  /// program, in the type in which the interpreter evaluates it (see EvalType).
  /// Returns the results. On failure, emits a diagnostic and leaves all states
  /// unchanged.
  mlir::FailureOr<llvm::SmallVector<TensorHandle>>
  run(ProgramOp program, llvm::ArrayRef<TensorHandle> inputs);

  /// Runs a block without states on the values of its arguments. Returns the
  /// operands of its terminator.
  mlir::FailureOr<llvm::SmallVector<TensorHandle>>
  runBlock(mlir::Block &block, llvm::ArrayRef<TensorHandle> arguments) const;

private:
  mlir::ModuleOp module;
  EvalType evalType;
  Observer observer;
  llvm::StringMap<TensorHandle> states;
};

/// Rounds every element to the element type of the tensor.
void roundToType(HostTensor &tensor);

} // namespace kiln

#endif // KILN_INTERPRETER_INTERPRETER_H
