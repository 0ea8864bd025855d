//===- HandProgram.h - Handwritten program descriptions ---------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Builds a minimal description with one program, "run", from its commands and
// slots. Offsets are in bytes; all values are f32. handProgram() adds the
// queues and waits that the compiler would add for cuda-emu. If a test changes
// the target, it must call withQueues().
//
//===----------------------------------------------------------------------===//

#ifndef KILN_TEST_UNIT_RUNTIME_GPU_HANDPROGRAM_H
#define KILN_TEST_UNIT_RUNTIME_GPU_HANDPROGRAM_H

#include "../Engine/PlaceQueues.h"

#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

namespace kiln::runtime::testing {

using Json = nlohmann::json;
using toy::Division;
using toy::inMicrobatches;
using toy::withQueues;

inline Json device(int64_t offset, int64_t stride = 0) {
  return Json::array({offset, stride});
}
inline Json host(int64_t offset, int64_t stride = 0) {
  return Json::array({offset, stride, "host"});
}

/// Returns a launch of a host kernel, whose arguments have `bytes` bytes each.
inline Json kernelLaunch(const char *name, int64_t kernel, Json args,
                         int64_t bytes, Json writes, Json immediates,
                         int64_t units) {
  Json extents = Json::array();
  for (std::size_t i = 0; i < args.size(); ++i)
    extents.push_back(bytes);
  return {{"op", "launch"},
          {"name", name},
          {"kernel", kernel},
          {"args", std::move(args)},
          {"extents", extents},
          {"writes", std::move(writes)},
          {"imm", std::move(immediates)},
          {"units", units},
          {"grain", 32},
          {"scratch", nullptr}};
}
/// Returns a launch of a device kernel. Every unit of work has one block of 32
/// threads.
inline Json deviceLaunch(const char *name, int64_t kernel, Json args,
                         int64_t bytes, Json writes, Json immediates,
                         int64_t units) {
  Json launch = kernelLaunch(name, kernel, std::move(args), bytes,
                             std::move(writes), std::move(immediates), units);
  launch["threads"] = 32;
  launch["shared"] = 0;
  return launch;
}
inline Json copyStart(const char *name, Json from, Json to, int64_t bytes,
                      int64_t token) {
  return {{"op", "copy_start"},  {"name", name},   {"from", std::move(from)},
          {"to", std::move(to)}, {"bytes", bytes}, {"token", token}};
}
inline Json copyWait(const char *name, int64_t token) {
  return {{"op", "copy_wait"}, {"name", name}, {"token", token}};
}

inline Json slot(const char *name, const char *slotClass, int64_t offset,
                 int64_t bytes, int64_t first, int64_t last,
                 bool onHost = false) {
  Json json = {{"name", name},   {"class", slotClass}, {"offset", offset},
               {"bytes", bytes}, {"alignment", 64},    {"first", first},
               {"last", last},   {"why", "test"}};
  if (onHost)
    json["arena"] = "host";
  return json;
}

/// Returns an input or output with `elements` elements.
inline Json value(const char *name, int64_t offset, int64_t elements) {
  return {{"name", name},
          {"dtype", "f32"},
          {"shape", {elements}},
          {"offset", offset}};
}

/// Returns a description without states. Both arenas have `bytes` bytes.
/// `commands` is a list of commands, or the result of inMicrobatches().
inline Json handProgram(Json commands, Json slots, Json inputs, Json outputs,
                        int64_t bytes) {
  Json program = {{"inputs", std::move(inputs)},
                  {"outputs", std::move(outputs)},
                  {"slots", std::move(slots)}};
  if (commands.is_object())
    program.update(commands);
  else
    program["commands"] = std::move(commands);
  return withQueues({
      {"format", 4},
      {"kiln", "0.1.0"},
      {"model",
       {{"name", "hand"},
        {"type", "none"},
        {"vocab_size", 1},
        {"batch", 1},
        {"sequence_length", 1},
        {"has_weights", false}}},
      {"options",
       {{"optimizer", "none"},
        {"precision", "fp32"},
        {"microbatches", 1},
        {"clip", false},
        {"eval", false},
        {"max_threads", 1},
        {"target", "cuda-emu"}}},
      {"training",
       {{"optimizer", Json::array()},
        {"dropout",
         {{"activations", Json::array()}, {"attention", Json::array()}}},
        {"lossy", Json::array()}}},
      {"target",
       {{"kind", "cuda-emu"}, {"cpu", "x86-64"}, {"features", Json::array()}}},
      {"arena", {{"bytes", bytes}, {"state_bytes", 0}, {"host_bytes", bytes}}},
      {"states", Json::array()},
      {"programs", {{"run", std::move(program)}}},
  });
}

} // namespace kiln::runtime::testing

#endif // KILN_TEST_UNIT_RUNTIME_GPU_HANDPROGRAM_H
