//===- EmuExecutor.cpp - Execution of actions on the emulated GPU ---------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "EmuExecutor.h"

#include "Collectives.h"
#include "kiln/Abi/ArenaLayout.h"
#include "kiln/Runtime/Engine/CommandEngine.h"
#include "kiln/Support/Messages.h"

#include <algorithm>
#include <chrono>
#include <cstring>

using namespace kiln::runtime;
using namespace kiln::support;
using namespace kiln;

static std::vector<int64_t> immediatesOf(const KernelCall &call,
                                         const abi::SegmentRun &run) {
  std::vector<int64_t> values;
  for (const Immediate &immediate : call.immediates)
    values.push_back(immediate.at(run));
  return values;
}

Status EmuExecutor::begin(const EmuProgram &program) {
  sectors_ = SectorCounts();
  waitedSeconds_ = 0;
  Status status;
  for (ArenaKind kind : arenaKinds) {
    const Arena &arena = arenas_.of(kind);
    if (status.ok() && arena.data())
      status = device_.invalidate(arena.data(), arena.bytes());
  }
  auto holds = [&](const Place &place, int64_t bytes) {
    if (status.ok())
      status = device_.markInitialised(arenas_.at(place), bytes);
  };
  for (std::size_t i = 0; i < file_.statePlaces.size(); ++i)
    if (file_.description.states[i].isHere)
      holds(file_.statePlaces[i], file_.description.states[i].bytes());
  for (std::size_t i = 0; i < program.info.inputs.size(); ++i)
    holds({program.program.inputOffsets[i]}, program.info.inputs[i].bytes());
  return status;
}

Status EmuExecutor::end(const EmuProgram &program) const {
  Status status;
  auto check = [&](const ValueInfo &value, const Place &place) {
    if (status.ok())
      status = device_.checkInitialised(arenas_.at(place), value.bytes(),
                                        "the caller of program " +
                                            inQuotes(program.info.name, 40) +
                                            " for " + inQuotes(value.name, 60));
  };
  for (std::size_t i = 0; i < program.info.outputs.size(); ++i)
    check(program.info.outputs[i], {program.program.outputOffsets[i]});
  for (std::size_t i = 0; i < file_.statePlaces.size(); ++i)
    if (file_.description.states[i].isHere)
      check(file_.description.states[i], file_.statePlaces[i]);
  return status;
}

Status EmuExecutor::executeActions(const EmuProgram &program, std::size_t index,
                                   int64_t count) {
  const std::vector<StreamAction> &actions = program.streams.actions;
  for (std::size_t i = index; i < index + std::size_t(count); ++i) {
    for (const ByteRange &range : program.firstTouches[i]) {
      Status status = device_.invalidate(arenas_.at({range.begin, range.arena}),
                                         range.end - range.begin);
      if (!status.ok())
        return status;
    }
  }
  const StreamAction &action = actions[index];
  Work work = {program, action.command,
               program.program.commands[action.command], action.run};
  Status status = count > 1 ? launch(work, count) : execute(work);
  if (status.ok())
    return status;
  std::string others =
      count > 1 ? " and " + std::to_string(count - 1) + " more of its group"
                : "";
  return Status(status.code(),
                status.message() + "; in program " +
                    inQuotes(program.info.name) + ", " +
                    program.names.title(action.command, action.run) + others);
}

Status EmuExecutor::executeGroup(const EmuProgram &program, std::size_t index) {
  const StreamAction &action = program.streams.actions[index];
  const Command &command = program.program.commands[action.command];
  return command.member > 0 ? Status()
                            : executeActions(program, index, command.group);
}

Status EmuExecutor::execute(const Work &work) {
  struct Executor {
    EmuExecutor &emulator;
    const Work &work;

    Status launch() {
      return isDeviceLaunch(work.command) ? emulator.launch(work, 1)
                                          : emulator.launchOnHost(work);
    }
    Status gemm() { return emulator.gemm(work); }
    Status fill() { return emulator.fill(work); }
    Status copy() { return emulator.copy(work); }
    Status startCopy() { return emulator.copy(work); }
    Status startCollective() { return emulator.collective(work); }
    // The wait for a transfer has no effect here, because events implement the
    // wait (see StreamProgram.h).
    Status waitForTransfer() { return Status(); }
  };
  return runtime::execute(work.command, Executor{*this, work});
}

void EmuExecutor::addArguments(const Work &work, EmuLaunch &launch) const {
  const KernelCall &call = *work.command.call;
  for (std::size_t i = 0; i < call.args.size(); ++i) {
    EmuArgument argument;
    argument.begin = at(call.args[i], work.run);
    argument.end = argument.begin + call.extents[i];
    argument.isWritten = call.isWritten(i);
    argument.name = work.program.names.nameAt(
        work.index, work.run, call.args[i].at(work.run), argument.isWritten);
    launch.arguments.push_back(argument);
  }
}

