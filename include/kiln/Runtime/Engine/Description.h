//===- Description.h - Metadata of a compiled training program --*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The part of the program description (docs/reference/program-format.md) that
// training needs from every engine: the model, the options, the states, and the
// inputs and outputs of every program. Commands and slots are private to the
// engine that executes them (Program.h).
//
//===----------------------------------------------------------------------===//

#ifndef KILN_RUNTIME_ENGINE_DESCRIPTION_H
#define KILN_RUNTIME_ENGINE_DESCRIPTION_H

#include "kiln/Abi/TrainingInfo.h"
#include "kiln/Runtime/Files/InitialValues.h"
#include "kiln/Support/ElementType.h"
#include "kiln/Support/LoraConfig.h"
#include "kiln/Support/Mesh.h"
#include "kiln/Support/WeightEncoding.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace kiln::runtime {

/// Returns the number of elements of a tensor.
inline int64_t elementsOf(const std::vector<int64_t> &shape) {
  int64_t count = 1;
  for (int64_t extent : shape)
    count *= extent;
  return count;
}

/// A state, or an input or output of a program.
struct ValueInfo {
  std::string name;
  ElementType type = ElementType::F32;
  std::vector<int64_t> shape; ///< Extents; empty for a scalar.

  int64_t elements() const { return elementsOf(shape); }
  int64_t bytes() const { return bytesOf(type, elements()); }
};

/// An input of a program.
struct InputInfo : ValueInfo {
  /// True if the model declares the input and a data file contains the values
  /// of the input.
  bool isData = false;
  /// True if the first dimension is the batch dimension.
  bool isBatched = false;
};

/// A group of ranks that execute the same programs. Each rank has its own
/// memory.
struct RoleInfo {
  std::string name;
  int64_t ranks = 1;
};

/// The purpose of a state. A Mirror is a copy of a parameter with another
/// element type or in another arena.
enum class StateRole { Parameter, Buffer, Constant, Optimizer, Mirror };

/// The role of a state in a low-rank adapter: the factor A of shape [r, inputs]
/// or the factor B of shape [outputs, r] of the adapter of a weight.
struct AdapterPart {
  enum class Factor { A, B };
  Factor factor = Factor::A;
  std::string of; ///< Name of the state that stores the weight.
  /// True if the weight has shape [inputs, outputs].
  bool isTransposed = false;
};

/// The weight whose encoding a state holds. For a sharded state, this is the
/// part of the weight that this rank has.
struct QuantizedWeight {
  ElementType type = ElementType::F32; ///< Type of the decoded weight.
  std::vector<int64_t> shape;          ///< The two extents, both positive.
  support::WeightLayout layout = support::Nf4Layout(0);

  int64_t elements() const { return shape[0] * shape[1]; }
};

/// The elements [begin, end) of a row-major tensor.
struct ElementRange {
  int64_t begin = 0, end = 0;
  int64_t size() const { return end - begin; }
};

/// One division of a tensor over the n ranks of a mesh axis. The row-major
/// tensor consists of `blocks` blocks of L elements each, and each block is
/// divided: with K = elements / blocks, the part of the rank with index r has
/// the elements [r K, min((r + 1) K, L)) of each block, followed by zeros up to
/// K elements. K <= L <= n K. If `owner` is not -1, the rank with index `owner`
/// has the whole tensor, and the other ranks have nothing.
struct Division {
  std::string axis;
  int64_t blocks = 1;
  int64_t elements = 0; ///< Number of elements of the part of one rank.
  int64_t owner = -1;   ///< Index of the owner; -1: every rank has a part.

  /// Returns the position, in a block of `length` elements, at which the part
  /// of the rank with this index begins, or `length` if the part has only
  /// padding.
  int64_t beginOf(int64_t index, int64_t length) const {
    if (owner >= 0)
      return index == owner ? 0 : length;
    // Compare with a quotient, because `index` * `part` may overflow.
    int64_t part = elements / blocks;
    return part > 0 && index <= length / part ? index * part : length;
  }
  bool operator==(const Division &other) const {
    return axis == other.axis && blocks == other.blocks &&
           elements == other.elements && owner == other.owner;
  }
};

