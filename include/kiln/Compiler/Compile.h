//===- Compile.h - From a model to an executable ----------------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef KILN_COMPILER_COMPILE_H
#define KILN_COMPILER_COMPILE_H

#include "kiln/Dialect/Kiln/IR/Target.h"
#include "kiln/Planner/Machine.h"
#include "kiln/Support/Status.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace kiln {

/// Where compilation stops and what is written.
enum class EmitStage {
  Forward,
  Step,
  Planned,
  Dispatch,
  Schedule,
  Plan,
  Llvm,
  Ptx,
  Object,
  Executable
};

struct CompileOptions {
  std::string model; ///< Hugging Face directory, .mlir or .mlirbc
  std::string
      output; ///< "-" is standard output (not for objects and executables)
  EmitStage stage = EmitStage::Executable;
  std::string target = kDefaultTarget.str(); ///< the name of a target
  /// The chips that code is generated for, such as "sm_90"; PTX is for the
  /// first. Not empty if the target has images or PTX.
  std::vector<std::string> gpuArchitectures;
  /// A vendor library may compute attention.
  bool libraryAttention = false;
  /// Sequences per step; default: one per micro-batch, or what the shapes in a
  /// .mlir file say.
  std::optional<int64_t> batch;
  int64_t sequenceLength = 0; ///< 0: as many as the model has positions
  int64_t microbatches = 1;
  /// Choose the number of micro-batches that makes the fastest step.
  bool autoMicrobatches = false;
  /// Bytes that the arena may have; 0: no limit.
  int64_t memoryBudget = 0;
  /// A named policy, see Recompute.h; empty: the planner's choice with a
  /// budget, none without.
  std::string recompute;
  /// What lies on the host while the device does not need it: a list as in
  /// OffloadSet, "none" or "auto"; empty: auto with a budget and a machine
  /// whose device has a memory of its own, none otherwise.
  std::string offload;
  int64_t hostBudget = 0; ///< bytes that the host's arena may have; 0: no limit
  /// Bytes per second of a link to play on a CPU; 0: none.
  double simulatedLink = 0;
  std::string optimizer = "adamw";
  /// Techniques that change the gradient, see Lossy.h; empty: none.
  std::string lossy;
  /// "fp32" or "fp64"; default: fp32, or that of a .mlir file's states.
  std::optional<std::string> precision;
  bool clip = true, evaluation = true, emitGradients = false, fuse = true,
       rebuild = true;
  /// A vendor library that computes GEMMs may also compute their epilogues,
  /// which rounds less often.
  bool vendorEpilogues = true;
  int64_t maxThreads = 1;
  std::optional<double> dropout;
  /// Keys of a directory's config.json that pass although kiln does not honour
  /// them.
  std::vector<std::string> ignoredConfigKeys;
  std::string mcpu;                         ///< empty: this machine
  std::optional<Machine> machine;           ///< figures to plan with, if named
  std::string machineName = defaultMachine; ///< their file or name
  std::string commandLine;
  /// Where a report of the plan goes; its kind is in the name: .html, .json or
  /// .snapshot.json. Empty: none.
  std::string report;
  /// Where the planner's remarks go, as YAML. Empty: nowhere.
  std::string remarks;
  /// Writes nothing, and prints the passes that lead from the forward graph to
  /// the schedule.
  bool printsPipeline = false;
  /// The folder with libKilnRuntime.a and its companions.
  std::string libraryDirectory;
};

/// Compiles; prints one line on standard error when it fails, and says with
/// which code the program should exit.
ExitCode compile(const CompileOptions &options);

} // namespace kiln

#endif // KILN_COMPILER_COMPILE_H
