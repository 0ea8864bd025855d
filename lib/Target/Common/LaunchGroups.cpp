//===- LaunchGroups.cpp - Groups launches of one kernel -------------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A run is a sequence of launches that compute the same results in any order:
// no launch writes bytes that another launch of the run accesses, and different
// slots that the run accesses do not overlap in memory. Launches are reordered
// only within runs.
//
//===----------------------------------------------------------------------===//

#include "kiln/Target/Common/LaunchGroups.h"

#include "kiln/Abi/MemberTable.h"
#include "kiln/Target/Common/KernelShapes.h"
#include "kiln/Target/Common/Passes.h"
#include "kiln/Target/Interface/TargetRegistry.h"

#include "llvm/ADT/MapVector.h"

namespace kiln {
#define GEN_PASS_DEF_GROUPLAUNCHES
#include "kiln/Target/Common/Passes.h.inc"
} // namespace kiln

using namespace mlir;
using namespace kiln::abi;
using namespace kiln;

/// The maximum number of launches of a run, a sequence of launches that may be
/// reordered. Each launch is compared with all previous launches of its run, so
/// the cost is quadratic in this number.
constexpr size_t kLongestRun = 1024;

namespace {

/// The range of a slot that contains all bytes that a launch accesses for any
/// micro-batch. A slot with a ring has one instance per micro-batch in flight;
/// the range is then within the first instance.
struct SlotAccess {
  rt::SlotOp slot;
  int64_t begin, end; ///< Arena offsets.
  bool writes;
};

/// Launches that may be executed in any order.
struct Run {
  SmallVector<rt::LaunchOp> launches;
  SmallVector<SlotAccess> accesses;
};

class Grouping {
public:
  explicit Grouping(rt::ProgramOp program) : program(program) {}
  void run();

private:
  void findRuns(Block &block, int64_t microbatches);
  SmallVector<SlotAccess> accessesOf(rt::LaunchOp launch, int64_t microbatches);
  void finish(Run &run);
  void markGroups(ArrayRef<rt::LaunchOp> equal);
  void moveLives(ArrayRef<rt::LaunchOp> launches, int64_t first);

  rt::ProgramOp program;
  DenseMap<Operation *, int64_t> indexes; ///< Command indices.
};

} // namespace

SmallVector<SlotAccess> Grouping::accessesOf(rt::LaunchOp launch,
                                             int64_t microbatches) {
  SmallVector<SlotAccess> accesses;
  for (const rt::MemoryAccess &access : launch.getAccesses()) {
    rt::ViewOp view = rt::viewOf(access.view);
    int64_t first = view.getAddress();
    int64_t last =
        first + static_cast<int64_t>(view.getStride()) * (microbatches - 1);
    accesses.push_back(
        {view.getSlotOp(), first, last + view.getExtent(), access.writes()});
  }
  return accesses;
}

/// Returns true if launches with these accesses must keep their order.
static bool conflict(const SlotAccess &a, const SlotAccess &b) {
  rt::SlotOp slot = a.slot, other = b.slot;
  if (slot != other)
    return slot.getMemory() == other.getMemory() &&
           slot.getOffset() < other.getOffset() + other.getTotalBytes() &&
           other.getOffset() < slot.getOffset() + slot.getTotalBytes();
  return (a.writes || b.writes) && a.begin < b.end && b.begin < a.end;
}

/// Updates the lifetimes of the slots that `launches` use, after the launches
/// have been reordered. `first` is the command index of the first launch.
void Grouping::moveLives(ArrayRef<rt::LaunchOp> launches, int64_t first) {
  auto last = first + static_cast<int64_t>(launches.size()) - 1;
  auto inRun = [&](int64_t index) { return first <= index && index <= last; };
  llvm::MapVector<rt::SlotOp, std::pair<int64_t, int64_t>> uses;
  std::optional<rt::MicrobatchCommands> microbatches =
      rt::microbatchesOf(program);
  int64_t index = first;
  for (rt::LaunchOp launch : launches) {
    for (mlir::Value place : launch.getPlaces()) {
      rt::ViewOp view = rt::viewOf(place);
      auto &[begin, end] =
          uses.try_emplace(view.getSlotOp(), index, index).first->second;
      begin = std::min(begin, index);
      end = std::max(end, index);
    }
    ++index;
  }
  for (auto &[slot, use] : uses) {
    rt::SlotOp place = slot;
    // Inputs are live from the first command on, and outputs are live until the
    // last command.
    auto boundary = [&](auto isBoundary) {
      return llvm::any_of(place->getUsers(), [&](Operation *view) {
        return llvm::any_of(view->getUsers(), isBoundary);
      });
    };
    bool isInput = boundary([](Operation *op) { return isa<rt::InputOp>(op); });
    bool isOutput =
        boundary([](Operation *op) { return isa<rt::OutputOp>(op); });
    // A slot that is used both inside and outside of the micro-batches is live
    // during all micro-batches, so reordering the launches does not change its
    // lifetime. The exception is a slot whose lifetime begins in the last
    // execution of the backward pass.
    bool spans =
        microbatches && first >= microbatches->forward &&
        first < microbatches->end &&
        (isInput || isOutput ||
         static_cast<int64_t>(place.getFirst()) < microbatches->forward ||
         static_cast<int64_t>(place.getLast()) >= microbatches->end) &&
        !rt::beginsInLastExecution(place, microbatches);
    if (place.getState() || spans)
      continue;
    if (!isInput && inRun(place.getFirst()))
      place.setFirst(use.first);
    if (!isOutput && inRun(place.getLast()))
      place.setLast(use.second);
  }
}

