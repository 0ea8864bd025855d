//===- OutputPaths.cpp - Checks of output paths ---------------------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "OutputPaths.h"

#include "kiln/Support/Messages.h"
#include "kiln/Support/OutputPath.h"

#include <filesystem>
#include <vector>

using namespace kiln::support;

namespace kiln::runtime {

namespace {

struct NamedPath {
  const char *flag;
  const std::string *path;
  bool isWritten;
};

} // namespace

Status tryOutputs(const Options &options) {
  std::string algorithms = options.gpuAlgorithms.value_or("");
  std::vector<NamedPath> paths = {
      {"--log", &options.log, true},
      {"--trace", &options.trace, true},
      {"--dump-gradients", &options.dumpGradients, true},
      {"--check-ops", &options.checkOps, true},
      {"--gpu-algorithms", &algorithms, true},
      {"--data", &options.data, false},
      {"--val-data", &options.valData, false},
      {"--loss-mask", &options.lossMask, false},
      {"--val-loss-mask", &options.valLossMask, false},
      {"--inputs", &options.inputs, false},
      {"--val-inputs", &options.valInputs, false},
      {"--init", &options.init, false},
      {"--check-trace", &options.checkTrace, false},
  };
  for (size_t i = 0; i < paths.size(); ++i) {
    const NamedPath &written = paths[i];
    if (!written.isWritten || written.path->empty())
      continue;
    for (size_t j = i + 1; j < paths.size(); ++j)
      if (!paths[j].path->empty() && nameOneFile(*written.path, *paths[j].path))
        return Status(ExitCode::Usage, std::string(written.flag) + " and " +
                                           paths[j].flag + " both name " +
                                           inQuotes(*written.path) +
                                           ": give them different names");
  }
  for (const std::string *path :
       {&options.trace, &options.dumpGradients, &options.checkOps})
    if (!path->empty())
      if (Status status = tryOutputFile(*path); !status.ok())
        return status;
  // If an existing algorithm file contains all algorithms that the run uses,
  // the run does not write the file. Therefore the file need not be writable.
  std::error_code error;
  if (!algorithms.empty() && !std::filesystem::exists(algorithms, error))
    return tryOutputFile(algorithms);
  return Status();
}

} // namespace kiln::runtime
