//===- OpRepeat.cpp - Comparison of ops with a trace ----------------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "OpRepeat.h"

#include "OpTrace.h"
#include "ResultDistance.h"
#include "kiln/Support/InputFile.h"
#include "kiln/Support/Messages.h"
#include "kiln/Support/Process.h"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <map>

using namespace kiln::support;

namespace kiln::runtime {

/// Maximum number of results per program that are reported in a line of their
/// own because they differ from the trace by more than rounding can explain.
static constexpr int64_t namedResults = 20;

namespace {

/// Reads a trace file from start to end. The sizes of its parts are known from
/// the program; a trace with other sizes is rejected.
class TraceReader {
public:
  explicit TraceReader(InputFile file) : file_(std::move(file)) {}

  Status bytes(void *data, int64_t size) {
    Status status = file_.read(offset_, data, uint64_t(size));
    offset_ += uint64_t(size);
    return status;
  }
  /// Reads a number and returns an error if it is not `expected`. `what`
  /// describes the number in the error message.
  Status expect(uint64_t expected, const std::string &what) {
    uint64_t value = 0;
    Status status = bytes(&value, sizeof(value));
    if (status.ok() && value != expected)
      return Status::badInput(
          file_.path() + ": " + what + " is " + std::to_string(value) +
          ", expected " + std::to_string(expected) +
          "; --check-trace needs a trace from an executable with the same plan "
          "as this one: compile both executables with the same flags, for "
          "example one for cuda and the other for cuda-emu");
    return status;
  }
  Status begin();
  Status end() const;

private:
  InputFile file_;
  uint64_t offset_ = 0;
};

/// Compares the results of one program with those in the trace, command by
/// command.
class OpRepeater final : public CommandObserver {
public:
  OpRepeater(const ProgramInfo &info, const Program &program,
             const Arenas &arenas, TraceReader &trace,
             std::vector<MemoryCheckLine> &lines)
      : info_(info), program_(program), arenas_(arenas), trace_(trace),
        lines_(lines) {}

  void before(size_t command, const abi::SegmentRun &run) override;
  void after(size_t command, const abi::SegmentRun &run) override {
    if (status_.ok() && !waitsForTransfer(program_.commands[command]))
      status_ = repeat(command, run);
  }
  /// Adds one line per kind of command to lines_.
  Status finish();

private:
  /// Statistics of all results of one kind of command.
  struct Tally {
    int64_t results = 0, same = 0, flushed = 0, wrong = 0;
    ResultDistance worst;
    std::string worstAt;
  };

  Status repeat(size_t command, const abi::SegmentRun &run);
  ResultDistance compare(const Command &command, const abi::SegmentRun &run,
                         const Slot &slot,
                         const std::vector<char> &before) const;
  void count(size_t command, const abi::SegmentRun &run, const Slot &slot,
             const ResultDistance &distance);

