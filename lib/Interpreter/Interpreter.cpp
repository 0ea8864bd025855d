//===- Interpreter.cpp - Naive evaluation of kiln programs ----------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A Run executes one program once. It relies on verified IR: symbols resolve,
// and region arguments have the types of the values they are bound to.
//
//===----------------------------------------------------------------------===//

#include "kiln/Interpreter/Interpreter.h"

#include "kiln/Support/ElementConversion.h"

#include "llvm/ADT/TypeSwitch.h"

#include <utility>

using namespace mlir;
using namespace kiln;
using namespace kiln::abi;

using Handles = SmallVector<TensorHandle>;

namespace {

class Run {
public:
  Run(const Interpreter &interpreter, const Interpreter::Observer &observer)
      : interpreter(interpreter), observer(observer) {}

  /// Runs a block with the given arguments. Returns the operands of its
  /// terminator.
  FailureOr<Handles> runBlock(Block &block, ArrayRef<TensorHandle> arguments);

  /// The writes executed so far, in program order.
  SmallVector<std::pair<StringRef, TensorHandle>> writes;

private:
  LogicalResult runOp(Operation &op);
  LogicalResult evaluate(ReferenceOpInterface op);
  LogicalResult read(ReadOp op);
  LogicalResult runMicrobatches(MicrobatchesOp op);
  LogicalResult runIsolated(Operation &op);

  Handles valuesOf(ValueRange range) const {
    return llvm::map_to_vector(range,
                               [&](Value value) { return values.at(value); });
  }
  void setResults(Operation &op, ArrayRef<TensorHandle> results) {
    for (auto [value, result] : llvm::zip_equal(op.getResults(), results))
      values[value] = result;
  }

  using Deaths = DenseMap<Operation *, SmallVector<Value>>;
  /// Returns the values of a block, grouped by the op of the block that uses
  /// them last.
  const Deaths &deathsIn(Block &block);
  /// Releases the values that `op` uses last.
  void release(const Deaths &deaths, Operation &op) {
    if (auto found = deaths.find(&op); found != deaths.end())
      for (Value value : found->second)
        values.erase(value);
  }

  const Interpreter &interpreter;
  const Interpreter::Observer &observer;
  DenseMap<Value, TensorHandle> values;
  DenseMap<Block *, std::unique_ptr<Deaths>> deaths;
};

} // namespace

const Run::Deaths &Run::deathsIn(Block &block) {
  std::unique_ptr<Deaths> &cached = deaths[&block];
  if (cached)
    return *cached;
  cached = std::make_unique<Deaths>();
  auto add = [&](Value value, Operation *definition) {
    Operation *last = definition;
    for (Operation *user : value.getUsers()) {
      Operation *inBlock = block.findAncestorOpInBlock(*user);
      if (!last || last->isBeforeInBlock(inBlock))
        last = inBlock;
    }
    (*cached)[last ? last : &block.front()].push_back(value);
  };
  for (Value argument : block.getArguments())
    add(argument, nullptr);
  for (Operation &op : block)
    for (Value result : op.getResults())
      add(result, &op);
  return *cached;
}

FailureOr<Handles> Run::runBlock(Block &block,
                                 ArrayRef<TensorHandle> arguments) {
  for (auto [value, tensor] : llvm::zip_equal(block.getArguments(), arguments))
    values[value] = tensor;
  const Deaths &dying = deathsIn(block);
  for (Operation &op : block.without_terminator()) {
    if (failed(runOp(op)))
      return failure();
    release(dying, op);
  }
  Operation *terminator = block.getTerminator();
  Handles yielded = valuesOf(terminator->getOperands());
  release(dying, *terminator);
  return yielded;
}

LogicalResult Run::runOp(Operation &op) {
  return TypeSwitch<Operation *, LogicalResult>(&op)
      .Case([&](ReferenceOpInterface op) { return evaluate(op); })
      .Case([&](ReadOp op) { return read(op); })
      .Case([&](WriteOp op) {
        writes.emplace_back(op.getState(), values.at(op.getValue()));
        return success();
      })
      .Case([&](MicrobatchesOp op) { return runMicrobatches(op); })
      .Case([](PhaseOp) { return success(); })
      .Case<RecomputeOp, DispatchOp>([&](auto op) { return runIsolated(*op); })
      .Default([](Operation *op) {
        return op->emitOpError("cannot be interpreted: it does not implement "
                               "ReferenceOpInterface");
      });
}

