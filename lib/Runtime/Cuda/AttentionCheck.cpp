//===- AttentionCheck.cpp - Numerical check of library attention ----------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "AttentionCheck.h"

#include <algorithm>
#include <cmath>
#include <cstring>

using namespace kiln::abi;
using namespace kiln::runtime::cuda;
using namespace kiln::runtime;
using namespace kiln;

static constexpr double mostMean = 1.0 / 64, mostElement = 1.0 / 16,
                        mostLse = 1.0 / 1024;

static constexpr const char *names[] = {"q",    "k",  "v",  "o", "lse",
                                        "dout", "dq", "dk", "dv"};

AttentionCheck::AttentionCheck(const Driver &driver, StreamHandle stream,
                               const VendorAttention &attention, double scale,
                               std::vector<DevicePointer> arguments)
    : driver_(driver), stream_(stream), attention_(attention), scale_(scale),
      arguments_(std::move(arguments)) {}

/// Returns the index of an argument in VendorAttention::strides, which has no
/// entry for argument 4, lse (the log-sum-exp of each row of logits).
static std::size_t matrixOf(std::size_t argument) {
  return argument < 4 ? argument : argument - 1;
}

static bool isLse(std::size_t argument) { return argument == 4; }

static bool isResult(const VendorAttention &attention, std::size_t argument) {
  return attention.isGradient ? argument >= 6 : argument >= 3;
}

static std::vector<std::size_t> resultsOf(const VendorAttention &attention) {
  std::vector<std::size_t> results;
  for (std::size_t i = 0; i < attention.arguments(); ++i)
    if (isResult(attention, i))
      results.push_back(i);
  return results;
}

/// Returns the bytes from the first to the last element of an argument,
/// including the bytes between its rows.
static int64_t bytesOf(const VendorAttention &attention, std::size_t argument) {
  int64_t rows = attention.sequences * attention.length;
  if (isLse(argument))
    return 4 * rows * attention.heads;
  std::size_t matrix = matrixOf(argument);
  return 2 *
         ((rows - 1) * attention.strides[matrix] + attention.columns(matrix));
}

bool AttentionCheck::overlap(const VendorAttention &attention,
                             const std::vector<DevicePointer> &arguments) {
  for (std::size_t i : resultsOf(attention))
    for (std::size_t j = 0; j < arguments.size(); ++j)
      if (!isResult(attention, j) &&
          arguments[i] < arguments[j] + DevicePointer(bytesOf(attention, j)) &&
          arguments[j] < arguments[i] + DevicePointer(bytesOf(attention, i)))
        return true;
  return false;
}

float AttentionCheck::random(float limit) {
  // SplitMix64.
  uint64_t x = state_ += 0x9e3779b97f4a7c15;
  x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9;
  x = (x ^ x >> 27) * 0x94d049bb133111eb;
  x ^= x >> 31;
  return (float(x >> 40) * 0x1p-23f - 1) * limit;
}

//===----------------------------------------------------------------------===//
// Inputs
//===----------------------------------------------------------------------===//

/// Returns random values for an operand. q and k are scaled so that the logits
/// have a variance of 2, which makes the attention weights neither uniform nor
/// zero. A gradient also has the operand lse, the log-sum-exp of each row of
/// logits. Here an estimate of lse is sufficient, since both implementations
/// receive the same values.
AttentionCheck::Buffer AttentionCheck::input(std::size_t argument) {
  Buffer buffer(std::size_t(bytesOf(attention_, argument)));
  if (isLse(argument)) {
    for (std::size_t i = 0; i < buffer.size() / 4; ++i) {
      int64_t row = int64_t(i) % attention_.length;
      double keys = double(attention_.causal ? row + 1 : attention_.length);
      auto value = float(std::log(keys) + 1);
      std::memcpy(buffer.data() + 4 * i, &value, 4);
    }
    return buffer;
  }
  double variance = std::sqrt(2.0 / double(attention_.headDim)) / scale_;
  auto limit = argument < 2 ? float(std::sqrt(3 * variance)) : 1.0f;
  for (std::size_t i = 0; i < buffer.size() / 2; ++i) {
    float value = random(limit);
    // Truncation to bf16 is sufficient for random values.
    std::memcpy(buffer.data() + 2 * i, reinterpret_cast<char *>(&value) + 2, 2);
  }
  return buffer;
}

/// Writes random values to all operands. Operands may be columns of one matrix,
/// such as q, k and v. Writing such an operand also overwrites other columns of
/// the matrix, that is, parts of operands that were filled earlier. This is
/// harmless, because the new values are random, too.
Status AttentionCheck::fill() {
  Status status;
  for (std::size_t i = 0; i < arguments_.size() && status.ok(); ++i) {
    if (isResult(attention_, i))
      continue;
    Buffer buffer = input(i);
    status = driver_.call(driver_.api().cuMemcpyHtoDAsync_v2, arguments_[i],
                          static_cast<const void *>(buffer.data()),
                          buffer.size(), stream_);
    // The asynchronous copy reads the buffer until the stream is synchronized.
    if (status.ok())
      status = driver_.call(driver_.api().cuStreamSynchronize, stream_);
  }
  return status;
}

