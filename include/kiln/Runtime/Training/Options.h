//===- Options.h - Flags of a training executable ---------------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Holds the flags of every training executable in one struct. parseOptions
// rejects unknown flags and contradictory combinations with a one-line error,
// so the rest of the driver relies on consistent options.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_RUNTIME_TRAINING_OPTIONS_H
#define KILN_RUNTIME_TRAINING_OPTIONS_H

#include "kiln/Runtime/Training/LossScale.h"
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
  /// Files with one byte per token of the data, 0 for a token that is not a
  /// target; empty: all tokens are targets.
  std::string lossMask;
  std::string valLossMask;
  /// Safetensors file with the values of the inputs that the model declares.
  std::string inputs;
  /// Safetensors file with the values of the declared inputs for the validation
  /// data.
  std::string valInputs;
  /// Number of steps between validations; 0: validate after the last step only.
  int64_t valEvery = 0;
  /// Number of batches per validation; 0: all batches of the file.
  int64_t valBatches = 0;
  std::optional<uint64_t> shuffle;

  // Run.
  int64_t steps = 0;
  bool stepsGiven = false;
  uint64_t seed = 0;
  bool seedGiven = false;
  int threads = 0; ///< Number of threads; 0: the engine chooses the number.
  /// The run fails if it waits for this number of seconds and receives no
  /// message from another rank.
  int64_t peerTimeout = 600;
  /// File or directory with the initial weights; empty if not given.
  std::string init;
  /// Names of tensors in `init` that the model may leave unused.
  std::vector<std::string> initIgnore;
  bool fromScratch = false;
  /// Directory of the adapter to start from; empty if not given.
  std::string adapter;
  /// File or directory with the weights of the base model of the adapter or of
  /// the checkpoint; empty if not given.
  std::string base;
  /// Directory to which the model with merged adapters is written; empty: none.
  std::string saveMerged;

  // Learning rate and clipping.
  ScheduleOptions schedule;
  double gradClip = 1.0;
  bool gradClipGiven = false;
  LossScaleOptions lossScale;
  /// True if a resumed run replaces the scale of the checkpoint by the initial
  /// scale of `lossScale`.
  bool restartsLossScale = false;

  // Checkpoints.
  std::string save;
  /// Number of steps between checkpoints; 0: save after the last step only.
  int64_t saveEvery = 0;
  int64_t keep = 0; ///< Number of checkpoints to keep; 0: all.
  std::string resume;
  /// Properties, named as in changeableFacts(), that may differ from those of
  /// the checkpoint.
  std::set<std::string> resumeChanging;

  // Logs and other output files.
  std::string log;
  std::string tensorboard;
  std::string trace;
  std::string dumpGradients;

  // Actions that replace or follow training.
  bool describe = false;
  bool checkMemory = false;
  /// Seed of the random times at which asynchronous copies are executed;
  /// nullopt: worker threads execute the copies.
  std::optional<uint64_t> stressCopies;
  /// Seed of the execution order on an emulated GPU.
  std::optional<uint64_t> emuSeed;
  bool syncOps = false; ///< Synchronize with the GPU after each command.
  /// File that caches the GEMM algorithms that a search found to be fastest;
  /// "": no search; nullopt: the default file.
  std::optional<std::string> gpuAlgorithms;
  /// File to which the results of all ops are written; empty: none.
  std::string checkOps;
  /// File with which the results of all ops are compared; empty: none.
  std::string checkTrace;
  /// File descriptor for replies to kiln-diff; -1: none.
  int lockstep = -1;
  int64_t generate = 0;
  std::string prompt;
  double temperature = 1.0;
  /// Number of most likely tokens to sample from; 0: the whole vocabulary.
  int64_t topK = 0;

  /// All flags on the command line, such as "--lr".
  std::set<std::string> given;
  /// The arguments of the command line.
  std::vector<std::string> commandLine;

  bool isGiven(const std::string &flag) const { return given.count(flag) > 0; }
  /// Returns true if the run performs checks instead of training.
  bool onlyChecks() const {
    return describe || checkMemory || !checkOps.empty() || !checkTrace.empty();
  }
  /// Returns true if the run continues the training of a checkpoint. The
  /// checkpoint then provides the values of flags that are not given. Therefore
  /// `steps`, the schedule and the clipping have their final values only after
  /// adoptChoices (lib/Runtime/Training/Resume.h).
  bool continues() const {
    return !resume.empty() && !data.empty() && !onlyChecks() &&
           !(stepsGiven && steps == 0);
  }
};

/// Returns the names that --resume-changing accepts, in documentation order.
const std::vector<std::string> &changeableFacts();

/// The result of parseOptions: the options, or the text of --help to print.
struct ParsedOptions {
  Options options;
  std::optional<std::string> help;
};

/// Parses argv[1..argc). A failure has ExitCode::Usage. If a flag belongs to
/// kilnc and `description` is not null, the error reports the compile-time
/// value of the flag.
Result<ParsedOptions> parseOptions(int argc, const char *const *argv,
                                   const Description *description = nullptr);

} // namespace kiln::runtime

#endif // KILN_RUNTIME_TRAINING_OPTIONS_H
