//===- TraceCheck.cpp - Comparison of compiled with interpreted ops -------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "kiln/Interpreter/TraceCheck.h"

#include "OpComparison.h"
#include "kiln/Interpreter/ScheduledEngine.h"

#include "llvm/Support/Format.h"
#include "llvm/Support/MemoryBuffer.h"

#include <cstring>
#include <map>

using namespace mlir;
using namespace kiln::abi;

namespace kiln {

namespace {

/// Reads the bytes of a trace with bounds checks.
class TraceReader {
public:
  TraceReader(StringRef bytes, std::string path)
      : bytes(bytes), path(std::move(path)) {}

  bool atEnd() const { return bytes.empty(); }
  Status number(uint64_t &value) {
    StringRef taken;
    Status status = take(sizeof(value), taken);
    if (status.ok())
      std::memcpy(&value, taken.data(), sizeof(value));
    return status;
  }
  Status take(uint64_t size, StringRef &taken) {
    if (size > bytes.size())
      return wrong("ends in the middle of a record");
    taken = bytes.take_front(size);
    bytes = bytes.drop_front(size);
    return {};
  }
  Status wrong(const std::string &what) const {
    return Status::badInput(path + ": " + what +
                            "; make the trace by running an executable of "
                            "exactly this module with --check-ops");
  }

private:
  StringRef bytes;
  std::string path;
};

/// Summary of the comparisons of all commands of one kind.
struct KindSummary {
  int64_t compared = 0;
  int64_t amplified = 0; ///< Number of results whose bound was raised.
  double worst = 0;      ///< Largest ratio of a difference to its bound.
  /// Largest ratio of a difference to eps * |result| among the results whose
  /// bound was not raised.
  double worstUlps = 0;
  std::string where;
};

/// The contents of the arena according to the trace.
struct Image {
  std::string bytes;
  /// Per byte: true if its last write was traced. Writes to scratch memory are
  /// not traced.
  std::vector<bool> known;

  explicit Image(StringRef bytes)
      : bytes(bytes.str()), known(bytes.size(), true) {}
  void forget(int64_t begin, int64_t bytes) {
    std::fill_n(known.begin() + begin, bytes, false);
  }
};

class TraceChecker {
public:
  TraceChecker(ModuleOp module, TraceReader reader)
      : module(module), reader(std::move(reader)), comparison(module) {}
  Status run(llvm::raw_ostream &out);

private:
  Status checkProgram();
  Status findRun(const ScheduledProgram &program, uint64_t index,
                 SegmentRun &run);
  Status checkRecord(const ScheduledProgram &program, uint64_t index,
                     Image &image);
  Status applyWrites(const ScheduledProgram &program,
                     const ScheduledCommand &command, const SegmentRun &run,
                     Image &image);
  SmallVector<HostTensor> operandsOf(const ScheduledProgram &program,
                                     const ScheduledCommand &command,
                                     const SegmentRun &run, StringRef image);
  void note(const ScheduledProgram &program, const ScheduledCommand &command,
            size_t result, const Deviation &deviation);
  void print(llvm::raw_ostream &out);

