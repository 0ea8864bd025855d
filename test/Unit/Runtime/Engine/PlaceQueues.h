//===- PlaceQueues.h - Queues for descriptions by hand ----------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Adds queues and waits to a description that is written by hand, by the rules
// of the compiler (lib/Conversion/KilnToKilnRT/PlaceWaits.h), after completing
// its short form.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_TEST_UNIT_RUNTIME_ENGINE_PLACEQUEUES_H
#define KILN_TEST_UNIT_RUNTIME_ENGINE_PLACEQUEUES_H

#include "ShortForm.h"

#include <nlohmann/json.hpp>

namespace kiln::runtime::toy {

/// The description in full, with the fields "queues", "queue" and "after" of
/// the compiler, whether or not it had others before.
nlohmann::json withQueues(nlohmann::json description);

} // namespace kiln::runtime::toy

#endif // KILN_TEST_UNIT_RUNTIME_ENGINE_PLACEQUEUES_H
