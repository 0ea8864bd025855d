//===- DnnAttention.h - Fused attention through cuDNN -----------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// cuDNN recognises attention in a graph of matmuls, reductions and elementwise
// operations, and executes it as a fused kernel that never stores the whole
// score matrix. The graphs follow NVIDIA's cudnn-frontend, since cuDNN fuses no
// other patterns.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_LIB_RUNTIME_CUDA_DNNATTENTION_H
#define KILN_LIB_RUNTIME_CUDA_DNNATTENTION_H

#include "Dnn.h"
#include "kiln/Abi/VendorAttention.h"

#include <memory>
#include <vector>

namespace kiln::runtime::cuda {

class DnnAttention {
public:
  /// Builds the graph, but no execution plan. Needs no device. `dnn` must
  /// outlive the result.
  static Result<DnnAttention>
  describe(const Dnn &dnn, const abi::VendorAttention &attention, double scale);
  /// Builds the graph and an execution plan that needs no more workspace than
  /// attentionWorkspaceBytes(). `dnn` must be started and must outlive the
  /// result.
  static Result<DnnAttention>
  plan(const Dnn &dnn, const abi::VendorAttention &attention, double scale);

  /// Queues the attention or its gradient on the GPU. `arguments` are the
  /// device addresses of the launch's arguments, in the order of
  /// VendorAttention.
  Status run(const std::vector<DevicePointer> &arguments,
             DevicePointer workspace) const;
  bool isDeterministic() const { return plan_.isDeterministic; }

private:
  explicit DnnAttention(const Dnn &dnn)
      : dnn_(&dnn), graph_(std::make_unique<DnnGraph>(dnn)) {}
  void describeForward();
  void describeGradient();

  // These functions add parts of the forward graph or of the gradient graph, or
  // of both.
  using Tensor = DnnGraph::Tensor;
  Tensor matrix(int64_t id, std::size_t index, bool transposed);
  Tensor rowValues(int64_t id);
  Tensor logits(Tensor q, Tensor keys, Tensor scale);
  Tensor masked(Tensor logits);
  Tensor scores();
  Tensor pointwise(dnn::Mode mode, Tensor x, Tensor b = -1);
  Tensor perRow();
  Tensor transposed(Tensor scores);
  void keyGrad(Tensor scores, Tensor rows, int64_t id, std::size_t index);

  const Dnn *dnn_;
  abi::VendorAttention attention_;
  float scale_ = 1;
  std::unique_ptr<DnnGraph> graph_;
  DnnPlan plan_;
};

} // namespace kiln::runtime::cuda

#endif // KILN_LIB_RUNTIME_CUDA_DNNATTENTION_H
