//===- Dnn.cpp - Operation graphs through cuDNN ---------------------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Dnn.h"

using namespace kiln::runtime::cuda;
using namespace kiln::runtime;
using namespace kiln;

/// The oldest supported version of cuDNN. Older versions do not clear the
/// buffers in which they accumulate gradients.
static constexpr std::size_t oldestVersion = 90600;

Status Dnn::failure(int code, const char *function) const {
  const char *name = api_.cudnnGetErrorString.function(code);
  char text[256] = "";
  api_.cudnnGetLastErrorString.function(text, sizeof(text));
  text[sizeof(text) - 1] = '\0';
  std::string line = text;
  for (char &c : line)
    if (static_cast<unsigned char>(c) < ' ')
      c = ' ';
  return Status::error(
      "cuDNN's " + std::string(function) + " failed: " +
      (name ? std::string(name) : "status " + std::to_string(code)) +
      (line.empty() ? line : " (" + line + ")"));
}

Result<Dnn> Dnn::open(const std::vector<std::string> &libraries) {
  Result<Library> library = Library::open(libraries);
  if (!library.ok())
    return Status::error("cuDNN cannot be loaded: " +
                         library.status().message());
  Dnn dnn;
  const char *missing = nullptr;
  auto find = [&](auto &entry) {
    if (!library->find(entry) && !missing)
      missing = entry.name;
  };
#define KILN_DNN_FIND(symbol, ...) find(dnn.api_.symbol);
  KILN_DNN_FUNCTIONS(KILN_DNN_FIND)
#undef KILN_DNN_FIND
  if (missing)
    return Status::error(library->name() + " lacks " + missing);
  std::size_t version = dnn.api_.cudnnGetVersion.function();
  dnn.name_ = "cuDNN " + std::to_string(version / 10000) + "." +
              std::to_string(version % 10000 / 100) + "." +
              std::to_string(version % 100);
  if (version < oldestVersion)
    return Status::error(dnn.name_ + " is too old, expected 9.6 or newer");
  return dnn;
}

Status Dnn::start(StreamHandle stream) {
  DnnHandle handle = nullptr;
  Status status = call(api_.cudnnCreate, &handle);
  if (!status.ok())
    return status;
  handle_ = {handle, api_.cudnnDestroy};
  return call(api_.cudnnSetStream, handle, stream);
}

//===----------------------------------------------------------------------===//
// Descriptors
//===----------------------------------------------------------------------===//

DnnBuilder::DnnBuilder(const Dnn &dnn, dnn::Descriptor kind, Status status)
    : dnn_(dnn), status_(std::move(status)) {
  DnnDescriptor object = nullptr;
  if (status_.ok())
    status_ =
        dnn.call(dnn.api().cudnnBackendCreateDescriptor, int(kind), &object);
  if (status_.ok())
    object_ = {object, dnn.api().cudnnBackendDestroyDescriptor};
}

DnnBuilder &DnnBuilder::set(dnn::Attribute attribute, dnn::Type type,
                            int64_t count, const void *values) {
  if (status_.ok())
    status_ = dnn_.call(dnn_.api().cudnnBackendSetAttribute, object_.get(),
                        int(attribute), int(type), count, values);
  return *this;
}

Result<DnnObjectOwner> DnnBuilder::finalize() {
  if (status_.ok())
    status_ = dnn_.call(dnn_.api().cudnnBackendFinalize, object_.get());
  if (!status_.ok())
    return status_;
  return std::move(object_);
}

Result<DnnObjectOwner> DnnBuilder::unfinished() {
  if (!status_.ok())
    return status_;
  return std::move(object_);
}

//===----------------------------------------------------------------------===//
// Graphs
//===----------------------------------------------------------------------===//

DnnDescriptor DnnGraph::keep(DnnBuilder &builder) {
  if (!status_.ok())
    return nullptr;
  Result<DnnObjectOwner> object = builder.finalize();
  if (!object.ok()) {
    status_ = object.status();
    return nullptr;
  }
  objects_.push_back(std::move(*object));
  return objects_.back().get();
}

DnnGraph::Tensor DnnGraph::add(int64_t id, const Sizes &sizes,
                               const Sizes &strides, dnn::Data type,
                               bool isVirtual, bool isNumber) {
  // The alignment of tensor addresses, in bytes.
  constexpr int64_t alignment = 16;
  DnnBuilder builder(dnn_, dnn::Tensor, status_);
  builder.set(dnn::TensorType_, dnn::IsDataType, int(type))
      .set(dnn::TensorDimensions, dnn::IsInt64, 4, sizes.data())
      .set(dnn::TensorStrides, dnn::IsInt64, 4, strides.data())
      .set(dnn::TensorUniqueId, dnn::IsInt64, id)
      .set(dnn::TensorAlignment, dnn::IsInt64, alignment);
  if (isVirtual)
    builder.set(dnn::TensorIsVirtual, dnn::IsBoolean, true);
  if (isNumber)
    builder.set(dnn::TensorIsByValue, dnn::IsBoolean, true);
  tensors_.push_back(keep(builder));
  return int(tensors_.size() - 1);
}

