//===- ModelRows.h - Row kernels of a training step -------------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The memory-bound kernels of a GPT-2 step: all kernels but matmuls and
// attention.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_TEST_UNIT_TARGET_MODELROWS_H
#define KILN_TEST_UNIT_TARGET_MODELROWS_H

#include "RowRunner.h"

namespace kiln::test {

/// Returns the type of column sums over chunks of 64 rows.
inline std::string partialSums(int64_t rows) {
  return "tensor<" + std::to_string((rows + 63) / 64) + "x$Cx$F>";
}

inline RowCase geluCase() {
  return {"%x: tensor<$Rx$Cx$T>", "%y = kiln.gelu %x tanh : tensor<$Rx$Cx$T>",
          "%y : tensor<$Rx$Cx$T>"};
}

inline RowCase affineCase() {
  return {"%x: tensor<$Rx$Cx$T>, %g: tensor<$Cx$F>, %b: tensor<$Cx$F>",
          "%y = kiln.affine %x, %g, %b : (tensor<$Rx$Cx$T>, tensor<$Cx$F>, "
          "tensor<$Cx$F>) -> tensor<$Rx$Cx$T>",
          "%y : tensor<$Rx$Cx$T>"};
}

inline RowCase layerNormCase() {
  return {
      "%x: tensor<$Rx$Cx$T>, %g: tensor<$Cx$F>, %b: tensor<$Cx$F>",
      "%y, %mean, %rstd = kiln.layer_norm %x, %g, %b {eps = 1.0e-05} : "
      "(tensor<$Rx$Cx$T>, tensor<$Cx$F>, tensor<$Cx$F>) -> "
      "(tensor<$Rx$Cx$T>, tensor<$Rx$F>, tensor<$Rx$F>)",
      "%y : tensor<$Rx$Cx$T>, %mean : tensor<$Rx$F>, %rstd : tensor<$Rx$F>"};
}

/// The kernel after the last matmul of the attention and after the last matmul
/// of the MLP: bias, dropout, residual sum, and the next norm.
inline RowCase residualCase() {
  return {"%x: tensor<$Rx$Cx$T>, %c: tensor<$Cx$T>, %r: tensor<1x3xi64>, "
          "%skip: tensor<$Rx$Cx$T>, %g: tensor<$Cx$F>, %b: tensor<$Cx$F>",
          "%w = kiln.broadcast %c dims [1] : tensor<$Cx$T> to "
          "tensor<$Rx$Cx$T>\n"
          "%p = kiln.add %x, %w : tensor<$Rx$Cx$T>\n"
          "%d = kiln.dropout %p, %r {p = 1.0e-01, key = 3, sequences = 2} : "
          "(tensor<$Rx$Cx$T>, tensor<1x3xi64>) -> tensor<$Rx$Cx$T>\n"
          "%s = kiln.add %skip, %d : tensor<$Rx$Cx$T>\n"
          "%y, %mean, %rstd = kiln.layer_norm %s, %g, %b {eps = 1.0e-05} : "
          "(tensor<$Rx$Cx$T>, tensor<$Cx$F>, tensor<$Cx$F>) -> "
          "(tensor<$Rx$Cx$T>, tensor<$Rx$F>, tensor<$Rx$F>)",
          "%s : tensor<$Rx$Cx$T>, %y : tensor<$Rx$Cx$T>, "
          "%mean : tensor<$Rx$F>, %rstd : tensor<$Rx$F>"};
}

/// Computes the gradients of a norm with respect to its input, gain and shift,
/// and adds the gradient of the input to the gradient of the residual. With
/// `dropout`, also recomputes the output of the norm and computes the gradient
/// of the dropout before the residual sum.
inline RowCase layerNormBackwardCase(int64_t rows, bool dropout = false) {
  std::string partial = partialSums(rows);
  RowCase rowCase = {
      "%x: tensor<$Rx$Cx$T>, %g: tensor<$Cx$F>, %m: tensor<$Rx$F>, "
      "%s: tensor<$Rx$F>, %dy: tensor<$Rx$Cx$T>, %skip: tensor<$Rx$Cx$T>",
      "%dx = kiln.layer_norm_grad %x, %g, %m, %s, %dy : (tensor<$Rx$Cx$T>, "
      "tensor<$Cx$F>, tensor<$Rx$F>, tensor<$Rx$F>, tensor<$Rx$Cx$T>) -> "
      "tensor<$Rx$Cx$T>\n"
      "%h = kiln.normalize %x, %m, %s : (tensor<$Rx$Cx$T>, "
      "tensor<$Rx$F>, tensor<$Rx$F>) -> tensor<$Rx$Cx$F>\n"
      "%w = kiln.cast %dy : tensor<$Rx$Cx$T> to tensor<$Rx$Cx$F>\n"
      "%t = kiln.mul %w, %h : tensor<$Rx$Cx$F>\n"
      "%dg = kiln.reduce_partial %t chunk 64 : tensor<$Rx$Cx$F> to " +
          partial +
          "\n%db = kiln.reduce_partial %dy chunk 64 : tensor<$Rx$Cx$T> to " +
          partial + "\n%sum = kiln.add %skip, %dx : tensor<$Rx$Cx$T>",
      "%sum : tensor<$Rx$Cx$T>, %dg : " + partial + ", %db : " + partial};
  if (!dropout)
    return rowCase;
  rowCase.arguments += ", %b: tensor<$Cx$F>, %r: tensor<1x3xi64>";
  rowCase.body +=
      "\n%y = kiln.affine %h, %g, %b : (tensor<$Rx$Cx$F>, tensor<$Cx$F>, "
      "tensor<$Cx$F>) -> tensor<$Rx$Cx$T>\n"
      "%d = kiln.dropout %sum, %r {p = 1.0e-01, key = 3, sequences = 2} : "
      "(tensor<$Rx$Cx$T>, tensor<1x3xi64>) -> tensor<$Rx$Cx$T>\n"
      "%dc = kiln.reduce_partial %d chunk 64 : tensor<$Rx$Cx$T> to " +
      partial;
  rowCase.results +=
      ", %y : tensor<$Rx$Cx$T>, %d : tensor<$Rx$Cx$T>, %dc : " + partial;
  return rowCase;
}

inline RowCase biasGradientCase(int64_t rows) {
  std::string partial = partialSums(rows);
  return {"%x: tensor<$Rx$Cx$T>",
          "%y = kiln.reduce_partial %x chunk 64 : tensor<$Rx$Cx$T> to " +
              partial,
          "%y : " + partial};
}

/// Computes the gradients of a GELU and of the bias before it.
inline RowCase geluBackwardCase(int64_t rows) {
  std::string partial = partialSums(rows);
  return {"%x: tensor<$Rx$Cx$T>, %dy: tensor<$Rx$Cx$T>",
          "%y = kiln.gelu %x tanh : tensor<$Rx$Cx$T>\n"
          "%dx = kiln.gelu_grad %x, %dy tanh : tensor<$Rx$Cx$T>\n"
          "%db = kiln.reduce_partial %dx chunk 64 : tensor<$Rx$Cx$T> to " +
              partial,
          "%y : tensor<$Rx$Cx$T>, %dx : tensor<$Rx$Cx$T>, %db : " + partial};
}

inline RowCase dropoutAndAddCase() {
  return {"%x: tensor<$Rx$Cx$T>, %y: tensor<$Rx$Cx$T>, %r: tensor<1x3xi64>",
          "%d = kiln.dropout %x, %r {p = 1.0e-01, key = 3, sequences = 2} : "
          "(tensor<$Rx$Cx$T>, tensor<1x3xi64>) -> tensor<$Rx$Cx$T>\n"
          "%z = kiln.add %d, %y : tensor<$Rx$Cx$T>",
          "%z : tensor<$Rx$Cx$T>"};
}

/// Computes the loss of each row of logits, and the gradients of the logits.
inline RowCase classifierCase(int64_t classes) {
  RowCase rowCase = {
      "%x: tensor<$Rx$Cx$T>, %t: tensor<$Rxi32>, %s: tensor<f64>",
      "%l, %d = kiln.softmax_cross_entropy %x, %t, %s : "
      "(tensor<$Rx$Cx$T>, tensor<$Rxi32>, tensor<f64>) -> "
      "(tensor<$Rx$F>, tensor<$Rx$Cx$T>)",
      "%l : tensor<$Rx$F>, %d : tensor<$Rx$Cx$T>"};
  rowCase.fill = [=](unsigned argument, HostTensor &tensor) {
    for (auto [i, x] : llvm::enumerate(tensor.integers))
      x = i % 3 == 1 ? kIgnoreIndex : (i * 7919 + classes - 1) % classes;
  };
  return rowCase;
}

/// Performs an Adam update. Parameters and moments are f32 in every precision.
inline RowCase adamCase() {
  RowCase rowCase = {
      "%p: tensor<$Rx$Cx$F>, %m: tensor<$Rx$Cx$F>, %v: tensor<$Rx$Cx$F>, "
      "%g: tensor<$Rx$Cx$F>, %f: tensor<f64>, %lr: tensor<f64>, "
      "%t: tensor<i64>",
      "%p1, %m1, %v1 = kiln.adam %p, %m, %v, %g, %f, %lr, %t {beta1 = "
      "9.0e-01, beta2 = 9.99e-01, eps = 1.0e-08, weight_decay = 1.0e-01, "
      "decoupled} : (tensor<$Rx$Cx$F>, tensor<$Rx$Cx$F>, tensor<$Rx$Cx$F>, "
      "tensor<$Rx$Cx$F>, tensor<f64>, tensor<f64>, tensor<i64>) -> "
      "(tensor<$Rx$Cx$F>, tensor<$Rx$Cx$F>, tensor<$Rx$Cx$F>)",
      "%p1 : tensor<$Rx$Cx$F>, %m1 : tensor<$Rx$Cx$F>, "
      "%v1 : tensor<$Rx$Cx$F>"};
  rowCase.fill = [](unsigned argument, HostTensor &tensor) {
    for (double &x : tensor.reals)
      x = std::abs(x);
  };
  return rowCase;
}

/// Casts a parameter to the element type of the matmuls.
inline RowCase castCase() {
  return {"%x: tensor<$Rx$Cx$F>",
          "%y = kiln.cast %x : tensor<$Rx$Cx$F> to tensor<$Rx$Cx$T>",
          "%y : tensor<$Rx$Cx$T>"};
}

} // namespace kiln::test

#endif // KILN_TEST_UNIT_TARGET_MODELROWS_H
