//===- ToyMain.cpp - Executable of the toy model --------------------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ToyOffload.h"
#include "kiln/Runtime/Training/Driver.h"

#include <cstdio>

#ifndef KILN_TOY_DESCRIPTION
#define KILN_TOY_DESCRIPTION describe
#endif

int main(int argc, char **argv) {
  kiln::Result<std::unique_ptr<kiln::runtime::Engine>> engine =
      kiln::runtime::toy::makeEngine(
          kiln::runtime::toy::KILN_TOY_DESCRIPTION());
  if (!engine.ok()) {
    std::fprintf(stderr, "error: %s\n", engine.status().message().c_str());
    return int(engine.status().code());
  }
  return kiln::runtime::runTraining(**engine, argc, argv);
}