Status EmuExecutor::launch(const Work &work, int64_t members) {
  const Command &command = work.command;
  EmuLaunch launch;
  launch.kernel =
      reinterpret_cast<EmuKernel>(const_cast<void *>(kernels_[command.kernel]));
  launch.name = command.name;
  addArguments(work, launch);
  if (members > 1)
    launch.members.push_back(command.name);
  for (int64_t i = 1; i < members; ++i) {
    std::size_t index = work.index + std::size_t(i);
    const Command &member = work.program.program.commands[index];
    addArguments({work.program, index, member, work.run}, launch);
    launch.members.push_back(member.name);
  }
  launch.immediates = immediatesOf(*command.call, work.run);
  launch.units = command.call->units;
  launch.unitsPerBlock = command.grain;
  launch.threads = command.threads;
  launch.sharedBytes = command.sharedBytes;
  Result<EmuCounts> counts = device_.launch(launch);
  if (!counts.ok())
    return counts.status();
  sectors_.read += counts->readSectors;
  sectors_.written += counts->writeSectors;
  return Status();
}

Status EmuExecutor::checkRead(const Work &work, const Ref &ref,
                              int64_t bytes) const {
  std::string_view name = work.program.names.nameAt(
      work.index, work.run, ref.at(work.run), /*writes=*/false);
  return device_.checkInitialised(at(ref, work.run), bytes,
                                  inQuotes(work.command.name, 60) +
                                      ", operand " + inQuotes(name, 60) + ",");
}

Status EmuExecutor::launchOnHost(const Work &work) {
  const KernelCall &call = *work.command.call;
  std::vector<char *> args;
  for (std::size_t i = 0; i < call.args.size(); ++i) {
    args.push_back(at(call.args[i], work.run));
    if (call.isWritten(i))
      continue;
    Status status = checkRead(work, call.args[i], call.extents[i]);
    if (!status.ok())
      return status;
  }
  auto kernel = reinterpret_cast<KernelFunction>(
      const_cast<void *>(kernels_[work.command.kernel]));
  std::vector<int64_t> immediates = immediatesOf(call, work.run);
  kernel(args.data(), immediates.data(), 0, call.units, nullptr);
  for (int64_t i : call.writes) {
    Status status = device_.markInitialised(args[std::size_t(i)],
                                            call.extents[std::size_t(i)]);
    if (!status.ok())
      return status;
  }
  return Status();
}

/// Calls visit(offset, bytes) for each row of an operand, for all matrices of
/// the batch. Returns the first error of `visit`.
template <typename Visitor>
static Status forEachRow(const Command &command, const GemmOperand &operand,
                         ElementType type, int64_t rows, int64_t columns,
                         Visitor &&visit) {
  if (operand.trans)
    std::swap(rows, columns);
  int64_t elementBytes = bytesOf(type);
  for (int64_t entry = 0; entry < command.batch; ++entry) {
    for (int64_t row = 0; row < rows; ++row) {
      int64_t element = entry * operand.batchStride + row * operand.ld;
      Status status = visit(element * elementBytes, columns * elementBytes);
      if (!status.ok())
        return status;
    }
  }
  return Status();
}

/// Splits the tiles of a matmul into groups. Different groups may be computed
/// concurrently; the tiles of one group are computed one after another. Each
/// group needs tileScratchBytes() bytes. With GemmKernel::Blas, these bytes are
/// in the command's workspace, which is large enough for at least one group.
/// With other kernels, they are in scratch_, outside of the arena, because a
/// GPU does not need them.
void EmuExecutor::multiply(const Work &work, const GemmPlaces &places,
                           bool accumulate) {
  const Command &command = work.command;
  char *workspace = arenas_.at({command.workspace.offset});
  int64_t available = command.workspace.bytes;
  int64_t bytes = tileScratchBytes(command), tiles = gemmTiles(command);
  if (command.gemmKernel != abi::GemmKernel::Blas) {
    available = bytes * team_.size();
    if (int64_t(scratch_.size()) < available + abi::slotAlignment)
      scratch_.resize(size_t(available + abi::slotAlignment));
    workspace = scratch_.data();
    workspace +=
        -reinterpret_cast<std::uintptr_t>(workspace) % abi::slotAlignment;
  }
  int64_t parts = bytes > 0 ? std::min(tiles, available / bytes) : tiles;
  team_.forEachPart(parts, [&](int64_t begin, int64_t end, int) {
    for (int64_t part = begin; part < end; ++part)
      for (int64_t i = part * tiles / parts; i < (part + 1) * tiles / parts;
           ++i) {
        GemmTile tile = gemmTile(command, i);
        if (!tile.empty())
          computeTile(command, tile, places, accumulate,
                      workspace + bytes * part);
      }
  });
}

