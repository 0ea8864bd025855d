//===- PlaceCopies.cpp - Copies between device and host ---------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Inserts the copies of values that `kiln.offload` marks. `lag` and `lead` in
// this attribute (see kOffloadAttr) are the numbers of commands between the
// start of a copy and the wait for it:
//
//   %x = dispatch ...                        %x = dispatch ...
//                                            %f = copy_out %x
//   ... lag commands                         ... lag commands
//                                            %h = copy_wait %f, %x
//   ...                                -->   ...
//                                            %g = copy_in %h
//   ... lead commands                        ... lead commands
//                                            %y = copy_wait %g, %h
//   dispatch (%x)                            dispatch (%y)
//
// If a read of a state on the host has the attribute `kiln.keep`, the state is
// copied to the device once. Any other state on the host is copied once for
// each group of readers that are close together.
//
// Copies of one direction complete in the order in which they start. Copies
// that start before the same command start in the order of their first readers.
//
// Before it inserts copies, the pass divides each collective between ranks into
// a start and a wait.
//
//===----------------------------------------------------------------------===//

#include "StartCollectives.h"
#include "kiln/Dialect/Kiln/Transforms/Offload.h"
#include "kiln/Dialect/Kiln/Transforms/Passes.h"

#include "mlir/IR/IRMapping.h"
#include "llvm/ADT/MapVector.h"

namespace kiln {
#define GEN_PASS_DEF_PLACECOPIES
#include "kiln/Dialect/Kiln/Transforms/Passes.h.inc"
} // namespace kiln

using namespace mlir;
using namespace kiln;

/// Maximum distance in commands between consecutive readers of a host state
/// that share a copy.
static constexpr int64_t kReach = 8;

/// Returns true for an op that does not count as a command, but reads its
/// operands at its position between two commands.
static bool runsBetweenCommands(Operation *op) {
  return isa<CollectiveOpInterface, CollectiveStartOp, TakeShardOp>(op);
}

CommandOrder::CommandOrder(Block &block) {
  auto add = [&](Block &segment) {
    end = segment.getTerminator();
    for (Operation &op : segment)
      if (isa<DispatchOp, GemmOpInterface, MicrobatchesOp>(op)) {
        positions[&op] = size();
        commands.push_back(&op);
      } else if (runsBetweenCommands(&op) || isa<CollectiveWaitOp>(op)) {
        between[&op] = size();
      }
  };
  add(block);
  if (Block *backward = backwardSegmentOf(block))
    add(*backward);
}

int64_t CommandOrder::of(Operation *op) const {
  auto found = positions.find(op);
  return found == positions.end() ? -1 : found->second;
}

int64_t CommandOrder::readingPosition(Operation *op) const {
  if (auto found = between.find(op); found != between.end())
    return found->second;
  bool isAtEnd =
      op == end || (isa<WriteOp>(op) && op->getBlock() == end->getBlock());
  return isAtEnd ? size() : of(op);
}

int64_t CommandOrder::completingPosition(Operation *op) const {
  auto found = between.find(op);
  return found == between.end() ? of(op) : found->second - 1;
}

Operation *CommandOrder::inFrontOf(int64_t position) const {
  return position < size() ? commands[std::max<int64_t>(position, 0)] : end;
}

/// Visits each use of a value. If the user is a view, visits the uses of the
/// view instead.
static void forEachReader(Value value, SmallVector<Operation *, 2> views,
                          function_ref<void(const Reader &)> visit) {
  forEachUse(value, [&](OpOperand &use) {
    Operation *user = use.getOwner();
    if (familyOf(user) != Family::View)
      return visit({&use, views});
    SmallVector<Operation *, 2> through = views;
    through.push_back(user);
    forEachReader(user->getResult(0), through, visit);
  });
}

static void sortReaders(SmallVectorImpl<Reader> &readers,
                        const CommandOrder &order) {
  auto key = [&](const Reader &reader) {
    return std::pair(order.readingPosition(reader.operand->getOwner()),
                     reader.operand->getOperandNumber());
  };
  llvm::sort(readers,
             [&](const Reader &a, const Reader &b) { return key(a) < key(b); });
}

std::optional<SmallVector<Reader>> kiln::readersOf(Value value,
                                                   const CommandOrder &order) {
  SmallVector<Reader> readers;
  bool commandsAlone = true;
  forEachReader(value, {}, [&](const Reader &reader) {
    Operation *op = reader.operand->getOwner();
    commandsAlone &= order.of(op) >= 0 && !isa<MicrobatchesOp>(op);
    readers.push_back(reader);
  });
  if (!commandsAlone)
    return std::nullopt;
  sortReaders(readers, order);
  return readers;
}

