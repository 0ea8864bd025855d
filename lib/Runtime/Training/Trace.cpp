//===- Trace.cpp - Perfetto traces ----------------------------------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Trace.h"

#include <nlohmann/json.hpp>

namespace kiln::runtime {

std::string traceJson(const std::string &processName,
                      const std::vector<TraceEvent> &events) {
  using Json = nlohmann::json;
  std::string text = "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n";
  auto add = [&](const Json &event, bool last = false) {
    text += event.dump(-1, ' ', false, Json::error_handler_t::replace);
    text += last ? "\n" : ",\n";
  };
  bool copies = false, sums = false;
  for (const TraceEvent &event : events) {
    copies |= event.track == TraceEvent::Track::CopiesOut ||
              event.track == TraceEvent::Track::CopiesIn;
    sums |= event.track == TraceEvent::Track::Sums;
    add({{"name", event.name},
         {"cat", event.category},
         {"ph", "X"},
         {"pid", 0},
         {"tid", int(event.track)},
         {"ts", event.startUs},
         {"dur", event.durationUs},
         {"args", {{"flops", event.flops}, {"bytes", event.bytes}}}});
    if (event.liveBytes.empty())
      continue;
    Json series = Json::object();
    for (auto &[name, bytes] : event.liveBytes)
      series[name] = bytes;
    add({{"name", "live bytes"},
         {"ph", "C"},
         {"pid", 0},
         {"ts", event.startUs},
         {"args", series}});
  }
  auto nameTrack = [&](TraceEvent::Track track, const char *name) {
    add({{"name", "thread_name"},
         {"ph", "M"},
         {"pid", 0},
         {"tid", int(track)},
         {"args", {{"name", name}}}});
  };
  nameTrack(TraceEvent::Track::Commands, "commands");
  if (copies) {
    nameTrack(TraceEvent::Track::CopiesOut, "copies to the host");
    nameTrack(TraceEvent::Track::CopiesIn, "copies from the host");
  }
  if (sums)
    nameTrack(TraceEvent::Track::Sums, "communication of ranks");
  add({{"name", "process_name"},
       {"ph", "M"},
       {"pid", 0},
       {"tid", 0},
       {"args", {{"name", processName}}}},
      true);
  return text + "]}\n";
}

} // namespace kiln::runtime
