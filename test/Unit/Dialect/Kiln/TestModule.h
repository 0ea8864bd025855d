//===- TestModule.h - Modules and tensors for unit tests --------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef KILN_UNIT_DIALECT_KILN_TESTMODULE_H
#define KILN_UNIT_DIALECT_KILN_TESTMODULE_H

#include "kiln/Interpreter/Interpreter.h"

#include <string>
#include <vector>

namespace kiln::test {

/// A parsed module with its context and the diagnostics that were emitted.
class TestModule {
public:
  explicit TestModule(const std::string &text);
  ~TestModule();

  bool valid() { return static_cast<bool>(module); }
  mlir::ModuleOp get() { return *module; }
  ProgramOp program(llvm::StringRef name) {
    return module->lookupSymbol<ProgramOp>(name);
  }
  const std::string &diagnostics() const { return messages; }

private:
  mlir::MLIRContext context;
  std::string messages;
  mlir::OwningOpRef<mlir::ModuleOp> module;
};

/// Returns the text of a program @f that applies one op to its arguments. The
/// program returns result i of the op for each i in `returned`.
std::string programOf(const std::string &op, const std::string &properties,
                      const std::vector<std::string> &operands,
                      const std::vector<std::string> &results,
                      const std::vector<unsigned> &returned = {0});

/// Returns a tensor type: "tensor<f32>" for "f32", "tensor<2x3xf32>" for
/// "2x3xf32".
inline std::string tensor(const std::string &shape) {
  return "tensor<" + shape + ">";
}

TensorHandle reals(mlir::RankedTensorType type, std::vector<double> values);
TensorHandle integers(mlir::RankedTensorType type, std::vector<int64_t> values);

/// Evaluates a program of programOf(), by default in f64. The i-th list
/// contains the elements of operand i. Returns the elements of every result of
/// the program, or an empty list on failure.
std::vector<std::vector<double>>
evaluateOp(const std::string &program,
           const std::vector<std::vector<double>> &operands,
           EvalType evalType = EvalType::F64);

} // namespace kiln::test

#endif // KILN_UNIT_DIALECT_KILN_TESTMODULE_H
