//===- Rates.cpp - Main program of kiln-gpu-rates ---------------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// kiln-gpu-rates measures the reference rates to which the GPU suite compares
// the rates of kiln, and prints one JSON object per line. Times are medians of
// --samples measurements with CUDA events. Operands are random numbers, because
// matmuls of zeros would run faster. The bytes of copies count both reads and
// writes.
//
//===----------------------------------------------------------------------===//

#include "GpuClock.h"
#include "Measurements.h"
#include "kiln/Support/Json.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <optional>

using namespace kiln::runtime::cuda;
using namespace kiln::runtime::rates;
using namespace kiln::runtime;
using namespace kiln::support;
using namespace kiln;

static constexpr const char *help =
    "kiln-gpu-rates [--copy-bytes=N] [--link-bytes=N] [--samples=N] "
    "[--product=TYPE:MxNxK[:ta][:tb]]...\n"
    "Measures the copy bandwidth and matmul rate of the GPU; 0 bytes disable a "
    "measurement.\n";

static std::optional<int64_t> numberOf(const char *text) {
  char *end = nullptr;
  long long value = std::strtoll(text, &end, 10);
  if (end == text || *end || value < 0)
    return std::nullopt;
  return value;
}

/// Parses a shape such as "f32:1024x768x3072:ta:tb".
static std::optional<MeasuredGemm> shapeOf(const std::string &text) {
  MeasuredGemm shape;
  std::size_t colon = text.find(':');
  if (colon == std::string::npos)
    return std::nullopt;
  std::optional<ElementType> type = elementTypeNamed(text.substr(0, colon));
  int end = 0;
  long long m, n, k;
  if (!type || std::sscanf(text.c_str() + colon, ":%lldx%lldx%lld%n", &m, &n,
                           &k, &end) != 3)
    return std::nullopt;
  std::string flags = text.substr(colon + std::size_t(end));
  shape.transA = flags == ":ta" || flags == ":ta:tb";
  shape.transB = flags == ":tb" || flags == ":ta:tb";
  if (m < 1 || n < 1 || k < 1 ||
      (!flags.empty() && !shape.transA && !shape.transB))
    return std::nullopt;
  shape.type = *type;
  shape.m = m;
  shape.n = n;
  shape.k = k;
  shape.text = text;
  return shape;
}

static std::optional<Request> parse(int argc, char **argv) {
  Request request;
  for (int i = 1; i < argc; ++i) {
    std::string argument = argv[i];
    auto valueOf = [&](const char *name) -> const char * {
      std::size_t length = std::strlen(name);
      return argument.compare(0, length, name) == 0 ? argv[i] + length
                                                    : nullptr;
    };
    std::optional<int64_t> number;
    if (const char *text = valueOf("--copy-bytes=")) {
      number = numberOf(text);
      request.copyBytes = number.value_or(0);
    } else if (const char *text = valueOf("--link-bytes=")) {
      number = numberOf(text);
      request.linkBytes = number.value_or(0);
    } else if (const char *text = valueOf("--samples=")) {
      number = numberOf(text);
      request.samples = number.value_or(0);
      if (request.samples < 1)
        return std::nullopt;
    } else if (const char *text = valueOf("--product=")) {
      if (std::optional<MeasuredGemm> shape = shapeOf(text)) {
        request.products.push_back(*shape);
        number = 1;
      }
    }
    if (!number)
      return std::nullopt;
  }
  return request;
}

static void print(const nlohmann::json &line) {
  std::printf("%s\n", line.dump(-1, ' ', false,
                                nlohmann::json::error_handler_t::replace)
                          .c_str());
  std::fflush(stdout);
}

int main(int argc, char **argv) {
  std::optional<Request> request = parse(argc, argv);
  if (!request) {
    std::fputs(help, stderr);
    return int(ExitCode::Usage);
  }
  Status status = measure(*request, print);
  if (status.ok())
    return 0;
  std::fprintf(stderr, "error: %s\n", status.message().c_str());
  return int(status.code());
}
