//===- DnnAttention.cpp - Fused attention through cuDNN -------------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "DnnAttention.h"

#include <limits>

using namespace kiln::abi;
using namespace kiln::runtime::cuda;
using namespace kiln::runtime;
using namespace kiln;

namespace {

/// The ids of the tensors in the variant pack. The ids Q to Dv belong to the
/// arguments of the launch, in order.
enum Id : int64_t {
  Q = 1,
  K,
  V,
  O,
  Lse,
  Dout,
  Dq,
  Dk,
  Dv,
  QueryGrads, ///< The f32 accumulator of dq.
  RowSums,
  Scale,
  One,
  MinusInfinity
};

} // namespace

//===----------------------------------------------------------------------===//
// Parts of graphs
//===----------------------------------------------------------------------===//

/// Adds a matrix argument. Its dimensions are [sequence, head, row, element].
/// If `transposed`, the last two dimensions are swapped.
DnnGraph::Tensor DnnAttention::matrix(int64_t id, std::size_t index,
                                      bool transposed) {
  int64_t d = attention_.headDim, stride = attention_.strides[index];
  DnnGraph::Sizes sizes = {attention_.sequences, attention_.columns(index) / d,
                           attention_.length, d};
  DnnGraph::Sizes strides = {attention_.length * stride, d, stride, 1};
  if (transposed) {
    std::swap(sizes[2], sizes[3]);
    std::swap(strides[2], strides[3]);
  }
  return graph_->inMemory(id, sizes, strides, dnn::BF16);
}

/// Adds an f32 tensor in device memory with one value per row of the score
/// matrices.
DnnGraph::Tensor DnnAttention::rowValues(int64_t id) {
  int64_t h = attention_.heads, t = attention_.length;
  return graph_->inMemory(id, {attention_.sequences, h, t, 1}, {h * t, t, 1, 1},
                          dnn::F32);
}

DnnGraph::Tensor DnnAttention::scores() {
  return graph_->between({attention_.sequences, attention_.heads,
                          attention_.length, attention_.length},
                         dnn::F32);
}

DnnGraph::Tensor DnnAttention::perRow() {
  return graph_->between(
      {attention_.sequences, attention_.heads, attention_.length, 1}, dnn::F32);
}

DnnGraph::Tensor DnnAttention::pointwise(dnn::Mode mode, Tensor x, Tensor b) {
  Tensor y = scores();
  graph_->pointwise(mode, dnn::F32, x, b, y);
  return y;
}

DnnGraph::Tensor DnnAttention::logits(Tensor q, Tensor keys, Tensor scale) {
  Tensor product = scores();
  graph_->multiply(q, keys, product);
  return pointwise(dnn::Mul, product, scale);
}

/// If attention is causal, sets the logits of all keys after the query to
/// -infinity.
DnnGraph::Tensor DnnAttention::masked(Tensor logits) {
  if (!attention_.causal)
    return logits;
  DnnGraph::Sizes sizes = {attention_.sequences, attention_.heads,
                           attention_.length, attention_.length};
  Tensor row = graph_->between(sizes, dnn::I32);
  Tensor column = graph_->between(sizes, dnn::I32);
  Tensor looks = graph_->between(sizes, dnn::Boolean);
  Tensor result = scores();
  graph_->index(2, logits, row);
  graph_->index(3, logits, column);
  graph_->pointwise(dnn::GreaterEqual, dnn::Boolean, row, column, looks);
  graph_->pointwise(dnn::Select, dnn::F32, logits,
                    graph_->number(MinusInfinity), result, looks);
  return result;
}

/// Adds the transposed scores in bf16 to the graph, as an operand of a matmul.
DnnGraph::Tensor DnnAttention::transposed(Tensor scores) {
  int64_t h = attention_.heads, t = attention_.length;
  Tensor result = graph_->between({attention_.sequences, h, t, t},
                                  {h * t * t, t * t, 1, t}, dnn::BF16);
  graph_->reshape(scores, result);
  return result;
}

/// Computes the key or value gradient as the matmul of the transposed `scores`
/// and `rows`. If several query heads share a key head, the gradients of these
/// query heads are added.
void DnnAttention::keyGrad(Tensor scores, Tensor rows, int64_t id,
                           std::size_t index) {
  Tensor left = transposed(scores), result = matrix(id, index, false);
  if (attention_.heads == attention_.kvHeads)
    return graph_->multiply(left, rows, result);
  Tensor all = graph_->between({attention_.sequences, attention_.heads,
                                attention_.length, attention_.headDim},
                               dnn::BF16);
  graph_->multiply(left, rows, all);
  graph_->reduce(dnn::Sum, all, result);
}

//===----------------------------------------------------------------------===//
// Graphs
//===----------------------------------------------------------------------===//

void DnnAttention::describeForward() {
  Tensor q = matrix(Q, 0, false), keys = matrix(K, 1, true),
         v = matrix(V, 2, false);
  Tensor visible = masked(logits(q, keys, graph_->number(Scale)));
  Tensor most = perRow();
  graph_->reduce(dnn::Max, visible, most);
  Tensor powers = pointwise(dnn::Exp, pointwise(dnn::Sub, visible, most));
  Tensor sum = perRow(), logarithm = perRow();
  graph_->reduce(dnn::Sum, powers, sum);
  graph_->pointwise(dnn::Log, dnn::F32, sum, -1, logarithm);
  graph_->pointwise(dnn::Add, dnn::F32, most, logarithm, rowValues(Lse));
  Tensor weights = graph_->between({attention_.sequences, attention_.heads,
                                    attention_.length, attention_.length},
                                   dnn::BF16);
  graph_->pointwise(dnn::Div, dnn::F32, powers, sum, weights);
  graph_->multiply(weights, v, matrix(O, 3, false));
}

