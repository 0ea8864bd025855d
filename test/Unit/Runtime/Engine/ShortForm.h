//===- ShortForm.h - The short form of descriptions -------------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A description that is written by hand has one role with one rank, states that
// are whole, and programs with "commands", which are those of one segment.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_TEST_UNIT_RUNTIME_ENGINE_SHORTFORM_H
#define KILN_TEST_UNIT_RUNTIME_ENGINE_SHORTFORM_H

#include <nlohmann/json.hpp>

namespace kiln::runtime::toy {

/// The description in full: what the short form leaves out is added, and what
/// is there is kept.
nlohmann::json inFull(nlohmann::json description);

/// The commands of the first segment of a program, usually all.
nlohmann::json &commandsOf(nlohmann::json &program);
const nlohmann::json &commandsOf(const nlohmann::json &program);

} // namespace kiln::runtime::toy

#endif // KILN_TEST_UNIT_RUNTIME_ENGINE_SHORTFORM_H
