//===- EmuMain.cpp - main() of executables for cuda-emu -------------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Executable.h"
#include "kiln/Runtime/Gpu/EmuEngine.h"

int main(int argc, char **argv) {
  return kiln::runtime::runExecutable(kiln::runtime::createEmuEngine, argc,
                                      argv);
}