/// A state holds a whole tensor or a shard (part) of a tensor. `shape` is the
/// shape of what the state holds.
///
/// A sharded state (isSharded) is divided over the ranks of one or several mesh
/// axes. The shard may have another number of dimensions than the tensor: three
/// ranks may hold a tensor of shape [5, 2] in shards of shape [4], the last of
/// which ends with two zeros. Files contain the whole tensor, without this
/// padding. StateLayout.h enumerates the elements of a rank. If a sharded state
/// is quantized, the divisions apply to the decoded weight, and the state holds
/// the encoding of the part of this rank, including padding.
struct StateInfo : ValueInfo {
  /// Shape of the complete tensor. If the state is sharded and quantized, this
  /// is the shape of the weight.
  std::vector<int64_t> globalShape;
  /// The divisions of the tensor, each over another axis; empty if all ranks
  /// hold the whole tensor. The first division divides the tensor. Each later
  /// division divides the part, including its padding, that a rank has after
  /// the previous division. Ranks with the same indexes on all of these axes
  /// hold the same elements.
  std::vector<Division> divisions;
  /// Offset of the shard in the tensor, per dimension.
  std::vector<int64_t> shard;
  /// The roles (groups of ranks) that hold the shard, as indexes into
  /// Description::roles.
  std::vector<std::size_t> roles;
  /// Name of the tensor in the files of the source model.
  std::string sourceName;
  /// Names that are accepted in place of `sourceName`.
  std::vector<std::string> aliases;
  /// Names of the tensors that the model ties to this tensor. A weight file may
  /// repeat the tensor under these names.
  std::vector<std::string> copies;
  StateRole role = StateRole::Parameter;
  /// For an optimizer state or a mirror (a copy of a parameter), the name of
  /// the state that stores the parameter; otherwise empty.
  std::string of;
  /// For an optimizer state, its name within the optimizer, such as "m" or "v";
  /// otherwise empty.
  std::string slot;
  bool trainable = true;
  /// Set if the state is part of an adapter.
  std::optional<AdapterPart> adapter;
  /// Set if the state holds the bytes of an encoded weight. `init` and weight
  /// files then describe the weight.
  std::optional<QuantizedWeight> quantized;
  /// False if no program writes the state. The state then keeps its initial
  /// values.
  bool written = true;
  /// False if another rank owns the state. This rank then has no memory for the
  /// state, and other states may be stored at the address of the state.
  bool isHere = true;
  InitialValue init;

  bool isSharded() const { return !divisions.empty(); }
  bool isDividedOver(std::string_view axis) const {
    return std::any_of(
        divisions.begin(), divisions.end(),
        [&](const Division &division) { return division.axis == axis; });
  }
  /// Returns the axes over which the tensor is divided.
  std::vector<std::string> axes() const {
    std::vector<std::string> axes;
    for (const Division &division : divisions)
      axes.push_back(division.axis);
    return axes;
  }
  /// Returns the index of the data-parallel rank that owns the state, or -1.
  int64_t owner() const {
    return divisions.empty() ? -1 : divisions.back().owner;
  }
  bool isWhole() const { return !isSharded() && shape == globalShape; }
  /// Returns the number of ranks that hold different parts of the tensor.
  int64_t parts(const support::Mesh &mesh) const {
    int64_t ranks = 1;
    for (const Division &division : divisions)
      ranks *= mesh.sizeOf(division.axis);
    return ranks;
  }
  int64_t globalElements() const { return elementsOf(globalShape); }
  int64_t weightElements() const { return elementsOf(weightShape()); }
  /// Returns the number of elements that this rank holds of the tensor or, if
  /// the state is quantized, of the weight. Includes padding.
  int64_t partElements() const {
    return quantized ? quantized->elements() : elements();
  }
  /// Return the shape and the type that the tensor has in weight files.
  const std::vector<int64_t> &weightShape() const {
    return quantized && !isSharded() ? quantized->shape : globalShape;
  }
  ElementType weightType() const { return quantized ? quantized->type : type; }
};

