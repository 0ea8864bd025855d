//===- TrainingProcess.h - An executable that is told every step --------*- C++
//-*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The other end of --lockstep (docs/reference/lockstep-protocol.md): starts an
// executable as a child process, asks, and reads its answers. A child that dies
// or answers nonsense is one line and an exit code: its own where it names a
// wrong flag, a bad file or divergence. The child ends with its
// TrainingProcess.
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

/// How to start one.
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

/// What an executable says about itself.
struct TrainedModel {
  std::string type;
  int64_t vocabulary = 0, batch = 0, length = 0;
  std::map<std::string, std::string> build; ///< Flags that it was built with.
  std::string library;
  int64_t firstStep = 1, lastStep = 0;
  std::vector<TrainedTensor> tensors;
  std::vector<std::string> hashes; ///< Before the first step.
};

struct TrainedStep {
  int64_t step = 0;
  double loss = 0, rate = 0;
  std::optional<double> gradNorm;
  std::vector<std::string> hashes; ///< As TrainedModel::tensors.
  std::vector<OpRecord> ops;
  std::vector<int64_t> order; ///< When each tensor was written last; -1: never.
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
  /// Lines that it has warned with so far.
  std::vector<std::string> warnings() const;

  /// `ops`: with what every command wrote. `keep`: perturb() may follow.
  Result<TrainedStep> step(bool ops, bool keep);
  Status save(const std::string &file, const std::vector<size_t> &tensors);
  Status load(const std::string &file, const std::vector<size_t> &tensors);
  /// Does the last step also from weights that are off by rounding, and saves
  /// what that gives. The states are unmoved.
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
  std::FILE *errors_ = nullptr; ///< Its stderr, a file without a name.
};

} // namespace kiln::runtime

#endif // KILN_LIB_RUNTIME_DIFF_TRAININGPROCESS_H
