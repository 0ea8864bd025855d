//===- kiln-opt.cpp - Run kiln and upstream passes on IR --------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "kiln/Compiler/Registration.h"
#include "kiln/Dialect/Kiln/IR/SourceCheck.h"

#include "mlir/Tools/mlir-opt/MlirOptMain.h"
#include "llvm/Support/CommandLine.h"
#include "llvm/Support/MemoryBuffer.h"

/// --help is about passes and kiln: what LLVM's libraries registered before
/// main is shown by --help-hidden.
static void hideLibraryOptions() {
  for (auto &option : llvm::cl::getRegisteredOptions())
    if (!llvm::StringRef(option.first).starts_with("help"))
      option.second->setHiddenFlag(llvm::cl::Hidden);
}

int main(int argc, char **argv) {
  hideLibraryOptions();
  mlir::DialectRegistry registry;
  kiln::registerAllDialects(registry);
  kiln::registerAllPasses();
  auto [input, output] = mlir::registerAndParseCLIOptions(
      argc, argv, "kiln optimizer driver\n", registry);
  if (auto buffer = llvm::MemoryBuffer::getFile(input); buffer && input != "-")
    if (auto reason = kiln::findUnparsable((*buffer)->getBuffer())) {
      llvm::errs() << input << ": " << *reason << "\n";
      return EXIT_FAILURE;
    }
  return mlir::asMainReturnCode(
      mlir::MlirOptMain(argc, argv, input, output, registry));
}