  ModuleOp module;
  TraceReader reader;
  OpComparison comparison;
  /// Index in ScheduledProgram::executions of the execution that contains the
  /// latest record.
  size_t execution = 0;
  std::map<std::string, KindSummary> kinds;
  /// Description of the first write outside of a command's results.
  std::string trespass;
};

} // namespace

/// Returns true if the result of a command depends on the rank or on other
/// ranks.
static bool dependsOnRanks(const ScheduledCommand &command) {
  return command.kind == ScheduledCommand::Kind::CollectiveStart ||
         command.kind == ScheduledCommand::Kind::CopyShard;
}

static std::string kindOf(const ScheduledCommand &command) {
  if (command.kind == ScheduledCommand::Kind::Fill)
    return "fill";
  if (command.kind == ScheduledCommand::Kind::Copy ||
      command.kind == ScheduledCommand::Kind::CopyStart)
    return "copy";
  auto ops = command.body->without_terminator();
  if (llvm::hasSingleElement(ops))
    return (*ops.begin()).getName().stripDialect().str();
  if (command.kind == ScheduledCommand::Kind::Gemm)
    return "matmul, epilogue";
  return "fused rows";
}

static std::string nameOf(const ScheduledProgram &program,
                          const ScheduledCommand &command) {
  rt::ProgramOp op = program.op;
  std::string name = ("@" + getProgramName(op) + " command " +
                      llvm::Twine(&command - program.commands.data()))
                         .str();
  if (auto launch = dyn_cast<rt::LaunchOp>(command.op))
    name += (" @" + launch.getKernel()).str();
  if (auto gemm = dyn_cast<rt::GemmOp>(command.op))
    if (auto epilogue = gemm.getEpilogue())
      name += (" @" + *epilogue).str();
  return name;
}

void TraceChecker::note(const ScheduledProgram &program,
                        const ScheduledCommand &command, size_t result,
                        const Deviation &deviation) {
  KindSummary &kind = kinds[kindOf(command)];
  ++kind.compared;
  kind.amplified += deviation.amplified;
  double ratio = deviation.ratio();
  if (deviation.unit > 0 && (!deviation.amplified || ratio > 1))
    kind.worstUlps =
        std::max(kind.worstUlps, deviation.difference / deviation.unit);
  if (ratio <= kind.worst)
    return;
  kind.worst = ratio;
  kind.where = nameOf(program, command);
  llvm::raw_string_ostream where(kind.where);
  if (ratio > 1)
    where << llvm::format(": element %zu of result %zu is %g, not %g",
                          deviation.element, result, deviation.got,
                          deviation.expected);
}

static HostTensor load(const ScheduledProgram &program, const SlotTensor &place,
                       const SegmentRun &run, StringRef image) {
  return loadTensor(place, image.data() + program.addressOf(place, run));
}

SmallVector<HostTensor>
TraceChecker::operandsOf(const ScheduledProgram &program,
                         const ScheduledCommand &command, const SegmentRun &run,
                         StringRef image) {
  SmallVector<HostTensor> operands;
  bool readsSum = readsAccumulated(command, run);
  for (auto [i, place] : llvm::enumerate(command.operands)) {
    bool zeros = static_cast<int>(i) == command.accumulated && !readsSum;
    operands.push_back(zeros ? HostTensor(place.type)
                             : load(program, place, run, image));
  }
  return operands;
}

/// Marks the bytes of a slot's instance that belong to results of a command,
/// and that the command is therefore allowed to change.
static void markResults(const ScheduledCommand &command, unsigned slot,
                        int64_t microbatch, std::vector<bool> &mayChange) {
  for (const SlotTensor &place : command.results) {
    if (place.slot != slot)
      continue;
    int64_t width = place.elementBytes();
    int64_t at = place.offset + place.microbatchStride * microbatch;
    for (int64_t row = 0; row < getRowCount(place.type); ++row) {
      auto first = mayChange.begin() + at + row * place.rowStride * width;
      std::fill(first, first + getColumnCount(place.type) * width, true);
    }
  }
}

Status TraceChecker::applyWrites(const ScheduledProgram &program,
                                 const ScheduledCommand &command,
                                 const SegmentRun &run, Image &image) {
  uint64_t count = 0;
  if (Status status = reader.number(count); !status.ok())
    return status;
  for (uint64_t i = 0; i < count; ++i) {
    uint64_t index = 0;
    if (Status status = reader.number(index); !status.ok())
      return status;
    if (index >= program.slots.size())
      return reader.wrong("writes slot " + std::to_string(index) + " of " +
                          std::to_string(program.slots.size()));
    rt::SlotOp slot = program.slots[index];
    StringRef bytes;
    if (Status status = reader.take(slot.getBytes(), bytes); !status.ok())
      return status;
    std::vector<bool> mayChange(bytes.size(), false);
    markResults(command, index, run.microbatch, mayChange);
    for (auto [byte, got] : llvm::enumerate(bytes)) {
      size_t at = program.addressOf(slot, run) + byte;
      if (!mayChange[byte] && image.known[at] && image.bytes[at] != got &&
          trespass.empty())
        trespass = (nameOf(program, command) + " changes byte " +
                    llvm::Twine(byte) + " of slot \"" + slot.getName() +
                    "\", which is not one of its results")
                       .str();
      image.bytes[at] = got;
      image.known[at] = true;
    }
  }
  return {};
}

/// Reads the number of a micro-batch, and finds the next run in which command
/// `index` is executed for this micro-batch. Records are in the order of
/// execution.
Status TraceChecker::findRun(const ScheduledProgram &program, uint64_t index,
                             SegmentRun &run) {
  uint64_t microbatch = 0;
  if (Status status = reader.number(microbatch); !status.ok())
    return status;
  for (; execution < program.executions.size(); ++execution) {
    const rt::SegmentExecution &next = program.executions[execution];
    run = runOf(next);
    if (static_cast<uint64_t>(next.begin) <= index &&
        index < static_cast<uint64_t>(next.end) &&
        static_cast<uint64_t>(run.microbatch) == microbatch &&
        rt::isExecuted(program.commands[index].op, next))
      return {};
  }
  return reader.wrong("has command " + std::to_string(index) +
                      " for micro-batch " + std::to_string(microbatch) +
                      ", which the module does not execute at this place");
}

Status TraceChecker::checkRecord(const ScheduledProgram &program,
                                 uint64_t index, Image &image) {
  SegmentRun run;
  if (Status status = findRun(program, index, run); !status.ok())
    return status;
  const ScheduledCommand &command = program.commands[index];
  if (command.kind == ScheduledCommand::Kind::Wait)
    return reader.wrong("has writes of a wait");
  SmallVector<HostTensor> operands =
      operandsOf(program, command, run, image.bytes);
  if (command.scratch >= 0) {
    rt::SlotOp slot = program.slots[command.scratch];
    image.forget(program.addressOf(slot, run), slot.getBytes());
  }
  if (Status status = applyWrites(program, command, run, image); !status.ok())
    return status;
  auto results = llvm::map_to_vector(command.results, [&](auto &place) {
    return load(program, place, run, image.bytes);
  });
  if (!command.body) {
    HostTensor zeros(results.front().type);
    note(program, command, 0,
         compareTensors(operands.empty() ? zeros : operands.front(),
                        results.front()));
    return {};
  }
  return withDiagnostics(module.getContext(), [&]() -> LogicalResult {
    auto deviations = comparison.compare(command, operands, results);
    if (failed(deviations))
      return failure();
    for (auto [i, deviation] : llvm::enumerate(*deviations))
      note(program, command, i, deviation);
    return success();
  });
}

Status TraceChecker::checkProgram() {
  uint64_t size = 0, arena = 0;
  StringRef name, bytes;
  for (Status status : {reader.number(size), reader.take(size, name),
                        reader.number(arena), reader.take(arena, bytes)})
    if (!status.ok())
      return status;
  rt::ProgramOp found;
  for (rt::ProgramOp op : module.getOps<rt::ProgramOp>())
    if (getProgramName(op) == name)
      found = op;
  if (!found)
    return reader.wrong("has a program that the module does not have");
  std::optional<ScheduledProgram> program;
  Status status = withDiagnostics(module.getContext(), [&]() -> LogicalResult {
    auto built = ScheduledProgram::build(found);
    if (failed(built))
      return failure();
    program.emplace(std::move(*built));
    return success();
  });
  if (!status.ok())
    return status;
  if (llvm::any_of(program->commands, dependsOnRanks))
    return Status::badInput(
        "--check-trace: the program '" + name.str() +
        "' is for several ranks, but a trace is for one rank; compile the "
        "module and the executable without --mesh");
  rt::ArenaOp arenaOp = *module.getOps<rt::ArenaOp>().begin();
  // The host arena, if any, follows the device arena.
  auto expected = static_cast<uint64_t>(arenaOp.getHeight());
  if (arenaOp.getHostHeight())
    expected = program->hostBegin + arenaOp.getHostHeight();
  if (expected != arena)
    return reader.wrong("has an arena of " + std::to_string(arena) +
                        " bytes, the module has one of " +
                        std::to_string(expected));
  Image image(bytes);
  execution = 0;
  while (true) {
    uint64_t index = 0;
    if (Status status = reader.number(index); !status.ok())
      return status;
    if (index == UINT64_MAX)
      return {};
    if (Status status = checkRecord(*program, index, image); !status.ok())
      return status;
  }
}

void TraceChecker::print(llvm::raw_ostream &out) {
  out << "op                        compared  amplified   worst difference / "
         "allowed\n";
  for (auto &[name, kind] : kinds)
    out << (kind.worst > 1 ? "FAIL  " : "ok    ")
        << llvm::format("%-20s %7lld  %9lld   %10.3g   (%.3g eps of the norm)"
                        "  ",
                        name.c_str(), static_cast<long long>(kind.compared),
                        static_cast<long long>(kind.amplified), kind.worst,
                        kind.worstUlps)
        << kind.where << "\n";
}

Status TraceChecker::run(llvm::raw_ostream &out) {
  StringRef magic;
  if (!reader.take(8, magic).ok() || magic != "KILNOPS1")
    return reader.wrong("is not a trace of --check-ops");
  while (!reader.atEnd())
    if (Status status = checkProgram(); !status.ok())
      return status;
  print(out);
  if (!trespass.empty())
    return Status::error("--check-trace: " + trespass);
  for (auto &[name, kind] : kinds)
    if (kind.worst > 1)
      return Status::error("--check-trace: the compiled result of " + name +
                           " differs from the interpreted result at " +
                           kind.where);
  return {};
}

Status checkTrace(ModuleOp module, const std::string &path,
                  llvm::raw_ostream &out) {
  if (!ScheduledEngine::accepts(module))
    return Status::badInput(
        "--check-trace needs a scheduled module: make the module with kilnc "
        "--emit=schedule and the flags with which the executable was compiled");
  auto buffer = llvm::MemoryBuffer::getFile(path);
  if (!buffer)
    return Status::badInput("cannot read " + path + ": " +
                            buffer.getError().message());
  return TraceChecker(module, TraceReader((*buffer)->getBuffer(), path))
      .run(out);
}

} // namespace kiln
