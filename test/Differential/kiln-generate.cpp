//===- kiln-generate.cpp - Random graph generator and checker -------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "GraphGenerator.h"
#include "LevelCheck.h"
#include "SplitCheck.h"

#include "kiln/Compiler/Registration.h"

#include "mlir/IR/MLIRContext.h"
#include "mlir/IR/Verifier.h"
#include "llvm/Support/CommandLine.h"
#include "llvm/Support/InitLLVM.h"
#include "llvm/Support/TargetSelect.h"
#include "llvm/Support/raw_ostream.h"

using namespace llvm;
using namespace kiln;

static cl::OptionCategory category("kiln-generate options");
static cl::opt<uint64_t> seed("seed", cl::cat(category), cl::init(0),
                              cl::desc("of the graph, or of the first one"));
static cl::opt<uint64_t> graphs("count", cl::cat(category), cl::init(1),
                                cl::desc("graphs to check"));
static cl::opt<int64_t> ops("ops", cl::cat(category), cl::init(0),
                            cl::desc("of a graph (default: 5 to 60)"));
static cl::opt<std::string> type("type", cl::cat(category), cl::init("f32"),
                                 cl::desc("f32 or f64"));
static cl::opt<bool> splits("splits", cl::cat(category),
                            cl::desc("losses that micro-batches add up to"));
static cl::opt<bool> check("check", cl::cat(category),
                           cl::desc("compare all levels instead of printing"));

/// Prints the mismatches; returns true if there are none.
static bool checkGraph(mlir::MLIRContext &context,
                       const GraphOptions &options) {
  auto module = generateGraph(context, options);
  std::vector<std::string> failures;
  if (failed(mlir::verify(*module)))
    failures.push_back("is not valid");
  else
    failures = checkLevels(*module, options.seed);
  if (failures.empty() && options.splits)
    failures = checkSplits(*module, options.seed);
  for (const std::string &failure : failures)
    outs() << "seed " << options.seed << " " << type << ": " << failure << "\n";
  outs().flush();
  return failures.empty();
}

int main(int argc, char **argv) {
  InitLLVM init(argc, argv);
  cl::HideUnrelatedOptions(category);
  cl::ParseCommandLineOptions(
      argc, argv, "kiln-generate: random forward graphs, printed or checked\n");
  if (type != "f32" && type != "f64") {
    errs() << "kiln-generate: --type is '" << type
           << "', expected f32 or f64\n";
    return 2;
  }
  InitializeNativeTarget();
  InitializeNativeTargetAsmPrinter();
  mlir::DialectRegistry registry;
  registerAllDialects(registry);
  registerAllPasses();
  GraphOptions options;
  options.f64 = type == "f64";
  options.ops = ops;
  options.splits = splits;
  options.seed = seed;
  if (!check) {
    mlir::MLIRContext context(registry, mlir::MLIRContext::Threading::DISABLED);
    context.loadAllAvailableDialects();
    auto module = generateGraph(context, options);
    module->print(outs());
    outs() << "\n";
    return failed(mlir::verify(*module));
  }
  int64_t failed = 0;
  for (uint64_t i = 0; i < graphs; ++i) {
    // A separate context per graph limits the memory of uniqued types.
    mlir::MLIRContext context(registry, mlir::MLIRContext::Threading::DISABLED);
    context.loadAllAvailableDialects();
    options.seed = seed + i;
    failed += !checkGraph(context, options);
  }
  outs() << graphs - failed << " of " << graphs << " " << type
         << " graphs compute the same at all levels\n";
  return failed != 0;
}
