//===- ToyOffload.h - The toy model with a host arena -----------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The toy of ToyProgram.h with parameter U and both moments in the host arena.
// It contains every kind of offload: an activation (hidden is copied to the
// host and back), an optimizer state that is copied to the device for its
// update (E.m), an update that runs on the host (U, whose gradient is copied to
// the host), a mirror (U.device, a copy of U on the device), and copies inside
// and outside of the micro-batches. The copy of hidden to the host is in flight
// from the forward to the backward segment. The results of this toy are bitwise
// equal to those of the toy without offloading.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_TEST_UNIT_RUNTIME_ENGINE_TOYOFFLOAD_H
#define KILN_TEST_UNIT_RUNTIME_ENGINE_TOYOFFLOAD_H

#include "ToyProgram.h"

namespace kiln::runtime::toy {

/// Adds offloading to a description that describe() has returned.
nlohmann::json offload(nlohmann::json description);

inline nlohmann::json describeOffloaded() { return offload(describe()); }

/// Returns the description of a toy program with offloading, in which all
/// micro-batches are in flight at the same time.
inline nlohmann::json describeInFlight() {
  Options options;
  options.order = "all-forward-first";
  options.slots = microbatches;
  return offload(describe(options));
}

/// Bytes that the training program copies per step, to and from the host.
constexpr int64_t offloadedHiddenBytes = batch * length * width * 4;
constexpr int64_t offloadedTableBytes = vocabulary * width * 4;
constexpr int64_t copiedOutBytes =
    offloadedHiddenBytes + 2 * offloadedTableBytes;
constexpr int64_t copiedInBytes = copiedOutBytes;

/// Returns the slot with this name.
nlohmann::json &findSlot(nlohmann::json &program, const std::string &name);

/// Returns the index of the command with this kind and name.
size_t findCommand(const nlohmann::json &program, const std::string &op,
                   const std::string &name);

} // namespace kiln::runtime::toy

#endif // KILN_TEST_UNIT_RUNTIME_ENGINE_TOYOFFLOAD_H