/// Fills the results with NaNs, so that elements that are not written count as
/// differences.
Status AttentionCheck::clearResults() {
  Status status;
  for (std::size_t i : resultsOf(attention_))
    if (status.ok())
      status = driver_.call(driver_.api().cuMemsetD8Async, arguments_[i],
                            static_cast<unsigned char>(0xff),
                            std::size_t(bytesOf(attention_, i)), stream_);
  return status;
}

//===----------------------------------------------------------------------===//
// Results
//===----------------------------------------------------------------------===//

Result<std::vector<AttentionCheck::Buffer>> AttentionCheck::readResults() {
  std::vector<Buffer> buffers;
  Status status;
  for (std::size_t i : resultsOf(attention_)) {
    buffers.emplace_back(std::size_t(bytesOf(attention_, i)));
    if (status.ok())
      status = driver_.call(driver_.api().cuMemcpyDtoHAsync_v2,
                            static_cast<void *>(buffers.back().data()),
                            arguments_[i], buffers.back().size(), stream_);
  }
  if (status.ok())
    status = driver_.call(driver_.api().cuStreamSynchronize, stream_);
  if (!status.ok())
    return status;
  return buffers;
}

static double elementOf(const std::vector<char> &buffer, int64_t index) {
  float value = 0;
  std::memcpy(reinterpret_cast<char *>(&value) + 2, buffer.data() + 2 * index,
              2);
  return value;
}

std::string AttentionCheck::compare(std::size_t argument,
                                    const Buffer &expected,
                                    const Buffer &found) const {
  std::size_t matrix = matrixOf(argument);
  int64_t d = attention_.headDim, heads = attention_.columns(matrix) / d;
  for (int64_t block = 0; block < attention_.sequences * heads; ++block) {
    double squares = 0, errors = 0, most = 0, mostError = 0;
    for (int64_t i = 0; i < attention_.length * d; ++i) {
      int64_t row = block / heads * attention_.length + i / d;
      int64_t index =
          row * attention_.strides[matrix] + block % heads * d + i % d;
      double a = elementOf(expected, index), b = elementOf(found, index);
      squares += a * a;
      errors += (a - b) * (a - b);
      most = std::max(most, std::abs(a));
      mostError = std::max(mostError, std::abs(a - b));
    }
    // If an element is NaN, `errors` is NaN and the first comparison is false.
    bool agrees = errors <= mostMean * mostMean * squares &&
                  mostError <= mostElement * most;
    if (!agrees)
      return std::string(names[argument]) + " of head " +
             std::to_string(block % heads) + ", sequence " +
             std::to_string(block / heads) + ", has a relative RMS error of " +
             std::to_string(std::sqrt(errors / squares)) +
             ", expected at most " + std::to_string(mostMean);
  }
  return "";
}

std::string AttentionCheck::compareLse(const Buffer &expected,
                                       const Buffer &found) const {
  for (std::size_t i = 0; i < expected.size() / 4; ++i) {
    float a = 0, b = 0;
    std::memcpy(&a, expected.data() + 4 * i, 4);
    std::memcpy(&b, found.data() + 4 * i, 4);
    bool agrees = std::abs(double(a) - double(b)) <=
                  mostLse * std::max(1.0, std::abs(double(a)));
    if (!agrees)
      return "lse of row " + std::to_string(i) + " is " + std::to_string(b) +
             ", expected " + std::to_string(a);
  }
  return "";
}

Result<std::string>
AttentionCheck::run(const std::function<Status()> &kernel,
                    const std::function<Status()> &library) {
  Status status = fill();
  if (status.ok())
    status = clearResults();
  if (status.ok())
    status = kernel();
  if (!status.ok())
    return status;
  Result<std::vector<Buffer>> expected = readResults();
  if (!expected.ok())
    return expected.status();
  status = clearResults();
  if (!status.ok())
    return status;
  Status ofLibrary = library();
  Result<std::vector<Buffer>> found = readResults();
  if (!found.ok())
    return found.status();
  if (!ofLibrary.ok())
    return ofLibrary.message();
  std::vector<std::size_t> written = resultsOf(attention_);
  for (std::size_t i = 0; i < written.size(); ++i) {
    std::string difference =
        isLse(written[i]) ? compareLse((*expected)[i], (*found)[i])
                          : compare(written[i], (*expected)[i], (*found)[i]);
    if (!difference.empty())
      return difference;
  }
  return std::string();
}
