//===- AttentionLibrary.h - Attention that cuDNN computes -------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Decides for every launch that may be cuDNN's whether it is: where the library
// is there, has a way within the launch's workspace, and computes what kiln's
// own kernel does. Otherwise that kernel runs, and notice() says why.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_LIB_RUNTIME_CUDA_ATTENTIONLIBRARY_H
#define KILN_LIB_RUNTIME_CUDA_ATTENTIONLIBRARY_H

#include "DnnAttention.h"
#include "Gpu.h"

#include <functional>
#include <map>
#include <optional>

namespace kiln::runtime::cuda {

class AttentionLibrary {
public:
  /// Looks for the library, whose calls go to `stream`. The driver outlives
  /// the result.
  AttentionLibrary(const Driver &driver,
                   const std::vector<std::string> &libraries,
                   StreamHandle stream);

  /// What computes a launch with these arguments and workspace; null: its
  /// kernel, which `kernel` queues. Fails where the device does. The first
  /// launch of each kind changes the bytes of its arguments.
  Result<const DnnAttention *> choose(const abi::VendorAttention &attention,
                                      double scale,
                                      const std::vector<DevicePointer> &places,
                                      DevicePointer workspace,
                                      const std::function<Status()> &kernel);

  /// "cuDNN 9.19.0", or nothing where no launch is the library's.
  std::string name() const;
  /// One line of what is not as was asked for.
  std::optional<std::string> notice() const;

private:
  struct Choice {
    std::optional<DnnAttention> attention;
  };
  Status decide(const abi::VendorAttention &attention, double scale,
                const std::vector<DevicePointer> &places,
                DevicePointer workspace, const std::function<Status()> &kernel,
                Choice &choice);
  void refuse(const std::string &why);

  const Driver &driver_;
  StreamHandle stream_;
  std::optional<Dnn> dnn_; ///< Started.
  std::map<std::vector<int64_t>, Choice> choices_;
  std::string why_; ///< The first reason why a kernel is kiln's.
};

} // namespace kiln::runtime::cuda

#endif // KILN_LIB_RUNTIME_CUDA_ATTENTIONLIBRARY_H
