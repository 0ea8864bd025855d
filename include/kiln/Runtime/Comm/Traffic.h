//===- Traffic.h - Bytes that a rank sends ----------------------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef KILN_RUNTIME_COMM_TRAFFIC_H
#define KILN_RUNTIME_COMM_TRAFFIC_H

#include <array>
#include <cstddef>
#include <cstdint>

namespace kiln::runtime {

/// The purpose of a message.
enum class TrafficKind : uint8_t {
  Sum,      ///< A part of an all-reduce or a reduce-scatter.
  Gather,   ///< A part of an all-gather.
  State,    ///< A part of a copy to rank 0 by World::fetch().
  Agreement ///< A message of World::gather() or World::agree().
};
inline constexpr std::size_t trafficKinds = 4;

/// Counts of sent bytes, without the headers that a network adds. Each byte is
/// counted once, by the rank that sends it.
struct Traffic {
  std::array<int64_t, trafficKinds> bytes = {};

  int64_t of(TrafficKind kind) const { return bytes[std::size_t(kind)]; }
};

} // namespace kiln::runtime

#endif // KILN_RUNTIME_COMM_TRAFFIC_H
