//===- ToyOffload.h - The toy model with a host arena -----------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The toy of ToyProgram.h, but parameter U and both moments live in the host
// arena. Of every kind of offload there is one: an activation (hidden goes to
// the host and comes back), an optimizer state that visits the device (E.m), an
// update that runs on the host (U, from a gradient that is copied there), a
// mirror (U.device), and copies inside and outside of the loop. All of this is
// exact: it trains like the toy, bit for bit.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_TEST_UNIT_RUNTIME_ENGINE_TOYOFFLOAD_H
#define KILN_TEST_UNIT_RUNTIME_ENGINE_TOYOFFLOAD_H

#include "ToyProgram.h"

namespace kiln::runtime::toy {

/// Changes a description of describe().
nlohmann::json offload(nlohmann::json description);

inline nlohmann::json describeOffloaded() { return offload(describe()); }

/// Bytes that its training program copies per step, to and from the host.
constexpr int64_t offloadedHiddenBytes = batch * length * width * 4;
constexpr int64_t offloadedTableBytes = vocabulary * width * 4;
constexpr int64_t copiedOutBytes =
    offloadedHiddenBytes + 2 * offloadedTableBytes;
constexpr int64_t copiedInBytes = copiedOutBytes;

/// The slot of that name.
nlohmann::json &findSlot(nlohmann::json &program, const std::string &name);

/// The index of the command of that kind and name.
size_t findCommand(const nlohmann::json &program, const std::string &op,
                   const std::string &name);

} // namespace kiln::runtime::toy

#endif // KILN_TEST_UNIT_RUNTIME_ENGINE_TOYOFFLOAD_H
