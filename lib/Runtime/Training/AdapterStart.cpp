//===- AdapterStart.cpp - Start of a run with adapters --------------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "AdapterStart.h"

#include "States.h"
#include "kiln/Support/Messages.h"

#include <filesystem>

using namespace kiln::support;

namespace kiln::runtime {

Result<std::string> AdapterStart::baseOfCheckpoint() const {
  const BaseReference &base = *resumed_->base;
  if (!base.path.empty())
    return options_.base.empty() ? base.path : options_.base;
  if (options_.base.empty())
    return std::string();
  return Status(ExitCode::Usage, "--base: the base model of checkpoint " +
                                     inQuotes(resumed_->found.path) +
                                     " has initial values, and no weights of "
                                     "a file");
}

Result<std::string> AdapterStart::baseOfAdapter() const {
  auto usage = [&](const std::string &problem) {
    return Status(ExitCode::Usage,
                  "--adapter=" + options_.adapter + " " + problem);
  };
  if (adapter_->base && adapter_->base->path.empty()) {
    if (options_.fromScratch && options_.seed == adapter_->seed)
      return std::string();
    return usage("was trained on a randomly initialized base model: give "
                 "--from-scratch --seed=" +
                 std::to_string(adapter_->seed));
  }
  if (options_.fromScratch)
    return usage("was trained on a base model whose weights came from a file: "
                 "leave --from-scratch out");
  if (!options_.base.empty())
    return options_.base;
  std::error_code error;
  if (adapter_->base && std::filesystem::exists(adapter_->base->path, error))
    return adapter_->base->path;
  if (!adapter_->namedBase.empty())
    return adapter_->namedBase;
  return usage("does not name a directory with the weights of its base model: "
               "give --base=DIR");
}

/// Returns the path of the weights of the base model, or "" if the weights are
/// initial values.
Result<std::string> AdapterStart::pathOfBase() {
  if (resumed_)
    return baseOfCheckpoint();
  return adapter_ ? baseOfAdapter() : Result<std::string>(options_.init);
}

Result<AdapterStart> AdapterStart::open(const Description &description,
                                        const Options &options,
                                        const ResumePoint *resumed,
                                        std::vector<std::string> &notes) {
  AdapterStart start(options, resumed);
  if (!resumed && !options.adapter.empty()) {
    Result<AdapterSource> adapter =
        openAdapter(description, options.adapter, notes);
    if (!adapter.ok())
      return adapter.status();
    start.adapter_.emplace(std::move(*adapter));
  }
  Result<std::string> path = start.pathOfBase();
  if (!path.ok())
    return path.status();
  start.base_.storage = storageOf(description);
  if (!path->empty()) {
    std::error_code error;
    std::filesystem::path absolute = std::filesystem::absolute(*path, error);
    start.base_.path = error ? *path : absolute.lexically_normal().string();
  }
  return start;
}

const BaseReference *AdapterStart::expectedBase() const {
  if (resumed_)
    return &*resumed_->base;
  return adapter_ && adapter_->base ? &*adapter_->base : nullptr;
}

Status AdapterStart::load(Engine &engine, int rank,
                          std::vector<std::string> &notes) {
  if (!base_.path.empty()) {
    Status status = loadWeights(engine, rank, base_.path, options_.initIgnore,
                                notes, &base_.hash);
    if (!status.ok())
      return resumed_ && options_.base.empty()
                 ? Status(status.code(),
                          status.message() +
                              "; if the weights of the base model have moved, "
                              "name them with --base=DIR")
                 : status;
    if (const BaseReference *expected = expectedBase())
      status =
          checkBase(*expected, base_.path, base_.hash,
                    resumed_ ? "checkpoint " + inQuotes(resumed_->found.path)
                             : "the adapter in " + inQuotes(adapter_->path));
    if (!status.ok())
      return status;
  }
  if (resumed_)
    return loadCheckpoint(*resumed_, engine, rank, notes);
  if (!adapter_)
    return Status();
  Result<InputFile> file = adapter_->weights.duplicate();
  return file.ok() ? loadAdapter(engine, rank, std::move(*file), notes)
                   : file.status();
}

} // namespace kiln::runtime
