//===- TanhGelu.h - GELU's tanh form and its derivative ---------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The tanh approximation of GELU, and its derivative. They are the reference
// semantics of ops that compute GELU, and the emulated device uses them for the
// GEMM epilogues of vendor libraries. Results are f64; the caller rounds them.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_ABI_TANHGELU_H
#define KILN_ABI_TANHGELU_H

#include <cmath>

namespace kiln::abi {

inline double tanhGeluSigmoid(double x) { return 1 / (1 + std::exp(-x)); }

/// sqrt(2 / pi).
inline constexpr double tanhGeluFactor = 0.79788456080286535588;

/// Returns x sigmoid(2u) = 0.5 x (1 + tanh(u)), where
/// u = sqrt(2/pi) (x + 0.044715 x^3).
inline double tanhGelu(double x) {
  return x * tanhGeluSigmoid(2 * tanhGeluFactor * (x + 0.044715 * x * x * x));
}

inline double tanhGeluDerivative(double x) {
  double u = tanhGeluFactor * (x + 0.044715 * x * x * x);
  double du = tanhGeluFactor * (1 + 3 * 0.044715 * x * x);
  // The derivative of s = sigmoid(2u) is 2 du s (1 - s). 1 - s is computed as
  // sigmoid(-2u) to avoid cancellation.
  return tanhGeluSigmoid(2 * u) +
         x * 2 * du * tanhGeluSigmoid(2 * u) * tanhGeluSigmoid(-2 * u);
}

} // namespace kiln::abi

#endif // KILN_ABI_TANHGELU_H
