//===- CudaProgram.cpp - A program on CUDA streams ------------------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "CudaProgram.h"

#include "GemmTiles.h"
#include "RankCollectives.h"
#include "kiln/Support/Messages.h"

#include <algorithm>

using namespace kiln::abi;
using namespace kiln::runtime::cuda;
using namespace kiln::runtime;
using namespace kiln::support;
using namespace kiln;

static constexpr Stream sideStreams[] = {Stream::Host, Stream::CopyOut,
                                         Stream::CopyIn, Stream::Ranks};

CudaProgram::CudaProgram(const ProgramFile &file, std::size_t index)
    : file_(file), program_(file.programs[index]),
      info_(file.description.programs[index]),
      streams_(buildStreamProgram(file_, program_)), names_(file_, program_) {
  for (const StreamAction &action : streams_.actions)
    used_[std::size_t(action.stream)] = true;
  layOutStaging();
}

bool CudaProgram::usesBlasLt() const {
  return std::any_of(program_.commands.begin(), program_.commands.end(),
                     [](const Command &command) {
                       return command.kind == Command::Kind::Gemm;
                     });
}

bool CudaProgram::mayUseAttention() const {
  return std::any_of(
      program_.commands.begin(), program_.commands.end(),
      [](const Command &command) { return command.attention.has_value(); });
}

void CudaProgram::layOutStaging() {
  auto take = [](int64_t &end, int64_t bytes) {
    int64_t begin = end;
    end = (begin + bytes + 63) / 64 * 64;
    return begin;
  };
  for (const ValueInfo &input : info_.inputs)
    inputs_.push_back(take(stagingBytes_, input.bytes()));
  for (const ValueInfo &output : info_.outputs)
    outputs_.push_back(
        isGradient(output) ? -1 : take(stagingBytes_, output.bytes()));
  readsBegin_ = stagingBytes_;

  // Host kernels run one after another, so their copies of the data that they
  // read can share memory.
  prepared_.resize(streams_.actions.size());
  std::vector<int64_t> ends(streams_.actions.size(), readsBegin_);
  for (std::size_t i = 0; i < streams_.actions.size(); ++i) {
    const StreamAction &action = streams_.actions[i];
    if (action.stream != Stream::Host)
      continue;
    for (const MemoryAccess &access : accessesOf(commandOf(action))) {
      Place place = access.ref.at(action.run);
      if (place.arena == ArenaKind::Device &&
          !inputAt(i, {place.arena, place.offset, place.offset + access.bytes}))
        prepared_[i].reads.push_back(
            {place.offset, access.bytes, take(ends[i], access.bytes)});
    }
  }
  for (int64_t end : ends)
    stagingBytes_ = std::max(stagingBytes_, end);
}

/// Returns the input that contains `range`, or std::nullopt if there is none or
/// if an action before `index` writes to `range`. A host kernel can read the
/// host copy of the returned input instead of the device data.
std::optional<std::size_t> CudaProgram::inputAt(std::size_t index,
                                                const ByteRange &range) const {
  for (std::size_t i = 0; i < index; ++i)
    for (const ByteAccess &access : streams_.actions[i].accesses)
      if (access.writes && access.overlaps(range))
        return std::nullopt;
  for (std::size_t i = 0; i < info_.inputs.size(); ++i) {
    int64_t begin = program_.inputOffsets[i];
    if (begin <= range.begin && range.end <= begin + info_.inputs[i].bytes())
      return i;
  }
  return std::nullopt;
}

/// Prepares the launch, fill or copy of an action on the host stream.
void CudaProgram::prepareHost(std::size_t index) {
  const StreamAction &action = streams_.actions[index];
  const Command &command = commandOf(action);
  const abi::SegmentRun &run = action.run;
  HostWork &work = prepared_[index].hostWork;
  work.team = resources_->team;
  if (!command.call) {
    work.to = host(command.to.at(run));
    if (command.kind == Command::Kind::Copy)
      work.from = host(command.from.at(run));
    work.bytes = command.size;
    if (command.wholeBytes > 0) {
      CopiedShard shard = ownShard(command);
      work.from += shard.begin;
      work.bytes = shard.size;
      work.zeros = command.size - shard.size;
    }
    return;
  }
  work.kernel = reinterpret_cast<KernelFunction>(
      const_cast<void *>(resources_->kernels[command.kernel]));
  work.grain = command.grain;
  std::size_t nextRead = 0;
  const KernelCall &call = *command.call;
  work.units = call.units;
  for (std::size_t i = 0; i < call.args.size(); ++i) {
    Place place = call.args[i].at(run);
    ByteRange range = {place.arena, place.offset,
                       place.offset + call.extents[i]};
    if (place.arena == ArenaKind::Host)
      work.args.push_back(host(place));
    else if (std::optional<std::size_t> input = inputAt(index, range))
      work.args.push_back(inputData(*input) + place.offset -
                          program_.inputOffsets[*input]);
    else
      work.args.push_back(staging_ +
                          prepared_[index].reads[nextRead++].staging);
  }
  for (const Immediate &immediate : call.immediates)
    work.immediates.push_back(immediate.at(run));
}

