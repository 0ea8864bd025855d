//===- ShortForm.h - Short form of descriptions -----------------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A handwritten description has one role with one rank, states that are not
// sharded, and programs whose "commands" form a single segment.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_TEST_UNIT_RUNTIME_ENGINE_SHORTFORM_H
#define KILN_TEST_UNIT_RUNTIME_ENGINE_SHORTFORM_H

#include <nlohmann/json.hpp>

namespace kiln::runtime::toy {

/// Returns the complete description: adds missing members, and keeps the
/// others.
nlohmann::json inFull(nlohmann::json description);

/// Returns the commands of the first segment of a program, usually the only
/// one.
nlohmann::json &commandsOf(nlohmann::json &program);
const nlohmann::json &commandsOf(const nlohmann::json &program);

} // namespace kiln::runtime::toy

#endif // KILN_TEST_UNIT_RUNTIME_ENGINE_SHORTFORM_H