DnnGraph::Tensor DnnGraph::inMemory(int64_t id, const Sizes &sizes,
                                    const Sizes &strides, dnn::Data type) {
  return add(id, sizes, strides, type, false, false);
}

DnnGraph::Tensor DnnGraph::number(int64_t id) {
  return add(id, {1, 1, 1, 1}, {1, 1, 1, 1}, dnn::F32, false, true);
}

DnnGraph::Tensor DnnGraph::between(const Sizes &sizes, dnn::Data type) {
  return between(
      sizes, {sizes[1] * sizes[2] * sizes[3], sizes[2] * sizes[3], sizes[3], 1},
      type);
}

DnnGraph::Tensor DnnGraph::between(const Sizes &sizes, const Sizes &strides,
                                   dnn::Data type) {
  return add(nextId_++, sizes, strides, type, true, false);
}

void DnnGraph::multiply(Tensor a, Tensor b, Tensor c) {
  DnnBuilder desc(dnn_, dnn::Matmul, status_);
  desc.set(dnn::MatmulType, dnn::IsDataType, int(dnn::F32));
  DnnDescriptor how = keep(desc);
  DnnBuilder operation(dnn_, dnn::OperationMatmul, status_);
  operation.set(dnn::OperationMatmulA, dnn::IsDescriptor, at(a))
      .set(dnn::OperationMatmulB, dnn::IsDescriptor, at(b))
      .set(dnn::OperationMatmulC, dnn::IsDescriptor, at(c))
      .set(dnn::OperationMatmulDesc, dnn::IsDescriptor, how);
  operations_.push_back(keep(operation));
}

void DnnGraph::pointwise(dnn::Mode mode, dnn::Data math, Tensor x, Tensor b,
                         Tensor y, Tensor t) {
  DnnBuilder desc(dnn_, dnn::Pointwise, status_);
  desc.set(dnn::PointwiseMode, dnn::IsPointwiseMode, int(mode))
      .set(dnn::PointwiseMathType, dnn::IsDataType, int(math));
  DnnDescriptor how = keep(desc);
  DnnBuilder operation(dnn_, dnn::OperationPointwise, status_);
  operation.set(dnn::OperationPointwiseDesc, dnn::IsDescriptor, how)
      .set(dnn::OperationPointwiseX, dnn::IsDescriptor, at(x));
  if (b >= 0)
    operation.set(dnn::OperationPointwiseB, dnn::IsDescriptor, at(b));
  if (t >= 0)
    operation.set(dnn::OperationPointwiseT, dnn::IsDescriptor, at(t));
  operation.set(dnn::OperationPointwiseY, dnn::IsDescriptor, at(y));
  operations_.push_back(keep(operation));
}

void DnnGraph::index(int64_t axis, Tensor x, Tensor y) {
  DnnBuilder desc(dnn_, dnn::Pointwise, status_);
  desc.set(dnn::PointwiseMode, dnn::IsPointwiseMode, int(dnn::GenIndex))
      .set(dnn::PointwiseMathType, dnn::IsDataType, int(dnn::F32))
      .set(dnn::PointwiseAxis, dnn::IsInt64, axis);
  DnnDescriptor how = keep(desc);
  DnnBuilder operation(dnn_, dnn::OperationPointwise, status_);
  operation.set(dnn::OperationPointwiseDesc, dnn::IsDescriptor, how)
      .set(dnn::OperationPointwiseX, dnn::IsDescriptor, at(x))
      .set(dnn::OperationPointwiseY, dnn::IsDescriptor, at(y));
  operations_.push_back(keep(operation));
}

void DnnGraph::reduce(dnn::Reduce what, Tensor x, Tensor y) {
  DnnBuilder desc(dnn_, dnn::Reduction, status_);
  desc.set(dnn::ReductionOperator, dnn::IsReductionOperator, int(what))
      .set(dnn::ReductionType, dnn::IsDataType, int(dnn::F32));
  DnnDescriptor how = keep(desc);
  DnnBuilder operation(dnn_, dnn::OperationReduction, status_);
  operation.set(dnn::OperationReductionX, dnn::IsDescriptor, at(x))
      .set(dnn::OperationReductionY, dnn::IsDescriptor, at(y))
      .set(dnn::OperationReductionDesc, dnn::IsDescriptor, how);
  operations_.push_back(keep(operation));
}

void DnnGraph::reshape(Tensor x, Tensor y) {
  DnnBuilder operation(dnn_, dnn::OperationReshape, status_);
  operation.set(dnn::OperationReshapeX, dnn::IsDescriptor, at(x))
      .set(dnn::OperationReshapeY, dnn::IsDescriptor, at(y));
  operations_.push_back(keep(operation));
}

