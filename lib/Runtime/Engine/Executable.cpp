//===- Executable.cpp - Common part of every executable's main() ----------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Executable.h"

#include "kiln/Runtime/Training/Driver.h"

#include <cstdio>

extern "C" {
extern const void *const kiln_kernel_table[];
extern const uint64_t kiln_kernel_count;
extern const char kiln_program_json[];
extern const uint64_t kiln_program_json_size;
}

namespace kiln::runtime {

int runExecutable(EngineFactory createEngine, int argc, char **argv) {
  Result<std::unique_ptr<Engine>> engine =
      createEngine({kiln_program_json, std::size_t(kiln_program_json_size)},
                   kiln_kernel_table, kiln_kernel_count);
  if (!engine.ok()) {
    std::fprintf(stderr, "error: %s\n", engine.status().message().c_str());
    return int(engine.status().code());
  }
  return runTraining(**engine, argc, argv);
}

} // namespace kiln::runtime
