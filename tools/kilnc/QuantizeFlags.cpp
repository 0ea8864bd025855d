//===- QuantizeFlags.cpp - Flags of --quantize ----------------------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "QuantizeFlags.h"

#include "OptionCategory.h"

#include "kiln/Compiler/QuantizeModel.h"
#include "kiln/Support/Messages.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

using namespace llvm;
using namespace kiln::support;
using namespace kiln;

static cl::opt<std::string> format(
    "quantize", cl::cat(optionCategory), cl::value_desc("FORMAT"),
    cl::desc(
        "instead of compiling, convert the weights of the model to FORMAT, "
        "write them to the new directory of -o, and print their size; FORMAT "
        "is f16, int8, int4, or kashin:B with B from 2 to 4 bits"));
static cl::opt<std::string> validationData(
    "val-data", cl::cat(optionCategory), cl::value_desc("FILE"),
    cl::desc("tokens on which --quantize evaluates the loss of the model "
             "before and after"));
static cl::opt<std::string> validationBatches(
    "val-batches", cl::cat(optionCategory), cl::value_desc("N"),
    cl::desc("number of batches that --quantize evaluates (default: all)"));

static Status usage(std::string message) {
  return Status(ExitCode::Usage, std::move(message));
}

bool kiln::isQuantizing() { return format.getNumOccurrences() > 0; }

Status kiln::checkQuantizeFlags() {
  if (!isQuantizing()) {
    for (const cl::opt<std::string> *flag :
         {&validationData, &validationBatches})
      if (flag->getNumOccurrences())
        return usage("--" + flag->ArgStr.str() +
                     " needs --quantize; to validate during training, pass it "
                     "to the executable that kilnc writes");
    return Status();
  }
  const StringRef always[] = {"quantize", "o", "max-threads",
                              "ignore-config-keys", "val-data"};
  const StringRef toEvaluate[] = {"val-batches", "batch", "seq", "mcpu",
                                  "gemm"};
  std::vector<std::string> given;
  for (auto &entry : cl::getRegisteredOptions())
    if (entry.second->getNumOccurrences() && entry.second->hasArgStr() &&
        !is_contained(always, entry.second->ArgStr))
      given.push_back(entry.second->ArgStr.str());
  llvm::sort(given);
  for (const std::string &name : given) {
    if (!is_contained(toEvaluate, name))
      return usage("--" + name +
                   " has no effect with --quantize: leave it "
                   "out");
    if (!validationData.getNumOccurrences())
      return usage("--" + name +
                   " has no effect with --quantize unless --val-data=FILE "
                   "names the tokens on which the loss is evaluated");
  }
  return Status();
}

Status kiln::runQuantization(const CompileOptions &options) {
  QuantizeOptions quantization;
  quantization.model = options.model;
  quantization.output = options.output;
  quantization.format = format;
  quantization.validationData = validationData;
  quantization.evaluation = options;
  if (validationBatches.getNumOccurrences() &&
      (!to_integer(validationBatches.getValue(), quantization.validationBatches,
                   10) ||
       quantization.validationBatches < 1))
    return usage("--val-batches is " + inQuotes(validationBatches) +
                 ", expected a positive number");
  if (options.maxThreads < 1 || options.maxThreads > 1024)
    return usage("--max-threads is " + std::to_string(options.maxThreads) +
                 ", expected 1 to 1024");
  return quantizeModel(quantization);
}
