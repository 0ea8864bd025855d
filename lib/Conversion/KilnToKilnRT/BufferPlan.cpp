//===- BufferPlan.cpp - Which buffer every value lives in -------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "BufferPlan.h"

#include "llvm/ADT/STLExtras.h"

using namespace mlir;
using namespace kiln;

static int64_t bytesOf(Type type) {
  auto tensor = cast<RankedTensorType>(type);
  return tensor.getNumElements() * (tensor.getElementTypeBitWidth() / 8);
}

static Family familyOf(Operation *op) {
  if (auto dispatch = dyn_cast<DispatchOp>(op))
    return dispatch.getFamily();
  auto dispatchable = dyn_cast<DispatchableOpInterface>(op);
  return dispatchable ? dispatchable.getFamily() : Family::Structure;
}

std::string kiln::describeOp(Operation *op) {
  std::string name = getLocationName(op->getLoc()).str();
  std::string what;
  auto add = [&](Operation *inner) {
    if (isa<YieldOp, ConstantOp, BroadcastOp, ReshapeOp>(inner))
      return;
    if (what.size() > 60)
      return;
    what += (what.empty() ? "" : "+") + inner->getName().stripDialect().str();
  };
  if (auto dispatch = dyn_cast<DispatchOp>(op))
    for (Operation &inner : dispatch.getBody().front())
      add(&inner);
  else
    add(op);
  return name.empty() ? what : name + "." + what;
}

namespace {

class PlanBuilder {
public:
  PlanBuilder(ProgramOp program, ArrayRef<StateOp> states,
              ScratchBytes scratchBytes)
      : states(states), scratchBytes(scratchBytes) {
    plan.program = program;
  }
  FailureOr<ProgramPlan> run();

private:
  void numberOps(Block &block);
  int64_t lastUse(Value value);
  void delayUpdates(Block &block);
  void placeConcats(Block &block);
  void placeYields(AccumulateOp loop);
  void preplace(Value value, Place place);
  Value requiredTie(OpResult result);
  int32_t newBuffer(std::string name, StringRef slotClass, int64_t bytes, std::string why);
  Place densePlace(int32_t buffer, Type type);
  void setPlace(Value value, Place place);
  std::optional<Place> viewPlace(Operation *view);
  bool coversBuffer(const Place &place, Type type);
  LogicalResult visit(Operation *op);
  LogicalResult visitWork(Operation *op);
  LogicalResult visitLoop(AccumulateOp loop);
  LogicalResult visitWrite(WriteOp write);
  void placeResults(Operation *op);
  void classifyGradients(Operation *op);
  void emitCopy(Place from, Place to, int64_t bytes);
  void computeLifetimes();

  ArrayRef<StateOp> states;
  ScratchBytes scratchBytes;
  ProgramPlan plan;
  DenseMap<Value, Place> places;
  DenseMap<StringAttr, int32_t> stateBuffers;
  DenseMap<Operation *, int64_t> order;
  DenseMap<Operation *, int64_t> loopEnd;
  int64_t next = 0;
  std::vector<std::pair<Place, Place>> finalCopies; ///< untied writes of states
  std::vector<int64_t> finalCopyBytes;
};

} // namespace

//===----------------------------------------------------------------------===//
// Order and liveness
//===----------------------------------------------------------------------===//

void PlanBuilder::numberOps(Block &block) {
  for (Operation &op : block) {
    order[&op] = next++;
    if (auto loop = dyn_cast<AccumulateOp>(op)) {
      numberOps(loop.getBody().front());
      loopEnd[&op] = next++;
    }
  }
}

/// The order of the last op that reads a value, through views and concats. A use
/// inside a loop of a value from outside counts as one at the loop's end.
int64_t PlanBuilder::lastUse(Value value) {
  Block *home = value.getParentBlock();
  int64_t last = -1;
  for (Operation *user : value.getUsers()) {
    Operation *outer = user;
    while (outer->getBlock() != home)
      outer = outer->getParentOp();
    if (outer != user) {
      last = std::max(last, loopEnd.lookup(outer));
      continue;
    }
    Family family = familyOf(user);
    if (family == Family::View || family == Family::Concat)
      last = std::max(last, lastUse(user->getResult(0)));
    else if (isa<ReturnOp, WriteOp>(user))
      last = next;
    else if (isa<AccumulateOp>(user))
      last = std::max(last, loopEnd.lookup(user));
    else
      last = std::max(last, order.lookup(user));
  }
  return last;
}

