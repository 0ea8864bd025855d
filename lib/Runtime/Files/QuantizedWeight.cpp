//===- QuantizedWeight.cpp - Encoding of weights in parts -----------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "kiln/Runtime/Files/QuantizedWeight.h"

#include "kiln/Support/Messages.h"
#include "kiln/Support/Nf4.h"
#include "kiln/Support/Process.h"

#include <algorithm>
#include <vector>
#include <xmmintrin.h>

using namespace kiln::support;

namespace kiln::runtime {

/// Number of elements per part, a multiple of the size of a block.
static constexpr int64_t partElements = 1 << 20;

namespace {

/// Computes denormals as IEEE 754 requires, as the encoder expects, until the
/// object is destroyed.
class DenormalsKept {
public:
  DenormalsKept() : saved_(_mm_getcsr()) {
    constexpr unsigned flushToZero = 0x8000, denormalsAreZero = 0x40;
    _mm_setcsr(saved_ & ~(flushToZero | denormalsAreZero));
  }
  ~DenormalsKept() { _mm_setcsr(saved_); }
  DenormalsKept(const DenormalsKept &) = delete;
  DenormalsKept &operator=(const DenormalsKept &) = delete;

private:
  unsigned saved_;
};

} // namespace

Status encodeWeight(const std::string &name, int64_t elements, char *data,
                    const WeightReader &read) {
  DenormalsKept denormals;
  Nf4Encoder encoder(Nf4Layout(elements), data);
  std::vector<float> values(size_t(std::min(elements, partElements)));
  for (int64_t first = 0; first < elements; first += partElements) {
    int64_t count = std::min(partElements, elements - first);
    Status status = checkStop();
    if (status.ok())
      status = read(first, count, values.data());
    if (!status.ok())
      return status;
    encoder.append(values.data(), count);
  }
  if (encoder.finish())
    return Status();
  return Status::badInput(
      "the weight " + inQuotes(name) + " is to be quantized, but its element " +
      std::to_string(encoder.firstNonFinite().value_or(0)) +
      " (row-major) is infinite or not a number: repair the weight file");
}

} // namespace kiln::runtime
