//===- ShortForm.cpp - Short form of descriptions -------------------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ShortForm.h"

#include <cstdlib>
#include <utility>

namespace kiln::runtime::toy {

using Json = nlohmann::json;

Json inFull(Json description) {
  const Json role = "main", roles = Json::array({role});
  auto add = [](Json &object, const char *key, const Json &value) {
    if (!object.contains(key))
      object[key] = value;
  };
  add(description, "roles", Json::array({{{"name", role}, {"ranks", 1}}}));
  for (Json &state : description["states"]) {
    add(state, "global_shape", state["shape"]);
    add(state, "shard", Json(state["shape"].size(), 0));
    add(state, "roles", roles);
  }
  for (auto &[name, program] : description["programs"].items()) {
    add(program, "roles", roles);
    if (!program.contains("commands"))
      continue;
    program["segments"] =
        Json::array({{{"name", "step"}, {"commands", program["commands"]}}});
    program["order"] = {"step"};
    program.erase("commands");
  }
  return description;
}

Json &commandsOf(Json &program) { return program["segments"][0]["commands"]; }

const Json &commandsOf(const Json &program) {
  return program["segments"][0]["commands"];
}

Json inMicrobatches(const Json &commands, const Division &division) {
  auto segment = [&](const char *name, std::size_t begin, std::size_t end) {
    return Json{{"name", name},
                {"commands", Json::array_t(commands.begin() + long(begin),
                                           commands.begin() + long(end))}};
  };
  return {{"segments",
           {segment("begin", 0, division.forward),
            segment("forward", division.forward, division.backward),
            segment("backward", division.backward, division.end),
            segment("end", division.end, commands.size())}},
          {"order",
           {"begin",
            {{"forward", "forward"},
             {"backward", "backward"},
             {"microbatches", division.microbatches},
             {"slots", division.slots},
             {"order", division.order}},
            "end"}}};
}

Json &segmentOf(Json &program, const std::string &name) {
  for (Json &segment : program["segments"])
    if (segment["name"] == name)
      return segment["commands"];
  std::abort();
}

/// Returns the list of commands of each segment, in the order of the indexes of
/// the commands.
static std::vector<Json *> segmentsInOrder(Json &program) {
  std::vector<Json *> segments;
  for (const Json &entry : program["order"]) {
    if (!entry.is_object()) {
      segments.push_back(&segmentOf(program, entry));
      continue;
    }
    for (const char *member : {"forward", "backward"})
      segments.push_back(&segmentOf(program, entry[member]));
  }
  return segments;
}

std::vector<Json *> allCommands(Json &program) {
  std::vector<Json *> commands;
  for (Json *segment : segmentsInOrder(program))
    for (Json &command : *segment)
      commands.push_back(&command);
  return commands;
}

Json &commandAt(Json &program, std::size_t index) {
  return *allCommands(program).at(index);
}

/// Adds `change` to the first and the last command of each slot if the index of
/// the command is `index` or greater.
static void moveLifetimes(Json &program, std::size_t index, int64_t change) {
  for (Json &slot : program["slots"])
    for (const char *end : {"first", "last"})
      if (int64_t command = slot[end]; command >= int64_t(index))
        slot[end] = command + change;
}

void insertCommand(Json &program, const std::string &segment, std::size_t place,
                   const Json &command) {
  Json &commands = segmentOf(program, segment);
  std::size_t index = place;
  for (Json *other : segmentsInOrder(program)) {
    if (other == &commands)
      break;
    index += other->size();
  }
  commands.insert(commands.begin() + long(place), command);
  moveLifetimes(program, index, 1);
}

void insertCommand(Json &program, std::size_t index, const Json &command) {
  std::vector<Json *> segments = segmentsInOrder(program);
  std::size_t place = index;
  for (Json *segment : segments) {
    // A command at the end of the program belongs to the last segment.
    if (place < segment->size() || segment == segments.back()) {
      segment->insert(segment->begin() + long(place), command);
      break;
    }
    place -= segment->size();
  }
  moveLifetimes(program, index, 1);
}

void eraseCommand(Json &program, std::size_t index) {
  std::size_t place = index;
  for (Json *segment : segmentsInOrder(program)) {
    if (place < segment->size()) {
      segment->erase(segment->begin() + long(place));
      break;
    }
    place -= segment->size();
  }
  moveLifetimes(program, index + 1, -1);
}

} // namespace kiln::runtime::toy