std::optional<OffloadGap> kiln::findGap(Value value,
                                        const CommandOrder &order) {
  auto readers = readersOf(value, order);
  if (!readers || readers->empty())
    return std::nullopt;
  OffloadGap gap;
  gap.made = order.completingPosition(value.getDefiningOp());
  int64_t before = gap.made;
  size_t first = 0;
  for (auto [i, reader] : llvm::enumerate(*readers)) {
    int64_t position = order.of(reader.operand->getOwner());
    if (position - before > gap.back - gap.left) {
      gap.left = before;
      gap.back = position;
      first = i;
    }
    before = position;
  }
  gap.behind.assign(readers->begin() + first, readers->end());
  return gap;
}

void kiln::forEachMemoryValue(Block &block,
                              function_ref<void(Value, OpResult)> visit) {
  for (Operation &op : block) {
    auto dispatch = dyn_cast<DispatchOp>(op);
    if (!dispatch) {
      if (isa<GemmOpInterface, CollectiveWaitOp>(op))
        for (OpResult result : op.getResults())
          visit(result, result);
      continue;
    }
    // Visit only yielded values. Other values in the body are not stored in
    // memory.
    Operation *yield = dispatch.getBody().front().getTerminator();
    for (auto [value, yielded] :
         llvm::zip(dispatch->getResults(), yield->getOperands()))
      if (auto computed = dyn_cast<OpResult>(yielded))
        visit(value, computed);
  }
}

SmallVector<MarkedValue> kiln::markedValues(Block &block) {
  SmallVector<MarkedValue> values;
  forEachMemoryValue(block, [&](Value value, OpResult computed) {
    Operation *op = computed.getOwner();
    auto marks = op->getAttrOfType<DenseI64ArrayAttr>(kOffloadAttr);
    for (int64_t i = 0; marks && i + 2 < marks.size(); i += 3)
      if (marks[i] == computed.getResultNumber())
        values.push_back({value, op, marks[i + 1], marks[i + 2]});
  });
  return values;
}

SmallVector<ReadOp> kiln::readsAcross(ProgramOp program) {
  SmallVector<ReadOp> reads;
  SymbolTable symbols(program->getParentOfType<ModuleOp>());
  for (ReadOp read : program.getBlock().getOps<ReadOp>()) {
    auto state = symbols.lookup<StateOp>(read.getState());
    if (memoryOf(state.getType()) != memoryOf(read.getType()))
      reads.push_back(read);
  }
  return reads;
}

SmallVector<SmallVector<Reader>> kiln::readerGroups(ReadOp read,
                                                    const CommandOrder &order) {
  SmallVector<Reader> readers;
  forEachReader(read.getResult(), {}, [&](const Reader &reader) {
    if (order.readingPosition(reader.operand->getOwner()) >= 0)
      readers.push_back(reader);
  });
  sortReaders(readers, order);
  SmallVector<SmallVector<Reader>> groups;
  int64_t last = 0;
  for (Reader &reader : readers) {
    int64_t position = order.readingPosition(reader.operand->getOwner());
    if (groups.empty() || position - last > kReach)
      groups.emplace_back();
    groups.back().push_back(std::move(reader));
    last = position;
  }
  return groups;
}

namespace {

/// A copy to the device and its readers.
struct CopyIn {
  Value source;
  SmallVector<Reader> readers;
  /// The copy starts before the command at position `begin` and completes
  /// before the command at position `end`.
  int64_t begin = 0, end = 0;
};

class CopyPlacer {
public:
  explicit CopyPlacer(Block &block)
      : block(block), order(block), builder(block.getParent()->getContext()) {}
  /// Inserts the copies of the block. `across` contains pairs (r, h): r is a
  /// read that yields a state on the host as a tensor on the device, and h is
  /// the result of a second read that yields the state as a tensor on the host.
  void run(ArrayRef<std::pair<ReadOp, Value>> across);

private:
  void copyOut(const MarkedValue &marked);
  void copyIn(const CopyIn &copy);
  int64_t earliestBegin(int64_t earliest, int64_t end);

  Block &block;
  CommandOrder order;
  OpBuilder builder;
  std::vector<CopyIn> copiesIn;
};

} // namespace

/// Returns the least position in [earliest, end] such that no kiln.microbatches
/// is between this position and `end`. A copy to the device whose result is
/// needed at `end` can begin at this position.
int64_t CopyPlacer::earliestBegin(int64_t earliest, int64_t end) {
  int64_t begin = end;
  while (begin > earliest && !isa<MicrobatchesOp>(order[begin - 1]))
    --begin;
  return begin;
}

