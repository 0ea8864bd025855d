//===- Main.cpp - main() of an executable for the CPU ---------------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Executable.h"
#include "kiln/Runtime/Engine/CommandEngine.h"

int main(int argc, char **argv) {
  return kiln::runtime::runExecutable(kiln::runtime::createCommandEngine, argc,
                                      argv);
}
