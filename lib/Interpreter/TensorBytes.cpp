//===- TensorBytes.cpp - Conversion of host tensors to bytes ----*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "kiln/Interpreter/TensorBytes.h"
#include "kiln/Dialect/Kiln/IR/Kiln.h"
#include "kiln/Support/ElementConversion.h"

#include <cstring>

using namespace mlir;

namespace kiln {

ElementType storedType(RankedTensorType type) { return elementTypeOf(type); }

template <typename Stored>
static void load(std::vector<int64_t> &elements, const char *bytes) {
  for (int64_t &element : elements) {
    Stored stored;
    std::memcpy(&stored, bytes, sizeof(Stored));
    element = stored;
    bytes += sizeof(Stored);
  }
}

template <typename Stored>
static void store(const std::vector<int64_t> &elements, char *bytes) {
  for (int64_t element : elements) {
    Stored stored = static_cast<Stored>(element);
    std::memcpy(bytes, &stored, sizeof(Stored));
    bytes += sizeof(Stored);
  }
}

HostTensor tensorFromBytes(RankedTensorType type, ElementType stored,
                           const char *bytes) {
  HostTensor tensor(type);
  if (isFloat(stored)) {
    convertElements(stored, bytes, ElementType::F64, tensor.reals.data(),
                    tensor.reals.size());
    return tensor;
  }
  switch (bitsOf(stored)) {
  case 64:
    load<int64_t>(tensor.integers, bytes);
    return tensor;
  case 32:
    load<int32_t>(tensor.integers, bytes);
    return tensor;
  case 8:
    load<int8_t>(tensor.integers, bytes);
    return tensor;
  }
  llvm::report_fatal_error("unsupported integer width");
}

void tensorToBytes(const HostTensor &tensor, ElementType stored, char *bytes) {
  if (isFloat(stored))
    return convertElements(ElementType::F64, tensor.reals.data(), stored, bytes,
                           tensor.reals.size());
  switch (bitsOf(stored)) {
  case 64:
    return store<int64_t>(tensor.integers, bytes);
  case 32:
    return store<int32_t>(tensor.integers, bytes);
  case 8:
    return store<int8_t>(tensor.integers, bytes);
  }
  llvm::report_fatal_error("unsupported integer width");
}

} // namespace kiln
