//===- ChainFloor.cpp - The least memory of a chain -------------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ChainFloor.h"

using namespace kiln;
using namespace kiln::chain;

static const ChainFloor &higher(const ChainFloor &a, const ChainFloor &b) {
  return b.bytes > a.bytes ? b : a;
}

Floor::Floor(const View &view) : view(view), floors(view.numSegments()) {
  view.forEachSegment([&](int32_t i, int32_t l) {
    ChainFloor found = find(i, l);
    found.stage -= i;
    floors[view.segment(i, l)] = found;
  });
}

ChainFloor Floor::of(int32_t i, int32_t l) const {
  ChainFloor floor = floors[view.segment(i, l)];
  floor.stage += i;
  return floor;
}

/// The operation of a choice that needs most.
static ChainFloor ownNeed(const View &view, const Choice &choice, int32_t i) {
  if (choice.saving)
    return {choice.need, i, choice.need == choice.saving->backwardNeed};
  ChainFloor own{choice.need, i, false};
  int64_t most = view.checkpointNeed(i);
  for (int32_t j = i + 1; j < choice.stop; ++j) {
    if (view.dropNeed(j) > most)
      own.stage = j;
    most = std::max(most, view.dropNeed(j));
  }
  return own;
}

ChainFloor Floor::find(int32_t i, int32_t l) const {
  ChainFloor least;
  least.bytes = std::numeric_limits<int64_t>::max();
  view.forEachChoice(i, l, [&](const Choice &choice) {
    int64_t bytes = choice.need;
    if (choice.stop <= l)
      bytes = std::max(bytes, choice.stored + bytesOf(choice.stop, l));
    if (!choice.saving)
      bytes = std::max(bytes, bytesOf(i, choice.stop - 1));
    if (bytes >= least.bytes)
      return;
    ChainFloor own = ownNeed(view, choice, i);
    if (choice.stop <= l) {
      ChainFloor right = of(choice.stop, l);
      right.bytes += choice.stored;
      own = higher(own, right);
    }
    if (!choice.saving)
      own = higher(own, of(i, choice.stop - 1));
    least = own;
  });
  return least;
}
