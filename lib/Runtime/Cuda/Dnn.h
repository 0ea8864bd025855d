//===- Dnn.h - Graphs of operations through cuDNN ---------------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A graph says what is computed; the library knows engines for some graphs, and
// a plan is one of them. Nothing here is needed to train: whoever asks has a
// kernel of kiln's own, and says why it is used instead.
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
  /// Opens the first of `libraries`, without a device.
  static Result<Dnn> open(const std::vector<std::string> &libraries);
  /// Makes a handle of the current context, whose calls go to `stream`.
  Status start(StreamHandle stream);

  /// "cuDNN 9.19.0".
  const std::string &name() const { return name_; }
  const DnnApi &api() const { return api_; }
  /// Null before start().
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

/// A descriptor that takes its attributes one by one. The first failure stays.
class DnnBuilder {
public:
  /// Does nothing where `status` is a failure.
  DnnBuilder(const Dnn &dnn, dnn::Descriptor kind, Status status = Status());

  template <typename T>
  DnnBuilder &set(dnn::Attribute attribute, dnn::Type type, const T &value) {
    return set(attribute, type, 1, &value);
  }
  DnnBuilder &set(dnn::Attribute attribute, dnn::Type type, int64_t count,
                  const void *values);
  /// The finished descriptor.
  Result<DnnObjectOwner> finalize();
  /// One that the library itself fills.
  Result<DnnObjectOwner> unfinished();

private:
  const Dnn &dnn_;
  DnnObjectOwner object_;
  Status status_;
};

/// How a graph is computed.
struct DnnPlan {
  DnnObjectOwner config, plan;
  int64_t workspaceBytes = 0;
  /// Whether equal runs give equal bits, as far as the library says.
  bool isDeterministic = true;
};

/// A graph under construction; the first failure stays.
class DnnGraph {
public:
  using Sizes = std::array<int64_t, 4>;
  /// A tensor of the graph; -1: none.
  using Tensor = int;

  explicit DnnGraph(const Dnn &dnn) : dnn_(dnn) {}

  /// In memory, at the address that execute() is given for `id`.
  Tensor inMemory(int64_t id, const Sizes &sizes, const Sizes &strides,
                  dnn::Data type);
  /// A number, which execute() is given in the same way, on the host.
  Tensor number(int64_t id);
  /// Nowhere in memory: dense, or with the strides given.
  Tensor between(const Sizes &sizes, dnn::Data type);
  Tensor between(const Sizes &sizes, const Sizes &strides, dnn::Data type);

  void multiply(Tensor a, Tensor b, Tensor c);
  void pointwise(dnn::Mode mode, dnn::Data math, Tensor x, Tensor b, Tensor y,
                 Tensor t = -1);
  /// y = the index along `axis`.
  void index(int64_t axis, Tensor x, Tensor y);
  void reduce(dnn::Reduce what, Tensor x, Tensor y);
  /// y is x with other sizes and strides.
  void reshape(Tensor x, Tensor y);

  /// Checks the whole; needs no device.
  Status finish();
  /// The first way that the library proposes and that needs no more than
  /// `mostBytes` of workspace. Needs a handle.
  Result<DnnPlan> plan(int64_t mostBytes) const;

private:
  Tensor add(int64_t id, const Sizes &sizes, const Sizes &strides,
             dnn::Data type, bool isVirtual, bool isNumber);
  /// Keeps what a builder has made; null after a failure.
  DnnDescriptor keep(DnnBuilder &builder);
  DnnDescriptor at(Tensor tensor) const {
    return tensors_[std::size_t(tensor)];
  }
  Status planOf(DnnDescriptor config, int64_t mostBytes, DnnPlan &plan) const;

  const Dnn &dnn_;
  std::vector<DnnObjectOwner> objects_;
  std::vector<DnnDescriptor> tensors_, operations_;
  DnnDescriptor graph_ = nullptr;
  int64_t nextId_ = 1000; ///< Behind those of the callers.
  Status status_;
};

} // namespace kiln::runtime::cuda

#endif // KILN_LIB_RUNTIME_CUDA_DNN_H
