//===- Machine.cpp - Performance figures of a machine -----------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The queries rely on properties that the reader of machine files checks: axes
// are ascending, rates are positive, and the time of an operation does not
// decrease if its size increases.
//
//===----------------------------------------------------------------------===//

#include "kiln/Planner/Machine.h"

#include <algorithm>
#include <array>
#include <cassert>
#include <cmath>

using namespace kiln;

namespace {

/// Position of a size on an axis: between point `index` and the next one, at
/// the fraction `weight` on a logarithmic scale, or at the log distance
/// `beyond` after the last point.
struct AxisPlace {
  std::size_t index = 0;
  double weight = 0, beyond = 0;
};

} // namespace

static AxisPlace locate(const std::vector<int64_t> &axis, double size) {
  AxisPlace place;
  if (size <= double(axis.front()))
    return place;
  if (size >= double(axis.back())) {
    place.index = axis.size() - 1;
    place.beyond = std::log(size / double(axis.back()));
    return place;
  }
  auto next = std::upper_bound(
      axis.begin(), axis.end(), size,
      [](double value, int64_t point) { return value < double(point); });
  place.index = next - axis.begin() - 1;
  double low = double(axis[place.index]), high = double(*next);
  place.weight = std::log(size / low) / std::log(high / low);
  return place;
}

/// Returns the value at a size. Between two points of the axis, log(value) is
/// interpolated linearly in log(size). Before the first point and after the
/// last point, the value is constant.
static double interpolate(const std::vector<int64_t> &axis,
                          const std::vector<double> &values, double size) {
  AxisPlace place = locate(axis, size);
  double value = values[place.index];
  if (place.weight == 0)
    return value;
  return value * std::pow(values[place.index + 1] / value, place.weight);
}

/// Returns the seconds of one GEMM.
static double curveSeconds(const GemmCurve &curve, double m, double n,
                           double k) {
  std::array<const std::vector<int64_t> *, 3> axes = {&curve.m, &curve.n,
                                                      &curve.k};
  std::array<AxisPlace, 3> places = {locate(curve.m, m), locate(curve.n, n),
                                     locate(curve.k, k)};
  double logarithm = 0;
  for (const AxisPlace &place : places)
    logarithm += place.beyond;
  // If one of the eight corners has weight 1, `exact` is its time, which is not
  // interpolated. Otherwise `exact` is 0.
  double exact = 0;
  for (unsigned corner = 0; corner < 8; ++corner) {
    double weight = 1, flops = 2;
    std::size_t index = 0;
    for (unsigned d = 0; d < 3; ++d) {
      bool upper = corner >> d & 1;
      weight *= upper ? places[d].weight : 1 - places[d].weight;
      if (weight == 0)
        break;
      std::size_t at = places[d].index + upper;
      index = index * axes[d]->size() + at;
      flops *= double((*axes[d])[at]);
    }
    if (weight == 0)
      continue;
    double seconds = flops / curve.flops[index];
    if (weight == 1)
      exact = seconds;
    else
      logarithm += weight * std::log(seconds);
  }
  return exact ? exact * std::exp(logarithm) : std::exp(logarithm);
}

double GemmCurve::peak() const {
  return *std::max_element(flops.begin(), flops.end());
}

const GemmCurve &Machine::gemmOf(ElementType type) const {
  auto found = gemm.find(type);
  if (found == gemm.end())
    found = gemm.find(ElementType::F32);
  assert(found != gemm.end() && "every machine has an fp32 curve");
  return found->second;
}

double Machine::gemmSeconds(ElementType type, int64_t batch, int64_t m,
                            int64_t n, int64_t k) const {
  if (batch <= 0 || m <= 0 || n <= 0)
    return 0;
  const GemmCurve &curve = gemmOf(type);
  auto columns = double(n), depth = double(std::max<int64_t>(k, 1));
  if (kind == MachineKind::Gpu)
    return curveSeconds(curve, double(batch) * double(m), columns, depth);
  return double(batch) * curveSeconds(curve, double(m), columns, depth);
}

double Machine::memorySeconds(double bytes, double workingSet) const {
  if (bytes <= 0)
    return 0;
  return bytes / interpolate(bandwidth.bytes, bandwidth.bytesPerSecond,
                             workingSet > 0 ? workingSet : bytes);
}

double Machine::kernelSeconds(double bytes, double operations) const {
  return launchSeconds +
         std::max(memorySeconds(bytes), operations / vectorFlops);
}

double Machine::hostKernelSeconds(double bytes, double operations) const {
  if (!host)
    return kernelSeconds(bytes, operations);
  return std::max(bytes / host->bytesPerSecond, operations / host->vectorFlops);
}

double Machine::attentionSeconds(ElementType type, int64_t heads,
                                 int64_t sequence, int64_t width, bool causal,
                                 bool backward) const {
  if (heads <= 0 || sequence <= 0)
    return launchSeconds;
  auto length = double(sequence);
  double pairs = causal ? length * (length + 1) / 2 : length * length;
  // The forward pass has two GEMMs; the backward pass has five, one of which
  // recomputes the scores.
  double flops = (backward ? 10.0 : 4.0) * double(heads) * pairs *
                 double(std::max<int64_t>(width, 1));
  double share =
      interpolate(attention.sequence,
                  backward ? attention.backward : attention.forward, length);
  // On a CPU, attention widens narrow elements and computes in f32.
  if (kind == MachineKind::Cpu)
    type = computeType(type);
  return launchSeconds + flops / (share * gemmOf(type).peak());
}

double Machine::linkSeconds(double bytes, LinkDirection direction) const {
  if (bytes <= 0)
    return 0;
  return link.latency +
         bytes /
             (direction == LinkDirection::ToHost ? link.toHost : link.toDevice);
}

double Machine::ringSeconds(double bytes, int64_t ranks) const {
  if (ranks <= 1)
    return 0;
  MachineNetwork used = network.value_or(
      MachineNetwork{std::min(link.toHost, link.toDevice), link.latency});
  return double(ranks - 1) *
         (used.latency + bytes / double(ranks) / used.bytesPerSecond);
}

std::optional<std::string> Machine::mismatch(const ThisMachine &here) const {
  if (!origin.measured || kind != MachineKind::Cpu)
    return std::nullopt;
  std::string differences;
  auto compare = [&](const char *what, const std::string &then,
                     const std::string &now) {
    if (then == now)
      return;
    differences += (differences.empty() ? "was measured " : ", ") +
                   std::string(what) + " '" + then + "', here it is '" + now +
                   "'";
  };
  compare("on CPU", origin.cpu, here.cpu);
  compare("with BLAS", origin.blas, here.blas);
  if (origin.threads != here.threads)
    differences += (differences.empty() ? "was measured with " : ", with ") +
                   std::to_string(origin.threads) +
                   " threads, here there are " + std::to_string(here.threads);
  if (differences.empty())
    return std::nullopt;
  return differences;
}
