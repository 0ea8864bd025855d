//===- Trace.cpp - Perfetto traces ----------------------------------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Trace.h"

#include <nlohmann/json.hpp>

namespace kiln::runtime {

std::string traceOfRank(const std::string &processName, int rank,
                        const std::vector<TraceEvent> &events) {
  using Json = nlohmann::json;
  std::string text;
  auto add = [&](const Json &event, bool last = false) {
    text += event.dump(-1, ' ', false, Json::error_handler_t::replace);
    text += last ? "" : ",\n";
  };
  bool copies = false, sums = false;
  for (const TraceEvent &event : events) {
    copies |= event.track == TraceEvent::Track::CopiesOut ||
              event.track == TraceEvent::Track::CopiesIn;
    sums |= event.track == TraceEvent::Track::Sums;
    add({{"name", event.name},
         {"cat", event.category},
         {"ph", "X"},
         {"pid", rank},
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
         {"pid", rank},
         {"ts", event.startUs},
         {"args", series}});
  }
  auto nameTrack = [&](TraceEvent::Track track, const char *name) {
    add({{"name", "thread_name"},
         {"ph", "M"},
         {"pid", rank},
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
       {"pid", rank},
       {"tid", 0},
       {"args", {{"name", processName}}}},
      true);
  return text;
}

std::string traceFile(const std::vector<std::string> &ranks) {
  std::string text = "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n";
  for (std::size_t i = 0; i < ranks.size(); ++i)
    text += (i == 0 ? "" : ",\n") + ranks[i];
  return text + "]}\n";
}

} // namespace kiln::runtime
