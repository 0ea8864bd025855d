//===- StepTensors.cpp - What a step leaves behind, by name ---------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "StepTensors.h"

#include "../Files/Hash.h"
#include "States.h"
#include "kiln/Runtime/Files/Rng.h"
#include "kiln/Runtime/Files/SafeTensors.h"

#include <algorithm>

namespace kiln {

static const char *roleName(StateRole role) {
  switch (role) {
  case StateRole::Parameter:
    return "parameter";
  case StateRole::Buffer:
    return "buffer";
  case StateRole::Constant:
    return "constant";
  case StateRole::Optimizer:
    return "optimizer";
  case StateRole::Mirror:
    return "mirror";
  }
  return "state";
}

StepTensors::StepTensors(Engine &engine, size_t program) : engine_(engine) {
  const Description &description = engine.description();
  auto add = [&](const ValueInfo &value, const char *role, char *data,
                 size_t state) {
    StepTensor tensor;
    tensor.state = state;
    static_cast<ValueInfo &>(tensor) = value;
    tensor.role = role;
    tensor.data = data;
    places_.emplace(data, tensors_.size());
    tensors_.push_back(std::move(tensor));
  };
  for (size_t i = 0; i < description.states.size(); ++i)
    if (description.states[i].role != StateRole::Mirror)
      add(description.states[i], roleName(description.states[i].role),
          engine.stateData(i), i);
  const std::vector<ValueInfo> &outputs = description.programs[program].outputs;
  for (size_t i = 0; i < outputs.size(); ++i)
    if (outputs[i].name.rfind("gradient:", 0) == 0)
      add(outputs[i], "gradient", engine.outputData(program, i), 0);
}

size_t StepTensors::at(const char *data) const {
  auto found = places_.find(data);
  return found == places_.end() ? tensors_.size() : found->second;
}

std::vector<std::string> StepTensors::hashes() const {
  std::vector<std::string> result(tensors_.size());
  engine_.forEachPart(int64_t(tensors_.size()),
                      [&](int64_t begin, int64_t end) {
                        for (int64_t i = begin; i < end; ++i) {
                          StreamHash hash;
                          hash.update(tensors_[size_t(i)].data,
                                      uint64_t(tensors_[size_t(i)].bytes()));
                          result[size_t(i)] = hash.hex();
                        }
                      });
  return result;
}

Status StepTensors::save(const std::string &path,
                         const std::vector<size_t> &indexes) const {
  std::vector<TensorDeclaration> declarations;
  for (size_t i : indexes)
    declarations.push_back(
        {tensors_[i].name, tensors_[i].type, tensors_[i].shape});
  Result<SafeTensorsWriter> writer =
      SafeTensorsWriter::create(path, std::move(declarations));
  if (!writer.ok())
    return writer.status();
  for (size_t i : indexes) {
    Status status =
        writer->write(tensors_[i].data, uint64_t(tensors_[i].bytes()));
    if (!status.ok())
      return status;
  }
  return writer->finish();
}

Status StepTensors::load(const std::string &path,
                         const std::vector<size_t> &indexes) {
  Result<SafeTensorsFile> file = SafeTensorsFile::open(path);
  if (!file.ok())
    return file.status();
  for (size_t i : indexes) {
    if (!tensors_[i].isState())
      continue;
    Status status = file->read(tensors_[i].name, tensors_[i].type,
                               tensors_[i].data, uint64_t(tensors_[i].bytes()));
    if (!status.ok())
      return status;
  }
  copyMirrors(engine_);
  return Status();
}

void StepTensors::keep() {
  copies_.resize(tensors_.size());
  for (size_t i = 0; i < tensors_.size(); ++i)
    if (tensors_[i].isState())
      copies_[i].assign(tensors_[i].data,
                        tensors_[i].data + tensors_[i].bytes());
}

void StepTensors::restore() {
  for (size_t i = 0; i < copies_.size(); ++i)
    std::copy(copies_[i].begin(), copies_[i].end(), tensors_[i].data);
  copyMirrors(engine_);
}

/// Moves every element of a tensor of floats.
template <typename T> static void perturbElements(StepTensor &tensor, T eps) {
  T *values = reinterpret_cast<T *>(tensor.data);
  int64_t count = tensor.elements();
  for (int64_t first = 0; first < count; first += 64) {
    uint64_t signs = splitmix64(uint64_t(first));
    for (int64_t i = first; i < std::min(first + 64, count); ++i)
      values[i] *= (signs >> (i - first) & 1) ? 1 + eps : 1 - eps;
  }
}

/// The same for a type that C++ does not have.
static void perturbNarrow(StepTensor &tensor, double eps) {
  for (int64_t i = 0; i < tensor.elements(); ++i) {
    char *element = tensor.data + 2 * i;
    double value;
    convertElements(tensor.type, element, TensorType::F64, &value, 1);
    value *= (splitmix64(uint64_t(i)) & 1) ? 1 + eps : 1 - eps;
    convertElements(TensorType::F64, &value, tensor.type, element, 1);
  }
}

void StepTensors::perturb() {
  const std::vector<StateInfo> &states = engine_.description().states;
  for (StepTensor &tensor : tensors_) {
    if (!tensor.isState() || !isWeight(states[tensor.state]))
      continue;
    double eps = spacingAtOne(tensor.type);
    if (tensor.type == TensorType::F32)
      perturbElements<float>(tensor, float(eps));
    else if (tensor.type == TensorType::F64)
      perturbElements<double>(tensor, eps);
    else if (eps > 0)
      perturbNarrow(tensor, eps);
  }
  copyMirrors(engine_);
}

} // namespace kiln
