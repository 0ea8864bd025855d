//===- Measurements.h - Measurement of a GPU's peak rates -------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef KILN_TEST_GPU_RATES_MEASUREMENTS_H
#define KILN_TEST_GPU_RATES_MEASUREMENTS_H

#include "kiln/Support/ElementType.h"
#include "kiln/Support/Status.h"

#include <cstdint>
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

namespace kiln::runtime::rates {

/// A row-major matmul C = op(A) op(B).
struct MeasuredGemm {
  ElementType type = ElementType::F32;
  int64_t m = 0, n = 0, k = 0;
  bool transA = false, transB = false;
  std::string text; ///< The shape as given by --product.
};

struct Request {
  int64_t copyBytes = int64_t(1) << 31; ///< Bytes of a copy on the device.
  /// Bytes of a copy to or from the host.
  int64_t linkBytes = int64_t(1) << 28;
  int64_t samples = 9;
  std::vector<MeasuredGemm> products;
};

/// Measures the first GPU. Calls `print` with one JSON object for the device
/// and one for each rate.
Status measure(const Request &request,
               const std::function<void(const nlohmann::json &)> &print);

} // namespace kiln::runtime::rates

#endif // KILN_TEST_GPU_RATES_MEASUREMENTS_H
