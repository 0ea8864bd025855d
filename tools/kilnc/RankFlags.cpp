//===- RankFlags.cpp - Flags of training on several ranks -----------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "RankFlags.h"

#include "OptionCategory.h"

#include "kiln/Compiler/ByteSize.h"

using namespace llvm;
using namespace kiln;

static cl::opt<std::string>
    mesh("mesh", cl::cat(optionCategory), cl::value_desc("LIST"),
         cl::desc("ranks that train the model together: dp=N for N ranks that "
                  "each compute the gradients of their own --batch sequences, "
                  "tp=N for N ranks that divide the matrices of each layer, or "
                  "both, as in dp=2,tp=4"));
static cl::opt<bool> sequenceParallel(
    "sequence-parallel", cl::cat(optionCategory),
    cl::desc(
        "let the tensor-parallel ranks also divide the tokens of norms and of "
        "the residual stream, which needs less memory; requires --mesh=tp=N"));
static cl::opt<int64_t> zero(
    "zero", cl::cat(optionCategory), cl::init(0), cl::value_desc("STAGE"),
    cl::desc("what the data-parallel ranks divide among themselves instead of "
             "storing copies: 0 (nothing; the default), 1 (the states of "
             "the optimizer), 2 (also the gradients) or 3 (also the "
             "parameters); requires --mesh=dp=N"));
static cl::opt<std::string>
    zeroBy("zero-by", cl::cat(optionCategory), cl::init("elements"),
           cl::value_desc("WAY"),
           cl::desc("how --zero divides tensors over ranks: elements (each "
                    "rank has a part of each tensor; the default) or owner "
                    "(each rank has the whole tensors of some layers, so the "
                    "shares may differ in size); requires --zero"));
static cl::opt<bool> parameterServer(
    "parameter-server", cl::cat(optionCategory),
    cl::desc("let the first data-parallel rank alone update the parameters: "
             "the others send it their gradients, and receive the new "
             "parameters; requires --mesh=dp=N"));
static cl::opt<int64_t> syncEvery(
    "sync-every", cl::cat(optionCategory), cl::init(1), cl::value_desc("H"),
    cl::desc("let each data-parallel rank train alone, with its part of the "
             "batch, and average parameters and optimizer states every H steps "
             "(local SGD, an approximation); 1, the default, sums the "
             "gradients in each step; requires --mesh=dp=N"));
static cl::opt<std::string> bucketSize(
    "bucket-size", cl::cat(optionCategory), cl::value_desc("SIZE"),
    cl::desc("size of the buckets of gradients and states that ranks send "
             "together, or auto: the planner chooses (default: 24MiB); "
             "requires --mesh"));
static cl::opt<std::string> compressGradients(
    "compress-gradients", cl::cat(optionCategory), cl::value_desc("SCHEME"),
    cl::desc(
        "compress the gradients that data-parallel ranks sum, an approximation "
        "for slow networks: int8 sums 8-bit codes; powersgd:R sums two factors "
        "of rank R for each matrix; gradzip:R sums one factor of rank R per "
        "step, alternately the left and the right; count-sketch:C sums "
        "sketches that are C times smaller than the gradients, and then the "
        "elements that are large according to the sketches; requires "
        "--mesh=dp=N"));

Status kiln::readRankFlags(CompileOptions &options) {
  options.mesh = mesh;
  options.sequenceParallel = sequenceParallel;
  options.zero = zero;
  options.zeroBy = zeroBy;
  if (zeroBy == "server")
    return Status(ExitCode::Usage, "--zero-by is 'server', expected elements "
                                   "or owner; --parameter-server lets one rank "
                                   "update all parameters");
  if (parameterServer) {
    if (zero.getNumOccurrences() || zeroBy.getNumOccurrences())
      return Status(ExitCode::Usage,
                    "--parameter-server lets one rank update all parameters, "
                    "but --zero divides the updates: leave one of them out");
    options.zero = 1;
    options.zeroBy = "server";
  }
  options.syncEvery = syncEvery;
  if (bucketSize.getNumOccurrences()) {
    if (mesh.empty())
      return Status(ExitCode::Usage,
                    "--bucket-size is the size of what ranks send together, "
                    "but there is one rank: set their number with --mesh");
    options.autoBuckets = bucketSize == "auto";
    if (!options.autoBuckets) {
      auto bytes = parseByteSize(bucketSize, "--bucket-size");
      if (!bytes.ok())
        return bytes.status();
      options.bucketBytes = *bytes;
    }
  }
  options.compressGradients = compressGradients;
  return Status();
}