Status DnnGraph::finish() {
  if (!status_.ok())
    return status_;
  DnnBuilder builder(dnn_, dnn::OperationGraph, status_);
  DnnHandle handle = dnn_.handle();
  if (handle)
    builder.set(dnn::GraphHandle_, dnn::IsHandle, handle);
  builder.set(dnn::GraphOperations, dnn::IsDescriptor,
              int64_t(operations_.size()), operations_.data());
  graph_ = keep(builder);
  return status_;
}

//===----------------------------------------------------------------------===//
// Plans
//===----------------------------------------------------------------------===//

/// Creates a plan. Returns an error if the engine does not support the graph or
/// the device, or needs too much workspace.
Status DnnGraph::planOf(DnnDescriptor config, int64_t mostBytes,
                        DnnPlan &plan) const {
  DnnBuilder builder(dnn_, dnn::ExecutionPlan);
  DnnHandle handle = dnn_.handle();
  builder.set(dnn::PlanHandle, dnn::IsHandle, handle)
      .set(dnn::PlanConfig, dnn::IsDescriptor, config);
  Result<DnnObjectOwner> object = builder.finalize();
  if (!object.ok())
    return object.status();
  int64_t count = 0;
  const auto &get = dnn_.api().cudnnBackendGetAttribute;
  Status status =
      dnn_.call(get, object->get(), int(dnn::PlanWorkspace), int(dnn::IsInt64),
                int64_t(1), &count, static_cast<void *>(&plan.workspaceBytes));
  if (!status.ok())
    return status;
  if (count != 1 || plan.workspaceBytes < 0 || plan.workspaceBytes > mostBytes)
    return Status::error("the computation needs a workspace of " +
                         std::to_string(plan.workspaceBytes) +
                         " bytes, but the limit is " +
                         std::to_string(mostBytes));
  plan.plan = std::move(*object);

  // Query the numerical notes (cudnnBackendNumericalNote_t) of the engine.
  DnnBuilder empty(dnn_, dnn::Engine);
  Result<DnnObjectOwner> engine = empty.unfinished();
  if (!engine.ok())
    return engine.status();
  DnnDescriptor place = engine->get();
  status = dnn_.call(get, config, int(dnn::EngineConfigEngine),
                     int(dnn::IsDescriptor), int64_t(1), &count,
                     static_cast<void *>(&place));
  int notes[dnn::numericalNotes] = {};
  count = 0;
  if (status.ok())
    status = dnn_.call(get, place, int(dnn::EngineNumericalNotes),
                       int(dnn::IsNumericalNote), int64_t(dnn::numericalNotes),
                       &count, static_cast<void *>(notes));
  // If the query fails, assume that the engine is nondeterministic.
  plan.isDeterministic = status.ok();
  for (int64_t i = 0; i < count && i < dnn::numericalNotes; ++i)
    plan.isDeterministic &= notes[i] != dnn::nondeterministic;
  return Status();
}

Result<DnnPlan> DnnGraph::plan(int64_t mostBytes) const {
  constexpr int64_t mostProposals = 16;
  Status why = Status::error("cuDNN has no engine for this graph");
  for (int mode : {dnn::heuristicsA, dnn::heuristicsFallback}) {
    DnnBuilder builder(dnn_, dnn::EngineHeuristics);
    builder.set(dnn::HeuristicsGraph, dnn::IsDescriptor, graph_)
        .set(dnn::HeuristicsMode, dnn::IsHeuristicsMode, mode);
    Result<DnnObjectOwner> heuristics = builder.finalize();
    if (!heuristics.ok()) {
      why = heuristics.status();
      continue;
    }
    std::vector<DnnObjectOwner> configs;
    std::vector<DnnDescriptor> places;
    for (int64_t i = 0; i < mostProposals; ++i) {
      DnnBuilder empty(dnn_, dnn::EngineConfig);
      Result<DnnObjectOwner> config = empty.unfinished();
      if (!config.ok())
        return config.status();
      places.push_back(config->get());
      configs.push_back(std::move(*config));
    }
    int64_t count = 0;
    Status status =
        dnn_.call(dnn_.api().cudnnBackendGetAttribute, heuristics->get(),
                  int(dnn::HeuristicsResults), int(dnn::IsDescriptor),
                  mostProposals, &count, static_cast<void *>(places.data()));
    if (!status.ok()) {
      why = status;
      continue;
    }
    for (std::size_t i = 0; i < configs.size() && int64_t(i) < count; ++i) {
      DnnPlan plan;
      why = planOf(configs[i].get(), mostBytes, plan);
      if (why.ok()) {
        plan.config = std::move(configs[i]);
        return plan;
      }
    }
  }
  return why;
}