MatmulPlaces CudaProgram::placesOf(const StreamAction &action) const {
  const Command &command = commandOf(action);
  auto beside = [&](const EpilogueOperand &place) {
    return place.bytes > 0 ? device(place.ref.at(action.run))
                           : DevicePointer(0);
  };
  return {device(command.a.ref.at(action.run)),
          device(command.b.ref.at(action.run)),
          device(command.c.ref.at(action.run)),
          device({command.workspace.offset}),
          beside(command.bias),
          beside(command.aux)};
}

/// Returns the device addresses of the arguments of a launch.
std::vector<DevicePointer>
CudaProgram::argumentsOf(const StreamAction &action) const {
  std::vector<DevicePointer> places;
  for (const Ref &ref : commandOf(action).call->args)
    places.push_back(device(ref.at(action.run)));
  return places;
}

Status CudaProgram::prepareAttention(std::size_t index) {
  const StreamAction &action = streams_.actions[index];
  const Command &command = commandOf(action);
  double scale = scaleOfBits(command.call->immediates[1].value);
  Result<const DnnAttention *> chosen = resources_->attention->choose(
      *command.attention, scale, argumentsOf(action),
      device({command.workspace.offset}),
      [&] { return queueAction(index, /*splitsGroups=*/true); });
  if (!chosen.ok())
    return inAction(chosen.status(), index);
  prepared_[index].attention = *chosen;
  return Status();
}

Status CudaProgram::prepare(const CudaResources &resources, char *staging) {
  resources_ = &resources;
  staging_ = staging;
  for (std::size_t i = 0; i < streams_.actions.size(); ++i) {
    const StreamAction &action = streams_.actions[i];
    const Command &command = commandOf(action);
    if (action.stream == Stream::Host)
      prepareHost(i);
    // Do not use cuDNN for a launch that belongs to a group, because a single
    // kernel launch executes all launches of the group.
    if (command.attention && command.group == 1 && command.member == 0)
      if (Status status = prepareAttention(i); !status.ok())
        return status;
    if (command.kind != Command::Kind::Gemm)
      continue;
    Result<std::size_t> choice =
        resources.products->choose(command, placesOf(action), resources.search,
                                   resources.stream(Stream::Compute));
    if (!choice.ok())
      return inAction(choice.status(), i);
    prepared_[i].choice = *choice;
  }
  return Status();
}

Status CudaProgram::inAction(const Status &status, std::size_t index) const {
  if (status.ok())
    return status;
  const StreamAction &action = streams_.actions[index];
  return Status(status.code(), status.message() + "; in program " +
                                   inQuotes(info_.name) + ", " +
                                   names_.title(action.command, action.run));
}

Status CudaProgram::copyInputs() const {
  Status status;
  for (std::size_t i = 0; i < info_.inputs.size(); ++i)
    if (int64_t bytes = info_.inputs[i].bytes(); bytes > 0 && status.ok())
      status = driver().call(api().cuMemcpyHtoDAsync_v2,
                             device({program_.inputOffsets[i]}), inputData(i),
                             std::size_t(bytes),
                             resources_->stream(Stream::Compute));
  return status;
}

Status CudaProgram::copyOutputs() const {
  Status status;
  for (std::size_t i = 0; i < info_.outputs.size(); ++i)
    if (int64_t bytes = info_.outputs[i].bytes();
        bytes > 0 && outputData(i) && status.ok())
      status =
          driver().call(api().cuMemcpyDtoHAsync_v2, outputData(i),
                        device({program_.outputOffsets[i]}), std::size_t(bytes),
                        resources_->stream(Stream::Compute));
  return status;
}

Status CudaProgram::wait(Stream stream, std::size_t event) const {
  return driver().call(api().cuStreamWaitEvent, resources_->stream(stream),
                       resources_->events[event].get(), 0u);
}

Status CudaProgram::record(std::size_t event, Stream stream) const {
  return driver().call(api().cuEventRecord, resources_->events[event].get(),
                       resources_->stream(stream));
}

