//===- ScheduledEngine.cpp - Scheduled programs in an arena ---------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "kiln/Interpreter/ScheduledEngine.h"
#include "kiln/Abi/ArenaLayout.h"
#include "kiln/Interpreter/TensorBytes.h"
#include "kiln/Runtime/Comm/World.h"

#include "llvm/Support/MathExtras.h"

using namespace mlir;
using kiln::runtime::ProgramInfo;
using kiln::runtime::StateInfo;
using kiln::runtime::ValueInfo;

namespace kiln {

/// Upper limit on the size of an arena. A larger arena is an error in the file.
static constexpr int64_t kLargestArena = int64_t(1) << 40;

bool ScheduledEngine::accepts(ModuleOp module) {
  return !module.getOps<rt::ArenaOp>().empty() ||
         !module.getOps<rt::ProgramOp>().empty();
}

ScheduledEngine::ScheduledEngine(ModuleOp module)
    : interpreter(module, EvalType::Own) {}

Result<std::unique_ptr<ScheduledEngine>>
ScheduledEngine::create(ModuleOp module) {
  std::unique_ptr<ScheduledEngine> engine(new ScheduledEngine(module));
  if (Status status = engine->prepare(); !status.ok())
    return Status::badInput(status.message());
  return Result<std::unique_ptr<ScheduledEngine>>(std::move(engine));
}

Status ScheduledEngine::prepare() {
  ModuleOp module = interpreter.getModule();
  if (!llvm::hasSingleElement(module.getOps<rt::ArenaOp>()))
    return Status::badInput(
        "a scheduled module must have exactly one kilnrt.arena, got " +
        std::to_string(llvm::range_size(module.getOps<rt::ArenaOp>())));
  for (ProgramOp program : module.getOps<ProgramOp>())
    return Status::badInput(
        "the module has kilnrt.program ops, which are scheduled, and the "
        "kiln.program '" +
        program.getSymName().str() +
        "', which is not; remove the ops of one of the two kinds");
  rt::ArenaOp arenaOp = *module.getOps<rt::ArenaOp>().begin();
  int64_t height = arenaOp.getHeight(), host = arenaOp.getHostHeight();
  Status status = withDiagnostics(module.getContext(), [&]() -> LogicalResult {
    for (int64_t bytes : {height, host})
      if (bytes < 0 || bytes > kLargestArena)
        return arenaOp.emitOpError("reserves ")
               << bytes
               << " bytes, but the interpreter supports arenas of 0 to "
               << kLargestArena << " bytes";
    for (rt::ProgramOp op : module.getOps<rt::ProgramOp>()) {
      auto program = ScheduledProgram::build(op);
      if (failed(program))
        return failure();
      programs.push_back(std::move(*program));
    }
    for (StateOp state : module.getOps<StateOp>()) {
      rt::SlotOp home;
      for (const ScheduledProgram &program : programs)
        for (rt::SlotOp slot : program.slots)
          if (slot.getState() == state.getSymName()) {
            if (home && program.addressOf(home) != program.addressOf(slot))
              return slot.emitOpError("is a slot of the state @")
                     << state.getSymName()
                     << ", but its offset differs from that of another slot of "
                        "this state";
            home = slot;
          }
      int64_t bytes = bytesOf(state.getType());
      if (!home || static_cast<int64_t>(home.getBytes()) != bytes)
        return state.emitOpError("has no slot of ")
               << bytes << " bytes, the size of the state";
      stateOffsets.push_back(programs.front().addressOf(home));
    }
    return success();
  });
  if (!status.ok())
    return status;
  description_ = describeModule(module, interpreter);
  description_.build.target = "interpreter, scheduled";
  selectStates(0);
  for (const ProgramInfo &info : description_.programs) {
    auto &copies = outputs.emplace_back();
    for (const ValueInfo &output : info.outputs)
      copies.emplace_back(output.bytes());
  }
  int64_t bytes = llvm::alignTo(height, abi::slotAlignment) + host;
  arena.bytes.resize(bytes);
  for (const ScheduledProgram &program : programs)
    arena.unit = std::min(arena.unit, program.unit);
  arena.writers.resize(bytes / arena.unit + 1);
  return {};
}

void ScheduledEngine::selectStates(int64_t rank) {
  int64_t index = description_.mesh.indexOn(support::dataAxis, rank);
  for (StateInfo &state : description_.states)
    state.isHere = state.owner() < 0 || state.owner() == index;
}

Status ScheduledEngine::join(runtime::World &world) {
  selectStates(world.rank());
  return ReferenceEngine::join(world);
}

Status ScheduledEngine::run(size_t index) {
  ScheduledProgram &program = programs[index];
  Status status = withRanks([&] {
    return withDiagnostics(interpreter.getModule().getContext(), [&] {
      return runScheduled(interpreter, program, arena);
    });
  });
  if (!status.ok())
    return status;
  for (auto [boundary, copy] : llvm::zip_equal(program.outputs, outputs[index]))
    std::copy_n(placeOf(program, boundary), copy.size(), copy.begin());
  return {};
}

TensorHandle ScheduledEngine::stateTensor(size_t state) {
  const StateInfo &info = description_.states[state];
  Type element =
      irTypeOf(computeType(info.type), interpreter.getModule().getContext());
  return std::make_shared<const HostTensor>(tensorFromBytes(
      RankedTensorType::get(info.shape, element), info.type, stateData(state)));
}

} // namespace kiln
