//===- HostWork.cpp - Commands of the host stream -------------------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "HostWork.h"

#include <algorithm>
#include <cstring>

using namespace kiln::runtime::cuda;
using namespace kiln::runtime;
using namespace kiln;

static void launch(const HostWork &work) {
  int64_t chunks = (work.units + work.grain - 1) / work.grain;
  work.team->forEachPart(chunks, [&](int64_t begin, int64_t end, int) {
    work.kernel(work.args.data(), work.immediates.data(), begin * work.grain,
                std::min(end * work.grain, work.units), nullptr);
  });
}

void kiln::runtime::cuda::runHostWork(void *data) {
  const auto &work = *static_cast<const HostWork *>(data);
  // This function runs on a thread of the driver. Flush denormals, because the
  // thread does not flush them by default.
  DenormalsFlushed flushed;
  if (work.kernel)
    launch(work);
  else if (work.to && work.from) {
    std::memcpy(work.to, work.from, std::size_t(work.bytes));
    std::memset(work.to + work.bytes, 0, std::size_t(work.zeros));
  } else if (work.to)
    std::memset(work.to, 0, std::size_t(work.bytes));
}
