//===- RunOnce.cpp - Run of a single program --------------------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "kiln/Interpreter/RunOnce.h"

#include "kiln/Interpreter/TensorBytes.h"
#include "kiln/Runtime/Files/CheckpointDir.h"
#include "kiln/Runtime/Files/InitialValues.h"
#include "kiln/Runtime/Files/QuantizedWeight.h"
#include "kiln/Support/ElementConversion.h"
#include "kiln/Support/Messages.h"

#include "llvm/Support/Format.h"
#include "llvm/Support/raw_ostream.h"

#include <cinttypes>
#include <limits>
#include <optional>
#include <set>

using namespace kiln::support;
using kiln::runtime::copyMirrors;
using kiln::runtime::Description;
using kiln::runtime::encodeWeight;
using kiln::runtime::fillInitialValue;
using kiln::runtime::InputInfo;
using kiln::runtime::openWeights;
using kiln::runtime::ProgramInfo;
using kiln::runtime::StateInfo;
using kiln::runtime::StateRole;
using kiln::runtime::ValueInfo;

namespace kiln {

static std::optional<size_t> findProgram(const Description &description,
                                         llvm::StringRef name) {
  for (size_t i = 0; i < description.programs.size(); ++i)
    if (description.programs[i].name == name)
      return i;
  return std::nullopt;
}

/// Reads a tensor that has the type of `value`. If this type is i32 or i64,
/// also accepts the other of these two types and converts the elements, because
/// files often store indices as i64.
template <typename File>
static Status readIntegers(const File &file, const TensorInfo &tensor,
                           const ValueInfo &value, char *data) {
  if (tensor.type == value.type)
    return file.read(tensor.name, tensor.type, data, value.bytes());
  auto isIndex = [](ElementType type) {
    return type == ElementType::I32 || type == ElementType::I64;
  };
  if (!isIndex(tensor.type) || !isIndex(value.type))
    return Status::badInput(
        file.path() + ": tensor " + inQuotes(tensor.name) + " has type " +
        std::string(infoOf(tensor.type).fileName) + ", expected " +
        (isIndex(value.type) ? "I32 or I64"
                             : std::string(infoOf(value.type).fileName)));
  std::vector<char> bytes(bytesOf(tensor.type, tensor.elements));
  Status status =
      file.read(tensor.name, tensor.type, bytes.data(), bytes.size());
  if (!status.ok())
    return status;
  for (int64_t i = 0; i < tensor.elements; ++i) {
    int64_t element;
    if (tensor.type == ElementType::I64)
      element = reinterpret_cast<const int64_t *>(bytes.data())[i];
    else
      element = reinterpret_cast<const int32_t *>(bytes.data())[i];
    if (value.type == ElementType::I64) {
      reinterpret_cast<int64_t *>(data)[i] = element;
    } else if (element == static_cast<int32_t>(element)) {
      reinterpret_cast<int32_t *>(data)[i] = static_cast<int32_t>(element);
    } else {
      return Status::badInput(
          file.path() + ": tensor " + inQuotes(tensor.name) + " holds " +
          std::to_string(element) + ", which does not fit in a 32-bit integer");
    }
  }
  return {};
}

template <typename File>
static Status readValue(const File &file, const TensorInfo &tensor,
                        const ValueInfo &value, char *data) {
  if (tensor.shape != value.shape)
    return Status::badInput(file.path() + ": tensor " + inQuotes(tensor.name) +
                            " has shape " + shapeText(tensor.shape) +
                            ", expected " + shapeText(value.shape));
  if (infoOf(value.type).spacingAtOne > 0)
    return file.read(tensor.name, value.type, data, value.bytes());
  return readIntegers(file, tensor, value, data);
}

/// Finds the tensor of a state under any of its names.
static const TensorInfo *findState(const ModelWeights &weights,
                                   const StateInfo &state) {
  if (const TensorInfo *tensor = weights.find(state.name))
    return tensor;
  if (const TensorInfo *tensor = weights.find(state.sourceName))
    return tensor;
  for (const std::string &alias : state.aliases)
    if (const TensorInfo *tensor = weights.find(alias))
      return tensor;
  return nullptr;
}

/// Sets a state to the values of `tensor`. If `tensor` is null, sets the state
/// to the state's initial values.
static Status setState(const ModelWeights *weights, const TensorInfo *tensor,
                       const StateInfo &state, uint64_t seed, char *data) {
  auto read = [&](const ValueInfo &value, char *to) {
    if (tensor)
      return readValue(*weights, *tensor, value, to);
    return fillInitialValue(state.init, seed, state.name, value.shape,
                            value.type, 0, value.elements(), to);
  };
  if (!state.quantized)
    return read(state, data);
  ValueInfo weight{state.name, ElementType::F32, state.quantized->shape};
  std::vector<float> values(size_t(weight.elements()));
  Status status = read(weight, reinterpret_cast<char *>(values.data()));
  if (!status.ok())
    return status;
  return encodeWeight(state.sourceName, state.quantized->layout, data,
                      [&](int64_t first, int64_t count, float *to) {
                        std::copy_n(values.begin() + first, count, to);
                        return Status();
                      });
}

static Status initializeStates(ReferenceEngine &engine,
                               const RunOnceOptions &options) {
  std::optional<ModelWeights> weights;
  if (!options.init.empty()) {
    auto opened = openWeights(options.init);
    if (!opened.ok())
      return opened.status();
    weights = std::move(*opened);
  }
  const std::vector<StateInfo> &states = engine.description().states;
  for (size_t i = 0; i < states.size(); ++i) {
    const StateInfo &state = states[i];
    if (state.role == StateRole::Mirror || !state.isHere)
      continue;
    const TensorInfo *tensor = weights ? findState(*weights, state) : nullptr;
    if (!tensor && weights &&
        (state.role == StateRole::Parameter || state.role == StateRole::Buffer))
      return Status::badInput(weights->path() + ": has no tensor " +
                              inQuotes(state.sourceName) + " for state " +
                              inQuotes(state.name));
    Status status = setState(weights ? &*weights : nullptr, tensor, state,
                             options.seed, engine.stateData(i));
    if (!status.ok())
      return status;
  }
  return copyMirrors(engine);
}

static Status readInputs(ReferenceEngine &engine, size_t program,
                         const RunOnceOptions &options) {
  const std::vector<InputInfo> &inputs =
      engine.description().programs[program].inputs;
  if (inputs.empty())
    return {};
  if (options.inputs.empty())
    return Status(ExitCode::Usage, "program " + inQuotes(options.entry) +
                                       " has inputs: give their values with "
                                       "--inputs=FILE.safetensors, or train "
                                       "with --data=FILE and --steps=N");
  auto file = SafeTensorsFile::open(options.inputs);
  if (!file.ok())
    return file.status();
  for (size_t i = 0; i < inputs.size(); ++i) {
    const TensorInfo *tensor = file->find(inputs[i].name);
    if (!tensor)
      return Status::badInput(file->path() + ": has no tensor " +
                              inQuotes(inputs[i].name) + " of shape " +
                              shapeText(inputs[i].shape) + ", which program " +
                              inQuotes(options.entry) + " needs as an input");
    Status status =
        readValue(*file, *tensor, inputs[i], engine.inputData(program, i));
    if (!status.ok())
      return status;
  }
  return {};
}

/// Prints the name, shape and first elements of an output on one line.
static void printOutput(const ValueInfo &output, const char *data,
                        llvm::raw_ostream &out) {
  constexpr int64_t kPrinted = 64;
  out << output.name;
  if (!output.shape.empty())
    out << " " << shapeText(output.shape);
  out << " =";
  for (int64_t i = 0, e = std::min(output.elements(), kPrinted); i < e; ++i) {
    out << (i ? ", " : " ");
    if (isNarrowFloat(output.type)) {
      double value;
      convertElements(output.type, data + bytesOf(output.type, i),
                      ElementType::F64, &value, 1);
      out << llvm::format("%.9g", value);
      continue;
    }
    switch (output.type) {
    case ElementType::F64:
      out << llvm::format("%.17g", reinterpret_cast<const double *>(data)[i]);
      break;
    case ElementType::F32:
      out << llvm::format("%.9g", reinterpret_cast<const float *>(data)[i]);
      break;
    case ElementType::I8:
      out << int(reinterpret_cast<const int8_t *>(data)[i]);
      break;
    case ElementType::I64:
      out << reinterpret_cast<const int64_t *>(data)[i];
      break;
    default:
      out << reinterpret_cast<const int32_t *>(data)[i];
      break;
    }
  }
  if (output.elements() > kPrinted)
    out << ", ...";
  out << "\n";
}

Status runOnce(ReferenceEngine &engine, const RunOnceOptions &options,
               llvm::raw_ostream &out) {
  const Description &description = engine.description();
  auto program = findProgram(description, options.entry);
  if (!program) {
    std::string names;
    for (const ProgramInfo &info : description.programs)
      names += (names.empty() ? "" : ", ") + info.name;
    return Status(ExitCode::Usage,
                  "the module has no program " + inQuotes(options.entry) +
                      "; it has: " + (names.empty() ? "none" : names));
  }
  if (Status status = initializeStates(engine, options); !status.ok())
    return status;
  if (Status status = readInputs(engine, *program, options); !status.ok())
    return status;
  if (Status status = engine.run(*program); !status.ok())
    return status;
  const std::vector<ValueInfo> &outputs =
      description.programs[*program].outputs;
  for (size_t i = 0; i < outputs.size(); ++i)
    printOutput(outputs[i], engine.outputData(*program, i), out);
  return {};
}

Status dumpTensors(ReferenceEngine &engine, llvm::StringRef program,
                   const std::string &path) {
  const Description &description = engine.description();
  std::vector<TensorDeclaration> declarations;
  std::vector<std::vector<char>> contents;
  if (auto index = findProgram(description, program)) {
    const std::vector<ValueInfo> &outputs =
        description.programs[*index].outputs;
    for (size_t i = 0; i < outputs.size(); ++i) {
      const char *data = engine.outputData(*index, i);
      declarations.push_back(
          {outputs[i].name, outputs[i].type, outputs[i].shape});
      contents.emplace_back(data, data + outputs[i].bytes());
    }
  }
  for (size_t i = 0; i < description.states.size(); ++i) {
    const StateInfo &state = description.states[i];
    if (!state.isHere)
      continue;
    TensorHandle tensor = engine.stateTensor(i);
    ElementType type = storedType(tensor->type);
    declarations.push_back({state.name, type, state.shape});
    auto &bytes = contents.emplace_back(bytesOf(type, tensor->size()));
    tensorToBytes(*tensor, type, bytes.data());
  }
  std::set<std::string> names;
  for (const TensorDeclaration &declaration : declarations)
    if (!names.insert(declaration.name).second)
      return Status(ExitCode::Usage, "--dump: two tensors have the name " +
                                         inQuotes(declaration.name));

  auto writer = SafeTensorsWriter::create(path, declarations);
  if (!writer.ok())
    return writer.status();
  for (const std::vector<char> &bytes : contents)
    if (Status status = writer->write(bytes.data(), bytes.size()); !status.ok())
      return status;
  return writer->finish();
}

} // namespace kiln
