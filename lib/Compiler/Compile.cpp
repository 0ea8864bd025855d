//===- Compile.cpp - Compile a model into an executable ---------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "kiln/Compiler/Compile.h"

#include "FastestCompilation.h"
#include "KernelCache.h"
#include "WriteOutput.h"

using namespace mlir;
using namespace kiln;

static Status checkReport(const CompileOptions &options) {
  StringRef report = options.report;
  if (report.empty())
    return Status();
  auto usage = [](std::string message) {
    return Status(ExitCode::Usage, std::move(message));
  };
  if (!report.ends_with(".html") && !report.ends_with(".json"))
    return usage("--report is '" + options.report +
                 "', expected a name that ends in .html, .json or "
                 ".snapshot.json");
  if (options.stage < EmitStage::Plan)
    return usage("--report needs a plan: leave --emit out, or use --emit=plan");
  if (report == options.output)
    return usage("--report and -o both name '" + options.report +
                 "': give them different names");
  return Status();
}

static Status checkRemarks(const CompileOptions &options) {
  if (options.remarks.empty())
    return Status();
  auto usage = [](std::string message) {
    return Status(ExitCode::Usage, std::move(message));
  };
  if (options.stage < EmitStage::Planned)
    return usage("--remarks needs a plan: leave --emit out, or use "
                 "--emit=planned or a later stage");
  for (auto &[flag, path] : {std::pair("-o", &options.output),
                             std::pair("--report", &options.report)})
    if (options.remarks == *path)
      return usage("--remarks and " + std::string(flag) + " both name '" +
                   *path + "': give them different names");
  return Status();
}

/// Checks that the outputs can be written, and that the kernel cache has a
/// directory, before time is spent on planning.
static Status tryOutputs(const CompileOptions &options) {
  if (options.printsPipeline)
    return Status();
  for (const std::string *path :
       {&options.output, &options.report, &options.remarks})
    if (!path->empty())
      if (Status status = tryOutput(*path); !status.ok())
        return status;
  if (options.stage == EmitStage::Executable && !options.kernelCache.empty())
    return KernelCache::createDirectory(options.kernelCache);
  return Status();
}

ExitCode kiln::compile(const CompileOptions &request) {
  Status status = checkReport(request);
  if (status.ok())
    status = checkRemarks(request);
  if (status.ok())
    status = tryOutputs(request);
  if (status.ok())
    status = FastestCompilation(request).run();
  if (!status.ok())
    llvm::errs() << "kilnc: " << status.message() << "\n";
  return status.code();
}