/// All ops that read a value through views.
static void collectReaders(Value value, SmallVectorImpl<Operation *> &readers) {
  for (Operation *user : value.getUsers()) {
    if (familyOf(user) == Family::View)
      collectReaders(user->getResult(0), readers);
    else
      readers.push_back(user);
  }
}

/// An update writes over the state that it reads: it moves behind every other
/// reader of the entry value, with the writes of its results.
void PlanBuilder::delayUpdates(Block &block) {
  SmallVector<DispatchOp> updates;
  for (auto dispatch : block.getOps<DispatchOp>())
    if (llvm::any_of(dispatch->getUsers(), [](Operation *user) { return isa<WriteOp>(user); }))
      updates.push_back(dispatch);
  for (DispatchOp update : updates) {
    SmallVector<Operation *> readers;
    for (Value input : update.getInputs())
      if (auto read = input.getDefiningOp<ReadOp>())
        collectReaders(read.getResult(), readers);
    Operation *last = update;
    for (Operation *reader : readers) {
      while (reader->getBlock() != &block)
        reader = reader->getParentOp();
      if (last->isBeforeInBlock(reader))
        last = reader;
    }
    if (last == update)
      continue;
    // Only writes read an update's results, or it stays where it is and the
    // state is copied at the end.
    bool onlyWrites = llvm::all_of(update->getUsers(), [](Operation *user) { return isa<WriteOp>(user); });
    if (!onlyWrites)
      continue;
    SmallVector<Operation *> writes(update->getUsers());
    update->moveAfter(last);
    for (Operation *write : writes)
      write->moveAfter(update);
  }
}

//===----------------------------------------------------------------------===//
// Places
//===----------------------------------------------------------------------===//

int32_t PlanBuilder::newBuffer(std::string name, StringRef slotClass, int64_t bytes, std::string why) {
  Buffer buffer;
  buffer.name = std::move(name);
  buffer.slotClass = slotClass;
  buffer.bytes = bytes;
  buffer.why = std::move(why);
  plan.buffers.push_back(std::move(buffer));
  return static_cast<int32_t>(plan.buffers.size()) - 1;
}

Place PlanBuilder::densePlace(int32_t buffer, Type type) {
  Place place;
  place.buffer = buffer;
  place.rowStride = getColumnCount(cast<RankedTensorType>(type));
  return place;
}

void PlanBuilder::setPlace(Value value, Place place) {
  places[value] = place;
  Buffer &buffer = plan.buffers[place.buffer];
  buffer.lastUse = std::max(buffer.lastUse, lastUse(value));
}

bool PlanBuilder::coversBuffer(const Place &place, Type type) {
  return place.offset == 0 && place.loopStride == 0 &&
         plan.buffers[place.buffer].bytes == bytesOf(type) &&
         place.rowStride == getColumnCount(cast<RankedTensorType>(type));
}

/// The place of a reshape or slice, if rows of a fixed distance describe it.
std::optional<Place> PlanBuilder::viewPlace(Operation *view) {
  auto from = tensorTypeOf(view->getOperand(0)), to = tensorTypeOf(view->getResult(0));
  Place place = places.lookup(view->getOperand(0));
  int64_t width = from.getElementTypeBitWidth() / 8;
  bool dense = place.rowStride == getColumnCount(from) || getRowCount(from) == 1;
  if (isa<ReshapeOp>(view)) {
    if (dense)
      place.rowStride = getColumnCount(to);
    else if (getColumnCount(from) != getColumnCount(to))
      return std::nullopt;
    return place;
  }
  auto slice = cast<SliceOp>(view);
  int64_t rank = from.getRank();
  if (rank == 0)
    return place;
  int64_t row = 0, scale = 1;
  for (int64_t dim = rank - 2; dim >= 0; --dim) {
    row += slice.getOffsets()[dim] * scale;
    scale *= from.getDimSize(dim);
  }
  place.offset += (row * place.rowStride + slice.getOffsets()[rank - 1]) * width;
  if (getRowCount(to) == 1)
    place.rowStride = getColumnCount(to);
  return place;
}

