//===- MemoryBlocks.cpp - Slots and states that contain a byte ------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "MemoryBlocks.h"

#include <algorithm>

namespace kiln::runtime {

MemoryBlocks::MemoryBlocks(const ProgramFile &file, const Program &program)
    : microbatches_(program.microbatches) {
  for (std::size_t i = 0; i < file.statePlaces.size(); ++i) {
    const Place &place = file.statePlaces[i];
    blocks_.push_back({place.arena,
                       place.offset,
                       place.offset + file.description.states[i].bytes(),
                       {INT64_MIN, INT64_MAX},
                       false,
                       0,
                       blocks_.size(),
                       file.description.states[i].owner()});
  }
  for (const Slot &slot : program.slots)
    blocks_.push_back({slot.arena, slot.offset, slot.offset + slot.bytes,
                       program.lifetimeOf(slot),
                       program.livesPerMicrobatch(slot), slot.ring,
                       blocks_.size(), slot.owner});
}

MemoryBlocks::Candidates MemoryBlocks::candidates(std::size_t command,
                                                  const Ref &ref,
                                                  int64_t owner) const {
  int64_t advance = ref.stride * std::max<int64_t>(microbatches_.count - 1, 0);
  Candidates found;
  for (const Block &block : blocks_) {
    // The distance from the block to the reference differs between executions
    // of the command. It is a linear function of the micro-batch and of the
    // ring slot (the index of the buffer instance that an execution uses).
    // Therefore the distance is smallest and largest at the first or last
    // micro-batch and at the first or last ring slot.
    int64_t shift = (ref.ring - block.ring) * (microbatches_.slots - 1);
    int64_t lowest = ref.offset + std::min<int64_t>(advance, 0) +
                     std::min<int64_t>(shift, 0),
            highest = ref.offset + std::max<int64_t>(advance, 0) +
                      std::max<int64_t>(shift, 0);
    bool exists = owner < 0 || block.owner < 0 || block.owner == owner;
    if (exists && block.arena == ref.arena &&
        block.life.contains(int64_t(command)) && block.begin <= highest &&
        lowest < block.end)
      found.push_back(block.index);
  }
  return found;
}

std::vector<MemoryBlocks::Block>
MemoryBlocks::around(const Candidates &candidates, const Ref &ref,
                     const abi::SegmentRun &run) const {
  int64_t offset = ref.at(run).offset;
  std::vector<Block> found;
  for (std::size_t index : candidates) {
    Block block = blocks_[index];
    block.begin += block.ring * run.slot;
    block.end += block.ring * run.slot;
    if (block.begin <= offset && offset < block.end)
      found.push_back(block);
  }
  return found;
}

} // namespace kiln::runtime
