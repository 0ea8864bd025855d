//===- PlaceQueues.h - Queues for handwritten descriptions ------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Expands the short form of a handwritten description (ShortForm.h), and adds
// queues and waits by the rules of the compiler
// (lib/Conversion/KilnToKilnRT/PlaceWaits.h).
//
//===----------------------------------------------------------------------===//

#ifndef KILN_TEST_UNIT_RUNTIME_ENGINE_PLACEQUEUES_H
#define KILN_TEST_UNIT_RUNTIME_ENGINE_PLACEQUEUES_H

#include "ShortForm.h"

#include <nlohmann/json.hpp>

namespace kiln::runtime::toy {

/// Returns the complete description, with the fields "queues", "queue" and
/// "after" as the compiler would write them. Replaces existing fields.
nlohmann::json withQueues(nlohmann::json description);

} // namespace kiln::runtime::toy

#endif // KILN_TEST_UNIT_RUNTIME_ENGINE_PLACEQUEUES_H
