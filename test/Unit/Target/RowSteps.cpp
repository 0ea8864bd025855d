//===- RowSteps.cpp - Row programs one op at a time -----------------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "RowSteps.h"

#include "kiln/Support/ElementConversion.h"

#include "mlir/IR/IRMapping.h"

#include <gtest/gtest.h>

using namespace mlir;
using namespace kiln::support;

namespace kiln::test {

void roundElements(HostTensor &tensor) {
  Type element = tensor.type.getElementType();
  if (isNarrowFloat(element))
    for (double &x : tensor.reals)
      x = roundTo(elementTypeOf(element), x);
}

RowSteps::RowSteps(ModuleOp module, const std::string &name,
                   const RowInstance &instance) {
  ProgramOp original = instance.program;
  for (Operation &op : original.getBlock().without_terminator()) {
    Step step;
    step.op = &op;
    step.name = name + "_" + std::to_string(steps.size());
    // Clone the op with f32 elements.
    Block block;
    IRMapping mapping;
    for (Value operand : op.getOperands())
      if (!mapping.contains(operand))
        mapping.map(operand,
                    block.addArgument(fullPrecision(tensorTypeOf(operand)),
                                      op.getLoc()));
    OpBuilder builder(module.getContext());
    builder.setInsertionPointToEnd(&block);
    Operation *wide = builder.clone(op, mapping);
    for (Value result : wide->getResults())
      result.setType(fullPrecision(tensorTypeOf(result)));

    auto rowOp = cast<RowOpInterface>(wide);
    RowSpace space = rowOp.getRowSpace();
    RowBuilder rows(space.rows, space.cols);
    FailureOr<row::RowProgram> program = failure();
    if (succeeded(rowOp.buildRows(rows)))
      program = rows.finish(SmallVector<Value>(wide->getOperands()),
                            SmallVector<Value>(wide->getResults()));
    if (failed(program)) {
      ADD_FAILURE() << "no row space for " << op.getName().getStringRef().str();
      return;
    }
    step.immediates = program->immediates;
    RowShape shape;
    shape.layouts.assign(wide->getNumOperands() + wide->getNumResults(),
                         Layout{program->cols});
    shape.program = std::move(*program);
    step.units = cpu::emitRowKernel(module, step.name, shape).units;
    steps.push_back(std::move(step));
  }
}

std::vector<HostTensor> RowSteps::run(const LoadedKernels &library,
                                      const RowInstance &instance,
                                      ArrayRef<HostTensor> inputs) const {
  DenseMap<Value, HostTensor> known;
  for (auto [value, tensor] : llvm::zip_equal(instance.operands, inputs))
    known[value] = tensor;
  for (const Step &step : steps) {
    std::vector<Buffer> buffers;
    for (Value operand : step.op->getOperands()) {
      HostTensor wide = known[operand];
      wide.type = fullPrecision(wide.type);
      buffers.emplace_back(wide);
    }
    for (Value result : step.op->getResults())
      buffers.emplace_back(fullPrecision(tensorTypeOf(result)));
    std::vector<char *> args;
    for (Buffer &buffer : buffers)
      args.push_back(buffer.data());
    library.find(step.name)(args.data(), step.immediates.data(), 0, step.units,
                            nullptr);
    for (auto [i, result] : llvm::enumerate(step.op->getResults())) {
      HostTensor tensor = buffers[step.op->getNumOperands() + i].read();
      tensor.type = tensorTypeOf(result);
      roundElements(tensor);
      known[result] = std::move(tensor);
    }
  }
  std::vector<HostTensor> results;
  for (Value result : instance.results)
    results.push_back(known[result]);
  return results;
}

} // namespace kiln::test
