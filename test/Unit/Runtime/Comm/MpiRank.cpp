//===- MpiRank.cpp - A rank that communicates by MPI ----------------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// KilnMpiRank sum COUNT [REPEATS] | shards COUNT | hang | die | fail | short
//
// sum: sums COUNT f32 numbers REPEATS times, checks the results and the counted
// bytes, and lets rank 0 print them and the bandwidth.
// shards: sums COUNT f32 numbers by a reduce-scatter, gathers the sums, fetches
// the shards, and checks them.
// hang, die, fail: rank 1 hangs, dies, or fails before a sum.
// short: rank 1 sends fewer bytes than rank 0 expects.
//
//===----------------------------------------------------------------------===//

#include "CollectiveValues.h"
#include "kiln/Runtime/Comm/World.h"

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <unistd.h>

using namespace kiln::runtime;
using namespace kiln;

static int sum(World &world, int64_t count, int repeats) {
  world.reserve(2, 4 * count);
  std::vector<float> values(std::size_t(count), 0);
  auto fill = [&] {
    for (int64_t i = 0; i < count; ++i)
      values[std::size_t(i)] = float(i % 1000 + world.rank());
  };
  std::vector<CollectiveSpan> spans = {
      {reinterpret_cast<char *>(values.data()), count}};
  CollectiveJob job = jobOf(Collective::AllReduce, spans);
  double seconds = 0;
  bool isRight = true;
  int size = world.size();
  for (int repeat = 0; repeat < repeats; ++repeat) {
    fill();
    if (!world.agree("start", int64_t(repeat), AgreeBy::Equal).ok())
      return 1;
    auto begin = std::chrono::steady_clock::now();
    world.wait(world.begin(job));
    seconds =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - begin)
            .count();
    for (int64_t i = 0; i < count; ++i)
      isRight &= values[std::size_t(i)] ==
                 float(size * (i % 1000) + size * (size - 1) / 2);
  }
  Result<int64_t> right = world.agree("result", int64_t(isRight), AgreeBy::Min);
  Result<int64_t> sent = world.agree(
      "result", world.sent().of(TrafficKind::Sum) / repeats, AgreeBy::Sum);
  if (world.rank() == 0)
    std::printf("%d ranks: %s, %lld bytes sent, scratch %lld, %.1f MB/s\n",
                size, *right ? "right" : "wrong", (long long)*sent,
                (long long)world.scratchBytes(),
                double(4 * count) / seconds * 1e-6);
  return *right ? 0 : 1;
}

static int sumShards(World &world, int64_t count) {
  int size = world.size();
  int64_t shardCount = (count + size - 1) / size;
  world.reserve(1, 4 * shardCount * size);
  std::vector<float> values, shard(std::size_t(shardCount), -1);
  for (int64_t i = 0; i < count; ++i)
    values.push_back(float(i % 1000 + world.rank()));
  std::vector<CollectiveSpan> spans = {
      {reinterpret_cast<char *>(values.data()), count,
       reinterpret_cast<char *>(shard.data()), shardCount}};
  world.wait(world.begin(jobOf(Collective::ReduceScatter, spans)));
  std::fill(values.begin(), values.end(), -1.0f);
  world.wait(world.begin(jobOf(Collective::AllGather, spans)));
  bool isRight = true;
  for (int64_t i = 0; i < count; ++i)
    isRight &= values[std::size_t(i)] ==
               float(size * (i % 1000) + size * (size - 1) / 2);
  for (int from = 0; from < size; ++from) {
    std::vector<float> there(shard.size());
    Status status = world.fetch("the shards", from, shard.data(),
                                4 * shardCount, there.data());
    int64_t begin = from * shardCount;
    int64_t end = std::min(count, begin + shardCount);
    isRight &= status.ok() && (world.rank() != 0 ||
                               std::equal(values.begin() + begin,
                                          values.begin() + end, there.begin()));
  }
  Result<int64_t> right = world.agree("result", int64_t(isRight), AgreeBy::Min);
  if (world.rank() == 0)
    std::printf("%d ranks: %s shards\n", size, *right ? "right" : "wrong");
  return *right ? 0 : 1;
}

int main(int argc, char **argv) {
  WorldOptions options;
  options.peerTimeout = 2;
  Result<std::unique_ptr<World>> world = World::connect(options);
  if (!world.ok()) {
    std::fprintf(stderr, "error: %s\n", world.status().message().c_str());
    return int(world.status().code());
  }
  std::string action = argc > 1 ? argv[1] : "sum";
  (*world)->setStep(3);
  if ((*world)->rank() == 1) {
    if (action == "hang")
      ::raise(SIGSTOP);
    if (action == "die")
      ::raise(SIGKILL);
    if (action == "fail")
      (*world)->fail("rank 1 has no data");
  }
  int64_t count = argc > 2 ? std::atoll(argv[2]) : 1000;
  if (action == "short") {
    std::vector<char> bytes(100);
    return (*world)->fetch("the state", 1, bytes.data(),
                           (*world)->rank() == 0 ? 100 : 60, bytes.data())
                   .ok()
               ? 0
               : 1;
  }
  if (action == "shards")
    return sumShards(**world, count);
  return sum(**world, count, argc > 3 ? std::atoi(argv[3]) : 1);
}
