//===- InterpreterEngine.cpp - The interpreter as a training engine -------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Invariant: after run(), the bytes of every state are the interpreter's state
// rounded to the declared type. If the bytes are different at the start of the
// next run, the driver has written them, and they replace the interpreter's
// state.
//
//===----------------------------------------------------------------------===//

#include "kiln/Interpreter/InterpreterEngine.h"

#include "WorldRanks.h"

#include "kiln/Interpreter/TensorBytes.h"

#include "mlir/IR/Diagnostics.h"
#include "llvm/Support/raw_ostream.h"

using namespace mlir;
using kiln::runtime::ProgramInfo;
using kiln::runtime::StateInfo;
using kiln::runtime::ValueInfo;

namespace kiln {

Status withDiagnostics(MLIRContext *context,
                       llvm::function_ref<LogicalResult()> body) {
  std::string message;
  LogicalResult result = failure();
  {
    ScopedDiagnosticHandler handler(context, [&](Diagnostic &diagnostic) {
      if (message.empty())
        llvm::raw_string_ostream(message)
            << diagnostic.getLocation() << ": " << diagnostic;
    });
    result = body();
  }
  return succeeded(result) ? Status() : Status::error(message);
}

Result<SmallVector<TensorHandle>> runProgram(Interpreter &interpreter,
                                             ProgramOp program,
                                             ArrayRef<TensorHandle> inputs) {
  FailureOr<SmallVector<TensorHandle>> outputs = failure();
  Status status = withDiagnostics(program.getContext(), [&] {
    outputs = interpreter.run(program, inputs);
    return LogicalResult(outputs);
  });
  if (!status.ok())
    return status;
  return *outputs;
}

InterpreterEngine::InterpreterEngine(ModuleOp module, EvalType evalType)
    : interpreter(module, evalType),
      description_(describeModule(module, interpreter)),
      stateOps(module.getOps<StateOp>()) {
  for (const StateInfo &state : description_.states)
    states.emplace_back(state.bytes());
  for (auto [op, info] :
       llvm::zip_equal(module.getOps<ProgramOp>(), description_.programs)) {
    Program &program = programs.emplace_back();
    program.op = op;
    for (const ValueInfo &input : info.inputs)
      program.inputs.emplace_back(input.bytes());
    for (const ValueInfo &output : info.outputs)
      program.outputs.emplace_back(output.bytes());
  }
}

RankedTensorType InterpreterEngine::stateType(size_t state) {
  return interpreter.evaluationType(stateOps[state].getType());
}

TensorHandle InterpreterEngine::stateTensor(size_t state) {
  StringRef name = stateOps[state].getSymName();
  ElementType stored = description_.states[state].type;
  if (TensorHandle tensor = interpreter.getState(name)) {
    Bytes expected(states[state].size());
    tensorToBytes(*tensor, stored, expected.data());
    if (expected == states[state])
      return tensor;
  }
  interpreter.setState(
      name, tensorFromBytes(stateType(state), stored, states[state].data()));
  return interpreter.getState(name);
}

ReferenceEngine::ReferenceEngine() = default;
ReferenceEngine::~ReferenceEngine() = default;

Status ReferenceEngine::join(runtime::World &world) {
  if (world.size() > 1)
    ranks = std::make_unique<WorldRanks>(world, description().mesh);
  return {};
}

Status ReferenceEngine::withRanks(llvm::function_ref<Status()> body) {
  if (!ranks)
    return body();
  RankGroupScope scope(*ranks);
  return body();
}

Status InterpreterEngine::runAlone(size_t index) {
  Program &program = programs[index];
  const ProgramInfo &info = description_.programs[index];
  for (size_t i = 0; i < states.size(); ++i)
    stateTensor(i);

  SmallVector<TensorHandle> inputs;
  for (size_t i = 0; i < info.inputs.size(); ++i)
    inputs.push_back(std::make_shared<const HostTensor>(tensorFromBytes(
        interpreter.evaluationType(program.op.getArgumentTypes()[i]),
        info.inputs[i].type, program.inputs[i].data())));
  auto outputs = runProgram(interpreter, program.op, inputs);
  if (!outputs.ok())
    return outputs.status();

  for (size_t i = 0; i < info.outputs.size(); ++i)
    tensorToBytes(*(*outputs)[i], info.outputs[i].type,
                  program.outputs[i].data());
  for (size_t i = 0; i < states.size(); ++i)
    tensorToBytes(*interpreter.getState(stateOps[i].getSymName()),
                  description_.states[i].type, states[i].data());
  return {};
}

} // namespace kiln
