//===- QuantizedWeight.cpp - Encoding of weights in parts -----------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "kiln/Runtime/Files/QuantizedWeight.h"

#include "kiln/Support/Messages.h"
#include "kiln/Support/Process.h"

#include <algorithm>
#include <vector>
#include <xmmintrin.h>

using namespace kiln::support;

namespace kiln::runtime {

/// Approximate number of elements of a weight that are read at once.
static constexpr int64_t partElements = 1 << 20;

namespace {

/// Disables the flushing of denormals until the object is destroyed, because
/// the encoders expect arithmetic as in IEEE 754.
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

/// Reads a weight in parts that consist of whole blocks of `block` elements.
/// Only the last block of the weight may be shorter.
class PartReader {
public:
  PartReader(int64_t elements, int64_t block, const WeightReader &read)
      : elements_(elements),
        part_(std::max<int64_t>(partElements / block, 1) * block), read_(read),
        values_(size_t(std::min(elements, part_))) {}

  /// Calls `use(values, count)` for each part, from the first to the last.
  template <typename Use> Status forEach(Use use) {
    for (int64_t first = 0; first < elements_; first += part_) {
      int64_t count = std::min(part_, elements_ - first);
      Status status = checkStop();
      if (status.ok())
        status = read_(first, count, values_.data());
      if (!status.ok())
        return status;
      use(values_.data(), count);
    }
    return Status();
  }

private:
  int64_t elements_, part_;
  const WeightReader &read_;
  std::vector<float> values_;
};

/// Finishes an encoding. Fails if an element of the weight is not finite.
template <typename Encoder>
Status finish(Encoder &encoder, const std::string &name) {
  if (encoder.finish())
    return Status();
  return Status::badInput(
      "the weight " + inQuotes(name) + " is to be quantized, but its element " +
      std::to_string(encoder.firstNonFinite().value_or(0)) +
      " in row-major order is infinite or NaN: repair the weight file");
}

Status encode(const std::string &name, const Nf4Layout &layout, char *data,
              const WeightReader &read) {
  Nf4Encoder encoder(layout, data);
  PartReader reader(layout.elements, Nf4Layout::blockElements, read);
  Status status = reader.forEach([&](const float *values, int64_t count) {
    encoder.append(values, count);
  });
  return status.ok() ? finish(encoder, name) : status;
}

Status encode(const std::string &name, const Int8Layout &layout, char *data,
              const WeightReader &read) {
  Int8Encoder encoder(layout, data);
  PartReader reader(layout.elements, layout.block, read);
  Status status;
  if (layout.outliers > 0)
    status = reader.forEach([&](const float *values, int64_t count) {
      encoder.survey(values, count);
    });
  if (status.ok())
    status = reader.forEach([&](const float *values, int64_t count) {
      encoder.append(values, count);
    });
  return status.ok() ? finish(encoder, name) : status;
}

} // namespace

Status encodeWeight(const std::string &name, const WeightLayout &layout,
                    char *data, const WeightReader &read) {
  DenormalsKept denormals;
  return std::visit(
      [&](const auto &layout) { return encode(name, layout, data, read); },
      layout);
}

} // namespace kiln::runtime