/// The operand whose buffer an op's result must take, or null.
Value PlanBuilder::requiredTie(OpResult result) {
  Operation *op = result.getOwner();
  if (auto dispatch = dyn_cast<DispatchOp>(op)) {
    auto inner = dyn_cast<OpResult>(
        dispatch.getBody().front().getTerminator()->getOperand(result.getResultNumber()));
    if (!inner)
      return {};
    auto dispatchable = dyn_cast<DispatchableOpInterface>(inner.getOwner());
    int64_t tied = dispatchable ? dispatchable.getTiedOperand(inner.getResultNumber()) : -1;
    if (tied < 0)
      return {};
    auto argument = dyn_cast<BlockArgument>(inner.getOwner()->getOperand(tied));
    return argument ? dispatch.getInputs()[argument.getArgNumber()] : Value();
  }
  if (auto matmul = dyn_cast<MatmulOp>(op))
    return matmul.getAccumulate();
  return {};
}

/// Fixes a value's place before its producer is visited, and that of the values
/// which its producer accumulates onto.
void PlanBuilder::preplace(Value value, Place place) {
  setPlace(value, place);
  auto result = dyn_cast<OpResult>(value);
  if (!result)
    return;
  Value tied = requiredTie(result);
  if (tied && tied.getDefiningOp() && !isa<ReadOp>(tied.getDefiningOp()) &&
      tied.getParentBlock() == value.getParentBlock() && tied.hasOneUse() && !places.contains(tied))
    preplace(tied, place);
}

/// Operands of a concat live inside its result. formDispatches made every operand
/// one that its producer can write there.
void PlanBuilder::placeConcats(Block &block) {
  for (Operation &op : llvm::reverse(block)) {
    auto concat = dyn_cast<ConcatOp>(op);
    if (!concat)
      continue;
    auto type = concat.getType();
    if (!places.contains(concat.getResult())) {
      int32_t buffer = newBuffer(describeOp(concat), "activation", bytesOf(type), "operands written side by side");
      setPlace(concat.getResult(), densePlace(buffer, type));
    }
    Place whole = places.lookup(concat.getResult());
    int64_t width = type.getElementTypeBitWidth() / 8, rank = type.getRank(), at = 0;
    for (Value input : concat.getInputs()) {
      Place place = whole;
      if (static_cast<int64_t>(concat.getDim()) == rank - 1 && getRowCount(type) > 1) {
        place.offset += at * width;
      } else {
        int64_t inner = 1;
        for (int64_t dim = concat.getDim() + 1; dim < rank; ++dim)
          inner *= type.getDimSize(dim);
        place.offset += at * inner * width;
        if (rank == 1)
          place.rowStride = getColumnCount(tensorTypeOf(input));
      }
      at += tensorTypeOf(input).getDimSize(concat.getDim());
      preplace(input, place);
    }
  }
}

/// A loop's sums, their block arguments and the values yielded for them share
/// one buffer each.
void PlanBuilder::placeYields(AccumulateOp loop) {
  Block &body = loop.getBody().front();
  Operation *yield = body.getTerminator();
  unsigned slices = loop.getSliced().size();
  for (auto [i, sum] : llvm::enumerate(loop.getSums())) {
    if (!places.contains(sum)) {
      int32_t buffer = newBuffer(describeOp(yield->getOperand(i).getDefiningOp()), "gradient",
                                 bytesOf(sum.getType()), "sum over micro-batches");
      setPlace(sum, densePlace(buffer, sum.getType()));
    }
    Place place = places.lookup(sum);
    setPlace(body.getArgument(slices + i), place);
    if (!places.contains(yield->getOperand(i)) && yield->getOperand(i).getParentBlock() == &body &&
        yield->getOperand(i).getDefiningOp())
      preplace(yield->getOperand(i), place);
  }
}

//===----------------------------------------------------------------------===//
// Commands
//===----------------------------------------------------------------------===//

void PlanBuilder::emitCopy(Place from, Place to, int64_t bytes) {
  Command copy;
  copy.kind = Command::Kind::Copy;
  copy.places = {from, to};
  copy.bytes = bytes;
  plan.commands.push_back(std::move(copy));
}

