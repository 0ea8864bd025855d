//===- SegmentReader.cpp - Reads the segments of a program ----------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "SegmentReader.h"

#include "CommandReader.h"
#include "kiln/Support/Messages.h"

#include <algorithm>
#include <iterator>

using namespace kiln::support;

namespace kiln::runtime {

/// `maxRuns` limits the number of segment runs. `maxRepeated` limits the number
/// of commands, arguments and immediates that second and later runs of segments
/// add. Without these limits, a small description could expand to a program of
/// any size.
static constexpr std::size_t maxRuns = std::size_t(1) << 16,
                             maxRepeated = std::size_t(1) << 20;

/// Returns the total number of commands, arguments and immediates in
/// `commands`.
static std::size_t sizeOf(const std::vector<Command> &commands) {
  std::size_t size = commands.size();
  for (const Command &command : commands)
    if (command.call)
      size += command.call->args.size() + command.call->immediates.size();
  return size;
}

std::vector<std::vector<Command>>
SegmentReader::readTable(const ProgramFile &file, int64_t kernelCount) {
  std::vector<std::vector<Command>> table;
  std::size_t count = segments_.size();
  if (count == 0)
    segments_.fail("is empty, but a program has at least one segment");
  entries_.reserve(count);
  commands_.reserve(count);
  for (std::size_t i = 0; i < count && !failed(); ++i) {
    const Node &entry = entries_.emplace_back(segments_.element(i));
    Node name = entry.at("name");
    if (!indexes_.emplace(name.text(), i).second)
      name.fail("is " + inQuotes(name.text()) +
                ", the name of another segment");
    const Node &commands = commands_.emplace_back(entry.at("commands"));
    std::vector<Command> &list = table.emplace_back();
    std::size_t length = commands.size();
    list.reserve(length);
    CommandReader reader(file, kernelCount);
    for (std::size_t j = 0; j < length && !failed(); ++j)
      list.push_back(reader.read(commands.element(j)));
    if (reader.inLoop())
      commands.fail("ends inside a loop");
  }
  return table;
}

std::size_t SegmentReader::findSegment(const Node &entry) const {
  std::string name = entry.text();
  auto found = indexes_.find(name);
  if (found != indexes_.end())
    return found->second;
  entry.fail("is " + inQuotes(name) + ", which is none of the segments");
  return 0;
}

void SegmentReader::read(const ProgramFile &file, int64_t kernelCount,
                         Program &program) {
  std::vector<std::vector<Command>> table = readTable(file, kernelCount);
  if (failed())
    return;
  std::size_t count = order_.size();
  if (count == 0)
    order_.fail("is empty, but a program runs at least one segment");
  // For each segment, the number of its runs that have not been appended to
  // program.commands yet.
  std::vector<std::size_t> left(table.size());
  std::size_t length = 0, repeated = 0;
  if (count > maxRuns)
    order_.fail("has " + std::to_string(count) + " entries, expected at most " +
                std::to_string(maxRuns));
  std::vector<std::size_t> sizes;
  for (const std::vector<Command> &list : table)
    sizes.push_back(sizeOf(list));
  for (std::size_t i = 0; i < count && !failed(); ++i) {
    std::size_t segment = findSegment(order_.element(i));
    if (failed())
      return;
    repeated += left[segment]++ > 0 ? sizes[segment] : 0;
    runs_.push_back({segment, length});
    length += table[segment].size();
    if (repeated > maxRepeated)
      order_.fail("repeats segments that have more than " +
                  std::to_string(maxRepeated) +
                  " commands and arguments in total");
  }
  for (std::size_t i = 0; i < table.size() && !failed(); ++i)
    if (Node name = entries_[i].at("name"); left[i] == 0)
      name.fail("is " + inQuotes(name.text()) +
                ", a segment that 'order' does not contain");
  if (failed())
    return;
  program.commands.reserve(length);
  auto end = std::back_inserter(program.commands);
  for (const Run &run : runs_) {
    std::vector<Command> &list = table[run.segment];
    program.segments.push_back({entries_[run.segment].at("name").text(),
                                run.begin, run.begin + list.size()});
    if (--left[run.segment] > 0)
      std::copy(list.begin(), list.end(), end);
    else
      std::move(list.begin(), list.end(), end);
  }
}

const SegmentReader::Run &SegmentReader::runOf(std::size_t command) const {
  auto after =
      std::partition_point(runs_.begin(), runs_.end(), [=](const Run &run) {
        return run.begin <= command;
      });
  return *std::prev(after);
}

Node SegmentReader::command(std::size_t index) const {
  const Run &run = runOf(index);
  return commands_[run.segment].element(index - run.begin);
}

void SegmentReader::fail(std::size_t index, const std::string &problem) const {
  // Messages contain the index of the command in execution order.
  std::string place =
      "commands[" + std::to_string(index) + "] in execution order";
  command(index).fail(runs_.size() == 1 ? problem
                                        : problem + " (this is " + place + ")");
}

} // namespace kiln::runtime