void CopyPlacer::copyOut(const MarkedValue &marked) {
  auto gap = findGap(marked.value, order);
  if (!gap)
    return;
  int64_t left = std::max(gap->left, gap->made + marked.lag) + 1;
  // The value is on the host during the gap, a range of commands that do not
  // read it. A copy to the host must not be in progress during a
  // kiln.microbatches. If a kiln.microbatches is between the definition of the
  // value and the gap, do not insert the copy. If one is in the gap, wait for
  // the copy before this op.
  for (int64_t between = gap->made + 1; between < std::min(left, gap->back);
       ++between)
    if (isa<MicrobatchesOp>(order[between])) {
      if (between <= gap->left)
        return;
      left = between;
    }
  // If no command runs between the end of the copy to the host and the next
  // reader of the value, offloading the value saves no memory.
  if (left >= gap->back)
    return;
  Location loc = marked.marked->getLoc();
  builder.setInsertionPointAfterValue(marked.value);
  auto type = inMemory(marked.value.getType(), MemorySpace::Host);
  auto copy = CopyOutOp::create(builder, loc, type, marked.value);
  builder.setInsertionPoint(order.inFrontOf(left));
  auto wait =
      CopyWaitOp::create(builder, loc, type, copy.getResult(), marked.value);
  int64_t begin =
      earliestBegin(std::max(left, gap->back - marked.lead), gap->back);
  copiesIn.push_back(
      {wait.getResult(), std::move(gap->behind), begin, gap->back});
}

void CopyPlacer::copyIn(const CopyIn &in) {
  Location loc = in.source.getLoc();
  // Wait for the copy before its first reader. This is the command at position
  // `end`, or an earlier op that does not count as a command, such as a
  // collective.
  Operation *last = order.inFrontOf(in.end);
  for (const Reader &reader : in.readers)
    if (Operation *op = reader.operand->getOwner();
        runsBetweenCommands(op) && op->isBeforeInBlock(last))
      last = op;
  Operation *first = order.inFrontOf(in.begin);
  builder.setInsertionPoint(last->isBeforeInBlock(first) ? last : first);
  auto type = inMemory(in.source.getType(), MemorySpace::Device);
  auto copy = CopyInOp::create(builder, loc, type, in.source);
  builder.setInsertionPoint(last);
  Value there =
      CopyWaitOp::create(builder, loc, type, copy.getResult(), in.source);
  // Views of the source become views of the copy.
  DenseMap<Operation *, Value> views;
  for (const Reader &reader : in.readers) {
    Value value = there;
    for (Operation *view : reader.views) {
      Value &copied = views[view];
      if (!copied) {
        builder.setInsertionPointAfterValue(value);
        IRMapping mapping;
        mapping.map(view->getOperand(0), value);
        copied = builder.clone(*view, mapping)->getResult(0);
      }
      value = copied;
    }
    reader.operand->set(value);
    if (auto write = dyn_cast<WriteOp>(reader.operand->getOwner()))
      write->moveBefore(order.inFrontOf(order.size()));
  }
}

void CopyPlacer::run(ArrayRef<std::pair<ReadOp, Value>> across) {
  for (const MarkedValue &marked : markedValues(block))
    copyOut(marked);
  for (auto [read, onHost] : across) {
    auto leads = read->getAttrOfType<DenseI64ArrayAttr>(kPrefetchAttr);
    for (auto &&[i, group] : llvm::enumerate(readerGroups(read, order))) {
      int64_t end = order.readingPosition(group.front().operand->getOwner());
      int64_t lead = leads && !leads.empty()
                         ? leads[std::min<size_t>(i, leads.size() - 1)]
                         : kDefaultLead;
      int64_t begin = earliestBegin(std::max<int64_t>(0, end - lead), end);
      copiesIn.push_back({onHost, std::move(group), begin, end});
    }
  }
  auto sequence = llvm::to_vector(llvm::seq<size_t>(0, copiesIn.size()));
  llvm::sort(sequence, [&](size_t a, size_t b) {
    return std::tuple(copiesIn[a].begin, copiesIn[a].end, a) <
           std::tuple(copiesIn[b].begin, copiesIn[b].end, b);
  });
  for (size_t i : sequence)
    copyIn(copiesIn[i]);
}

namespace {

/// A read that yields a state on the host as a tensor on the device, and the
/// same state as a tensor on the host.
using ReadAcross = std::pair<ReadOp, Value>;

} // namespace

