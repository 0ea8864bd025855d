//===- ThreadWorlds.h - Ranks of one process in a test ----------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef KILN_TEST_UNIT_RUNTIME_COMM_THREADWORLDS_H
#define KILN_TEST_UNIT_RUNTIME_COMM_THREADWORLDS_H

#include "ThreadTransport.h"
#include "kiln/Runtime/Comm/World.h"

#include <gtest/gtest.h>
#include <memory>
#include <thread>
#include <vector>

namespace kiln::runtime {

/// The World objects of `size` ranks that are threads of this process.
class ThreadWorlds {
public:
  explicit ThreadWorlds(int size, int64_t peerTimeout = 60)
      : ThreadWorlds(size, optionsWith(peerTimeout)) {}
  /// Creates worlds in which a failure does not end the process.
  ThreadWorlds(int size, WorldOptions options) : ranks_(size) {
    options.endsProcess = false;
    for (int rank = 0; rank < size; ++rank) {
      Result<std::unique_ptr<World>> world = World::over(
          [&]() -> Result<std::unique_ptr<Transport>> {
            return ranks_.transport(rank);
          },
          options);
      EXPECT_TRUE(world.ok());
      worlds_.push_back(std::move(*world));
    }
  }

  int size() const { return int(worlds_.size()); }
  World &operator[](int rank) { return *worlds_[std::size_t(rank)]; }
  std::optional<int> aborted() const { return ranks_.aborted(); }

  /// Calls body(world) on a thread of each rank.
  template <typename Body> void onEach(Body body) {
    std::vector<std::thread> threads;
    for (const std::unique_ptr<World> &world : worlds_)
      threads.emplace_back([&] { body(*world); });
    for (std::thread &thread : threads)
      thread.join();
  }

private:
  static WorldOptions optionsWith(int64_t peerTimeout) {
    WorldOptions options;
    options.peerTimeout = peerTimeout;
    return options;
  }

  ThreadRanks ranks_;
  std::vector<std::unique_ptr<World>> worlds_;
};

} // namespace kiln::runtime

#endif // KILN_TEST_UNIT_RUNTIME_COMM_THREADWORLDS_H
