//===- ProcessMemory.cpp - Resident memory of this process ----------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ProcessMemory.h"

#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <unistd.h>

namespace kiln::runtime {

/// Returns the bytes for a line "key:   123 kB", or 0 if there is no line for
/// `key`.
static int64_t findBytes(const char *text, const char *key) {
  const char *line = std::strstr(text, key);
  return line ? std::strtoll(line + std::strlen(key), nullptr, 10) * 1024 : 0;
}

ProcessMemory readProcessMemory() {
  ProcessMemory memory;
  char text[8192];
  int file = open("/proc/self/status", O_RDONLY | O_CLOEXEC);
  if (file < 0)
    return memory;
  ssize_t bytes = read(file, text, sizeof(text) - 1);
  close(file);
  if (bytes <= 0)
    return memory;
  text[bytes] = 0;
  memory.peakResident = findBytes(text, "VmHWM:");
  memory.resident = findBytes(text, "VmRSS:");
  memory.anonymous = findBytes(text, "RssAnon:");
  return memory;
}

} // namespace kiln::runtime
