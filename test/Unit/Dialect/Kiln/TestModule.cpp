//===- TestModule.cpp - Modules and tensors for unit tests ------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "TestModule.h"

#include "mlir/Parser/Parser.h"
#include "llvm/Support/raw_ostream.h"

using namespace mlir;

namespace kiln::test {

TestModule::TestModule(const std::string &text)
    : context(MLIRContext::Threading::DISABLED) {
  context.loadDialect<KilnDialect>();
  context.getDiagEngine().registerHandler([this](Diagnostic &diagnostic) {
    llvm::raw_string_ostream(messages) << diagnostic << "\n";
  });
  module = parseSourceString<ModuleOp>(text, ParserConfig(&context));
}

TestModule::~TestModule() = default;

std::string programOf(const std::string &op, const std::string &properties,
                      const std::vector<std::string> &operands,
                      const std::vector<std::string> &results,
                      const std::vector<unsigned> &returned) {
  std::string arguments, names, operandTypes, resultTypes, values, types;
  for (size_t i = 0; i < operands.size(); ++i) {
    std::string comma = i ? ", " : "", name = "%a" + std::to_string(i);
    arguments += comma + name + ": " + tensor(operands[i]);
    names += comma + name;
    operandTypes += comma + tensor(operands[i]);
  }
  for (size_t i = 0; i < results.size(); ++i)
    resultTypes += (i ? ", " : "") + tensor(results[i]);
  for (size_t i = 0; i < returned.size(); ++i) {
    std::string comma = i ? ", " : "";
    values += comma + "%r#" + std::to_string(returned[i]);
    types += comma + tensor(results[returned[i]]);
  }
  std::string given = properties.empty() ? "" : " <{" + properties + "}>";
  return "kiln.program @f(" + arguments + ") -> (" + types +
         ") attributes {kind = #kiln.program_kind<forward>} {\n  %r:" +
         std::to_string(results.size()) + " = \"" + op + "\"(" + names + ")" +
         given + " : (" + operandTypes + ") -> (" + resultTypes +
         ")\n  kiln.return " + values + " : " + types + "\n}\n";
}

TensorHandle reals(RankedTensorType type, std::vector<double> values) {
  HostTensor tensor(type);
  assert(values.size() == tensor.reals.size() && "one value per element");
  tensor.reals = std::move(values);
  return std::make_shared<const HostTensor>(std::move(tensor));
}

TensorHandle integers(RankedTensorType type, std::vector<int64_t> values) {
  HostTensor tensor(type);
  assert(values.size() == tensor.integers.size() && "one value per element");
  tensor.integers = std::move(values);
  return std::make_shared<const HostTensor>(std::move(tensor));
}

std::vector<std::vector<double>>
evaluateOp(const std::string &program,
           const std::vector<std::vector<double>> &operands,
           EvalType evalType) {
  TestModule module(program);
  if (!module.valid())
    return {};
  Interpreter interpreter(module.get(), evalType);
  ProgramOp op = module.program("f");
  SmallVector<TensorHandle> inputs;
  for (auto [type, values] : llvm::zip_equal(op.getArgumentTypes(), operands)) {
    RankedTensorType evaluated = interpreter.evaluationType(type);
    if (isa<FloatType>(evaluated.getElementType()))
      inputs.push_back(reals(evaluated, values));
    else
      inputs.push_back(integers(
          evaluated, std::vector<int64_t>(values.begin(), values.end())));
  }
  auto outputs = interpreter.run(op, inputs);
  if (failed(outputs))
    return {};
  std::vector<std::vector<double>> results;
  for (const TensorHandle &output : *outputs)
    results.push_back(output->isReal()
                          ? output->reals
                          : std::vector<double>(output->integers.begin(),
                                                output->integers.end()));
  return results;
}

} // namespace kiln::test
