//===- WeightEvaluation.cpp - Evaluation of weights -----------------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "WeightEvaluation.h"

#include "FastestCompilation.h"

#include "kiln/Support/InputFile.h"
#include "kiln/Support/Json.h"
#include "kiln/Support/Process.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Program.h"

using namespace llvm;
using namespace kiln::support;
using namespace kiln;

static constexpr uint64_t maxOutputBytes = 1 << 20;

Result<WeightEvaluation> WeightEvaluation::compile(CompileOptions options) {
  SmallString<128> directory;
  if (std::error_code failure =
          sys::fs::createUniqueDirectory("kiln-evaluate", directory))
    return Status::error("cannot create a temporary directory: " +
                         failure.message());
  WeightEvaluation evaluation(directory.str().str());
  // The arena of an executable always has memory for training. To keep the
  // arena small, choose an optimizer without states, and no clipping, so that
  // parameters are updated during the backward pass.
  options.optimizer = "sgd";
  options.clip = false;
  options.evaluation = true;
  options.stage = EmitStage::Executable;
  options.output = evaluation.directory_ + "/evaluate";
  if (Status status = FastestCompilation(options).run(); !status.ok())
    return status;
  return evaluation;
}

WeightEvaluation::WeightEvaluation(WeightEvaluation &&other) noexcept
    : directory_(std::move(other.directory_)) {
  other.directory_.clear();
}

WeightEvaluation::~WeightEvaluation() {
  if (!directory_.empty())
    (void)sys::fs::remove_directories(directory_);
}

/// Returns the error that an executable wrote to the file `path`.
static Status failureOf(int code, const std::string &path) {
  Result<std::string> text = readSmallFile(path, maxOutputBytes);
  if (text.ok())
    for (StringRef line : split(*text, '\n'))
      if (line.consume_front("error: "))
        return Status(code > 0 ? ExitCode(code) : ExitCode::Error, line.str());
  return Status::error("the executable that evaluates the loss ended with exit "
                       "code " +
                       std::to_string(code));
}

Result<EvaluatedLoss>
WeightEvaluation::run(const std::string &weights,
                      const std::vector<std::string> &unused,
                      const std::string &data, int64_t batches) const {
  std::string program = directory_ + "/evaluate", log = program + ".jsonl",
              errors = program + ".err";
  std::vector<std::string> arguments = {program, "--init=" + weights,
                                        "--val-data=" + data, "--steps=0",
                                        "--log=" + log};
  if (batches > 0)
    arguments.push_back("--val-batches=" + std::to_string(batches));
  if (!unused.empty())
    arguments.push_back("--init-ignore=" + join(unused, ","));
  std::vector<StringRef> views(arguments.begin(), arguments.end());
  std::optional<StringRef> redirects[] = {StringRef(), StringRef(),
                                          StringRef(errors)};
  int code = sys::ExecuteAndWait(program, views, std::nullopt, redirects, 0, 0);
  if (Status status = checkStop(); !status.ok())
    return status;
  if (code != 0)
    return failureOf(code, errors);
  Result<std::string> text = readSmallFile(log, maxOutputBytes);
  if (!text.ok())
    return text.status();
  for (StringRef line : split(*text, '\n')) {
    if (line.empty())
      continue;
    Result<nlohmann::json> event = parseJson(line.str(), "'" + log + "'");
    if (!event.ok())
      return event.status();
    if (event->is_object() && event->value("event", "") == "eval")
      return EvaluatedLoss{event->value("loss", 0.0),
                           event->value("targets", int64_t(0))};
  }
  return Status::error("'" + log +
                       "' has no event 'eval', which holds the loss");
}