Status EmuExecutor::gemm(const Work &work) {
  const Command &command = work.command;
  bool accumulate = accumulates(command, work.run);
  auto check = [&](const GemmOperand &operand, ElementType type, int64_t rows,
                   int64_t columns) {
    return forEachRow(command, operand, type, rows, columns,
                      [&](int64_t offset, int64_t bytes) {
                        Ref row = operand.ref;
                        row.offset += offset;
                        return checkRead(work, row, bytes);
                      });
  };
  Status status = check(command.a, command.type, command.m, command.k);
  if (status.ok())
    status = check(command.b, command.type, command.k, command.n);
  if (status.ok() && accumulate)
    status = check(command.c, command.resultType, command.m, command.n);
  if (status.ok() && command.bias.bytes > 0 && !writesBias(command.library))
    status = checkRead(work, command.bias.ref, command.bias.bytes);
  if (status.ok() && command.aux.bytes > 0 && !writesAux(command.library))
    status = checkRead(work, command.aux.ref, command.aux.bytes);
  if (!status.ok())
    return status;

  auto beside = [&](const EpilogueOperand &place) {
    return place.bytes > 0 ? at(place.ref, work.run) : nullptr;
  };
  GemmPlaces places = {at(command.a.ref, work.run), at(command.b.ref, work.run),
                       at(command.c.ref, work.run), beside(command.bias),
                       beside(command.aux)};
  multiply(work, places, accumulate);
  if (writesBias(command.library)) {
    computeBiasGrad(command, places);
    status = device_.markInitialised(places.bias, command.bias.bytes);
  }
  if (status.ok() && writesAux(command.library))
    status = device_.markInitialised(places.aux, command.aux.bytes);
  if (!status.ok())
    return status;
  return forEachRow(command, command.c, command.resultType, command.m,
                    command.n, [&](int64_t offset, int64_t bytes) {
                      return device_.markInitialised(places.c + offset, bytes);
                    });
}

Status EmuExecutor::fill(const Work &work) {
  char *to = at(work.command.to, work.run);
  std::memset(to, 0, std::size_t(work.command.size));
  return device_.markInitialised(to, work.command.size);
}

support::MeshGroup EmuExecutor::groupOf(const Command &command) const {
  const Mesh &mesh = file_.description.mesh;
  return mesh.groupOf(mesh.axes[std::size_t(command.axis)].name, rank());
}

Status EmuExecutor::copy(const Work &work) {
  const Command &command = work.command;
  const char *from = at(command.from, work.run);
  char *to = at(command.to, work.run);
  int64_t size = command.size;
  if (command.wholeBytes > 0) {
    CopiedShard shard = copiedShard(command, groupOf(command).indexOf(rank()));
    from += shard.begin;
    size = shard.size;
  }
  std::memcpy(to, from, std::size_t(size));
  std::memset(to + size, 0, std::size_t(command.size - size));
  Status status = device_.copyInitialised(to, from, size);
  return status.ok() ? device_.markInitialised(to + size, command.size - size)
                     : status;
}

Status EmuExecutor::collective(const Work &work) {
  const Command &command = work.command;
  bool sums = command.collective != Collective::AllGather;
  std::vector<CollectiveSpan> spans;
  for (const CollectiveTensor &tensor : command.tensors) {
    const CollectiveElements &read = sums ? tensor.whole : tensor.shard;
    if (sums || tensor.hasShard)
      if (Status status = checkRead(work, read.ref, read.bytes); !status.ok())
        return status;
    CollectiveSpan &span = spans.emplace_back();
    span.whole = at(tensor.whole.ref, work.run);
    span.count = tensor.whole.count;
    span.shardCount = tensor.shard.count;
    span.owner = tensor.owner;
    if (command.collective != Collective::AllReduce)
      span.shard = at(tensor.shard.ref, work.run);
  }
  setEnds(command.collective, spans.data(), spans.size());
  CollectiveJob job;
  job.collective = command.collective;
  job.spans = spans.data();
  job.spanCount = spans.size();
  job.type = command.type;
  job.name = command.name.c_str();
  job.group = groupOf(command);
  auto begin = std::chrono::steady_clock::now();
  if (world_)
    world_->wait(world_->begin(job));
  else
    carryOutAlone(job);
  waitedSeconds_ +=
      std::chrono::duration<double>(std::chrono::steady_clock::now() - begin)
          .count();
  bool scatters = command.collective == Collective::ReduceScatter;
  Status status;
  for (const CollectiveTensor &tensor : command.tensors) {
    const CollectiveElements &written = scatters ? tensor.shard : tensor.whole;
    if (status.ok() && scatters)
      status = device_.invalidate(at(tensor.whole.ref, work.run),
                                  tensor.whole.bytes);
    if (status.ok() && (!scatters || tensor.hasShard))
      status =
          device_.markInitialised(at(written.ref, work.run), written.bytes);
  }
  return status;
}