/// Name prefix of the gradient outputs of the training program.
inline constexpr std::string_view gradientPrefix = "gradient:";

inline bool isGradient(const ValueInfo &output) {
  return output.name.compare(0, gradientPrefix.size(), gradientPrefix) == 0;
}

struct ProgramInfo {
  std::string name; ///< Such as "train", "evaluate" or "generate".
  /// The roles that run the program, as indexes into Description::roles.
  std::vector<std::size_t> roles;
  std::vector<InputInfo> inputs;
  std::vector<ValueInfo> outputs;
  /// True if the program has collectives over ranks of the mesh.
  bool communicates = false;
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
  bool hasWeights = false; ///< True if the source directory contains weights.
  /// Names of tensors that weight files may contain but the model does not use;
  /// `*` stands for a number.
  std::vector<std::string> unusedTensors;
  std::vector<EmbeddedFile> files;
};

struct BuildInfo {
  std::string version; ///< Version of kiln.
  std::string optimizer;
  /// Techniques that change gradients; empty if there are none.
  std::string lossy;
  std::string precision;
  int64_t microbatches = 1;
  bool clip = true;
  bool eval = true;
  int maxThreads = 1;
  double dropout = 0.0;
  std::string target;
  std::string commandLine;
};

/// The kind of target, which determines the kernel ABI and the engine.
enum class TargetKind : uint8_t { Cpu, CudaEmu, Cuda };

struct TargetInfo {
  TargetKind kind = TargetKind::Cpu;
  std::string cpu;
  std::vector<std::string> features;
  std::string blas;
  std::string machine; ///< Hash of the machine file.
};

/// Rates of the copies between the device and the host arena; 0: not limited.
struct LinkInfo {
  double outBytesPerSecond = 0; ///< Device to host.
  double inBytesPerSecond = 0;  ///< Host to device.
};

struct Description {
  ModelInfo model;
  BuildInfo build;
  abi::TrainingInfo training;
  /// The options of the adapters that are trained; not set for other models.
  std::optional<support::LoraConfig> lora;
  TargetInfo target;
  LinkInfo link;
  /// Rate at which a rank sends to another rank; 0 if the rate is not limited.
  double networkBytesPerSecond = 0;
  int64_t hostArenaBytes = 0; ///< Size; 0: there is no host arena.
  /// A hash by which ranks compare their programs: XXH3-64 of the text of the
  /// description or, in the reference interpreter, of the module. 0 if it was
  /// not computed.
  uint64_t hash = 0;
  /// The grid of ranks; empty for one rank.
  support::Mesh mesh;
  /// Number of steps after which the program "sync" averages the states of
  /// data-parallel ranks; 1 if there is no such program.
  int64_t syncEvery = 1;
  std::vector<RoleInfo> roles;
  std::vector<StateInfo> states;
  std::vector<ProgramInfo> programs;
  std::string plan = "{}"; ///< The plan, a JSON object.

  /// Returns the number of ranks of the mesh.
  int64_t ranks() const { return mesh.size(); }
  /// Returns the number of sequences that all ranks together process per
  /// update.
  int64_t globalBatch() const {
    return model.batch * mesh.sizeOf(support::dataAxis);
  }
  const ProgramInfo *findProgram(const std::string &name) const {
    for (const ProgramInfo &program : programs)
      if (program.name == name)
        return &program;
    return nullptr;
  }
};

} // namespace kiln::runtime

#endif // KILN_RUNTIME_ENGINE_DESCRIPTION_H
