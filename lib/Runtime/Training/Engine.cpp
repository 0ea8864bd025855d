//===- Engine.cpp - Default implementations of Engine ---------------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "kiln/Runtime/Engine/Engine.h"
#include "kiln/Runtime/Comm/World.h"

#include <chrono>

namespace kiln::runtime {

Status Engine::runTraced(size_t program, std::vector<TraceEvent> &events) {
  using Clock = std::chrono::steady_clock;
  Clock::time_point start = Clock::now();
  Status status = run(program);
  TraceEvent event;
  event.name = description().programs[program].name;
  event.category = "program";
  event.durationUs =
      std::chrono::duration<double, std::micro>(Clock::now() - start).count();
  events.push_back(std::move(event));
  return status;
}

Status Engine::stressCopies(uint64_t) {
  return Status(ExitCode::Usage,
                "--stress-copies: only an executable that was compiled with "
                "--target=cpu has this flag; with --target=cuda-emu, use "
                "--emu-seed");
}

Status Engine::join(World &world) {
  if (world.size() == 1)
    return Status();
  return Status::error("this program runs as one rank, but " +
                       std::to_string(world.size()) +
                       " ranks were started: start one rank, or run an "
                       "executable that kilnc has compiled");
}

Status Engine::shuffle(uint64_t) {
  return Status(ExitCode::Usage,
                "--emu-seed: only an executable that was compiled with "
                "--target=cuda-emu emulates a GPU");
}

Status Engine::syncOps() {
  return Status(ExitCode::Usage,
                "--sync-ops: only an executable that was compiled with "
                "--target=cuda runs on a GPU");
}

Status Engine::keepAlgorithms(const std::string &) {
  return Status(ExitCode::Usage,
                "--gpu-algorithms: only an executable that was compiled with "
                "--target=cuda calls cuBLASLt");
}

Status Engine::checkPlan(const std::function<Status(size_t)> &,
                         std::vector<MemoryCheckLine> &) {
  return Status(ExitCode::Usage,
                "--check-memory: this program has no planned memory to check");
}

Status Engine::traceOps(const std::function<Status(size_t)> &,
                        const std::string &) {
  return Status(ExitCode::Usage,
                "--check-ops: only a compiled executable has ops to check");
}

Status Engine::repeatOps(const std::string &, std::vector<MemoryCheckLine> &) {
  return Status(ExitCode::Usage,
                "--check-trace: only an executable that was compiled with "
                "--target=cpu or --target=cuda-emu can repeat ops");
}

} // namespace kiln::runtime
