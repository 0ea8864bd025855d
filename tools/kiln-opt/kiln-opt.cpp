//===- kiln-opt.cpp - Pass driver for kiln IR -------------------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "kiln/Compiler/Registration.h"
#include "kiln/Dialect/Kiln/IR/SourceCheck.h"

#include "mlir/Support/FileUtilities.h"
#include "mlir/Tools/mlir-opt/MlirOptMain.h"
#include "llvm/Support/CommandLine.h"
#include "llvm/Support/InitLLVM.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/ToolOutputFile.h"

/// Hides the options that LLVM's libraries register before main; --help-hidden
/// shows them.
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
  auto config = mlir::MlirOptMainConfig::createFromCLOptions();
  if (config.shouldShowDialects() || config.shouldListPasses())
    return mlir::asMainReturnCode(
        mlir::MlirOptMain(argc, argv, input, output, registry));
  llvm::InitLLVM init(argc, argv);
  std::string message;
  auto source = mlir::openInputFile(input, &message);
  if (source)
    if (auto reason = kiln::findUnparsable(source->getBuffer())) {
      message = input + ": " + *reason;
      source = nullptr;
    }
  auto file = source ? mlir::openOutputFile(output, &message) : nullptr;
  if (!file) {
    llvm::errs() << message << "\n";
    return EXIT_FAILURE;
  }
  if (failed(
          mlir::MlirOptMain(file->os(), std::move(source), registry, config)))
    return EXIT_FAILURE;
  file->keep();
  return EXIT_SUCCESS;
}
