//===- Interpreter.h - Naive evaluation of kiln programs --------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Runs one program of a module op by op. Ops evaluate themselves through
// ReferenceOpInterface in f64; the interpreter rounds every result to the type
// of the evaluation, feeds states to reads, applies writes when the program
// ends, and runs the bodies of regions.
//
// Tensors are shared, never changed after they were made: a read is the state's
// tensor itself. A value is released after its last use.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_INTERPRETER_INTERPRETER_H
#define KILN_INTERPRETER_INTERPRETER_H

#include "kiln/Dialect/Kiln/IR/Kiln.h"

#include "llvm/ADT/StringMap.h"

#include <functional>
#include <memory>

namespace kiln {

/// Which floating point types values have while they are interpreted.
enum class EvalType {
  Own, ///< Those in the IR: results are rounded to them after every op.
  F64, ///< f64 everywhere: nothing is rounded.
};

using TensorHandle = std::shared_ptr<const HostTensor>;

class Interpreter {
public:
  /// Sees every op that was evaluated, with its rounded results.
  using Observer =
      std::function<void(mlir::Operation *, llvm::ArrayRef<const HostTensor *>,
                         llvm::ArrayRef<const HostTensor *>)>;

  Interpreter(mlir::ModuleOp module, EvalType evalType)
      : module(module), evalType(evalType) {}

  mlir::ModuleOp getModule() const { return module; }
  EvalType getEvalType() const { return evalType; }
  void setObserver(Observer newObserver) { observer = std::move(newObserver); }

  /// The type that a value of tensor type `type` has during the evaluation.
  mlir::RankedTensorType evaluationType(mlir::Type type) const;

  /// The value of a state, of its evaluation type. A state that a program reads
  /// must have one.
  void setState(llvm::StringRef name, HostTensor value);
  /// Null when the state has no value yet.
  TensorHandle getState(llvm::StringRef name) const;

  /// Runs `program` on `inputs`, in the order of its arguments and of their
  /// evaluation types. Returns its results; on failure a diagnostic was emitted
  /// and no state has changed.
  mlir::FailureOr<llvm::SmallVector<TensorHandle>>
  run(ProgramOp program, llvm::ArrayRef<TensorHandle> inputs);

  /// Runs a block without states on the values of its arguments; gives the
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