/// Chooses a place for every result that has none yet.
void PlanBuilder::placeResults(Operation *op) {
  auto dispatch = dyn_cast<DispatchOp>(op);
  FailureOr<row::RowProgram> rows = failure();
  if (dispatch && dispatch.getFamily() == Family::Row)
    rows = buildRowProgram(dispatch);
  llvm::SmallDenseSet<int32_t> taken;
  for (OpResult result : op->getResults()) {
    Value tied = requiredTie(result);
    if (tied) {
      Place from = places.lookup(tied);
      // Only the new value of a state may take the state's place.
      auto read = tied.getDefiningOp<ReadOp>();
      bool update = read && llvm::any_of(result.getUsers(), [&](Operation *user) {
                      auto write = dyn_cast<WriteOp>(user);
                      return write && write.getStateAttr() == read.getStateAttr();
                    });
      const Buffer &buffer = plan.buffers[from.buffer];
      bool dies = !buffer.state && buffer.lastUse <= order.lookup(op);
      auto existing = places.find(result);
      if (existing == places.end() && (update || dies)) {
        setPlace(result, from);
        continue;
      }
      if (existing != places.end() && existing->second.buffer == from.buffer &&
          existing->second.offset == from.offset)
        continue;
      // The operand is wanted later, or the result must lie elsewhere: copy first.
      if (existing == places.end())
        setPlace(result, densePlace(newBuffer(describeOp(op), "activation", bytesOf(result.getType()),
                                              "copy of an accumulation operand used later"),
                                    result.getType()));
      emitCopy(from, places.lookup(result), bytesOf(result.getType()));
      continue;
    }
    if (places.contains(result))
      continue;
    // A row dispatch may write over an operand that dies here.
    std::optional<Place> shared;
    if (succeeded(rows))
      for (auto [i, input] : llvm::enumerate(dispatch.getInputs())) {
        Place place = places.lookup(input);
        const Buffer &buffer = plan.buffers[place.buffer];
        if (shared || buffer.state || buffer.slotClass == "input" || taken.contains(place.buffer) ||
            buffer.lastUse > order.lookup(op) || !coversBuffer(place, input.getType()) ||
            bytesOf(input.getType()) != bytesOf(result.getType()) ||
            !row::mayShareSlot(*rows, i, result.getResultNumber()))
          continue;
        // The same buffer must not be read under another operand too.
        if (llvm::count_if(dispatch.getInputs(), [&](Value other) {
              return places.lookup(other).buffer == place.buffer;
            }) == 1)
          shared = place;
      }
    if (shared) {
      taken.insert(shared->buffer);
      shared->rowStride = getColumnCount(cast<RankedTensorType>(result.getType()));
      setPlace(result, *shared);
      continue;
    }
    setPlace(result, densePlace(newBuffer(describeOp(op), "activation", bytesOf(result.getType()), "result"),
                                result.getType()));
  }
}

/// What an optimizer reads as gradient is one.
void PlanBuilder::classifyGradients(Operation *op) {
  auto dispatch = dyn_cast<DispatchOp>(op);
  if (!dispatch)
    return;
  for (Operation &inner : dispatch.getBody().front()) {
    int64_t position = isa<AdamOp>(inner) ? 3 : isa<MomentumOp>(inner) ? 2 : isa<SgdOp>(inner) ? 1 : -1;
    if (position < 0)
      continue;
    if (auto argument = dyn_cast<BlockArgument>(inner.getOperand(position))) {
      Buffer &buffer = plan.buffers[places.lookup(dispatch.getInputs()[argument.getArgNumber()]).buffer];
      if (buffer.slotClass == "activation")
        buffer.slotClass = "gradient";
    }
  }
}

