//===- TensorErrors.cpp - Comparison of tensor files ------------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// kiln-tensor-errors REFERENCE FILE... prints one line of JSON for each tensor
// of the safetensors file REFERENCE: its name, number of elements and norm, and
// for each FILE the norm of the difference from the tensor in FILE and whether
// all bits are equal. Sums use f64 for all element types. Some writers add the
// prefix "gradient:" or "transformer." to names; names are compared without
// these prefixes.
//
//===----------------------------------------------------------------------===//

#include "kiln/Support/Json.h"
#include "kiln/Support/Messages.h"
#include "kiln/Support/SafeTensors.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>

using namespace kiln::support;
using namespace kiln;
using Json = nlohmann::json;

static std::string plainName(std::string name) {
  for (std::string prefix : {"gradient:", "transformer."})
    if (name.rfind(prefix, 0) == 0)
      name.erase(0, prefix.size());
  return name;
}

static const TensorInfo *find(const SafeTensorsFile &file,
                              const std::string &plain) {
  for (const TensorInfo &tensor : file.tensors())
    if (plainName(tensor.name) == plain)
      return &tensor;
  return nullptr;
}

namespace {

/// The difference between a tensor and the reference.
struct Difference {
  double squares = 0;
  bool same = true;
};

} // namespace

static constexpr int64_t blockElements = 1 << 16;

static Status compare(const SafeTensorsFile &reference,
                      const TensorInfo &tensor, const SafeTensorsFile &file,
                      double &squares, Difference &difference) {
  const TensorInfo *other = find(file, plainName(tensor.name));
  if (!other || other->elements != tensor.elements)
    return Status::badInput(
        file.path() + ": " +
        (other ? std::to_string(other->elements) + " elements" : "no data") +
        " for tensor " + inQuotes(tensor.name) + ", expected " +
        std::to_string(tensor.elements) + " elements as in " +
        reference.path());
  std::vector<double> a(blockElements), b(blockElements);
  squares = 0;
  for (int64_t first = 0; first < tensor.elements; first += blockElements) {
    int64_t count = std::min(blockElements, tensor.elements - first);
    Status status = reference.readElements(tensor, first, count,
                                           ElementType::F64, a.data());
    if (status.ok())
      status =
          file.readElements(*other, first, count, ElementType::F64, b.data());
    if (!status.ok())
      return status;
    for (std::size_t i = 0; i < std::size_t(count); ++i) {
      double error = b[i] - a[i];
      difference.squares += error * error;
      squares += a[i] * a[i];
    }
    difference.same &= other->type == tensor.type &&
                       std::memcmp(a.data(), b.data(),
                                   std::size_t(count) * sizeof(double)) == 0;
  }
  return Status();
}

/// Converts infinities and NaNs to null, since JSON has no such numbers.
static Json number(double value) {
  return std::isfinite(value) ? Json(value) : Json(nullptr);
}

static Status compareAll(int argc, char **argv) {
  Result<SafeTensorsFile> reference = SafeTensorsFile::open(argv[1]);
  if (!reference.ok())
    return reference.status();
  std::vector<SafeTensorsFile> files;
  for (int i = 2; i < argc; ++i) {
    Result<SafeTensorsFile> file = SafeTensorsFile::open(argv[i]);
    if (!file.ok())
      return file.status();
    files.push_back(std::move(*file));
  }
  for (const TensorInfo &tensor : reference->tensors()) {
    double squares = 0;
    Json errors = Json::array(), same = Json::array();
    for (const SafeTensorsFile &file : files) {
      Difference difference;
      Status status = compare(*reference, tensor, file, squares, difference);
      if (!status.ok())
        return status;
      errors.push_back(number(std::sqrt(difference.squares)));
      same.push_back(difference.same);
    }
    Json line = {{"tensor", plainName(tensor.name)},
                 {"elements", tensor.elements},
                 {"norm", number(std::sqrt(squares))},
                 {"errors", errors},
                 {"same", same}};
    std::printf(
        "%s\n",
        line.dump(-1, ' ', false, Json::error_handler_t::replace).c_str());
  }
  return Status();
}

int main(int argc, char **argv) {
  if (argc < 3) {
    std::fputs("kiln-tensor-errors REFERENCE.safetensors FILE.safetensors...\n",
               stderr);
    return int(ExitCode::Usage);
  }
  Status status = compareAll(argc, argv);
  if (status.ok())
    return 0;
  std::fprintf(stderr, "error: %s\n", status.message().c_str());
  return int(status.code());
}
