//===- OpTrace.cpp - Trace files of the results of commands ---------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "OpTrace.h"

#include "kiln/Support/OutputFile.h"

#include <algorithm>

using namespace kiln::support;

namespace kiln::runtime {

/// Maximum size of a trace in bytes.
static constexpr int64_t largestTrace = int64_t(256) << 20;

/// Returns true if `slot` is live at command `index` and contains the first
/// byte of `ref`. Compares the offsets for micro-batch 0 and the first instance
/// of the slot.
static bool liesIn(const Slot &slot, const Ref &ref, size_t index) {
  return slot.arena == ref.arena && slot.first <= int64_t(index) &&
         int64_t(index) <= slot.last && slot.offset <= ref.offset &&
         ref.offset < slot.offset + slot.bytes;
}

std::vector<size_t> writtenSlots(const Program &program, size_t index) {
  std::vector<MemoryAccess> results = resultsOf(program.commands[index]);
  std::vector<size_t> slots;
  for (size_t i = 0; i < program.slots.size(); ++i)
    if (std::any_of(results.begin(), results.end(),
                    [&](const MemoryAccess &result) {
                      return liesIn(program.slots[i], result.ref, index);
                    }))
      slots.push_back(i);
  return slots;
}

int64_t traceHostBegin(const ProgramFile &file) {
  return file.hostArenaBytes > 0 ? (file.arenaBytes + 63) / 64 * 64
                                 : file.arenaBytes;
}

/// Returns the approximate size of the trace of one program.
static int64_t traceBytes(const ProgramFile &file, const Program &program) {
  int64_t bytes = traceHostBegin(file) + file.hostArenaBytes;
  for (size_t i = 0; i < program.commands.size(); ++i) {
    int64_t written = 0;
    for (size_t slot : writtenSlots(program, i))
      written += program.slots[slot].bytes;
    int64_t executions = program.executionsOf(i);
    if (written > largestTrace / executions)
      return largestTrace + 1;
    bytes += written * executions;
    if (bytes > largestTrace)
      return bytes;
  }
  return bytes;
}

namespace {

class TraceWriter final : public CommandObserver {
public:
  TraceWriter(const Program &program, const Arenas &arenas, OutputFile &out)
      : program_(program), arenas_(arenas), out_(out) {}

  void after(size_t command, const abi::SegmentRun &run) override {
    if (waitsForTransfer(program_.commands[command]))
      return;
    std::vector<size_t> slots = writtenSlots(program_, command);
    number(command);
    number(uint64_t(run.microbatch));
    number(slots.size());
    for (size_t index : slots) {
      const Slot &slot = program_.slots[index];
      number(index);
      bytes(arenas_.at(slot.at(run)), slot.bytes);
    }
  }
  void number(uint64_t value) { bytes(&value, sizeof(value)); }
  void bytes(const void *data, int64_t size) {
    if (status_.ok() && size > 0)
      status_ = out_.write(data, uint64_t(size));
  }
  const Status &status() const { return status_; }

private:
  const Program &program_;
  const Arenas &arenas_;
  OutputFile &out_;
  Status status_;
};

} // namespace

namespace {

/// After each command, calls a callback with the contents of the slots that the
/// command wrote. The lists of written slots are computed before the run.
class OpWatcher final : public CommandObserver {
public:
  OpWatcher(const Program &program, const Arenas &arenas,
            const std::function<void(const OpResult &)> &observe);
  void after(size_t command, const abi::SegmentRun &run) override;

private:
  const Program &program_;
  const Arenas &arenas_;
  const std::function<void(const OpResult &)> &observe_;
  /// The indexes of the written slots, indexed by command.
  std::vector<std::vector<size_t>> slots_;
  /// The values of OpResult::whole, indexed by slot: true if every write to the
  /// slot starts at its first byte.
  std::vector<bool> whole_;
};

} // namespace

OpWatcher::OpWatcher(const Program &program, const Arenas &arenas,
                     const std::function<void(const OpResult &)> &observe)
    : program_(program), arenas_(arenas), observe_(observe),
      whole_(program.slots.size(), true) {
  for (size_t i = 0; i < program.commands.size(); ++i) {
    slots_.push_back(writtenSlots(program, i));
    for (const MemoryAccess &result : resultsOf(program.commands[i]))
      for (size_t slot : slots_.back())
        if (liesIn(program.slots[slot], result.ref, i) &&
            (result.ref.offset != program.slots[slot].offset ||
             result.ref.stride != 0 ||
             result.ref.ring != program.slots[slot].ring))
          whole_[slot] = false;
  }
}

void OpWatcher::after(size_t command, const abi::SegmentRun &run) {
  const Command &info = program_.commands[command];
  if (waitsForTransfer(info))
    return;
  for (size_t index : slots_[command]) {
    const Slot &slot = program_.slots[index];
    observe_({command, commandKindName(info), info.name, run.microbatch,
              slot.name, arenas_.at(slot.at(run)), slot.bytes, slot.rowBytes,
              slot.rowPitch, whole_[index], slot.type});
  }
}

Status observeOps(const ProgramFile &file, const Arenas &arenas,
                  ProgramRunner &runner, size_t index,
                  const std::function<void(const OpResult &)> &observe) {
  OpWatcher watcher(file.programs[index], arenas, observe);
  return runner.runInOrder(index, &watcher, SerialTransfers::When::Start);
}

Status traceOps(const ProgramFile &file, const Arenas &arenas,
                ProgramRunner &runner,
                const std::function<Status(size_t)> &prepare,
                const std::string &path) {
  int64_t bytes = 0;
  for (const Program &program : file.programs)
    bytes += traceBytes(file, program);
  if (bytes > largestTrace)
    return Status(ExitCode::Usage,
                  "--check-ops: the trace of this model would be larger than " +
                      std::to_string(largestTrace >> 20) +
                      " MiB; compile a smaller model, batch or sequence");
  Result<OutputFile> out = OutputFile::create(path);
  if (!out.ok())
    return out.status();
  Status status = out->write(opTraceMagic, 8);
  const char padding[64] = {};
  for (size_t i = 0; i < file.programs.size() && status.ok(); ++i) {
    status = prepare(i);
    if (!status.ok())
      return status;
    TraceWriter writer(file.programs[i], arenas, *out);
    const std::string &name = file.description.programs[i].name;
    writer.number(name.size());
    writer.bytes(name.data(), int64_t(name.size()));
    writer.number(uint64_t(traceHostBegin(file) + file.hostArenaBytes));
    writer.bytes(arenas.of(ArenaKind::Device).data(), file.arenaBytes);
    writer.bytes(padding, traceHostBegin(file) - file.arenaBytes);
    writer.bytes(arenas.of(ArenaKind::Host).data(), file.hostArenaBytes);
    status = runner.runInOrder(i, &writer, SerialTransfers::When::Start);
    if (!status.ok())
      return status;
    writer.number(opTraceEnd);
    status = writer.status();
  }
  return status.ok() ? out->commit() : status;
}

} // namespace kiln::runtime