LogicalResult PlanBuilder::visitWork(Operation *op) {
  for (Value operand : op->getOperands())
    if (!places.contains(operand))
      return op->emitOpError("reads a value that has no place in memory");
  placeResults(op);
  classifyGradients(op);
  Command command;
  command.op = op;
  auto loop = dyn_cast<AccumulateOp>(op->getParentOp());
  // Onto a loop's sum: from zero in the first iteration, then adding.
  auto betaFor = [&](Value accumulate) -> int64_t {
    if (!accumulate)
      return 0;
    auto argument = dyn_cast<BlockArgument>(accumulate);
    return loop && argument && argument.getOwner() == &loop.getBody().front() ? 2 : 1;
  };
  if (auto matmul = dyn_cast<MatmulOp>(op)) {
    command.kind = Command::Kind::Gemm;
    command.beta = betaFor(matmul.getAccumulate());
    command.places = {places.lookup(matmul.getA()), places.lookup(matmul.getB()),
                      places.lookup(matmul.getResult())};
  } else {
    auto dispatch = cast<DispatchOp>(op);
    command.kind = Command::Kind::Launch;
    if (dispatch.getFamily() == Family::Scatter)
      command.beta = betaFor(requiredTie(dispatch->getResult(0)));
    for (Value operand : op->getOperands())
      command.places.push_back(places.lookup(operand));
    for (Value result : op->getResults())
      command.places.push_back(places.lookup(result));
    if (int64_t bytes = scratchBytes(dispatch, command.places))
      command.scratch = newBuffer(describeOp(op), "workspace", bytes, "scratch of every thread");
  }
  plan.commands.push_back(std::move(command));
  return success();
}

LogicalResult PlanBuilder::visitLoop(AccumulateOp loop) {
  placeYields(loop);
  Block &body = loop.getBody().front();
  unsigned slices = loop.getSliced().size();
  for (auto [i, value] : llvm::enumerate(loop.getSliced())) {
    Place place = places.lookup(value);
    place.loopStride = bytesOf(body.getArgument(i).getType());
    setPlace(body.getArgument(i), place);
  }
  // A sum that is not started by the op that makes it starts from zeros.
  for (unsigned i = 0; i < loop.getNumResults(); ++i) {
    BlockArgument sum = body.getArgument(slices + i);
    bool started = llvm::all_of(sum.getUses(), [&](OpOperand &use) {
      Operation *user = use.getOwner();
      if (auto matmul = dyn_cast<MatmulOp>(user))
        return matmul.getAccumulate() == sum && matmul.getA() != sum && matmul.getB() != sum;
      auto dispatch = dyn_cast<DispatchOp>(user);
      return dispatch && dispatch.getFamily() == Family::Scatter;
    });
    if (started)
      continue;
    Command fill;
    fill.kind = Command::Kind::Fill;
    fill.places = {places.lookup(sum)};
    fill.bytes = bytesOf(sum.getType());
    plan.commands.push_back(std::move(fill));
  }
  Command begin;
  begin.kind = Command::Kind::LoopBegin;
  begin.count = loop.getCount();
  plan.commands.push_back(begin);
  placeConcats(body);
  for (Operation &op : body)
    if (failed(visit(&op)))
      return failure();
  Operation *yield = body.getTerminator();
  for (auto [i, value] : llvm::enumerate(yield->getOperands())) {
    Place from = places.lookup(value), to = places.lookup(loop.getSums()[i]);
    if (from.buffer != to.buffer || from.offset != to.offset)
      emitCopy(from, to, bytesOf(value.getType()));
  }
  Command end;
  end.kind = Command::Kind::LoopEnd;
  plan.commands.push_back(end);
  return success();
}

LogicalResult PlanBuilder::visitWrite(WriteOp write) {
  Place from = places.lookup(write.getValue());
  int32_t index = stateBuffers.lookup(write.getStateAttr().getAttr());
  if (from.buffer != index) {
    finalCopies.push_back({from, densePlace(index, write.getValue().getType())});
    finalCopyBytes.push_back(bytesOf(write.getValue().getType()));
  }
  return success();
}

