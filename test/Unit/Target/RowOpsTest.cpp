//===- RowOpsTest.cpp - All ops of the row family -------------------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Tests each op by itself, and the fusions of a training step. RowRunner.h
// describes the checks.
//
//===----------------------------------------------------------------------===//

#include "RowOps.h"

#include <cmath>
#include <limits>

using namespace kiln;
using namespace kiln::test;

namespace {

RowCase unary(const std::string &op) {
  RowCase rowCase;
  rowCase.arguments = "%x: tensor<$Rx$Cx$T>";
  rowCase.body = "%y = kiln." + op + " : tensor<$Rx$Cx$T>";
  rowCase.results = "%y : tensor<$Rx$Cx$T>";
  return rowCase;
}

RowCase binary(const std::string &op) {
  RowCase rowCase = unary(op);
  rowCase.arguments += ", %b: tensor<$Rx$Cx$T>";
  return rowCase;
}

TEST_F(RowOps, Arithmetic) {
  for (const char *op : {"add", "sub", "mul"})
    runner.add(binary(std::string(op) + " %x, %b"), kFewSizes);
  RowCase division = binary("div %x, %b");
  division.fill = [](unsigned, HostTensor &x) { makePositive(x); };
  runner.add(division, kFewSizes);
  for (const char *op : {"neg %x", "exp %x", "tanh %x", "sigmoid %x",
                         "scale %x by 0.1", "relu %x"})
    runner.add(unary(op), kFewSizes);
  for (const char *op : {"log %x", "sqrt %x", "rsqrt %x"}) {
    RowCase positive = unary(op);
    positive.fill = [](unsigned, HostTensor &x) { makePositive(x); };
    runner.add(positive, kFewSizes);
  }
}

TEST_F(RowOps, FlatPrograms) {
  runner.add(unary("gelu %x tanh"), kRaggedSizes);
}

TEST_F(RowOps, Activations) {
  for (const char *op : {"silu %x", "gelu %x", "gelu %x tanh", "softplus %x"})
    runner.add(unary(op), kFewSizes);
  for (const char *op :
       {"swiglu %x, %b", "relu_grad %x, %b", "silu_grad %x, %b",
        "gelu_grad %x, %b", "gelu_grad %x, %b tanh"})
    runner.add(binary(op), kFewSizes);
  runner.add({"%a: tensor<$Rx$Cx$T>, %b: tensor<$Rx$Cx$T>, "
              "%dy: tensor<$Rx$Cx$T>",
              "%da, %db = kiln.swiglu_grad %a, %b, %dy : tensor<$Rx$Cx$T>",
              "%da : tensor<$Rx$Cx$T>, %db : tensor<$Rx$Cx$T>"},
             kFewSizes);
}

TEST_F(RowOps, ActivationsFarOut) {
  for (const char *op : {"silu_grad %x, %b", "gelu_grad %x, %b tanh",
                         "gelu_grad %x, %b", "swiglu %x, %b"}) {
    RowCase rowCase = binary(op);
    rowCase.fill = [](unsigned argument, HostTensor &tensor) {
      for (double &x : tensor.reals)
        x = static_cast<float>(argument == 0 ? 40 * x : 1);
    };
    runner.add(rowCase, {{3, 100}});
  }
}

TEST_F(RowOps, ConstantsAndCasts) {
  runner.add({"%x: tensor<$Rx$Cx$T>",
              "%c = kiln.constant dense<0.3> : tensor<$Rx$Cx$T> -> "
              "tensor<$Rx$Cx$T>\n%y = kiln.add %x, %c : tensor<$Rx$Cx$T>",
              "%y : tensor<$Rx$Cx$T>, %c : tensor<$Rx$Cx$T>"},
             kFewSizes);
  runner.add({"%x: tensor<$Rx$Cx$T>",
              "%y = kiln.cast %x : tensor<$Rx$Cx$T> to tensor<$Rx$Cxf32>\n"
              "%z = kiln.cast %y : tensor<$Rx$Cxf32> to tensor<$Rx$Cxf64>",
              "%y : tensor<$Rx$Cxf32>, %z : tensor<$Rx$Cxf64>", 1e-7, 1e-7},
             kFewSizes);
}

//===----------------------------------------------------------------------===//
// Norms and losses
//===----------------------------------------------------------------------===//

const RowCase layerNorm = {
    "%x: tensor<$Rx$Cx$T>, %g: tensor<$Cx$F>, %b: tensor<$Cx$F>",
    "%y, %mean, %rstd = kiln.layer_norm %x, %g, %b {eps = 1.0e-05} : "
    "(tensor<$Rx$Cx$T>, tensor<$Cx$F>, tensor<$Cx$F>) -> "
    "(tensor<$Rx$Cx$T>, tensor<$Rx$F>, tensor<$Rx$F>)",
    "%y : tensor<$Rx$Cx$T>, %mean : tensor<$Rx$F>, %rstd : tensor<$Rx$F>"};

TEST_F(RowOps, LayerNorm) {
  // The variance of a single column is zero, so the result has the factor
  // 1/sqrt(eps). This requires a larger tolerance.
  RowCase rowCase = layerNorm;
  rowCase.tolerance32 = 1e-5;
  runner.add(rowCase, kRaggedSizes);
  rowCase.padding = 24;
  runner.add(rowCase, kFewSizes);
  // With this many rows, a GPU thread processes several rows.
  rowCase.padding = 0;
  runner.add(rowCase, {{8201, 70}});
}

TEST_F(RowOps, LayerNormParts) {
  runner.add({"%x: tensor<$Rx$Cx$T>, %m: tensor<$Rx$F>, %s: tensor<$Rx$F>",
              "%y = kiln.normalize %x, %m, %s : (tensor<$Rx$Cx$T>, "
              "tensor<$Rx$F>, tensor<$Rx$F>) -> tensor<$Rx$Cx$T>\n"
              "%z = kiln.normalize %x, %s : (tensor<$Rx$Cx$T>, "
              "tensor<$Rx$F>) -> tensor<$Rx$Cx$T>",
              "%y : tensor<$Rx$Cx$T>, %z : tensor<$Rx$Cx$T>"},
             kFewSizes);
  runner.add({"%x: tensor<$Rx$Cx$T>, %g: tensor<$Cx$F>, %b: tensor<$Cx$F>",
              "%y = kiln.affine %x, %g, %b : (tensor<$Rx$Cx$T>, "
              "tensor<$Cx$F>, tensor<$Cx$F>) -> tensor<$Rx$Cx$T>\n"
              "%z = kiln.affine %x, %g : (tensor<$Rx$Cx$T>, "
              "tensor<$Cx$F>) -> tensor<$Rx$Cx$T>",
              "%y : tensor<$Rx$Cx$T>, %z : tensor<$Rx$Cx$T>"},
             kFewSizes);
  runner.add({"%x: tensor<$Rx$Cx$T>, %g: tensor<$Cx$F>",
              "%y = kiln.affine %x, %g : (tensor<$Rx$Cx$T>, "
              "tensor<$Cx$F>) -> tensor<$Rx$Cx$T>",
              "%y : tensor<$Rx$Cx$T>"},
             {{8201, 70}});
}

const char *const layerNormGradOp =
    "%dx = kiln.layer_norm_grad %x, %g, %m, %s, %dy : (tensor<$Rx$Cx$T>, "
    "tensor<$Cx$F>, tensor<$Rx$F>, tensor<$Rx$F>, tensor<$Rx$Cx$T>) -> "
    "tensor<$Rx$Cx$T>\n";

TEST_F(RowOps, LayerNormGradient) {
  runner.add({"%x: tensor<$Rx$Cx$T>, %g: tensor<$Cx$F>, %m: tensor<$Rx$F>, "
              "%s: tensor<$Rx$F>, %dy: tensor<$Rx$Cx$T>",
              layerNormGradOp, "%dx : tensor<$Rx$Cx$T>"},
             kRaggedSizes);
}

TEST_F(RowOps, LayerNormBackwardInOneKernel) {
  for (int64_t rows : {1, 4, 5, 9}) {
    std::string partial =
        "tensor<" + std::to_string((rows + 3) / 4) + "x$Cx$F>";
    RowCase rowCase = {
        "%x: tensor<$Rx$Cx$T>, %g: tensor<$Cx$F>, %m: tensor<$Rx$F>, "
        "%s: tensor<$Rx$F>, %dy: tensor<$Rx$Cx$T>, %skip: tensor<$Rx$Cx$T>",
        std::string(layerNormGradOp) +
            "%h = kiln.normalize %x, %m, %s : (tensor<$Rx$Cx$T>, "
            "tensor<$Rx$F>, tensor<$Rx$F>) -> tensor<$Rx$Cx$T>\n"
            "%t = kiln.mul %dy, %h : tensor<$Rx$Cx$T>\n"
            "%dg = kiln.reduce_partial %t chunk 4 : tensor<$Rx$Cx$T> to " +
            partial +
            "\n%db = kiln.reduce_partial %dy chunk 4 : tensor<$Rx$Cx$T> to " +
            partial + "\n%sum = kiln.add %skip, %dx : tensor<$Rx$Cx$T>",
        "%sum : tensor<$Rx$Cx$T>, %dg : " + partial + ", %db : " + partial};
    runner.add(rowCase, {{rows, 1}, {rows, 7}, {rows, 64}, {rows, 130}});
  }
}

TEST_F(RowOps, ResidualAndLayerNorm) {
  runner.add(
      {"%a: tensor<$Rx$Cx$T>, %b: tensor<$Rx$Cx$T>, %g: tensor<$Cx$F>, "
       "%c: tensor<$Cx$F>",
       "%x = kiln.add %a, %b : tensor<$Rx$Cx$T>\n"
       "%y, %mean, %rstd = kiln.layer_norm %x, %g, %c {eps = 1.0e-05} : "
       "(tensor<$Rx$Cx$T>, tensor<$Cx$F>, tensor<$Cx$F>) -> "
       "(tensor<$Rx$Cx$T>, tensor<$Rx$F>, tensor<$Rx$F>)",
       "%y : tensor<$Rx$Cx$T>, %x : tensor<$Rx$Cx$T>, %rstd : tensor<$Rx$F>",
       1e-5},
      kRaggedSizes);
}

TEST_F(RowOps, RmsNorm) {
  runner.add({"%x: tensor<$Rx$Cx$T>, %g: tensor<$Cx$F>",
              "%y, %rstd = kiln.rms_norm %x, %g {eps = 1.0e-06} : "
              "(tensor<$Rx$Cx$T>, tensor<$Cx$F>) -> "
              "(tensor<$Rx$Cx$T>, tensor<$Rx$F>)",
              "%y : tensor<$Rx$Cx$T>, %rstd : tensor<$Rx$F>"},
             kRaggedSizes);
  runner.add({"%x: tensor<$Rx$Cx$T>, %g: tensor<$Cx$F>, %s: tensor<$Rx$F>, "
              "%dy: tensor<$Rx$Cx$T>",
              "%dx = kiln.rms_norm_grad %x, %g, %s, %dy : "
              "(tensor<$Rx$Cx$T>, tensor<$Cx$F>, tensor<$Rx$F>, "
              "tensor<$Rx$Cx$T>) -> tensor<$Rx$Cx$T>",
              "%dx : tensor<$Rx$Cx$T>"},
             kFewSizes);
}

TEST_F(RowOps, Softmax) {
  runner.add({"%x: tensor<$Rx$Cx$T>",
              "%y = kiln.softmax %x : (tensor<$Rx$Cx$T>) -> "
              "tensor<$Rx$Cx$T>",
              "%y : tensor<$Rx$Cx$T>"},
             kRaggedSizes);
  runner.add({"%y: tensor<$Rx$Cx$T>, %dy: tensor<$Rx$Cx$T>",
              "%dx = kiln.softmax_grad %y, %dy : (tensor<$Rx$Cx$T>, "
              "tensor<$Rx$Cx$T>) -> tensor<$Rx$Cx$T>",
              "%dx : tensor<$Rx$Cx$T>"},
             kFewSizes);
}

/// Fills targets with classes. Every third target is ignored.
void fillTargets(HostTensor &tensor, int64_t classes) {
  for (auto [i, x] : llvm::enumerate(tensor.integers))
    x = i % 3 == 1 ? kIgnoreIndex : (i * 7919 + classes - 1) % classes;
}

TEST_F(RowOps, CrossEntropy) {
  std::vector<std::pair<int64_t, int64_t>> sizes = kRaggedSizes;
  sizes.push_back({3, 50257});
  for (auto size : sizes) {
    RowCase rowCase = {
        "%x: tensor<$Rx$Cx$T>, %t: tensor<$Rxi32>, %s: tensor<f64>",
        "%l, %d = kiln.softmax_cross_entropy %x, %t, %s : "
        "(tensor<$Rx$Cx$T>, tensor<$Rxi32>, tensor<f64>) -> "
        "(tensor<$Rx$F>, tensor<$Rx$Cx$T>)",
        "%l : tensor<$Rx$F>, %d : tensor<$Rx$Cx$T>"};
    rowCase.fill = [=](unsigned argument, HostTensor &tensor) {
      if (argument == 1)
        fillTargets(tensor, size.second);
    };
    runner.add(rowCase, {size});
    rowCase.padding = 47;
    runner.add(rowCase, {size});
    // Compute only the loss, from logits that are computed in the same kernel.
    rowCase.padding = 0;
    rowCase.body =
        "%z = kiln.scale %x by 3.0 : tensor<$Rx$Cx$T>\n"
        "%l = kiln.softmax_cross_entropy %z, %t, %s : "
        "(tensor<$Rx$Cx$T>, tensor<$Rxi32>, tensor<f64>) -> tensor<$Rx$F>";
    rowCase.results = "%l : tensor<$Rx$F>";
    runner.add(rowCase, {size});
  }
}

TEST_F(RowOps, Totals) {
  runner.add({"%x: tensor<$Rx$Cx$T>, %s: tensor<f64>",
              "%l = kiln.scaled_total %x, %s : (tensor<$Rx$Cx$T>, "
              "tensor<f64>) -> tensor<f64>",
              "%l : tensor<f64>", 1e-13},
             kRaggedSizes);
  runner.add({"%x: tensor<$Rx$Cx$T>",
              "%l = kiln.sum_squares %x : (tensor<$Rx$Cx$T>) -> "
              "tensor<$Rxf64>",
              "%l : tensor<$Rxf64>", 1e-13},
             kRaggedSizes);
  for (double clip : {0.0, 1.0, 1000.0}) {
    RowCase rowCase = {"%x: tensor<$Cxf64>, %c: tensor<f64>",
                       "%f, %n = kiln.clip_factor %x, %c : (tensor<$Cxf64>, "
                       "tensor<f64>) -> (tensor<f64>, tensor<f64>)",
                       "%f : tensor<f64>, %n : tensor<f64>"};
    rowCase.hasNarrowFloats = false;
    rowCase.fill = [=](unsigned argument, HostTensor &tensor) {
      makePositive(tensor);
      if (argument == 1)
        tensor.reals[0] = clip;
    };
    runner.add(rowCase, {{1, 5}, {1, 148}});
  }
}

//===----------------------------------------------------------------------===//
// Shapes and lookups
//===----------------------------------------------------------------------===//

TEST_F(RowOps, Broadcasts) {
  auto broadcast = [&](const std::string &from, const std::string &dims,
                       const std::string &to) {
    runner.add({"%x: " + from + ", %a: " + to,
                "%b = kiln.broadcast %x dims [" + dims + "] : " + from +
                    " to " + to + "\n%y = kiln.mul %a, %b : " + to,
                "%y : " + to},
               kFewSizes);
  };
  broadcast("tensor<$Cx$T>", "1", "tensor<$Rx$Cx$T>");
  broadcast("tensor<$Rx$T>", "0", "tensor<$Rx$Cx$T>");
  broadcast("tensor<$Rx1x$T>", "0, 1", "tensor<$Rx$Cx$T>");
  broadcast("tensor<$T>", "", "tensor<$Rx$Cx$T>");
  broadcast("tensor<$Rx$Cx$T>", "1, 2", "tensor<2x$Rx$Cx$T>");
  broadcast("tensor<1x$Cx$T>", "1, 2", "tensor<2x$Rx$Cx$T>");
  broadcast("tensor<$Rx$Cx$T>", "1, 2", "tensor<1x$Rx$Cx$T>");
}

/// Tests programs on bf16 elements in which not only the statistics of norms
/// but also other values are f32.
TEST_F(RowOps, MixedTypes) {
  // A norm whose result is rounded only once, after the gain.
  runner.add({"%x: tensor<$Rx$Cx$T>, %m: tensor<$Rx$F>, %s: tensor<$Rx$F>, "
              "%g: tensor<$Cx$F>",
              "%h = kiln.normalize %x, %m, %s : (tensor<$Rx$Cx$T>, "
              "tensor<$Rx$F>, tensor<$Rx$F>) -> tensor<$Rx$Cx$F>\n"
              "%y = kiln.affine %h, %g : (tensor<$Rx$Cx$F>, tensor<$Cx$F>) -> "
              "tensor<$Rx$Cx$T>",
              "%y : tensor<$Rx$Cx$T>, %h : tensor<$Rx$Cx$F>"},
             kRaggedSizes);
  // %r is an f32 residual. The sum of %r and %x is needed in three sweeps.
  runner.add({"%x: tensor<$Rx$Cx$T>, %r: tensor<$Rx$Cx$F>, %g: tensor<$Cx$F>, "
              "%b: tensor<$Cx$F>",
              "%w = kiln.cast %x : tensor<$Rx$Cx$T> to tensor<$Rx$Cx$F>\n"
              "%s = kiln.add %r, %w : tensor<$Rx$Cx$F>\n"
              "%t = kiln.cast %s : tensor<$Rx$Cx$F> to tensor<$Rx$Cx$T>\n"
              "%y, %mean, %rstd = kiln.layer_norm %t, %g, %b {eps = 1.0e-05} : "
              "(tensor<$Rx$Cx$T>, tensor<$Cx$F>, tensor<$Cx$F>) -> "
              "(tensor<$Rx$Cx$T>, tensor<$Rx$F>, tensor<$Rx$F>)",
              "%y : tensor<$Rx$Cx$T>, %s : tensor<$Rx$Cx$F>, "
              "%t : tensor<$Rx$Cx$T>, %mean : tensor<$Rx$F>",
              1e-5},
             kRaggedSizes);
  runner.add({"%x: tensor<$Rx$Cx$T>",
              "%y = kiln.reduce sum %x dims [1] : tensor<$Rx$Cx$T> to "
              "tensor<$Rx$F>\n"
              "%z = kiln.reduce sum %x dims [1] : tensor<$Rx$Cx$T> to "
              "tensor<$Rx$T>",
              "%y : tensor<$Rx$F>, %z : tensor<$Rx$T>"},
             kRaggedSizes);
  runner.add({"%x: tensor<$Rx$Cx$F>",
              "%y = kiln.reduce_combine %x : (tensor<$Rx$Cx$F>) -> "
              "tensor<$Cx$T>",
              "%y : tensor<$Cx$T>"},
             kFewSizes);
}

TEST_F(RowOps, Reductions) {
  for (const char *kind : {"sum", "max"}) {
    runner.add({"%x: tensor<$Rx$Cx$T>",
                std::string("%y = kiln.reduce ") + kind +
                    " %x dims [1] : tensor<$Rx$Cx$T> to tensor<$Rx$T>",
                "%y : tensor<$Rx$T>"},
               kRaggedSizes);
    runner.add({"%x: tensor<$Rx$Cx$T>",
                std::string("%y = kiln.reduce ") + kind +
                    " %x dims [0, 1] : tensor<$Rx$Cx$T> to tensor<$T>",
                "%y : tensor<$T>"},
               kFewSizes);
  }
  for (int64_t rows : {1, 6, 7, 13}) {
    std::string partial =
        "tensor<" + std::to_string((rows + 5) / 6) + "x$Cx$F>";
    runner.add(
        {"%x: tensor<$Rx$Cx$T>",
         "%y = kiln.reduce_partial %x chunk 6 : tensor<$Rx$Cx$T> to " + partial,
         "%y : " + partial},
        {{rows, 1}, {rows, 16}, {rows, 65}, {rows, 200}});
  }
  runner.add({"%x: tensor<$Rx$Cx$T>",
              "%y = kiln.reduce_combine %x : (tensor<$Rx$Cx$T>) -> "
              "tensor<$Cx$T>",
              "%y : tensor<$Cx$T>"},
             kRaggedSizes);
  runner.add({"%x: tensor<$Rx$Cx$T>, %a: tensor<1x$Cx$T>",
              "%y = kiln.reduce_combine %x accumulate %a : "
              "(tensor<$Rx$Cx$T>, tensor<1x$Cx$T>) -> tensor<1x$Cx$T>",
              "%y : tensor<1x$Cx$T>"},
             kFewSizes);
  // Because the kernel also computes the sum of squares for clipping, it
  // iterates over rows instead of one long vector.
  runner.add({"%x: tensor<4x$Rx$Cx$T>",
              "%y = kiln.reduce_combine %x : (tensor<4x$Rx$Cx$T>) -> "
              "tensor<$Rx$Cx$T>\n"
              "%s = kiln.sum_squares %y : (tensor<$Rx$Cx$T>) -> "
              "tensor<$Rxf64>",
              "%y : tensor<$Rx$Cx$T>, %s : tensor<$Rxf64>"},
             kFewSizes);
}

TEST_F(RowOps, MaximumOfNaN) {
  RowCase rowCase = {"%x: tensor<$Rx$Cx$T>",
                     "%y = kiln.reduce max %x dims [1] : tensor<$Rx$Cx$T> to "
                     "tensor<$Rx$T>",
                     "%y : tensor<$Rx$T>"};
  // The NaN is in the first block, in a later block or in the tail. Rows with
  // an infinity instead of the NaN must not give NaN.
  for (int64_t column : {0, 70, 199}) {
    rowCase.fill = [=](unsigned, HostTensor &tensor) {
      tensor.reals[column] = std::nan("");
      tensor.reals[200 + column] = HUGE_VAL;
      tensor.reals[400 + column] = -HUGE_VAL;
    };
    runner.add(rowCase, {{4, 200}});
  }
}

TEST_F(RowOps, Lookups) {
  RowCase embedding = {
      "%t: tensor<2x$Rxi32>, %w: tensor<11x$Cx$F>, %p: tensor<$Rx$Cx$T>",
      "%e = kiln.embedding %t, %w : (tensor<2x$Rxi32>, tensor<11x$Cx$F>) -> "
      "tensor<"
      "$Nx$Cx$T>\n"
      "%b = kiln.broadcast %p dims [1, 2] : tensor<$Rx$Cx$T> to "
      "tensor<2x$Rx$Cx$T>\n"
      "%q = kiln.reshape %b : tensor<2x$Rx$Cx$T> to tensor<$Nx$Cx$T>\n"
      "%y = kiln.add %e, %q : tensor<$Nx$Cx$T>",
      "%y : tensor<$Nx$Cx$T>"};
  embedding.fill = [](unsigned, HostTensor &tensor) {
    for (auto [i, x] : llvm::enumerate(tensor.integers))
      x = i * 5 % 11;
  };
  for (auto size : kFewSizes) {
    RowCase sized = embedding;
    for (std::string *text : {&sized.body, &sized.results})
      for (size_t at; (at = text->find("$N")) != std::string::npos;)
        text->replace(at, 2, std::to_string(2 * size.first));
    runner.add(sized, {size});
  }
  RowCase select = {"%x: tensor<$Rx$Cx$T>, %p: tensor<i64>",
                    "%y = kiln.select_row %x, %p : (tensor<$Rx$Cx$T>, "
                    "tensor<i64>) -> tensor<1x$Cx$T>",
                    "%y : tensor<1x$Cx$T>"};
  for (int64_t position : {0, 1, 2}) {
    select.fill = [=](unsigned, HostTensor &tensor) {
      for (int64_t &x : tensor.integers)
        x = position;
    };
    runner.add(select, {{3, 7}, {4, 200}});
  }
}

TEST_F(RowOps, Dropout) {
  RowCase rowCase = {
      "%x: tensor<$Rx$Cx$T>, %r: tensor<1x3xi64>",
      "%y = kiln.dropout %x, %r {p = 2.5e-01, key = 3, sequences = 2} : "
      "(tensor<$Rx$Cx$T>, tensor<1x3xi64>) -> tensor<$Rx$Cx$T>\n"
      "%z = kiln.dropout %y, %r {p = 5.0e-01, key = 4, sequences = 1} : "
      "(tensor<$Rx$Cx$T>, tensor<1x3xi64>) -> tensor<$Rx$Cx$T>",
      "%y : tensor<$Rx$Cx$T>, %z : tensor<$Rx$Cx$T>"};
  rowCase.fill = [](unsigned, HostTensor &tensor) {
    if (!tensor.isReal())
      tensor.integers = {9876543210, 12, 34};
  };
  runner.add(rowCase, {{2, 1}, {4, 7}, {2, 64}, {6, 65}, {4, 1000}});
}

} // namespace
