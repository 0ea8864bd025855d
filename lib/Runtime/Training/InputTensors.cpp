//===- InputTensors.cpp - Tensors of declared inputs ----------------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "InputTensors.h"
#include "kiln/Support/ElementConversion.h"
#include "kiln/Support/Hash.h"
#include "kiln/Support/Messages.h"
#include <algorithm>
#include <cstring>

using namespace kiln::support;

namespace kiln::runtime {

/// Returns true if one tensor of a file can provide both inputs. The batch
/// sizes of the inputs may differ, because the inputs may belong to different
/// programs.
static bool haveOneTensor(const InputInfo &a, const InputInfo &b) {
  std::size_t first = a.isBatched ? 1 : 0;
  return a.type == b.type && a.isBatched == b.isBatched &&
         a.shape.size() == b.shape.size() &&
         std::equal(a.shape.begin() + first, a.shape.end(),
                    b.shape.begin() + first);
}

Result<std::vector<InputInfo>>
declaredInputs(const Description &description,
               const std::vector<std::string> &programs) {
  std::vector<InputInfo> inputs;
  for (const std::string &name : programs) {
    const ProgramInfo *program = description.findProgram(name);
    if (!program)
      continue;
    for (const InputInfo &input : program->inputs) {
      auto known = std::find_if(
          inputs.begin(), inputs.end(),
          [&](const InputInfo &other) { return other.name == input.name; });
      if (!input.isData)
        continue;
      if (known == inputs.end())
        inputs.push_back(input);
      else if (!haveOneTensor(*known, input))
        return Status::badInput("program " + inQuotes(name) +
                                " declares the input " + inQuotes(input.name) +
                                " with another type or shape than an earlier "
                                "program; rename one of the two inputs");
    }
  }
  return inputs;
}

int64_t rowElements(const InputInfo &input) {
  return input.elements() / input.shape.front();
}

Status InputTensors::check(const InputInfo &input, const std::string &flag,
                           std::optional<int64_t> sequences) {
  const TensorInfo *tensor = file_.find(input.name);
  std::vector<int64_t> wanted = input.shape;
  std::string rows;
  if (input.isBatched) {
    wanted.front() = sequences.value_or(
        tensor && !tensor->shape.empty() ? tensor->shape.front() : 1);
    rows = ", one row per sequence of the data";
  }
  if (!tensor)
    return Status::badInput(
        file_.path() + ": has no tensor " + inQuotes(input.name) +
        ", expected a tensor of shape " + shapeText(wanted) + rows +
        ", because the model declares an input with this name; write the "
        "tensor to the file that " +
        flag + " names");
  if (tensor->shape != wanted)
    return Status::badInput(file_.path() + ": tensor " + inQuotes(input.name) +
                            " has shape " + shapeText(tensor->shape) +
                            ", expected " + shapeText(wanted) + rows);
  if (!isConvertible(tensor->type, input.type))
    return Status::badInput(file_.path() + ": tensor " + inQuotes(input.name) +
                            " has type " +
                            std::string(infoOf(tensor->type).fileName) +
                            ", expected a type that converts to " +
                            std::string(infoOf(input.type).name));
  if (input.isBatched)
    return Status();
  std::vector<char> &bytes = constants_[input.name];
  bytes.resize(size_t(input.bytes()));
  return file_.read(input.name, input.type, bytes.data(), bytes.size());
}

Result<InputTensors> InputTensors::open(const std::string &path,
                                        const std::string &flag,
                                        const std::vector<InputInfo> &inputs,
                                        std::optional<int64_t> sequences) {
  if (inputs.empty())
    return Status(ExitCode::Usage, flag + "=" + path +
                                       " gives values of inputs, but the model "
                                       "declares none; leave it out");
  Result<SafeTensorsFile> file = SafeTensorsFile::open(path);
  if (!file.ok())
    return file.status();
  InputTensors tensors(std::move(*file));
  for (const InputInfo &input : inputs)
    if (Status status = tensors.check(input, flag, sequences); !status.ok())
      return status;
  return tensors;
}

Status openInputTensors(const std::string &path, const std::string &flag,
                        const Description &description,
                        const std::vector<std::string> &programs,
                        const std::optional<TokenFile> &data, int64_t length,
                        std::optional<InputTensors> &file) {
  Result<std::vector<InputInfo>> inputs = declaredInputs(description, programs);
  if (!inputs.ok())
    return inputs.status();
  if (path.empty() && inputs->empty())
    return Status();
  if (path.empty()) {
    std::string list;
    for (const InputInfo &input : *inputs)
      list += (list.empty() ? "" : ", ") + inQuotes(input.name);
    return Status(ExitCode::Usage, "the model declares the inputs " + list +
                                       ": give a file with their tensors by " +
                                       flag + "=FILE.safetensors");
  }
  std::optional<int64_t> sequences;
  if (data)
    sequences = data->sequencesPerEpoch(length);
  Result<InputTensors> opened =
      InputTensors::open(path, flag, *inputs, sequences);
  if (!opened.ok())
    return opened.status();
  file.emplace(std::move(*opened));
  return Status();
}

void InputTensors::copy(const InputInfo &input, char *data) const {
  const std::vector<char> &bytes = constants_.at(input.name);
  std::memcpy(data, bytes.data(), bytes.size());
}

Status InputTensors::readRow(const InputInfo &input, int64_t sequence,
                             char *data) const {
  int64_t elements = rowElements(input);
  return file_.readElements(*file_.find(input.name), sequence * elements,
                            elements, input.type, data);
}

Result<std::string> InputTensors::identity() const {
  constexpr int64_t kSamples = 64, kSampleElements = 64;
  StreamHash hash;
  char bytes[kSampleElements * 8];
  for (const TensorInfo &tensor : file_.tensors()) {
    std::string header = tensor.name + " " +
                         std::string(infoOf(tensor.type).fileName) + " " +
                         shapeText(tensor.shape) + "\n";
    hash.update(header.data(), header.size());
    if (!isConvertible(tensor.type, tensor.type))
      continue;
    int64_t step = std::max<int64_t>(tensor.elements / kSamples, 1);
    for (int64_t first = 0; first < tensor.elements; first += step) {
      int64_t count =
          std::min({kSampleElements, step, tensor.elements - first});
      if (Status status =
              file_.readElements(tensor, first, count, tensor.type, bytes);
          !status.ok())
        return status;
      hash.update(bytes, size_t(bytesOf(tensor.type, count)));
    }
  }
  return hash.hex();
}

} // namespace kiln::runtime
