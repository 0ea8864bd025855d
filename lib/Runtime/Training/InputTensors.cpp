//===- InputTensors.cpp - Inputs that a model declares --------------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "InputTensors.h"
#include "../Files/Hash.h"
#include "kiln/Runtime/Files/Messages.h"
#include "kiln/Support/ElementConversion.h"
#include <algorithm>
#include <cstring>

namespace kiln {

std::vector<std::string> declaredInputs(const Description &description) {
  std::vector<std::string> names;
  for (const ProgramInfo &program : description.programs)
    for (const InputInfo &input : program.inputs)
      if (input.isData &&
          std::find(names.begin(), names.end(), input.name) == names.end())
        names.push_back(input.name);
  return names;
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
    return Status::badInput(file_.path() + ": has no tensor " +
                            inQuotes(input.name) + ", expected one of shape " +
                            shapeText(wanted) + rows +
                            ", because the model declares that input; write "
                            "it to the file that " +
                            flag + " names");
  if (tensor->shape != wanted)
    return Status::badInput(file_.path() + ": tensor " + inQuotes(input.name) +
                            " has shape " + shapeText(tensor->shape) +
                            ", expected " + shapeText(wanted) + rows);
  if (!isConvertible(tensor->type, input.type))
    return Status::badInput(file_.path() + ": tensor " + inQuotes(input.name) +
                            " has type " +
                            std::string(infoOf(tensor->type).fileName) +
                            ", expected numbers that convert to " +
                            std::string(infoOf(input.type).name));
  if (input.isBatched)
    return Status();
  std::vector<char> &bytes = constants_[input.name];
  bytes.resize(size_t(input.bytes()));
  return file_.read(input.name, input.type, bytes.data(), bytes.size());
}

Result<InputTensors> InputTensors::open(const std::string &path,
                                        const std::string &flag,
                                        const Description &description,
                                        std::optional<int64_t> sequences) {
  if (declaredInputs(description).empty())
    return Status(ExitCode::Usage, flag + "=" + path +
                                       " gives values of inputs, but the model "
                                       "declares none; leave it out");
  Result<SafeTensorsFile> file = SafeTensorsFile::open(path);
  if (!file.ok())
    return file.status();
  InputTensors tensors(std::move(*file));
  for (const ProgramInfo &program : description.programs)
    for (const InputInfo &input : program.inputs)
      if (input.isData)
        if (Status status = tensors.check(input, flag, sequences); !status.ok())
          return status;
  return tensors;
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

} // namespace kiln
