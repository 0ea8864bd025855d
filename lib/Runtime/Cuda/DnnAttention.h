//===- DnnAttention.h - Attention as one kernel of cuDNN --------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The library recognises attention in a graph of products, sums and elementwise
// operations, whose results it never keeps whole. The graphs are those of
// NVIDIA's cudnn-frontend, since others are computed in no fused way.
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
  /// The graph alone, which needs no device. `dnn` must outlive the result.
  static Result<DnnAttention>
  describe(const Dnn &dnn, const abi::VendorAttention &attention, double scale);
  /// A graph with the way to compute it, in attentionWorkspaceBytes(). `dnn` is
  /// started.
  static Result<DnnAttention>
  plan(const Dnn &dnn, const abi::VendorAttention &attention, double scale);

  /// `arguments` as the launch has them.
  Status run(const std::vector<DevicePointer> &arguments,
             DevicePointer workspace) const;
  bool isDeterministic() const { return plan_.isDeterministic; }

private:
  explicit DnnAttention(const Dnn &dnn)
      : dnn_(&dnn), graph_(std::make_unique<DnnGraph>(dnn)) {}
  void describeForward();
  void describeGradient();

  // Parts of both graphs.
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
