//===- AttentionLibrary.h - Choice of cuDNN for attention -------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Decides, for each attention launch that a call of cuDNN is allowed to
// replace, whether to call cuDNN or to launch kiln's kernel. cuDNN is called if
// it can be loaded, the arguments are aligned, no result overlaps an operand,
// cuDNN has a plan within the workspace of the launch, and it passes
// AttentionCheck. Otherwise notice() gives the reason.
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
  /// Loads cuDNN from the first of `libraries` that exists. cuDNN queues its
  /// work on `stream`. `driver` must outlive this object.
  AttentionLibrary(const Driver &driver,
                   const std::vector<std::string> &libraries,
                   StreamHandle stream);

  /// Returns the cuDNN plan for a launch with these argument addresses and
  /// workspace, or null if the launch must use kiln's kernel. `kernel` queues
  /// kiln's kernel, whose results are compared with those of cuDNN. The first
  /// call for each distinct problem overwrites the arguments. Returns an error
  /// only if the device or kiln's kernel fails.
  Result<const DnnAttention *> choose(const abi::VendorAttention &attention,
                                      double scale,
                                      const std::vector<DevicePointer> &places,
                                      DevicePointer workspace,
                                      const std::function<Status()> &kernel);

  /// Returns a name such as "cuDNN 9.19.0", or an empty string if kiln's
  /// kernels compute all attention.
  std::string name() const;
  /// Returns a one-line message for the user if cuDNN was enabled but does not
  /// compute all attention, or if cuDNN computes gradients that are not
  /// deterministic. Otherwise returns std::nullopt.
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
  std::optional<Dnn> dnn_; ///< std::nullopt if cuDNN cannot be used.
  std::map<std::vector<int64_t>, Choice> choices_;
  /// The first reason not to use cuDNN, or an empty string.
  std::string why_;
};

} // namespace kiln::runtime::cuda

#endif // KILN_LIB_RUNTIME_CUDA_ATTENTIONLIBRARY_H
