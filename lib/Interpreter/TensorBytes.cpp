//===- TensorBytes.cpp - Host tensors as bytes in memory ------------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "kiln/Interpreter/TensorBytes.h"

#include <cstring>

using namespace mlir;

namespace kiln {

TensorType storedType(RankedTensorType type) {
  Type element = type.getElementType();
  if (element.isF64())
    return TensorType::F64;
  if (element.isF32())
    return TensorType::F32;
  if (element.isBF16())
    return TensorType::BF16;
  if (element.isInteger(8))
    return TensorType::I8;
  return element.isInteger(64) ? TensorType::I64 : TensorType::I32;
}

namespace {

/// An element of type bf16 in memory.
struct Bfloat {
  uint16_t bits;
  Bfloat() = default;
  explicit Bfloat(double value) : bits(doubleToBfloat(value)) {}
  explicit operator double() const { return bfloatToFloat(bits); }
};

} // namespace

template <typename Stored, typename Element>
static void load(std::vector<Element> &elements, const char *bytes) {
  for (Element &element : elements) {
    Stored stored;
    std::memcpy(&stored, bytes, sizeof(Stored));
    element = static_cast<Element>(stored);
    bytes += sizeof(Stored);
  }
}

template <typename Stored, typename Element>
static void store(const std::vector<Element> &elements, char *bytes) {
  for (Element element : elements) {
    Stored stored = static_cast<Stored>(element);
    std::memcpy(bytes, &stored, sizeof(Stored));
    bytes += sizeof(Stored);
  }
}

HostTensor tensorFromBytes(RankedTensorType type, TensorType stored,
                           const char *bytes) {
  HostTensor tensor(type);
  if (stored == TensorType::F64)
    load<double>(tensor.reals, bytes);
  else if (stored == TensorType::F32)
    load<float>(tensor.reals, bytes);
  else if (stored == TensorType::BF16)
    load<Bfloat>(tensor.reals, bytes);
  else if (stored == TensorType::I64)
    load<int64_t>(tensor.integers, bytes);
  else if (stored == TensorType::I8)
    load<int8_t>(tensor.integers, bytes);
  else
    load<int32_t>(tensor.integers, bytes);
  return tensor;
}

void tensorToBytes(const HostTensor &tensor, TensorType stored, char *bytes) {
  if (stored == TensorType::F64)
    store<double>(tensor.reals, bytes);
  else if (stored == TensorType::F32)
    store<float>(tensor.reals, bytes);
  else if (stored == TensorType::BF16)
    store<Bfloat>(tensor.reals, bytes);
  else if (stored == TensorType::I64)
    store<int64_t>(tensor.integers, bytes);
  else if (stored == TensorType::I8)
    store<int8_t>(tensor.integers, bytes);
  else
    store<int32_t>(tensor.integers, bytes);
}

} // namespace kiln
