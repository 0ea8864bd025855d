//===- MemoryRates.cpp - Memory, vector and copy performance --------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Memory bandwidth: all threads compute a triad (two arrays read, one written),
// each on its own range of the arrays, with working sets from the size of the
// first-level cache to more than the last-level cache. Vector throughput: all
// threads evaluate a polynomial, as exp and similar functions do, on data in
// the first-level cache. Copies: one thread copies, as for offloading; then two
// threads copy concurrently.
//
//===----------------------------------------------------------------------===//

#include "MemoryRates.h"
#include "GemmRates.h"

#include <algorithm>
#include <condition_variable>
#include <cstring>
#include <mutex>
#include <thread>

namespace kiln::runtime {

// Compile the measured loops for several vector extensions and select one at
// run time. The runtime itself is compiled for baseline x86-64, but the kernels
// of executables are compiled for the target CPU.
#if defined(__x86_64__)
#define KILN_EVERY_VECTOR                                                      \
  __attribute__((target_clones("avx512f", "arch=haswell", "default")))
#else
#define KILN_EVERY_VECTOR
#endif

KILN_EVERY_VECTOR
void triad(float *__restrict to, const float *__restrict x,
           const float *__restrict y, int64_t begin, int64_t end) {
  for (int64_t i = begin; i < end; ++i)
    to[i] = x[i] + 0.5f * y[i];
}

static constexpr int degree = 16;

KILN_EVERY_VECTOR
void polynomial(float *values, int64_t count) {
  for (int64_t i = 0; i < count; ++i) {
    float x = values[i], sum = 0.25f;
    for (int term = 0; term < degree; ++term)
      sum = sum * x + 0.01f;
    values[i] = sum;
  }
}

/// A thread that waits for work, like a thread of the copy engine.
struct MemoryRates::Partner {
  Partner() : thread([this] { loop(); }) {}
  ~Partner() {
    give(nullptr);
    thread.join();
  }
  void give(std::function<void()> work) {
    std::lock_guard<std::mutex> lock(mutex);
    task = std::move(work);
    state = Given;
    changed.notify_one();
  }
  void wait() {
    std::unique_lock<std::mutex> lock(mutex);
    changed.wait(lock, [&] { return state == Done; });
  }
  void loop() {
    for (;;) {
      std::unique_lock<std::mutex> lock(mutex);
      changed.wait(lock, [&] { return state == Given; });
      if (!task)
        return;
      task();
      state = Done;
      changed.notify_one();
    }
  }

  std::mutex mutex;
  std::condition_variable changed;
  std::function<void()> task;
  enum { Idle, Given, Done } state = Idle;
  std::thread thread;
};

/// Number of f32 elements per thread (8 KiB) in the measurement of the vector
/// throughput.
static constexpr int64_t vectorElements = 2048;

/// Number of passes over the memory per execution of the bandwidth measurement.
/// A sample consists of one or more executions.
static constexpr int64_t passes = 4;

MemoryRates::MemoryRates(int64_t memoryBytes, ThreadTeam &team,
                         Sampler &sampler)
    : sampler_(sampler), partner_(std::make_unique<Partner>()) {
  int64_t most = std::min<int64_t>(int64_t(256) << 20, memoryBytes / 16);
  for (int64_t size = int64_t(64) << 10; size <= most; size *= 4)
    sizes_.push_back(size);
  // This initial value leads to no subnormal numbers in the loops.
  data_.assign(std::size_t(sizes_.back()) / sizeof(float), 0.5f);
  float *data = data_.data();
  for (int64_t size : sizes_) {
    int64_t part = size / 3 / int64_t(sizeof(float));
    // Repeat the passes within one call of forEachThread(), to amortize the
    // time to wake the threads. Each thread processes the same range in every
    // pass, so that only the first pass finds the caches cold.
    bandwidth_.push_back(sampler.add([=, &team](int64_t count) {
      team.forEachThread([&](int thread) {
        for (int64_t pass = 0; pass < count * passes; ++pass)
          triad(data, data + part, data + 2 * part, part * thread / team.size(),
                part * (thread + 1) / team.size());
      });
    }));
  }
  launch_ = sampler.add([&team](int64_t count) {
    for (int64_t i = 0; i < count; ++i)
      team.forEachThread([](int) {});
  });
  vectorOperations_ = 2.0 * degree * double(vectorElements) * team.size();
  vector_ = sampler.add([&team](int64_t count) {
    team.forEachThread([&](int) {
      std::vector<float> values(std::size_t(vectorElements), 0.5f);
      for (int64_t pass = 0; pass < count; ++pass)
        polynomial(values.data(), int64_t(values.size()));
    });
  });
  copyBytes_ = sizes_.back() / 4;
  // Split `data` into four arrays, because two concurrent copies need two
  // sources and two destinations.
  char *bytes = reinterpret_cast<char *>(data);
  int64_t quarter = copyBytes_;
  copy_ = sampler.add([=](int64_t count) {
    for (int64_t i = 0; i < count; ++i)
      std::memcpy(bytes, bytes + quarter, std::size_t(quarter));
  });
  copyBoth_ = sampler.add([=](int64_t count) {
    for (int64_t i = 0; i < count; ++i) {
      partner_->give([=] {
        std::memcpy(bytes + 2 * quarter, bytes + 3 * quarter,
                    std::size_t(quarter));
      });
      std::memcpy(bytes, bytes + quarter, std::size_t(quarter));
      partner_->wait();
    }
  });
  handOver_ = sampler.add([this](int64_t count) {
    for (int64_t i = 0; i < count; ++i) {
      partner_->give([] {});
      partner_->wait();
    }
  });
}

MemoryRates::~MemoryRates() = default;

std::string MemoryRates::json() const {
  std::string sizes, rates;
  double last = 0;
  for (std::size_t i = 0; i < sizes_.size(); ++i) {
    double rate =
        double(sizes_[i] / 12 * 12 * passes) / sampler_.seconds(bandwidth_[i]);
    // Smooth measurement noise, so that more bytes never take less time.
    if (i > 0)
      rate = std::min(rate, last * double(sizes_[i]) / double(sizes_[i - 1]));
    last = roundedDown(rate);
    sizes += (i ? ", " : "") + std::to_string(sizes_[i]);
    rates += (i ? ", " : "") + numberText(last);
  }
  double copy = sampler_.seconds(copy_);
  std::string rate = numberText(roundedDown(double(copyBytes_) / copy));
  // If two concurrent copies take about as long as one copy, the two directions
  // of the link are assumed not to share bandwidth.
  bool duplex = sampler_.seconds(copyBoth_) < 1.25 * copy;
  return "\"launch_s\": " + numberText(roundedDown(sampler_.seconds(launch_))) +
         ", \"vector_flop_per_s\": " +
         numberText(
             roundedDown(vectorOperations_ / sampler_.seconds(vector_))) +
         ", \"bandwidth\": {\"bytes\": [" + sizes + "], \"bytes_per_s\": [" +
         rates + "]}, \"link\": {\"to_host_bytes_per_s\": " + rate +
         ", \"to_device_bytes_per_s\": " + rate + ", \"latency_s\": " +
         numberText(roundedDown(sampler_.seconds(handOver_))) +
         ", \"duplex\": " + (duplex ? "true" : "false") + "}";
}

} // namespace kiln::runtime
