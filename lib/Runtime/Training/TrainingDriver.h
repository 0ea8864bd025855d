//===- TrainingDriver.h - One run of a training executable ------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Implements runTraining() for one command line: checks the flags, opens the
// files, starts the engine, and trains or checks. All ranks of a run execute
// the same phases, and agree on the outcome of each (Ranks.h). Only the first
// rank opens output files and prints.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_LIB_RUNTIME_TRAINING_TRAININGDRIVER_H
#define KILN_LIB_RUNTIME_TRAINING_TRAININGDRIVER_H

#include "AdapterStart.h"
#include "MemoryCheck.h"
#include "Ranks.h"
#include "Resume.h"
#include "TrainingRun.h"
#include "kiln/Runtime/Training/Options.h"

#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace kiln::runtime {

class Driver {
public:
  Driver(Engine &engine, Options options, Ranks &ranks)
      : engine_(engine), description_(engine.description()),
        options_(std::move(options)), ranks_(ranks) {
    ranks_.useMesh(description_.mesh);
  }

  Status drive();

private:
  Status checkOptions();
  Status openResumed();
  Status openDeclaredInputs();
  Status openAdapters();
  Status loadAdapters();
  Status openInputs();
  Status settleTrajectory();
  Status checkNothingIsReplaced() const;
  Status openOutputs();
  void warnOfUnusualRuns() const;
  Status compareRanks();
  Status startEngine();
  Status initialiseWeights();
  Status trainAndGenerate();
  Status generate();
  Status withHooks(const std::function<Status(const MemoryCheckHooks &)> &body);
  Status checkMemoryUse();
  Status traceOps();
  Status repeatOps();
  /// Returns true if this run trains. A resumed run that has no step left also
  /// counts as a training run.
  bool trains() const {
    return !options_.onlyChecks() && files_.data && options_.steps > 0;
  }
  void warnOfBytes() const;
  Status logStart();
  void logEnd(const Status &status, int64_t steps);

  Engine &engine_;
  const Description &description_;
  Options options_;
  Ranks &ranks_;
  RunFiles files_;
  Progress progress_;
  TrajectoryRecord record_;
  std::optional<ResumePoint> resumed_;
  /// Set if the executable trains adapters.
  std::optional<AdapterStart> adapters_;
  /// For each recorded property that a resumed run changes, a note for the
  /// user.
  std::vector<std::string> changes_;
  std::optional<Records> records_;
  std::vector<std::string> notes_;
};

} // namespace kiln::runtime

#endif // KILN_LIB_RUNTIME_TRAINING_TRAININGDRIVER_H