  const ProgramInfo &info_;
  const Program &program_;
  const Arenas &arenas_;
  TraceReader &trace_;
  std::vector<MemoryCheckLine> &lines_;
  /// For each slot that the current command writes, the contents of the slot
  /// before the command.
  std::vector<std::vector<char>> before_;
  /// Contents of the current slot according to the trace.
  std::vector<char> other_;
  std::map<std::string, Tally> tallies_;
  int64_t named_ = 0;
  Status status_;
};

} // namespace

Status TraceReader::begin() {
  char magic[sizeof(opTraceMagic)] = "";
  Status status = file_.size() < 8 ? Status() : bytes(magic, 8);
  if (status.ok() && std::memcmp(magic, opTraceMagic, 8) != 0)
    return Status::badInput(file_.path() +
                            ": is not a trace; write one with --check-ops");
  return status;
}

Status TraceReader::end() const {
  if (offset_ == file_.size())
    return Status();
  return Status::badInput(file_.path() + ": " +
                          std::to_string(file_.size() - offset_) +
                          " bytes follow the data of the last program of this "
                          "executable, expected none");
}

void OpRepeater::before(size_t command, const abi::SegmentRun &run) {
  before_.clear();
  for (size_t index : writtenSlots(program_, command)) {
    const Slot &slot = program_.slots[index];
    const char *bytes = arenas_.at(slot.at(run));
    before_.emplace_back(bytes, bytes + slot.bytes);
  }
}

/// Returns the ranges of `slot` that the command writes, in bytes from the
/// start of the slot. Omits arguments of unknown size, and the c operand of a
/// gemm, whose rows may be padded.
static std::vector<std::pair<int64_t, int64_t>>
writtenRanges(const Command &command, const abi::SegmentRun &run,
              const Slot &slot) {
  std::vector<std::pair<int64_t, int64_t>> ranges;
  for (const MemoryAccess &result : resultsOf(command)) {
    Place place = result.ref.at(run);
    int64_t begin = place.offset - slot.at(run).offset;
    if (result.use != AccessUse::Matrix && result.bytes != unknownBytes &&
        place.arena == slot.arena && begin >= 0 && begin < slot.bytes)
      ranges.push_back({begin, std::min(begin + result.bytes, slot.bytes)});
  }
  return ranges;
}

/// Returns true if the command computes a matmul.
static bool isMatmul(const Command &command) {
  std::vector<MemoryAccess> results = resultsOf(command);
  return std::any_of(results.begin(), results.end(),
                     [](const MemoryAccess &result) {
                       return result.use == AccessUse::Matrix;
                     });
}

/// Copies the padding between the rows of `slot` from `from` to `to`. The
/// contents of padding are undefined and must not count as a difference.
static void copyGaps(const Slot &slot, const char *from, char *to) {
  if (slot.rowPitch == 0)
    return;
  for (int64_t at = 0; at + slot.rowPitch < slot.bytes; at += slot.rowPitch)
    std::memcpy(to + at + slot.rowBytes, from + at + slot.rowBytes,
                size_t(slot.rowPitch - slot.rowBytes));
}

ResultDistance OpRepeater::compare(const Command &command,
                                   const abi::SegmentRun &run, const Slot &slot,
                                   const std::vector<char> &before) const {
  const char *own = arenas_.at(slot.at(run));
  if (std::memcmp(own, other_.data(), size_t(slot.bytes)) == 0)
    return {};
  bool ofMatmul = isMatmul(command);
  auto ranges = writtenRanges(command, run, slot);
  // Of the results of a matmul (matrix, bias gradient, aux), writtenRanges()
  // omits only the matrix. Therefore a slot without ranges contains the matrix.
  if (ofMatmul && !command.epilogue && ranges.empty())
    return gemmDistance(command, run, arenas_, slot, other_.data());
  if (ranges.empty())
    ranges.push_back({0, slot.bytes});
  double longestSum = ofMatmul ? double(command.k) : 64;
  ResultDistance worst;
  for (auto [begin, end] : ranges) {
    ResultDistance distance =
        slot.type
            ? tensorDistance(*slot.type, before.data() + begin, own + begin,
                             other_.data() + begin, end - begin, longestSum)
            : rawDistance(own + begin, other_.data() + begin, end - begin);
    if (!distance.same && distance.share() >= worst.share())
      worst = distance;
  }
  return worst;
}

static std::string shareText(const ResultDistance &distance) {
  char text[96];
  std::snprintf(text, sizeof(text), "%.2g of %.2g allowed", distance.error,
                distance.allowed);
  return text;
}

void OpRepeater::count(size_t index, const abi::SegmentRun &run,
                       const Slot &slot, const ResultDistance &distance) {
  const Command &command = program_.commands[index];
  Tally &tally = tallies_[commandKindName(command)];
  ++tally.results;
  tally.same += distance.same;
  tally.flushed += distance.sameButSubnormals();
  std::string at =
      std::string(commandKindName(command)) + " " + inQuotes(command.name) +
      " (commands[" + std::to_string(index) + "]" +
      program_.ofMicrobatch(index, run) + "), result " + inQuotes(slot.name) +
      (distance.raw ? " of unknown type, which must be bitwise equal" : "");
  if (!distance.same && distance.share() >= tally.worst.share()) {
    tally.worst = distance;
    tally.worstAt = at;
  }
  if (distance.share() <= 1)
    return;
  ++tally.wrong;
  if (named_++ < namedResults)
    lines_.push_back({info_.name + ": " + at, "within rounding",
                      shareText(distance), false});
}

Status OpRepeater::repeat(size_t index, const abi::SegmentRun &run) {
  auto what = [&](const char *number) {
    return "in program " + inQuotes(info_.name) + ", the " + number +
           " in the record of commands[" + std::to_string(index) + "]";
  };
  std::vector<size_t> slots = writtenSlots(program_, index);
  Status status = trace_.expect(index, what("index"));
  if (status.ok())
    status = trace_.expect(uint64_t(run.microbatch), what("micro-batch"));
  if (status.ok())
    status = trace_.expect(slots.size(), what("number of buffers"));
  for (size_t i = 0; i < slots.size(); ++i) {
    const Slot &slot = program_.slots[slots[i]];
    if (status.ok())
      status = trace_.expect(slots[i], what("buffer"));
    other_.resize(size_t(slot.bytes));
    if (status.ok())
      status = trace_.bytes(other_.data(), slot.bytes);
    if (!status.ok())
      return status;
    copyGaps(slot, arenas_.at(slot.at(run)), other_.data());
    count(index, run, slot,
          compare(program_.commands[index], run, slot, before_[i]));
    std::memcpy(arenas_.at(slot.at(run)), other_.data(), other_.size());
  }
  return status;
}

Status OpRepeater::finish() {
  if (!status_.ok())
    return status_;
  Status status =
      trace_.expect(opTraceEnd, "the end of program " + inQuotes(info_.name));
  if (!status.ok())
    return status;
  for (const auto &[kind, tally] : tallies_) {
    std::string found = std::to_string(tally.same) + " bitwise equal";
    if (tally.flushed > 0)
      found += ", " + std::to_string(tally.flushed) +
               " equal except for subnormal numbers";
    if (tally.worst.error > 0)
      found += "; worst " + shareText(tally.worst) + ": " + tally.worstAt;
    if (tally.wrong > 0)
      found += "; " + std::to_string(tally.wrong) + " wrong";
    lines_.push_back({info_.name + ": " + kind + ", " +
                          std::to_string(tally.results) + " results",
                      "within rounding", found, tally.wrong == 0});
  }
  return Status();
}

/// Checks that the tokens, targets and positions in the trace are valid,
/// because kernels use them as indexes without a bounds check. A target of -100
/// is also valid; the loss ignores it.
static Status checkIndices(const ProgramFile &file, size_t program,
                           const Arenas &arenas, const std::string &path) {
  const ProgramInfo &info = file.description.programs[program];
  int64_t rows = 0;
  for (const ValueInfo &input : info.inputs)
    if (input.name == "tokens")
      rows = input.elements();
  for (size_t i = 0; i < info.inputs.size(); ++i) {
    const ValueInfo &input = info.inputs[i];
    bool isToken = input.type == ElementType::I32;
    if (!isToken &&
        (input.type != ElementType::I64 || input.name != "position"))
      continue;
    int64_t end = isToken ? file.description.model.vocabSize : rows;
    const char *data =
        arenas.at({file.programs[program].inputOffsets[i], ArenaKind::Device});
    for (int64_t k = 0; k < input.elements(); ++k) {
      int32_t token = 0;
      int64_t value = 0;
      if (isToken)
        std::memcpy(&token, data + 4 * k, sizeof(token));
      else
        std::memcpy(&value, data + 8 * k, sizeof(value));
      value += token;
      if ((value >= 0 && value < end) ||
          (value == -100 && input.name == "targets"))
        continue;
      return Status::badInput(
          path + ": in program " + inQuotes(info.name) + ", element " +
          std::to_string(k) + " of " + inQuotes(input.name) + " is " +
          std::to_string(value) + ", expected a value >= 0 and < " +
          std::to_string(end) +
          "; the trace is damaged: write it again with --check-ops");
    }
  }
  return Status();
}

Status repeatOps(const ProgramFile &file, const Arenas &arenas,
                 ProgramRunner &runner, const std::string &path,
                 std::vector<MemoryCheckLine> &lines) {
  Result<InputFile> opened = InputFile::open(path);
  if (!opened.ok())
    return opened.status();
  TraceReader trace(std::move(*opened));
  Status status = trace.begin();
  for (size_t i = 0; i < file.programs.size() && status.ok(); ++i) {
    if (Status stop = checkStop(); !stop.ok())
      return stop;
    const ProgramInfo &info = file.description.programs[i];
    status = trace.expect(info.name.size(), "the length of a program's name");
    std::string name(info.name.size(), ' ');
    if (status.ok())
      status = trace.bytes(name.data(), int64_t(name.size()));
    if (status.ok() && name != info.name)
      return Status::badInput(path + ": found program " + inQuotes(name) +
                              ", expected " + inQuotes(info.name));
    int64_t hostBegin = traceHostBegin(file);
    if (status.ok())
      status = trace.expect(uint64_t(hostBegin + file.hostArenaBytes),
                            "the number of bytes of the arenas");
    if (status.ok())
      status =
          trace.bytes(arenas.of(ArenaKind::Device).data(), file.arenaBytes);
    char padding[64];
    if (status.ok())
      status = trace.bytes(padding, hostBegin - file.arenaBytes);
    if (status.ok() && file.hostArenaBytes > 0)
      status =
          trace.bytes(arenas.of(ArenaKind::Host).data(), file.hostArenaBytes);
    if (status.ok())
      status = checkIndices(file, i, arenas, path);
    if (!status.ok())
      return status;
    OpRepeater repeater(info, file.programs[i], arenas, trace, lines);
    status = runner.runInOrder(i, &repeater, SerialTransfers::When::Start);
    if (status.ok())
      status = repeater.finish();
  }
  return status.ok() ? trace.end() : status;
}

} // namespace kiln::runtime
