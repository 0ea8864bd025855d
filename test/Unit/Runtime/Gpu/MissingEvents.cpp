//===- MissingEvents.cpp - Removes each event of a program ----------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// kiln-missing-events DESCRIPTION.json reads a program description that kilnc
// has written for a GPU, and removes the waits of its streams one at a time.
// The check that executables run at their start must accept the unmodified
// description. If a removed wait leaves conflicting accesses unordered, the
// check must name the commands of both accesses. Otherwise, the wait is
// redundant, and is counted as idle.
//
//===----------------------------------------------------------------------===//

#include "StreamOrder.h"
#include "kiln/Support/InputFile.h"

#include <cstdio>

using namespace kiln::runtime;
using namespace kiln::support;
using namespace kiln;

namespace {

int fail(const std::string &message) {
  std::fprintf(stderr, "error: %s\n", message.c_str());
  return 1;
}

bool namesBothSides(const std::string &message) {
  size_t first = message.find("(commands[");
  return message.rfind("missing event: ", 0) == 0 &&
         message.find('\n') == std::string::npos &&
         message.find("(commands[", first + 1) != std::string::npos;
}

int checkProgram(const ProgramFile &file, size_t index) {
  const Program &program = file.programs[index];
  BufferNames names(file, program);
  StreamProgram streams = buildStreamProgram(file, program);
  Status whole = checkStreamOrder(streams, names);
  if (!whole.ok())
    return fail(whole.message());
  int found = 0, idle = 0;
  std::string example;
  for (StreamAction &action : streams.actions) {
    for (size_t i = 0; i < action.waits.size(); ++i) {
      std::vector<int64_t> waits = action.waits;
      action.waits.erase(action.waits.begin() + long(i));
      Status status = checkStreamOrder(streams, names);
      action.waits = std::move(waits);
      if (status.ok()) {
        ++idle;
        continue;
      }
      if (!namesBothSides(status.message()))
        return fail("not about an event: " + status.message());
      if (found++ == 0)
        example = status.message();
    }
  }
  std::printf("%s: %d events found missing, %d idle\n",
              file.description.programs[index].name.c_str(), found, idle);
  if (found > 0)
    std::printf("  %s\n", example.c_str());
  return 0;
}

} // namespace

int main(int argc, char **argv) {
  if (argc != 2)
    return fail("usage: kiln-missing-events DESCRIPTION.json");
  Result<std::string> text = readSmallFile(argv[1], uint64_t(1) << 30);
  if (!text.ok())
    return fail(text.status().message());
  Result<ProgramFile> file = parseProgramFile(*text, INT64_MAX);
  if (!file.ok())
    return fail(file.status().message());
  for (size_t i = 0; i < file->programs.size(); ++i)
    if (checkProgram(*file, i))
      return 1;
  return 0;
}