void DnnAttention::describeGradient() {
  const VendorAttention &a = attention_;
  DnnGraph::Sizes ofQueries = {a.sequences, a.heads, a.length, a.headDim};
  Tensor q = matrix(Q, 0, false), keys = matrix(K, 1, true),
         values = matrix(V, 2, true), o = matrix(O, 3, false),
         dout = matrix(Dout, 4, false);

  Tensor product = graph_->between(ofQueries, dnn::F32), reduced = perRow(),
         sums = rowValues(RowSums);
  graph_->pointwise(dnn::Mul, dnn::F32, dout, o, product);
  graph_->reduce(dnn::Sum, product, reduced);
  // cuDNN's pattern has a multiplication by the dropout scale here. Without
  // dropout, the scale is 1.
  graph_->pointwise(dnn::Mul, dnn::F32, reduced, graph_->number(One), sums);

  Tensor scale = graph_->number(Scale), lse = rowValues(Lse);
  Tensor weights = pointwise(
      dnn::Exp, masked(pointwise(dnn::Sub, logits(q, keys, scale), lse)));
  keyGrad(weights, dout, Dv, 7);

  Tensor dweights = scores();
  graph_->multiply(dout, values, dweights);
  Tensor dscores = pointwise(
      dnn::Mul,
      pointwise(dnn::Mul, pointwise(dnn::Sub, dweights, sums), weights), scale);
  keyGrad(dscores, q, Dk, 6);

  Tensor keyRows = graph_->between(
      {a.sequences, a.kvHeads, a.length, a.headDim},
      {a.length * a.strides[1], a.headDim, a.strides[1], 1}, dnn::BF16);
  graph_->reshape(keys, keyRows);
  int64_t row = a.length * a.headDim;
  Tensor added = graph_->inMemory(QueryGrads, ofQueries,
                                  {a.heads * row, row, a.headDim, 1}, dnn::F32);
  graph_->multiply(dscores, keyRows, added);
  graph_->pointwise(dnn::Identity, dnn::F32, added, -1, matrix(Dq, 5, false));
}

Result<DnnAttention> DnnAttention::describe(const Dnn &dnn,
                                            const VendorAttention &attention,
                                            double scale) {
  Result<DnnAttention> result = DnnAttention(dnn);
  result->attention_ = attention;
  result->scale_ = float(scale);
  if (attention.isGradient)
    result->describeGradient();
  else
    result->describeForward();
  Status status = result->graph_->finish();
  if (!status.ok())
    return status;
  return result;
}

/// Returns the number of bytes at the start of the workspace that hold the row
/// sums and the dq accumulator. cuDNN's engine uses the remaining bytes.
static int64_t ownBytes(const VendorAttention &attention) {
  return attention.isGradient
             ? rowSumBytes(attention) +
                   (queryGradBytes(attention) + 255) / 256 * 256
             : 0;
}

Result<DnnAttention> DnnAttention::plan(const Dnn &dnn,
                                        const VendorAttention &attention,
                                        double scale) {
  Result<DnnAttention> result = describe(dnn, attention, scale);
  if (!result.ok())
    return result;
  Result<DnnPlan> plan = result->graph_->plan(
      attentionWorkspaceBytes(attention) - ownBytes(attention));
  if (!plan.ok())
    return plan.status();
  result->plan_ = std::move(*plan);
  return result;
}

Status DnnAttention::run(const std::vector<DevicePointer> &arguments,
                         DevicePointer workspace) const {
  const float one = 1, minusInfinity = -std::numeric_limits<float>::infinity();
  std::vector<int64_t> ids;
  std::vector<void *> pointers;
  auto add = [&](int64_t id, const void *pointer) {
    ids.push_back(id);
    pointers.push_back(const_cast<void *>(pointer));
  };
  auto onDevice = [](DevicePointer pointer) {
    return reinterpret_cast<void *>(pointer);
  };
  for (std::size_t i = 0; i < arguments.size(); ++i)
    add(Q + int64_t(i), onDevice(arguments[i]));
  add(Scale, &scale_);
  if (attention_.causal)
    add(MinusInfinity, &minusInfinity);
  if (attention_.isGradient) {
    add(One, &one);
    add(RowSums, onDevice(workspace));
    add(QueryGrads,
        onDevice(workspace + DevicePointer(rowSumBytes(attention_))));
  }
  void *rest = onDevice(workspace + DevicePointer(ownBytes(attention_)));
  DnnBuilder builder(*dnn_, dnn::VariantPack);
  builder.set(dnn::PackUniqueIds, dnn::IsInt64, int64_t(ids.size()), ids.data())
      .set(dnn::PackPointers, dnn::IsPointer, int64_t(pointers.size()),
           pointers.data())
      .set(dnn::PackWorkspace, dnn::IsPointer, rest);
  Result<DnnObjectOwner> pack = builder.finalize();
  if (!pack.ok())
    return pack.status();
  return dnn_->call(dnn_->api().cudnnBackendExecute, dnn_->handle(),
                    plan_.plan.get(), pack->get());
}
