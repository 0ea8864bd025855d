//===- TrainingProcess.h - Lockstep client ----------------------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Implements the client of --lockstep (docs/reference/lockstep-protocol.md):
// starts an executable as a child process, sends commands and reads replies. If
// the child exits or sends an invalid reply, the functions return a one-line
// error. If the child's exit code reports a usage error, bad input or
// divergence, the error has that exit code. The destructor ends the child.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_LIB_RUNTIME_DIFF_TRAININGPROCESS_H
#define KILN_LIB_RUNTIME_DIFF_TRAININGPROCESS_H

#include "OpDifference.h"
#include "kiln/Support/ElementType.h"
#include "kiln/Support/Status.h"

#include <cstdio>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <sys/types.h>
#include <vector>

namespace kiln::runtime {

/// The command that starts an executable.
struct TrainedCommand {
  std::string label; ///< "A" or "B".
  std::string path;
  std::vector<std::string> flags;
};

struct TrainedTensor {
  std::string name;
  std::string role; ///< "parameter", "optimizer", "gradient", ...
  ElementType type = ElementType::F32;
  std::vector<int64_t> shape;
  bool isState() const { return role != "gradient"; }
};

/// The properties of an executable, from its first reply.
struct TrainedModel {
  std::string type;
  int64_t vocabulary = 0, batch = 0, length = 0;
  std::map<std::string, std::string> build; ///< Values of the compile flags.
  std::string library;
  int64_t firstStep = 1, lastStep = 0;
  std::vector<TrainedTensor> tensors;
  /// The hashes of `tensors` before the first step.
  std::vector<std::string> hashes;
};

struct TrainedStep {
  int64_t step = 0;
  double loss = 0, rate = 0;
  std::optional<double> gradNorm;
  /// True if the step changed no state, because a scaled gradient overflowed,
  /// and training continues.
  bool skipped = false;
  std::vector<std::string> hashes; ///< In the order of TrainedModel::tensors.
  std::vector<OpRecord> ops;
  /// The writes of tensors in a step are numbered in order of execution. For
  /// each tensor, the number of its last write, or -1 if the step does not
  /// write the tensor.
  std::vector<int64_t> order;
};

class TrainingProcess {
public:
  explicit TrainingProcess(TrainedCommand command)
      : command_(std::move(command)) {}
  TrainingProcess(const TrainingProcess &) = delete;
  TrainingProcess &operator=(const TrainingProcess &) = delete;
  ~TrainingProcess() { stop(); }

  Status start();
  void stop();

  const TrainedModel &model() const { return model_; }
  /// Returns the warnings that the child has printed up to now.
  std::vector<std::string> warnings() const;

  /// Computes one step. If `ops` is true, the result includes the results of
  /// every command. If `keep` is true, the child copies its states before the
  /// step; perturb() requires this copy.
  Result<TrainedStep> step(bool ops, bool keep);
  Status save(const std::string &file, const std::vector<size_t> &tensors);
  Status load(const std::string &file, const std::vector<size_t> &tensors);
  /// Repeats the last step from weights that are perturbed by as much as
  /// rounding may change them, and saves the resulting tensors to `file`.
  /// Afterwards the states are those that the last step computed.
  Result<TrainedStep> perturb(const std::string &file,
                              const std::vector<size_t> &tensors);

private:
  Result<nlohmann::json> ask(const nlohmann::json &command);
  Result<nlohmann::json> readAnswer();
  Status died();
  Status nonsense(const std::string &what) const;
  std::string title() const;
  std::string errorText() const;

  TrainedCommand command_;
  TrainedModel model_;
  pid_t child_ = -1;
  std::FILE *commands_ = nullptr;
  std::FILE *answers_ = nullptr;
  /// A temporary file without a name that receives the child's stderr.
  std::FILE *errors_ = nullptr;
};

} // namespace kiln::runtime

#endif // KILN_LIB_RUNTIME_DIFF_TRAININGPROCESS_H
