//===- Description.h - What an executable was built with --------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The part of the program description (docs/reference/program-format.md) that
// training needs whatever computes the programs: the model, the options, the
// states, and the inputs and outputs of every program. Commands and slots
// belong to the Engine that walks them (Program.h).
//
//===----------------------------------------------------------------------===//

#ifndef KILN_RUNTIME_ENGINE_DESCRIPTION_H
#define KILN_RUNTIME_ENGINE_DESCRIPTION_H

#include "kiln/Abi/TrainingInfo.h"
#include "kiln/Runtime/Files/InitialValues.h"
#include "kiln/Support/ElementType.h"

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace kiln::runtime {

/// A state, or an input or output of a program.
struct ValueInfo {
  std::string name;
  ElementType type = ElementType::F32;
  std::vector<int64_t> shape; ///< Empty: a scalar.

  int64_t elements() const {
    int64_t count = 1;
    for (int64_t extent : shape)
      count *= extent;
    return count;
  }
  int64_t bytes() const { return bytesOf(type, elements()); }
};

/// An input of a program.
struct InputInfo : ValueInfo {
  /// The model declares it, and a file has its values.
  bool isData = false;
  /// The first dimension is that of the sequences of a step.
  bool isBatched = false;
};

/// Ranks that execute the same programs, each on its own memory.
struct RoleInfo {
  std::string name;
  int64_t ranks = 1;
};

/// A mirror is the device copy of a parameter that lives in the host arena.
enum class StateRole { Parameter, Buffer, Constant, Optimizer, Mirror };

/// A state is a part of a tensor, and usually all of it: `shape` is that of the
/// part.
struct StateInfo : ValueInfo {
  std::vector<int64_t> globalShape; ///< The shape of the whole tensor.
  std::vector<int64_t> shard;       ///< Where in it the part begins.
  std::vector<std::size_t> roles;   ///< The roles that hold the part.
  std::string sourceName;           ///< Name in the model's own files.
  std::vector<std::string> aliases; ///< Other accepted spellings.
  /// Names under which weight files repeat the tensor, because it is tied.
  std::vector<std::string> copies;
  StateRole role = StateRole::Parameter;
  std::string of;   ///< Optimizer states, mirrors: the parameter's state name.
  std::string slot; ///< Optimizer states: "m", "v", ...
  bool trainable = true;
  /// False: no program writes it, so that it keeps the values it starts with.
  bool written = true;
  InitialValue init;

  bool isWhole() const { return shape == globalShape; }
};

/// Outputs of the training program with this prefix are gradients.
inline constexpr std::string_view gradientPrefix = "gradient:";

inline bool isGradient(const ValueInfo &output) {
  return output.name.compare(0, gradientPrefix.size(), gradientPrefix) == 0;
}

struct ProgramInfo {
  std::string name; ///< "train", "evaluate", "generate".
  /// The roles that run it: indexes in Description::roles, as in StateInfo.
  std::vector<std::size_t> roles;
  std::vector<InputInfo> inputs;
  std::vector<ValueInfo> outputs;
};

/// A small file of the source model directory, copied into checkpoints.
struct EmbeddedFile {
  std::string name;
  std::string bytes;
};

struct ModelInfo {
  std::string name;
  std::string type;
  int64_t vocabSize = 0;
  int64_t batch = 0;
  int64_t sequenceLength = 0;
  bool hasWeights = false; ///< The source directory holds weights.
  /// Names of tensors that weight files may hold and the model does not need;
  /// `*` stands for a number.
  std::vector<std::string> unusedTensors;
  std::vector<EmbeddedFile> files;
};

struct BuildInfo {
  std::string version; ///< Of kiln.
  std::string optimizer;
  std::string lossy; ///< Techniques that change gradients; empty: none.
  std::string precision;
  int64_t microbatches = 1;
  bool clip = true;
  bool eval = true;
  int maxThreads = 1;
  double dropout = 0.0;
  std::string target;
  std::string commandLine;
};

/// Of what the kernels are, and so which engine runs them.
enum class TargetKind : uint8_t { Cpu, CudaEmu, Cuda };

struct TargetInfo {
  TargetKind kind = TargetKind::Cpu;
  std::string cpu;
  std::vector<std::string> features;
  std::string blas;
  std::string machine; ///< Hash of the machine file.
};

/// Pace of the copies between the device and the host arena; 0: as fast as
/// memory copies.
struct LinkInfo {
  double outBytesPerSecond = 0; ///< Device to host.
  double inBytesPerSecond = 0;  ///< Host to device.
};

struct Description {
  ModelInfo model;
  BuildInfo build;
  abi::TrainingInfo training;
  TargetInfo target;
  LinkInfo link;
  int64_t hostArenaBytes = 0; ///< 0: nothing lives on the host.
  std::vector<RoleInfo> roles;
  std::vector<StateInfo> states;
  std::vector<ProgramInfo> programs;
  std::string plan = "{}"; ///< The plan, a JSON object.

  const ProgramInfo *findProgram(const std::string &name) const {
    for (const ProgramInfo &program : programs)
      if (program.name == name)
        return &program;
    return nullptr;
  }
};

} // namespace kiln::runtime

#endif // KILN_RUNTIME_ENGINE_DESCRIPTION_H