/// Copies each state of `kept` to the device once, and replaces its reads by
/// the copy. The copies start at `builder`, before all commands, in the order
/// of their first readers. If the first reader is in micro-batches,
/// kiln-schedule moves the wait for the copy to this reader.
static void keepOnDevice(ProgramOp program, ArrayRef<ReadAcross> kept,
                         OpBuilder &builder) {
  DenseMap<Operation *, int64_t> positions;
  program.walk<WalkOrder::PreOrder>([&](Operation *op) {
    positions.try_emplace(op, static_cast<int64_t>(positions.size()));
  });
  struct Copy {
    Value source;
    SmallVector<ReadOp, 1> reads;
    int64_t first = INT64_MAX; ///< Position of the first reader.
    size_t number = 0;         ///< Index in the order of the reads.
    Operation *reader = nullptr;
  };
  llvm::MapVector<std::pair<Attribute, Type>, Copy> copies;
  for (auto [read, onHost] : kept) {
    Copy &copy = copies[{read.getStateAttr(), read.getType()}];
    if (!copy.source)
      copy.source = onHost;
    copy.reads.push_back(read);
    for (Operation *user : read.getResult().getUsers()) {
      int64_t position = positions.lookup(user);
      if (position < copy.first) {
        copy.first = position;
        copy.reader = user;
      }
    }
  }
  SmallVector<Copy> ordered;
  for (auto &[key, copy] : copies)
    if (copy.reader) {
      copy.number = ordered.size();
      ordered.push_back(std::move(copy));
    }
  llvm::sort(ordered, [](const Copy &a, const Copy &b) {
    return std::pair(a.first, a.number) < std::pair(b.first, b.number);
  });
  for (Copy &copy : ordered) {
    ReadOp read = copy.reads.front();
    auto begin =
        CopyInOp::create(builder, read.getLoc(), read.getType(), copy.source);
    OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPoint(
        program.getBlock().findAncestorOpInBlock(*copy.reader));
    Value there = CopyWaitOp::create(builder, read.getLoc(), read.getType(),
                                     begin.getResult(), copy.source);
    for (ReadOp each : copy.reads)
      each.getResult().replaceAllUsesWith(there);
  }
}

namespace {

struct PlaceCopiesPass : kiln::impl::PlaceCopiesBase<PlaceCopiesPass> {
  void runOnOperation() override {
    bool changed = false;
    for (ProgramOp program : getOperation().getOps<ProgramOp>()) {
      changed |= startCollectives(program);
      // Insert the reads of host tensors at the beginning of the program,
      // because a copy of such a tensor to the device may start before the
      // original read.
      auto builder = OpBuilder::atBlockBegin(&program.getBlock());
      SmallVector<ReadAcross> all, kept, across;
      for (ReadOp read : readsAcross(program)) {
        Type type = inMemory(read.getType(), MemorySpace::Host);
        all.push_back({read, ReadOp::create(builder, read.getLoc(), type,
                                            read.getState())});
        (read->hasAttr(kKeepAttr) ? kept : across).push_back(all.back());
      }
      keepOnDevice(program, kept, builder);
      for (auto op : program.getBlock().getOps<MicrobatchesOp>()) {
        if (failed(requireUndivided(op)))
          return signalPassFailure();
        CopyPlacer(op.getBody()).run(across);
      }
      CopyPlacer(program.getBlock()).run(across);
      for (auto [read, onHost] : all)
        if (failed(eraseRead(read)))
          return signalPassFailure();
      changed |= !all.empty();
      program.walk([&](Operation *op) {
        for (StringRef mark : {kOffloadAttr, kPrefetchAttr, kKeepAttr})
          changed |= op->removeAttr(mark) != nullptr;
      });
    }
    // The pass changes nothing if the module has no marks, no read that yields
    // a state on the host as a tensor on the device, and no collective.
    if (!changed)
      markAllAnalysesPreserved();
  }

private:
  /// Erases a read and the views of its result, which are no longer used.
  static LogicalResult eraseRead(ReadOp read) {
    SmallVector<Operation *> left{read};
    for (size_t i = 0; i < left.size(); ++i)
      for (Operation *user : left[i]->getUsers()) {
        if (familyOf(user) != Family::View)
          return read.emitOpError("reads a state in host memory, but the "
                                  "result is used by '")
                 << user->getName()
                 << "', expected only uses by kiln.dispatch, GEMMs, "
                    "kiln.microbatches, collectives, kiln.take_shard and "
                    "kiln.write";
        left.push_back(user);
      }
    for (Operation *op : llvm::reverse(left))
      op->erase();
    return success();
  }
};

} // namespace
