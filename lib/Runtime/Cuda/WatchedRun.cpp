//===- WatchedRun.cpp - Observer of memory during a run -------------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "WatchedRun.h"

#include "OpTrace.h"
#include "RankCollectives.h"

#include <cstring>

using namespace kiln::runtime::cuda;
using namespace kiln::runtime;
using namespace kiln;

Status kiln::runtime::cuda::copyToHost(const CudaResources &resources,
                                       const Arenas &copies, const Place &place,
                                       int64_t bytes) {
  if (bytes == 0)
    return Status();
  char *copy = copies.at(place);
  if (place.arena == ArenaKind::Host) {
    std::memcpy(copy, resources.hostArena + place.offset, std::size_t(bytes));
    return Status();
  }
  const Driver &driver = resources.gpu->driver();
  StreamHandle stream = resources.stream(Stream::Compute);
  Status status =
      driver.call(driver.api().cuMemcpyDtoHAsync_v2, static_cast<void *>(copy),
                  resources.arena + DevicePointer(place.offset),
                  std::size_t(bytes), stream);
  return status.ok() ? driver.call(driver.api().cuStreamSynchronize, stream)
                     : status;
}

Status WatchedRun::before(std::size_t index) {
  const StreamAction &action = program_.streams().actions[index];
  observer_.before(action.command, action.run);
  return Status();
}

Status WatchedRun::after(std::size_t index) {
  const StreamAction &action = program_.streams().actions[index];
  Status status = waitForStream(resources_, resources_.stream(action.stream));
  for (std::size_t slot : writtenSlots(program_.program(), action.command)) {
    const Slot &written = program_.program().slots[slot];
    if (status.ok())
      status = copyToHost(resources_, copies_, written.at(action.run),
                          written.bytes);
  }
  if (status.ok())
    observer_.after(action.command, action.run);
  return status;
}
