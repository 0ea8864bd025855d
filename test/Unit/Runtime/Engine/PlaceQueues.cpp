//===- PlaceQueues.cpp - Queues for handwritten descriptions --------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "PlaceQueues.h"

#include "CommandWalk.h"
#include "kiln/Runtime/Engine/Program.h"

#include <set>
#include <string>
#include <utility>
#include <vector>

namespace kiln::runtime::toy {

using Json = nlohmann::json;

static bool isGpu(const Json &description) {
  return description["target"].value("kind", "cpu") != "cpu";
}

static bool isOnHost(const Json &ref) { return ref.back() == "host"; }

/// Returns the name of the queue of a command, or an empty string for a wait.
static std::string queueOf(const Json &command, bool isGpu) {
  std::string op = command["op"];
  if (op == "copy_wait")
    return "";
  if (op == "copy_start")
    return isOnHost(command["to"]) ? "copy_out" : "copy_in";
  bool runsOnHost = op == "launch" ? !command.contains("threads")
                    : op == "fill" ? isOnHost(command["ref"])
                    : op == "copy" ? isOnHost(command["to"])
                                   : false;
  return isGpu && runsOnHost ? "host" : "compute";
}

namespace {

/// A range of device bytes that commands of the host read.
struct Scalar {
  int64_t begin, end;
  bool isWritten = false, isRead = false;
};

} // namespace

/// Adds waits between the host commands that read scalars in device memory and
/// the device commands that write these scalars.
static void orderScalars(const ProgramFile &file, const Program &program,
                         const std::vector<Json *> &commands) {
  std::vector<Scalar> scalars;
  auto isOnQueue = [&](const Command &command, const char *name) {
    return command.queue >= 0 &&
           file.queues[std::size_t(command.queue)].name == name;
  };
  auto forEachAccess = [&](auto &&visit) {
    for (CommandWalk walk(program); walk.next();) {
      const Command &command = program.commands[walk.command()];
      for (const MemoryAccess &access : accessesOf(command)) {
        Place place = access.ref.at(walk.run());
        if (place.arena == ArenaKind::Device && access.bytes > 0)
          visit(walk.command(), access, place.offset,
                place.offset + access.bytes);
      }
    }
  };
  forEachAccess([&](std::size_t command, const MemoryAccess &, int64_t begin,
                    int64_t end) {
    if (isOnQueue(program.commands[command], "host"))
      scalars.push_back({begin, end});
  });
  forEachAccess([&](std::size_t i, const MemoryAccess &access, int64_t begin,
                    int64_t end) {
    const Command &command = program.commands[i];
    bool onHost = isOnQueue(command, "host");
    if (!onHost && !isOnQueue(command, "compute"))
      return;
    for (Scalar &scalar : scalars) {
      if (end <= scalar.begin || scalar.end <= begin)
        continue;
      if (onHost) {
        if (scalar.isWritten)
          (*commands[i])["after"] = {"compute"};
        scalar.isRead = true;
      } else if (access.writes()) {
        if (scalar.isRead)
          (*commands[i])["after"] = {"host"};
        scalar.isWritten = true;
      }
    }
  });
}

Json withQueues(Json description) {
  description = inFull(std::move(description));
  bool onGpu = isGpu(description);
  std::set<std::string> used;
  auto forEachCommand = [&](auto &&visit) {
    for (auto &[name, program] : description["programs"].items())
      for (Json &segment : program["segments"])
        for (Json &command : segment["commands"])
          visit(command);
  };
  forEachCommand([&](Json &command) {
    command.erase("queue");
    command.erase("after");
    std::string queue = queueOf(command, onGpu);
    if (queue.empty())
      return;
    command["queue"] = queue;
    used.insert(queue);
  });
  const std::pair<const char *, const char *> engines[] = {
      {"compute", onGpu ? "device" : "host"},
      {"host", "host"},
      {"copy_out", "link"},
      {"copy_in", "link"}};
  Json queues = Json::array(), executing = Json::array();
  for (auto &[name, engine] : engines) {
    if (!used.count(name))
      continue;
    queues.push_back({{"name", name}, {"engine", engine}});
    if (queues.back()["engine"] != "link")
      executing.push_back(name);
  }
  description["queues"] = queues;
  forEachCommand([&](Json &command) {
    if (command["op"] == "copy_start")
      command["after"] = executing;
    else if (command["op"] == "copy_wait")
      command["queues"] = executing;
  });
  Result<ProgramFile> file = parseProgramFile(description.dump(), INT64_MAX);
  // Add no waits to an invalid description, because waits cannot make it valid.
  if (!file.ok())
    return description;
  for (std::size_t i = 0; i < file->programs.size(); ++i) {
    const std::string &name = file->description.programs[i].name;
    orderScalars(*file, file->programs[i],
                 allCommands(description["programs"][name]));
  }
  return description;
}

} // namespace kiln::runtime::toy
