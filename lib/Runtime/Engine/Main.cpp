//===- Main.cpp - main() of a compiled executable -------------------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The object file that kilnc emitted provides the three symbols below.
//
//===----------------------------------------------------------------------===//

#include "kiln/Runtime/Engine/CommandEngine.h"
#include "kiln/Runtime/Training/Driver.h"

#include <cstdio>

extern "C" {
extern const void *const kiln_kernel_table[];
extern const uint64_t kiln_kernel_count;
extern const char kiln_program_json[];
extern const uint64_t kiln_program_json_size;
}

int main(int argc, char **argv) {
  kiln::Result<std::unique_ptr<kiln::Engine>> engine =
      kiln::createCommandEngine(
          {kiln_program_json, std::size_t(kiln_program_json_size)},
          kiln_kernel_table, kiln_kernel_count);
  if (!engine.ok()) {
    std::fprintf(stderr, "error: %s\n", engine.status().message().c_str());
    return int(engine.status().code());
  }
  return kiln::runTraining(**engine, argc, argv);
}
