//===- Compile.h - Compile a model into an executable -----------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef KILN_COMPILER_COMPILE_H
#define KILN_COMPILER_COMPILE_H

#include "kiln/Dialect/Kiln/IR/Target.h"
#include "kiln/Planner/Machine.h"
#include "kiln/Support/Mesh.h"
#include "kiln/Support/Status.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace kiln {

/// The stage at which compilation stops. The stage determines the kind of
/// output.
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
  /// Path of a Hugging Face directory, a .mlir file or a .mlirbc file.
  std::string model;
  /// Output path; "-" is standard output (except for objects and executables).
  std::string output;
  EmitStage stage = EmitStage::Executable;
  std::string target = kDefaultTarget.str(); ///< Name of the target.
  /// GPU architectures to generate code for, such as "sm_90". PTX is generated
  /// for the first architecture. Must not be empty if the target generates
  /// device images or PTX.
  std::vector<std::string> gpuArchitectures;
  /// Allows a vendor library (cuDNN) to compute attention.
  bool libraryAttention = false;
  /// Sequences per step. Default: one per micro-batch, or the batch dimension
  /// of the shapes in a .mlir file.
  std::optional<int64_t> batch;
  /// Tokens per sequence; 0: the number of positions of the model.
  int64_t sequenceLength = 0;
  int64_t microbatches = 1;
  /// Chooses the number of micro-batches that gives the fastest step.
  bool autoMicrobatches = false;
  /// The order in which the forward and backward passes of the micro-batches
  /// run, as in SegmentOrder::parse.
  std::string order = "alternate";
  /// Maximum size in bytes of the arena, which is the block of device memory
  /// that holds the tensors of the program; 0: no limit.
  int64_t memoryBudget = 0;
  /// Name of a recomputation policy, see Recompute.h. Empty: the planner
  /// chooses if there is a budget, and nothing is recomputed otherwise.
  std::string recompute;
  /// Tensors that are stored on the host while the device does not need them: a
  /// list as in OffloadSet, "none" or "auto". Empty: "auto" if there is a
  /// budget and the machine's device has its own memory, "none" otherwise.
  std::string offload;
  /// Maximum size in bytes of the host arena, which is the block of host memory
  /// that holds offloaded tensors; 0: no limit.
  int64_t hostBudget = 0;
  /// Bytes per second of a link between device and host that is simulated on a
  /// CPU; 0: no simulation.
  double simulatedLink = 0;
  /// Bytes per second of a simulated network between ranks; 0: no simulation.
  double simulatedNetwork = 0;
  std::string optimizer = "adamw";
  /// Types of parameters, gradients and moments, as in StateTypes::parse().
  /// Empty: the default types.
  std::string states;
  /// Options of low-rank adapters, as in support::parseLoraOptions(). Empty: no
  /// adapters.
  std::string lora;
  /// Encoding of frozen weights, for support::parseWeightEncoding(). Empty:
  /// none.
  std::string quantizeWeights;
  /// Ranks of each axis, as in support::parseMesh(). Empty: one rank.
  std::string mesh;
  /// Enables sequence parallelism: between the layers that are divided over the
  /// tensor-parallel ranks, the rows of activations are divided over these
  /// ranks.
  bool sequenceParallel = false;
  /// Stage of ZeRO: the data-parallel ranks divide nothing (0), the optimizer
  /// states (1), also the gradients (2), or also the parameters (3).
  int64_t zero = 0;
  /// How ZeRO divides tensors over ranks: a name that support::zeroByNamed()
  /// accepts.
  std::string zeroBy = "elements";
  /// Data-parallel ranks average their states every `syncEvery` steps, and
  /// train alone in between. 1: they sum gradients in each step instead.
  int64_t syncEvery = 1;
  /// Approximate size in bytes of a bucket, which is a group of tensors that
  /// ranks sum or gather by one collective.
  int64_t bucketBytes = support::defaultBucketBytes;
  /// Chooses the bucket size that gives the fastest step.
  bool autoBuckets = false;
  /// Compression of the gradients that data-parallel ranks sum, for
  /// support::parseGradientCompression(). Empty: none.
  std::string compressGradients;
  /// Techniques that change the gradient, see Lossy.h. Empty: none.
  std::string lossy;
  /// "fp32", "fp64" or "bf16". Default: fp32, or the precision of the states in
  /// a .mlir file.
  std::optional<std::string> precision;
  bool clip = true, evaluation = true, emitGradients = false, fuse = true,
       rebuild = true;
  /// Allows a vendor library that computes GEMMs to also compute their
  /// epilogues. The results then differ from those of separate epilogues,
  /// because fewer intermediate values are rounded.
  bool vendorEpilogues = true;
  /// The kernels of GEMMs on a CPU: "auto" selects the fastest kernels that the
  /// processor supports, and "blas" selects the BLAS library.
  std::string gemm = "auto";
  int64_t maxThreads = 1;
  std::optional<double> dropout;
  /// Unsupported keys of a model directory's config.json that are ignored
  /// instead of rejected.
  std::vector<std::string> ignoredConfigKeys;
  std::string mcpu; ///< Processor to generate code for; empty: this machine's.
  /// Performance figures of the machine for the planner, if they have already
  /// been loaded.
  std::optional<Machine> machine;
  /// Path of a machine file, or name of a machine file that ships with kiln.
  std::string machineName = defaultMachine;
  std::string commandLine;
  /// Path of the report of the plan. The extension of the path determines the
  /// format of the report: .html, .json or .snapshot.json. Empty: no report.
  std::string report;
  /// Path of the planner's remarks, as YAML. Empty: no remarks.
  std::string remarks;
  /// Prints the passes from the forward graph to the schedule instead of
  /// compiling the model.
  bool printsPipeline = false;
  /// Compiles only the first `layers` layers of a model directory; 0: all. Used
  /// to estimate the cost of a plan from a model with few layers.
  int64_t layers = 0;
  /// Directory in which compilations store the object code of their kernels
  /// for the host's processor, and from which they take the object code of
  /// kernels that were compiled before. Empty: none.
  std::string kernelCache;
  /// Directory of libKilnRuntime.a and the other runtime archives.
  std::string libraryDirectory;
};

/// Compiles a model. On failure, prints one line on standard error. Returns the
/// exit code of the process.
ExitCode compile(const CompileOptions &options);

} // namespace kiln

#endif // KILN_COMPILER_COMPILE_H
