//===- StepTensors.cpp - Tensors of a step by name ------------------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "StepTensors.h"

#include "States.h"
#include "kiln/Support/ElementConversion.h"
#include "kiln/Support/Hash.h"
#include "kiln/Support/Rng.h"
#include "kiln/Support/SafeTensors.h"

#include <algorithm>

using namespace kiln::support;

namespace kiln::runtime {

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

StepTensors::StepTensors(Engine &engine, size_t program)
    : engine_(engine), program_(program) {
  const Description &description = engine.description();
  auto add = [&](const ValueInfo &value, const char *role, const char *data,
                 size_t index) {
    StepTensor tensor;
    static_cast<ValueInfo &>(tensor) = value;
    tensor.role = role;
    tensor.data = data;
    tensor.index = index;
    if (data)
      places_.emplace(data, tensors_.size());
    tensors_.push_back(std::move(tensor));
  };
  for (size_t i = 0; i < description.states.size(); ++i)
    if (description.states[i].role != StateRole::Mirror &&
        description.states[i].isHere)
      add(description.states[i], roleName(description.states[i].role),
          engine.observedState(i), i);
  const std::vector<ValueInfo> &outputs = description.programs[program].outputs;
  for (size_t i = 0; i < outputs.size(); ++i)
    if (isGradient(outputs[i]))
      add(outputs[i], "gradient", engine.observedOutput(program, i), i);
}

Status
StepTensors::read(const StepTensor &tensor,
                  const std::function<Status(const char *)> &body) const {
  return tensor.isState()
             ? engine_.accessState(tensor.index, HostAccess::Read, body)
             : engine_.readGradient(program_, tensor.index, body);
}

size_t StepTensors::at(const char *data) const {
  auto found = places_.find(data);
  return found == places_.end() ? tensors_.size() : found->second;
}

Result<std::vector<std::string>> StepTensors::hashes() const {
  std::vector<std::string> result;
  for (const StepTensor &tensor : tensors_) {
    Status status = read(tensor, [&](const char *data) {
      StreamHash hash;
      hash.update(data, uint64_t(tensor.bytes()));
      result.push_back(hash.hex());
      return Status();
    });
    if (!status.ok())
      return status;
  }
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
    Status status = read(tensors_[i], [&](const char *data) {
      return writer->write(data, uint64_t(tensors_[i].bytes()));
    });
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
    const StepTensor &tensor = tensors_[i];
    Status status =
        engine_.accessState(tensor.index, HostAccess::Write, [&](char *data) {
          return file->read(tensor.name, tensor.type, data,
                            uint64_t(tensor.bytes()));
        });
    if (!status.ok())
      return status;
  }
  return copyMirrors(engine_);
}

Status StepTensors::keep() {
  copies_.resize(tensors_.size());
  for (size_t i = 0; i < tensors_.size(); ++i) {
    if (!tensors_[i].isState())
      continue;
    Status status = read(tensors_[i], [&](const char *data) {
      copies_[i].assign(data, data + tensors_[i].bytes());
      return Status();
    });
    if (!status.ok())
      return status;
  }
  return Status();
}

Status StepTensors::restore() {
  for (size_t i = 0; i < copies_.size(); ++i) {
    if (!tensors_[i].isState())
      continue;
    Status status = engine_.accessState(
        tensors_[i].index, HostAccess::Write, [&](char *data) {
          std::copy(copies_[i].begin(), copies_[i].end(), data);
          return Status();
        });
    if (!status.ok())
      return status;
  }
  return copyMirrors(engine_);
}

/// Multiplies each element of an f32 or f64 tensor by 1 + eps or 1 - eps,
/// pseudo-randomly.
template <typename T>
static void perturbElements(char *data, int64_t count, T eps) {
  T *values = reinterpret_cast<T *>(data);
  for (int64_t first = 0; first < count; first += 64) {
    uint64_t signs = splitmix64(uint64_t(first));
    for (int64_t i = first; i < std::min(first + 64, count); ++i)
      values[i] *= (signs >> (i - first) & 1) ? 1 + eps : 1 - eps;
  }
}

/// Multiplies each element of a tensor of an 8-bit or 16-bit float type by
/// 1 + eps or 1 - eps, pseudo-randomly.
static void perturbNarrow(char *data, const ValueInfo &tensor, double eps) {
  for (int64_t i = 0; i < tensor.elements(); ++i) {
    char *element = data + bytesOf(tensor.type) * i;
    double value;
    convertElements(tensor.type, element, ElementType::F64, &value, 1);
    value *= (splitmix64(uint64_t(i)) & 1) ? 1 + eps : 1 - eps;
    convertElements(ElementType::F64, &value, tensor.type, element, 1);
  }
}

/// Returns the relative rounding error of a weight. With mixed precision,
/// weights are cast to a narrower type, and the rounding error is that of the
/// narrower type.
static double roundingOf(ElementType type, const std::string &precision) {
  double eps = infoOf(type).spacingAtOne;
  if (auto low = lowPrecisionNamed(precision); eps > 0 && low)
    eps = std::max(eps, infoOf(*low).spacingAtOne);
  return eps;
}

static void perturbTensor(char *data, const ValueInfo &tensor, double eps) {
  if (tensor.type == ElementType::F32)
    perturbElements<float>(data, tensor.elements(), float(eps));
  else if (tensor.type == ElementType::F64)
    perturbElements<double>(data, tensor.elements(), eps);
  else if (infoOf(tensor.type).spacingAtOne > 0)
    perturbNarrow(data, tensor, eps);
}

Status StepTensors::perturb() {
  const Description &description = engine_.description();
  const std::vector<StateInfo> &states = description.states;
  for (const StepTensor &tensor : tensors_) {
    if (!tensor.isState() || !isWeight(states[tensor.index]))
      continue;
    double eps = roundingOf(tensor.type, description.build.precision);
    Status status =
        engine_.accessState(tensor.index, HostAccess::Update, [&](char *data) {
          perturbTensor(data, tensor, eps);
          return Status();
        });
    if (!status.ok())
      return status;
  }
  return copyMirrors(engine_);
}

} // namespace kiln::runtime