void Grouping::markGroups(ArrayRef<rt::LaunchOp> equal) {
  rt::LaunchOp first = equal.front();
  // For AddAfterFirst, this counts the last immediate twice, since
  // immediatesOf() already includes it. The only effect is that groups of such
  // launches are smaller than the argument table permits.
  auto immediates =
      static_cast<int64_t>(immediatesOf(first).size()) +
      (first.getAccumulate() == rt::Accumulation::AddAfterFirst ? 1 : 0);
  auto args = static_cast<int64_t>(first.getPlaces().size());
  auto most = static_cast<size_t>(maxTableMembers(args, immediates));
  while (most > 1 && equal.size() > 1) {
    size_t size = std::min(most, equal.size());
    rt::LaunchOp(equal.front()).setGroup(size);
    equal = equal.drop_front(size);
  }
}

void Grouping::finish(Run &run) {
  // Launches form one entry if they have the same kernel, arguments,
  // accumulation and queue, are executed for the same micro-batches (getWhen),
  // and have the same owner (the only rank that executes them). Entries are in
  // order of first appearance.
  using Key =
      std::tuple<Attribute, Attribute, Attribute, Attribute, rt::When, int64_t>;
  llvm::MapVector<Key, SmallVector<rt::LaunchOp>> kinds;
  for (rt::LaunchOp launch : run.launches)
    kinds[{launch.getKernelAttr(), launch.getArgsAttr(),
           launch.getAccumulateAttr(), launch.getQueueAttr(), launch.getWhen(),
           rt::ownerOf(rt::CommandOpInterface(launch))}]
        .push_back(launch);
  if (kinds.size() < run.launches.size()) {
    int64_t first = indexes.at(run.launches.front());
    Operation *behind = run.launches.back()->getNextNode();
    SmallVector<rt::LaunchOp> order;
    for (auto &[key, equal] : kinds) {
      markGroups(equal);
      order.append(equal.begin(), equal.end());
    }
    for (rt::LaunchOp launch : order)
      if (behind)
        launch->moveBefore(behind);
      else
        launch->moveBefore(launch->getBlock(), launch->getBlock()->end());
    moveLives(order, first);
  }
  run = Run();
}

void Grouping::findRuns(Block &block, int64_t microbatches) {
  Run run;
  for (Operation &op : llvm::make_early_inc_range(block)) {
    if (isa<rt::ViewOp>(op))
      continue;
    auto launch = dyn_cast<rt::LaunchOp>(op);
    if (!launch || rt::memoryOf(launch) != MemorySpace::Device ||
        launch.getScratch() || launch.getAfterAttr()) {
      finish(run);
      if (auto inner = dyn_cast<rt::MicrobatchesOp>(op))
        for (Region *region : {&inner.getForward(), &inner.getBackward()})
          findRuns(region->front(), inner.getCount());
      continue;
    }
    SmallVector<SlotAccess> own = accessesOf(launch, microbatches);
    bool stays = llvm::any_of(own, [&](const SlotAccess &access) {
      return llvm::any_of(run.accesses, [&](const SlotAccess &other) {
        return conflict(access, other);
      });
    });
    if (stays || run.launches.size() == kLongestRun)
      finish(run);
    run.launches.push_back(launch);
    run.accesses.append(own);
  }
  finish(run);
}

void Grouping::run() {
  program.walk([](rt::LaunchOp launch) { launch.removeGroupAttr(); });
  for (auto [i, command] : llvm::enumerate(rt::commandsOf(program)))
    indexes.try_emplace(command, i);
  findRuns(program.getBody().front(), 1);
}

namespace {

struct GroupLaunchesPass : kiln::impl::GroupLaunchesBase<GroupLaunchesPass> {
  void runOnOperation() override {
    ModuleOp module = getOperation();
    const TargetBackend *target = backendOf(module);
    if (!target)
      return signalPassFailure();
    if (!target->getLaunchRules().groups)
      return markAllAnalysesPreserved();
    for (rt::ProgramOp program : module.getOps<rt::ProgramOp>()) {
      // Verify first, since grouping changes lifetimes and could thus hide that
      // they were wrong before.
      if (failed(rt::verifySchedule(program)))
        return signalPassFailure();
      Grouping(program).run();
      if (failed(rt::verifySchedule(program)))
        return signalPassFailure();
    }
  }
};

} // namespace

int64_t kiln::getGroupSize(rt::LaunchOp launch) {
  return launch.getGroup().value_or(1);
}

int64_t kiln::getLargestGroup(rt::KernelOp kernel) {
  int64_t largest = 0;
  kernel->getParentOfType<ModuleOp>().walk([&](rt::LaunchOp launch) {
    if (launch.getKernel() == kernel.getSymName() &&
        rt::memoryOf(launch) == MemorySpace::Device)
      largest = std::max(largest, getGroupSize(launch));
  });
  return largest > 1 ? largest : 0;
}
