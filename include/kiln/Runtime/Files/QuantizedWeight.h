//===- QuantizedWeight.h - Encoding of weights in parts ---------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef KILN_RUNTIME_FILES_QUANTIZEDWEIGHT_H
#define KILN_RUNTIME_FILES_QUANTIZEDWEIGHT_H

#include "kiln/Support/Status.h"
#include "kiln/Support/WeightEncoding.h"

#include <cstdint>
#include <functional>
#include <string>

namespace kiln::runtime {

/// Reads the elements [first, first + count) of a weight to `values`.
using WeightReader =
    std::function<support::Status(int64_t first, int64_t count, float *values)>;

/// Encodes a weight to `data`, in the given layout. Reads the weight in parts,
/// so that the whole weight is never in memory: `read` is called with
/// consecutive ranges. If the encoding has outliers, the weight is read twice,
/// from the first to the last range each time. Fails if an element is infinite
/// or not a number; `name` names the weight in the error message.
support::Status encodeWeight(const std::string &name,
                             const support::WeightLayout &layout, char *data,
                             const WeightReader &read);

} // namespace kiln::runtime

#endif // KILN_RUNTIME_FILES_QUANTIZEDWEIGHT_H