/// Launches a kernel for `members` commands, beginning with the action's
/// command: for all commands of a launch group, or for a single command.
Status CudaProgram::queueLaunch(const StreamAction &action,
                                int64_t members) const {
  const Command &command = commandOf(action);
  const KernelCall &call = *command.call;
  // The driver rejects an empty grid.
  if (call.units == 0)
    return Status();
  // The launch copies the whole argument table, which has space for
  // `tableMembers` launches even if fewer are launched.
  std::size_t args = call.args.size();
  std::vector<uint64_t> addresses(
      args * std::size_t(std::max<int64_t>(command.tableMembers, 1)));
  for (std::size_t i = 0; i < std::size_t(members); ++i) {
    const Command &member = program_.commands[action.command + i];
    for (std::size_t j = 0; j < args; ++j)
      addresses[i * args + j] = device(member.call->args[j].at(action.run));
  }
  std::vector<uint64_t> values;
  for (const Immediate &immediate : call.immediates)
    values.push_back(uint64_t(immediate.at(action.run)));
  values.push_back(uint64_t(call.units));
  std::vector<void *> parameters;
  if (command.tableMembers > 0)
    parameters.push_back(addresses.data());
  else
    for (uint64_t &address : addresses)
      parameters.push_back(&address);
  for (uint64_t &value : values)
    parameters.push_back(&value);
  auto blocks = unsigned((call.units - 1) / command.grain + 1);
  return driver().call(api().cuLaunchKernel,
                       resources_->functions[std::size_t(command.kernel)],
                       blocks, unsigned(members), 1u, unsigned(command.threads),
                       1u, 1u, unsigned(dynamicSharedBytes(command)),
                       resources_->stream(Stream::Compute), parameters.data(),
                       static_cast<void **>(nullptr));
}

Status CudaProgram::queueHost(std::size_t index) const {
  const Prepared &prepared = prepared_[index];
  StreamHandle stream = resources_->stream(Stream::Host);
  for (const HostRead &read : prepared.reads) {
    if (read.bytes == 0)
      continue;
    Status status =
        driver().call(api().cuMemcpyDtoHAsync_v2, staging_ + read.staging,
                      device({read.offset}), std::size_t(read.bytes), stream);
    if (!status.ok())
      return status;
  }
  return driver().call(api().cuLaunchHostFunc, stream, &runHostWork,
                       const_cast<HostWork *>(&prepared.hostWork));
}

Status CudaProgram::queueGemm(std::size_t index) const {
  const StreamAction &action = streams_.actions[index];
  return resources_->products->run(prepared_[index].choice, placesOf(action),
                                   accumulates(commandOf(action), action.run),
                                   resources_->stream(Stream::Compute));
}

Status CudaProgram::queueCopy(const StreamAction &action) const {
  const Command &command = commandOf(action);
  if (command.wholeBytes > 0)
    return queueShardCopy(action);
  Place from = command.from.at(action.run), to = command.to.at(action.run);
  auto bytes = std::size_t(command.size);
  StreamHandle stream = resources_->stream(action.stream);
  if (from.arena == ArenaKind::Host)
    return driver().call(api().cuMemcpyHtoDAsync_v2, device(to), host(from),
                         bytes, stream);
  if (to.arena == ArenaKind::Host)
    return driver().call(api().cuMemcpyDtoHAsync_v2, host(to), device(from),
                         bytes, stream);
  return driver().call(api().cuMemcpyDtoDAsync_v2, device(to), device(from),
                       bytes, stream);
}

/// Copies the shard of this rank, within the device arena, and sets its padding
/// to zero.
Status CudaProgram::queueShardCopy(const StreamAction &action) const {
  const Command &command = commandOf(action);
  CopiedShard shard = ownShard(command);
  DevicePointer from = device(command.from.at(action.run)),
                to = device(command.to.at(action.run));
  StreamHandle stream = resources_->stream(action.stream);
  Status status;
  if (shard.size > 0)
    status = driver().call(api().cuMemcpyDtoDAsync_v2, to,
                           from + DevicePointer(shard.begin),
                           std::size_t(shard.size), stream);
  if (status.ok() && shard.size < command.size)
    status =
        driver().call(api().cuMemsetD8Async, to + DevicePointer(shard.size),
                      static_cast<unsigned char>(0),
                      std::size_t(command.size - shard.size), stream);
  return status;
}

CopiedShard CudaProgram::ownShard(const Command &command) const {
  int rank = resources_->rank;
  return copiedShard(command, groupOf(command, rank).indexOf(rank));
}

