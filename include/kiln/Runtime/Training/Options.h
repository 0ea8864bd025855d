//===- Options.h - Flags of a training executable ---------------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The flags of every training executable as one struct. parseOptions rejects
// unknown flags and combinations that contradict each other with one line, so
// that the rest of the driver may assume that what is set makes sense.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_RUNTIME_TRAINING_OPTIONS_H
#define KILN_RUNTIME_TRAINING_OPTIONS_H

#include "kiln/Runtime/Training/Schedule.h"
#include "kiln/Support/Status.h"

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace kiln::runtime {

struct Description;

struct Options {
  // Data.
  std::string data;
  std::string valData;
  std::string inputs;     ///< Values of inputs that the model declares.
  std::string valInputs;  ///< The same for the validation data.
  int64_t valEvery = 0;   ///< 0: only after the last step.
  int64_t valBatches = 0; ///< 0: every whole batch of the file.
  std::optional<uint64_t> shuffle;

  // Run.
  int64_t steps = 0;
  bool stepsGiven = false;
  uint64_t seed = 0;
  bool seedGiven = false;
  int threads = 0;  ///< 0: what the executable was planned for.
  std::string init; ///< File or directory; empty: none.
  std::vector<std::string> initIgnore; ///< Tensors there that are not used.
  bool fromScratch = false;

  // Learning rate and clipping.
  ScheduleOptions schedule;
  double gradClip = 1.0;
  bool gradClipGiven = false;

  // Checkpoints.
  std::string save;
  int64_t saveEvery = 0; ///< 0: only at the end.
  int64_t keep = 0;      ///< 0: all.
  std::string resume;
  /// What may differ from the run that is resumed: names of changeableFacts().
  std::set<std::string> resumeChanging;

  // Records.
  std::string log;
  std::string tensorboard;
  std::string trace;
  std::string dumpGradients;

  // Instead of, or after, training.
  bool describe = false;
  bool checkMemory = false;
  std::optional<uint64_t> stressCopies; ///< Seed; empty: copy on threads.
  std::optional<uint64_t> emuSeed;      ///< Of what an emulated GPU shuffles.
  bool syncOps = false;                 ///< Wait for every command of a GPU.
  std::optional<std::string> gpuAlgorithms; ///< A file; empty: none.
  std::string checkOps;   ///< File for the trace; empty: no check.
  std::string checkTrace; ///< File with a trace to repeat; empty: none.
  int lockstep = -1;      ///< File descriptor that kiln-diff reads; -1: none.
  int64_t generate = 0;
  std::string prompt;
  double temperature = 1.0;
  int64_t topK = 0; ///< 0: the whole vocabulary.

  /// All flags that the command line has, such as "--lr".
  std::set<std::string> given;

  bool isGiven(const std::string &flag) const { return given.count(flag) > 0; }
  /// True if the run proves something instead of training.
  bool onlyChecks() const {
    return describe || checkMemory || !checkOps.empty() || !checkTrace.empty();
  }
  /// True if the run goes on with the training of a checkpoint, which then
  /// decides all that was not given: `steps`, the schedule and the clipping
  /// are complete only after adoptChoices (lib/Runtime/Training/Resume.h).
  bool continues() const {
    return !resume.empty() && !data.empty() && !onlyChecks() &&
           !(stepsGiven && steps == 0);
  }
};

/// The names that --resume-changing knows, in the order of the documentation.
const std::vector<std::string> &changeableFacts();

/// What parseOptions found: options, or text to print (--help) and leave.
struct ParsedOptions {
  Options options;
  std::optional<std::string> help;
};

/// Parses argv[1..argc). A failure has ExitCode::Usage. A flag of kilnc is
/// answered with its value in `description`, if there is one.
Result<ParsedOptions> parseOptions(int argc, const char *const *argv,
                                   const Description *description = nullptr);

} // namespace kiln::runtime

#endif // KILN_RUNTIME_TRAINING_OPTIONS_H
