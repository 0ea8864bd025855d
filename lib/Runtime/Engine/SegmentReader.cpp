//===- SegmentReader.cpp - Reads the segments of a program ----------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "SegmentReader.h"

#include "kiln/Support/Messages.h"

#include <algorithm>
#include <iterator>

using namespace kiln::abi;
using namespace kiln::support;

namespace kiln::runtime {

/// `maxEntries` limits the number of entries of "order", the list of segments
/// that a program executes. `maxRepeated` limits the number of commands,
/// arguments and immediates that second and later occurrences of segments add.
/// Without these limits, a small description could expand to a program of any
/// size.
static constexpr std::size_t maxEntries = std::size_t(1) << 16,
                             maxRepeated = std::size_t(1) << 20;

/// Maximum number of commands that a program executes: `maxExecuted` on a CPU,
/// and `maxActions` on a GPU, where each command is a stream action.
static constexpr int64_t maxExecuted = int64_t(1) << 24, maxActions = int64_t(1)
                                                                      << 22;

/// Returns the total number of commands, arguments and immediates in
/// `commands`.
static std::size_t sizeOf(const std::vector<Command> &commands) {
  std::size_t size = commands.size();
  for (const Command &command : commands)
    if (command.call)
      size += command.call->args.size() + command.call->immediates.size();
  return size;
}

void SegmentReader::readNames() {
  std::size_t count = segments_.size();
  if (count == 0)
    segments_.fail("is empty, but a program has at least one segment");
  entries_.reserve(count);
  for (std::size_t i = 0; i < count && !failed(); ++i) {
    Node name = entries_.emplace_back(segments_.element(i)).node.at("name");
    if (!indexes_.emplace(name.text(), i).second)
      name.fail("is " + inQuotes(name.text()) +
                ", but an earlier segment has the same name");
  }
}

/// Adds an occurrence of a segment. The text of `name` is the segment's name.
void SegmentReader::addPlace(const Node &name, const SegmentContext &context) {
  std::string text = name.text();
  auto found = indexes_.find(text);
  if (found == indexes_.end())
    return name.fail("is " + inQuotes(text) +
                     ", expected the name of a segment");
  Entry &entry = entries_[found->second];
  if (entry.uses > 0 &&
      (context.microbatches > 0 || entry.context.microbatches > 0))
    name.fail(
        "is " + inQuotes(text) +
        ", which 'order' contains twice, but a segment of the micro-batches "
        "may occur only once");
  ++entry.uses;
  entry.context = context;
  places_.push_back({found->second, 0});
}

/// Reads the entry of "order" that executes the forward and the backward
/// segments of all micro-batches.
void SegmentReader::readMicrobatches(const Node &node) {
  if (microbatchOrder_)
    return node.fail("is the second entry with micro-batches, expected at most "
                     "one");
  Node countNode = node.at("microbatches"), slotsNode = node.at("slots"),
       orderNode = node.at("order");
  int64_t count = countNode.integer(1), slots = slotsNode.integer(1);
  if (count > maxMicrobatches)
    countNode.fail("is " + std::to_string(count) + ", expected at most " +
                   std::to_string(maxMicrobatches));
  std::string text = orderNode.text();
  if (failed())
    return;
  Result<SegmentOrder> order = SegmentOrder::parse(text);
  Status status = order.ok() ? order->check(count) : order.status();
  if (!status.ok())
    return orderNode.fail("is invalid: " + status.message());
  int64_t needed = order->slots(count);
  if (slots < needed || slots > count)
    return slotsNode.fail(
        "is " + std::to_string(slots) + ", expected " + std::to_string(needed) +
        " to " + std::to_string(count) + ", because up to " +
        std::to_string(needed) + " of " + std::to_string(count) +
        " micro-batches are in flight");
  microbatchOrder_ = std::move(*order);
  addPlace(node.at("forward"), {count, slots, false});
  addPlace(node.at("backward"), {count, slots, true});
}

void SegmentReader::readOrder() {
  std::size_t count = order_.size();
  if (count == 0)
    order_.fail("is empty, but a program runs at least one segment");
  if (count > maxEntries)
    order_.fail("has " + std::to_string(count) + " entries, expected at most " +
                std::to_string(maxEntries));
  for (std::size_t i = 0; i < count && !failed(); ++i) {
    Node entry = order_.element(i);
    if (entry.json().is_object())
      readMicrobatches(entry);
    else
      addPlace(entry, {});
  }
  for (const Entry &entry : entries_)
    if (Node name = entry.node.at("name"); entry.uses == 0)
      name.fail("is " + inQuotes(name.text()) +
                ", a segment that 'order' does not contain");
}

void SegmentReader::readCommands(const ProgramFile &file, int64_t kernelCount) {
  for (Entry &entry : entries_) {
    std::size_t length = entry.commands.size();
    entry.list.reserve(length);
    CommandReader reader(file, kernelCount, entry.context);
    for (std::size_t i = 0; i < length && !failed(); ++i)
      entry.list.push_back(reader.read(entry.commands.element(i)));
  }
}

void SegmentReader::checkSize(const ProgramFile &file) const {
  std::size_t repeated = 0;
  int64_t executed = 0;
  for (const Entry &entry : entries_) {
    repeated += sizeOf(entry.list) * (entry.uses - 1);
    for (const Command &command : entry.list)
      executed += entry.context.microbatches > 0 && command.when == When::Always
                      ? entry.context.microbatches
                      : int64_t(entry.uses);
  }
  if (repeated > maxRepeated)
    return order_.fail("repeats segments that have more than " +
                       std::to_string(maxRepeated) +
                       " commands and arguments in total");
  bool hasGpu = file.description.target.kind != TargetKind::Cpu;
  int64_t most = hasGpu ? maxActions : maxExecuted;
  if (executed > most)
    order_.fail("executes " + std::to_string(executed) +
                " commands, expected at most " + std::to_string(most) +
                (hasGpu ? " for a GPU" : ""));
}

void SegmentReader::layOut(Program &program) {
  std::size_t length = 0;
  for (Place &place : places_) {
    place.begin = length;
    const Entry &entry = entries_[place.entry];
    length += entry.list.size();
    program.segments.push_back(
        {entry.node.at("name").text(), place.begin, length});
    const SegmentContext &context = entry.context;
    if (context.isBackward) {
      program.microbatches.backward = place.begin;
      program.microbatches.end = length;
    } else if (context.microbatches > 0) {
      program.microbatches.count = context.microbatches;
      program.microbatches.slots = context.slots;
      program.microbatches.forward = place.begin;
    }
  }
  program.commands.reserve(length);
  auto end = std::back_inserter(program.commands);
  for (const Place &place : places_) {
    Entry &entry = entries_[place.entry];
    if (--entry.uses > 0)
      std::copy(entry.list.begin(), entry.list.end(), end);
    else
      std::move(entry.list.begin(), entry.list.end(), end);
  }
}

void SegmentReader::addRuns(Program &program) const {
  for (std::size_t i = 0; i < places_.size(); ++i) {
    const SegmentContext &context = entries_[places_[i].entry].context;
    if (context.microbatches == 0) {
      program.runs.push_back({i, outsideMicrobatches()});
      continue;
    }
    // The backward segment follows the forward segment.
    for (const SegmentRun &run : microbatchOrder_->runs(context.microbatches))
      program.runs.push_back(
          {run.segment == Segment::Forward ? i : i + 1, run});
    ++i;
  }
}

void SegmentReader::read(const ProgramFile &file, int64_t kernelCount,
                         Program &program) {
  readNames();
  if (!failed())
    readOrder();
  if (!failed())
    readCommands(file, kernelCount);
  if (!failed())
    checkSize(file);
  if (failed())
    return;
  layOut(program);
  addRuns(program);
}

Node SegmentReader::command(std::size_t index) const {
  auto after = std::partition_point(
      places_.begin(), places_.end(),
      [=](const Place &place) { return place.begin <= index; });
  const Place &place = *std::prev(after);
  return entries_[place.entry].commands.element(index - place.begin);
}

void SegmentReader::fail(std::size_t index, const std::string &problem) const {
  // Messages refer to commands by their index in the program. The path to the
  // command in the description does not contain this index, so append it.
  std::string place =
      " (this is commands[" + std::to_string(index) + "] of the program)";
  command(index).fail(places_.size() == 1 ? problem : problem + place);
}

} // namespace kiln::runtime