MeshGroup CudaProgram::groupOf(const Command &command, int rank) const {
  const Mesh &mesh = file_.description.mesh;
  return mesh.groupOf(mesh.axes[std::size_t(command.axis)].name, rank);
}

int64_t CudaProgram::sentBytes(int rank) const {
  int64_t bytes = 0;
  for (const StreamAction &action : streams_.actions)
    if (const Command &command = commandOf(action);
        command.kind == Command::Kind::Collective)
      bytes += ringBytes(command, groupOf(command, rank), rank);
  return bytes;
}

Status CudaProgram::queueAction(std::size_t index, bool splitsGroups) const {
  const StreamAction &action = streams_.actions[index];
  const Command &command = commandOf(action);
  if (action.stream == Stream::Host)
    return queueHost(index);
  if (const DnnAttention *attention = prepared_[index].attention)
    return attention->run(argumentsOf(action),
                          device({command.workspace.offset}));
  struct Executor {
    const CudaProgram &program;
    std::size_t index;
    const StreamAction &action;
    const Command &command;
    bool splitsGroups;

    Status launch() {
      if (command.member > 0 && !splitsGroups)
        return Status();
      return program.queueLaunch(action, splitsGroups ? 1 : command.group);
    }
    Status gemm() { return program.queueGemm(index); }
    Status fill() {
      if (command.size == 0)
        return Status();
      return program.driver().call(program.api().cuMemsetD8Async,
                                   program.device(command.to.at(action.run)),
                                   static_cast<unsigned char>(0),
                                   std::size_t(command.size),
                                   program.resources_->stream(Stream::Compute));
    }
    Status copy() {
      return command.size == 0 ? Status() : program.queueCopy(action);
    }
    Status startCopy() { return copy(); }
    Status startCollective() {
      return queueCollective(*program.resources_, command, action.run,
                             program.resources_->stream(action.stream));
    }
    // The host need not wait for the transfer, because events order the
    // streams.
    Status waitForTransfer() { return Status(); }
  };
  return runtime::execute(
      command, Executor{*this, index, action, command, splitsGroups});
}

Status CudaProgram::queue(ActionObserver *observer) const {
  // The events of the program's actions are followed by one event for the start
  // of the run, and one for the end of each stream except the compute stream.
  auto start = std::size_t(streams_.events);
  auto end = [&](Stream stream) { return start + std::size_t(stream); };
  bool splitsGroups = observer && observer->splitsGroups();
  Status status = record(start, Stream::Compute);
  for (Stream stream : sideStreams)
    if (uses(stream) && status.ok())
      status = wait(stream, start);

  for (std::size_t i = 0; i < streams_.actions.size() && status.ok(); ++i) {
    const StreamAction &action = streams_.actions[i];
    for (int64_t event : action.waits)
      if (status.ok())
        status = wait(action.stream, std::size_t(event));
    if (status.ok() && observer)
      status = observer->before(i);
    if (status.ok())
      status = queueAction(i, splitsGroups);
    if (status.ok() && observer)
      status = observer->after(i);
    if (status.ok() && action.event >= 0)
      status = record(std::size_t(action.event), action.stream);
    status = inAction(status, i);
  }

  for (Stream stream : sideStreams) {
    if (uses(stream) && status.ok())
      status = record(end(stream), stream);
    if (uses(stream) && status.ok())
      status = wait(Stream::Compute, end(stream));
  }
  return status;
}

Status CudaProgram::capture() {
  StreamHandle stream = resources_->stream(Stream::Compute);
  Status status =
      driver().call(api().cuStreamBeginCapture_v2, stream, captureThreadLocal);
  if (!status.ok())
    return status;
  status = queue(nullptr);
  // The capture must be ended even after an error.
  GraphHandle recorded = nullptr;
  Status ended = driver().call(api().cuStreamEndCapture, stream, &recorded);
  Graph graph(recorded, api().cuGraphDestroy);
  if (status.ok())
    status = ended;
  GraphExecHandle executable = nullptr;
  if (status.ok())
    status = driver().call(api().cuGraphInstantiateWithFlags, &executable,
                           graph.get(), 0ull);
  GraphExec exec(executable, api().cuGraphExecDestroy);
  if (status.ok())
    status = driver().call(api().cuGraphUpload, exec.get(), stream);
  if (status.ok())
    graph_ = std::move(exec);
  return status;
}

Status CudaProgram::launchGraph() const {
  return driver().call(api().cuGraphLaunch, graph_.get(),
                       resources_->stream(Stream::Compute));
}

Status CudaProgram::finish() const {
  return waitForStream(*resources_, resources_->stream(Stream::Compute));
}
