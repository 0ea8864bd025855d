//===- ChainFloor.cpp - Least memory of the segments of a chain -----------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ChainFloor.h"

using namespace kiln;
using namespace kiln::chain;

Floor::Floor(const View &view)
    : view(view),
      floors(view.numSegments(), std::numeric_limits<int64_t>::max()) {
  view.forEachSegment([&](const Segment &segment) {
    int64_t &least = floors[view.number(segment)];
    if (segment.first == segment.end) {
      least = view.emptyNeed(segment);
      return;
    }
    view.forEachChoice(segment, [&](const Choice &choice) {
      least = std::min(least, bytes(choice));
    });
  });
}
