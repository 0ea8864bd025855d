//===- ActionTimer.cpp - GPU timestamps of a program's actions ------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ActionTimer.h"

using namespace kiln::runtime::cuda;
using namespace kiln::runtime;
using namespace kiln;

Status ActionTimer::start() {
  std::size_t actions = program_.streams().actions.size();
  Status status;
  auto make = [&](Event &event) {
    EventHandle handle = nullptr;
    if (status.ok())
      status =
          driver().call(driver().api().cuEventCreate, &handle, eventDefault);
    if (handle)
      event = Event(handle, driver().api().cuEventDestroy_v2);
  };
  make(start_);
  begins_.resize(actions);
  ends_.resize(actions);
  for (std::size_t i = 0; i < actions; ++i) {
    make(begins_[i]);
    make(ends_[i]);
  }
  return status.ok() ? record(start_, Stream::Compute) : status;
}

Status ActionTimer::record(const Event &event, Stream stream) {
  return driver().call(driver().api().cuEventRecord, event.get(),
                       resources_.stream(stream));
}

Status ActionTimer::before(std::size_t action) {
  return record(begins_[action], program_.streams().actions[action].stream);
}

Status ActionTimer::after(std::size_t action) {
  return record(ends_[action], program_.streams().actions[action].stream);
}

Result<double> ActionTimer::timeOf(const Event &event) const {
  float milliseconds = 0;
  Status status = driver().call(driver().api().cuEventElapsedTime,
                                &milliseconds, start_.get(), event.get());
  if (!status.ok())
    return status;
  return 1e3 * double(milliseconds);
}

static TraceEvent::Track trackOf(Stream stream) {
  return stream == Stream::CopyOut  ? TraceEvent::Track::CopiesOut
         : stream == Stream::CopyIn ? TraceEvent::Track::CopiesIn
         : stream == Stream::Ranks  ? TraceEvent::Track::Sums
                                    : TraceEvent::Track::Commands;
}

/// Returns the trace event of a command or a launch group (launches that run as
/// one), without its times.
TraceEvent ActionTimer::describe(const StreamAction &action) const {
  const std::vector<Command> &commands = program_.program().commands;
  const Command &command = commands[action.command];
  TraceEvent event;
  event.track = trackOf(action.stream);
  event.name = command.name;
  if (command.group > 1)
    event.name += " and " + std::to_string(command.group - 1) + " more";
  event.category =
      action.stream == Stream::Host ? "host" : commandKindName(command);
  for (int64_t i = 0; i < command.group; ++i) {
    event.flops += commands[action.command + std::size_t(i)].flops;
    event.bytes += commands[action.command + std::size_t(i)].bytes;
  }
  return event;
}

Status ActionTimer::addBars(std::vector<TraceEvent> &events) const {
  const std::vector<StreamAction> &actions = program_.streams().actions;
  for (std::size_t i = 0; i < actions.size(); ++i) {
    if (program_.program().commands[actions[i].command].member > 0)
      continue;
    Result<double> begin = timeOf(begins_[i]), end = timeOf(ends_[i]);
    if (!begin.ok())
      return begin.status();
    if (!end.ok())
      return end.status();
    TraceEvent event = describe(actions[i]);
    event.startUs = *begin;
    event.durationUs = *end - *begin;
    events.push_back(std::move(event));
  }
  return Status();
}