LogicalResult PlanBuilder::visit(Operation *op) {
  if (auto read = dyn_cast<ReadOp>(op)) {
    setPlace(read.getResult(),
             densePlace(stateBuffers.lookup(read.getStateAttr().getAttr()), read.getType()));
    return success();
  }
  if (auto loop = dyn_cast<AccumulateOp>(op))
    return visitLoop(loop);
  if (auto write = dyn_cast<WriteOp>(op))
    return visitWrite(write);
  if (isa<ReturnOp, YieldOp, ConcatOp>(op))
    return success();
  if (familyOf(op) == Family::View) {
    auto place = viewPlace(op);
    if (!place)
      return op->emitOpError("is no view of its operand's rows; kiln-form-dispatches should have copied it");
    setPlace(op->getResult(0), *place);
    return success();
  }
  if (isa<DispatchOp, MatmulOp>(op))
    return visitWork(op);
  return op->emitOpError("cannot be scheduled; kiln-form-dispatches should have put it into a dispatch");
}

/// A buffer lives from the first to the last command that touches it; if that is
/// partly inside and partly outside of a loop, through the whole loop.
void PlanBuilder::computeLifetimes() {
  auto touch = [&](int32_t buffer, int64_t command) {
    Buffer &b = plan.buffers[buffer];
    b.first = std::min(b.first, command);
    b.last = std::max(b.last, command);
  };
  for (auto [i, command] : llvm::enumerate(plan.commands)) {
    for (const Place &place : command.places)
      touch(place.buffer, i);
    if (command.scratch >= 0)
      touch(command.scratch, i);
  }
  int64_t end = static_cast<int64_t>(plan.commands.size()) - 1;
  for (const Boundary &input : plan.inputs)
    touch(input.place.buffer, 0);
  for (const Boundary &output : plan.outputs)
    touch(output.place.buffer, std::max<int64_t>(end, 0));
  int64_t begin = -1;
  for (auto [i, command] : llvm::enumerate(plan.commands)) {
    if (command.kind == Command::Kind::LoopBegin)
      begin = i;
    if (command.kind != Command::Kind::LoopEnd)
      continue;
    int64_t last = i;
    for (Buffer &buffer : plan.buffers) {
      bool crosses = buffer.first < begin || buffer.last > last;
      bool inside = buffer.first < last && buffer.last > begin;
      if (crosses && inside) {
        buffer.first = std::min(buffer.first, begin);
        buffer.last = std::max(buffer.last, last);
      }
    }
  }
  for (size_t i = 0; i < states.size(); ++i) {
    plan.buffers[i].first = 0;
    plan.buffers[i].last = std::max<int64_t>(end, 0);
  }
}

FailureOr<ProgramPlan> PlanBuilder::run() {
  ProgramOp program = plan.program;
  Block &block = program.getBlock();
  delayUpdates(block);
  for (AccumulateOp loop : block.getOps<AccumulateOp>())
    delayUpdates(loop.getBody().front());
  numberOps(block);

  for (StateOp state : states) {
    StringRef slotClass = state.getRole() == Role::Optimizer ? "optimizer"
                          : state.getRole() == Role::Constant ? "constant"
                                                              : "parameter";
    int32_t buffer = newBuffer(state.getSymName().str(), slotClass, bytesOf(state.getType()), "state");
    plan.buffers[buffer].state = state;
    stateBuffers[state.getSymNameAttr()] = buffer;
  }
  for (BlockArgument argument : block.getArguments()) {
    std::string name = program.getInputName(argument.getArgNumber()).str();
    int32_t buffer = newBuffer(name, "input", bytesOf(argument.getType()), "input");
    setPlace(argument, densePlace(buffer, argument.getType()));
    plan.inputs.push_back({name, places.lookup(argument), argument.getType()});
  }
  placeConcats(block);
  for (Operation &op : block)
    if (failed(visit(&op)))
      return failure();
  for (auto [copy, bytes] : llvm::zip(finalCopies, finalCopyBytes))
    emitCopy(copy.first, copy.second, bytes);

  for (auto [i, value] : llvm::enumerate(program.getReturn().getValues())) {
    Place place = places.lookup(value);
    Buffer &buffer = plan.buffers[place.buffer];
    if (!buffer.state && buffer.slotClass != "input")
      buffer.slotClass = "output";
    plan.outputs.push_back({program.getOutputName(i).str(), place, value.getType()});
  }
  computeLifetimes();
  return std::move(plan);
}

FailureOr<ProgramPlan> kiln::planBuffers(ProgramOp program, ArrayRef<StateOp> states,
                                         ScratchBytes scratchBytes) {
  return PlanBuilder(program, states, scratchBytes).run();
}
