//===- Dnn.h - Operation graphs through cuDNN -------------------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Builds operation graphs with cuDNN's backend API. cuDNN proposes engines for
// a finished graph, and an execution plan selects one of these engines. cuDNN
// is optional: if a graph has no execution plan, the caller launches a kernel
// of kiln instead and reports the reason.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_LIB_RUNTIME_CUDA_DNN_H
#define KILN_LIB_RUNTIME_CUDA_DNN_H

#include "DnnApi.h"
#include "Driver.h"

#include <array>
#include <string>
#include <vector>

namespace kiln::runtime::cuda {

using DnnObjectOwner = Owned<DnnDescriptor>;

class Dnn {
public:
  /// Loads the first of `libraries` that exists. Needs no device.
  static Result<Dnn> open(const std::vector<std::string> &libraries);
  /// Creates a handle in the current context. Calls with this handle are queued
  /// on `stream`.
  Status start(StreamHandle stream);

  /// Returns the name and version, such as "cuDNN 9.19.0".
  const std::string &name() const { return name_; }
  const DnnApi &api() const { return api_; }
  /// Returns the cuDNN handle, or null before start().
  DnnHandle handle() const { return handle_.get(); }

  template <typename... Parameters, typename... Arguments>
  Status call(const Entry<int(Parameters...)> &entry,
              Arguments... arguments) const {
    int code = entry.function(arguments...);
    return code == 0 ? Status() : failure(code, entry.name);
  }

private:
  Dnn() = default;
  Status failure(int code, const char *function) const;

  DnnApi api_;
  std::string name_;
  Owned<DnnHandle> handle_;
};

/// Builds a descriptor by setting its attributes one by one. The first error is
/// sticky.
class DnnBuilder {
public:
  /// Creates a descriptor. If `status` is an error, set() has no effect, and
  /// finalize() and unfinished() return the error.
  DnnBuilder(const Dnn &dnn, dnn::Descriptor kind, Status status = Status());

  template <typename T>
  DnnBuilder &set(dnn::Attribute attribute, dnn::Type type, const T &value) {
    return set(attribute, type, 1, &value);
  }
  DnnBuilder &set(dnn::Attribute attribute, dnn::Type type, int64_t count,
                  const void *values);
  /// Finalizes and returns the descriptor.
  Result<DnnObjectOwner> finalize();
  /// Returns the descriptor without finalizing it, to be filled by
  /// cudnnBackendGetAttribute.
  Result<DnnObjectOwner> unfinished();

private:
  const Dnn &dnn_;
  DnnObjectOwner object_;
  Status status_;
};

/// The execution plan of a graph.
struct DnnPlan {
  DnnObjectOwner config, plan;
  int64_t workspaceBytes = 0;
  /// False if the engine reports that it is nondeterministic, or if the query
  /// of the engine's numerical notes fails.
  bool isDeterministic = true;
};

/// A graph under construction. The first error is sticky.
class DnnGraph {
public:
  using Sizes = std::array<int64_t, 4>;
  /// The index of a tensor in tensors_, or -1 for no tensor.
  using Tensor = int;

  explicit DnnGraph(const Dnn &dnn) : dnn_(dnn) {}

  /// Adds a tensor in device memory. At execution, the variant pack contains
  /// the address of the tensor under the id `id`.
  Tensor inMemory(int64_t id, const Sizes &sizes, const Sizes &strides,
                  dnn::Data type);
  /// Adds an f32 scalar in host memory. At execution, the variant pack contains
  /// the address of the scalar under the id `id`.
  Tensor number(int64_t id);
  /// Adds a virtual tensor, that is, an intermediate result without an address
  /// in the variant pack. The tensor is contiguous unless `strides` are given.
  Tensor between(const Sizes &sizes, dnn::Data type);
  Tensor between(const Sizes &sizes, const Sizes &strides, dnn::Data type);

  void multiply(Tensor a, Tensor b, Tensor c);
  void pointwise(dnn::Mode mode, dnn::Data math, Tensor x, Tensor b, Tensor y,
                 Tensor t = -1);
  /// Sets each element of y to its index along `axis`.
  void index(int64_t axis, Tensor x, Tensor y);
  void reduce(dnn::Reduce what, Tensor x, Tensor y);
  /// Makes y a view of the elements of x with the sizes and strides of y.
  void reshape(Tensor x, Tensor y);

  /// Finalizes the graph. Needs no device.
  Status finish();
  /// Returns the first of the plans proposed by cuDNN that needs at most
  /// `mostBytes` bytes of workspace. Requires Dnn::start().
  Result<DnnPlan> plan(int64_t mostBytes) const;

private:
  Tensor add(int64_t id, const Sizes &sizes, const Sizes &strides,
             dnn::Data type, bool isVirtual, bool isNumber);
  /// Finalizes a descriptor and stores it in objects_. Returns null after an
  /// error.
  DnnDescriptor keep(DnnBuilder &builder);
  DnnDescriptor at(Tensor tensor) const {
    return tensors_[std::size_t(tensor)];
  }
  Status planOf(DnnDescriptor config, int64_t mostBytes, DnnPlan &plan) const;

  const Dnn &dnn_;
  std::vector<DnnObjectOwner> objects_;
  std::vector<DnnDescriptor> tensors_, operations_;
  DnnDescriptor graph_ = nullptr;
  /// The id of the next virtual tensor. Callers use only ids below 1000.
  int64_t nextId_ = 1000;
  Status status_;
};

} // namespace kiln::runtime::cuda

#endif // KILN_LIB_RUNTIME_CUDA_DNN_H