LogicalResult Run::evaluate(ReferenceOpInterface op) {
  Handles operands = valuesOf(op->getOperands());
  auto pointers = llvm::map_to_vector(
      operands, [](const TensorHandle &tensor) { return tensor.get(); });
  auto results = llvm::map_to_vector(op->getResultTypes(), [&](Type type) {
    return HostTensor(interpreter.evaluationType(type));
  });
  if (failed(op.evaluate(pointers, results)))
    return failure();
  SmallVector<const HostTensor *> observed;
  for (auto [value, result] : llvm::zip_equal(op->getResults(), results)) {
    roundToType(result);
    auto handle = std::make_shared<const HostTensor>(std::move(result));
    observed.push_back(handle.get());
    values[value] = std::move(handle);
  }
  if (observer)
    observer(op, pointers, observed);
  return success();
}

LogicalResult Run::read(ReadOp op) {
  TensorHandle state = interpreter.getState(op.getState());
  if (!state)
    return op.emitOpError("reads @") << op.getState() << ", which has no value";
  values[op.getResult()] = state;
  return success();
}

/// Returns part `index` of `count` equal parts along dimension 0.
static TensorHandle slicePart(const HostTensor &tensor, int64_t index,
                              int64_t count) {
  SmallVector<int64_t> shape(tensor.shape());
  shape[0] /= count;
  HostTensor part(tensor.type.clone(shape));
  int64_t size = part.size();
  if (tensor.isReal())
    std::copy_n(tensor.reals.begin() + index * size, size, part.reals.begin());
  else
    std::copy_n(tensor.integers.begin() + index * size, size,
                part.integers.begin());
  return std::make_shared<const HostTensor>(std::move(part));
}

/// Executes the forward and backward segments of all micro-batches in the order
/// that `op` defines. If `op` has only one region, which is not divided into
/// segments, the region runs in place of each backward segment.
LogicalResult Run::runMicrobatches(MicrobatchesOp op) {
  SegmentOrder order = op.getSegmentOrder();
  auto count = static_cast<int64_t>(op.getCount());
  Handles whole = valuesOf(op.getSliced());
  Handles sums = llvm::map_to_vector(op.getResultTypes(), [&](Type type) {
    return std::make_shared<const HostTensor>(interpreter.evaluationType(type));
  });
  // The residuals of the micro-batches in flight, indexed by SegmentRun::slot.
  std::vector<Handles> residuals(order.slots(count));
  for (const SegmentRun &run : order.runs(count)) {
    bool isForward = run.segment == Segment::Forward;
    if (isForward && !op.isDivided())
      continue;
    Handles arguments =
        llvm::map_to_vector(whole, [&](const TensorHandle &all) {
          return slicePart(*all, run.microbatch, count);
        });
    Handles &inFlight = residuals[run.slot];
    if (!isForward) {
      arguments.append(std::exchange(inFlight, {}));
      arguments.append(sums);
    }
    auto yielded =
        runBlock(isForward ? op.getForward() : op.getBackward(), arguments);
    if (failed(yielded))
      return failure();
    (isForward ? inFlight : sums) = std::move(*yielded);
  }
  setResults(*op, sums);
  return success();
}

LogicalResult Run::runIsolated(Operation &op) {
  auto yielded = runBlock(op.getRegion(0).front(), valuesOf(op.getOperands()));
  if (failed(yielded))
    return failure();
  setResults(op, *yielded);
  return success();
}

RankedTensorType Interpreter::evaluationType(Type type) const {
  auto tensor = cast<RankedTensorType>(type);
  if (evalType == EvalType::F64 && isa<FloatType>(tensor.getElementType()))
    return tensor.clone(Float64Type::get(type.getContext()));
  return tensor;
}

void Interpreter::setState(StringRef name, HostTensor value) {
  states[name] = std::make_shared<const HostTensor>(std::move(value));
}

TensorHandle Interpreter::getState(StringRef name) const {
  return states.lookup(name);
}

FailureOr<Handles> Interpreter::run(ProgramOp program,
                                    ArrayRef<TensorHandle> inputs) {
  ArrayRef<Type> expected = program.getArgumentTypes();
  if (inputs.size() != expected.size())
    return program.emitOpError("got ")
           << inputs.size() << " inputs, expected " << expected.size();
  for (auto [i, type] : llvm::enumerate(expected))
    if (inputs[i]->type != evaluationType(type))
      return program.emitOpError("input ")
             << i << " is " << inputs[i]->type << ", expected "
             << evaluationType(type);
  Run run(*this, observer);
  auto results = run.runBlock(program.getBlock(), inputs);
  if (failed(results))
    return failure();
  for (auto &[name, value] : run.writes)
    states[name] = std::move(value);
  return results;
}

FailureOr<Handles>
Interpreter::runBlock(Block &block, ArrayRef<TensorHandle> arguments) const {
  return Run(*this, observer).runBlock(block, arguments);
}

void kiln::roundToType(HostTensor &tensor) {
  if (!isa<FloatType>(tensor.type.getElementType()))
    return;
  ElementType type = elementTypeOf(tensor.type);
  for (double &element : tensor.reals)
    element = roundTo(type, element);
}
