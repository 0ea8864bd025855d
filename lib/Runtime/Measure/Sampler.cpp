//===- Sampler.cpp - Interleaved time measurements ------------------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Sampler.h"

#include <algorithm>
#include <chrono>
#include <fstream>
#include <string>
#include <sys/resource.h>
#include <unistd.h>

namespace kiln::runtime {

/// Intended duration of a sample. It is much longer than the time to read the
/// clock or to wake the threads that execute the work.
static constexpr double sampleSeconds = 100e-6;
static constexpr int64_t maxCount = 1 << 20;
/// Minimum duration of a window, a series of samples for which the processor
/// use of other processes is measured. Linux counts processor use in ticks of
/// 10 ms, so a window must contain several ticks.
static constexpr double windowSeconds = 0.1;
/// If other processes use more processors than this on average during a window,
/// the samples of the window are disturbed.
static constexpr double othersAllowed = 0.1;

/// An item whose sample takes n * longSampleSeconds is sampled only in every
/// n-th round, or in every maxPeriod-th round if n is larger. Otherwise, the
/// largest GEMMs would take nearly all of the time, and other items would have
/// few samples.
static constexpr double longSampleSeconds = 5e-3;
static constexpr int maxPeriod = 8;

double now() {
  using namespace std::chrono;
  return duration<double>(steady_clock::now().time_since_epoch()).count();
}

/// Returns the processor seconds that other processes have used since boot.
static double usedByOthers() {
  std::ifstream file("/proc/stat");
  std::string word;
  file >> word;
  double ticks = 0;
  for (int i = 0; i < 8; ++i) {
    double value = 0;
    file >> value;
    // Skip values 3 and 4 (counted from 0), the idle time and the I/O wait
    // time. Add all other values, including the time that the hypervisor has
    // stolen.
    if (i != 3 && i != 4)
      ticks += value;
  }
  rusage use{};
  getrusage(RUSAGE_SELF, &use);
  double own = double(use.ru_utime.tv_sec + use.ru_stime.tv_sec) +
               1e-6 * double(use.ru_utime.tv_usec + use.ru_stime.tv_usec);
  return ticks / double(sysconf(_SC_CLK_TCK)) - own;
}

std::size_t Sampler::add(std::function<void(int64_t)> work) {
  subjects_.emplace_back().work = std::move(work);
  return subjects_.size() - 1;
}

/// Determines how many times one sample of `subject` executes the work, so that
/// the sample is long enough to be timed. Also warms up the caches.
void Sampler::calibrate(Subject &subject) {
  subject.work(1);
  for (;;) {
    double start = now();
    subject.work(subject.count);
    double elapsed = now() - start;
    if (elapsed >= sampleSeconds / 2 || subject.count >= maxCount)
      return;
    double factor = sampleSeconds / std::max(elapsed, 1e-8);
    subject.count =
        int64_t(double(subject.count) * std::clamp(factor, 2.0, 1000.0));
  }
}

void Sampler::run(double seconds, const std::function<void(double)> &progress) {
  double start = now(), end = start + seconds;
  for (Subject &subject : subjects_)
    calibrate(subject);
  std::vector<std::pair<Subject *, double>> window;
  double windowStart = now(), others = usedByOthers();
  auto closeWindow = [&] {
    double elapsed = now() - windowStart, used = usedByOthers();
    // Allow two additional ticks of 10 ms, because the counters may lag behind
    // the clock.
    bool quiet = used - others <= othersAllowed * elapsed + 0.021;
    for (auto [subject, time] : window)
      (quiet ? subject->quiet : subject->disturbed).push_back(time);
    window.clear();
    windowStart = now();
    others = used;
  };
  for (bool more = true; more; ++rounds_) {
    for (Subject &subject : subjects_) {
      if (rounds_ > 0 && now() >= end) {
        more = false;
        break;
      }
      // Take a sample of a subject only once in `period` rounds. The index of
      // the subject is added, so that different subjects skip different rounds.
      if (rounds_ > 0 &&
          (std::size_t(rounds_) + std::size_t(&subject - subjects_.data())) %
                  std::size_t(subject.period) !=
              0)
        continue;
      double sampleStart = now();
      subject.work(subject.count);
      double time = now() - sampleStart;
      window.push_back({&subject, time / double(subject.count)});
      subject.period = std::clamp(int(time / longSampleSeconds), 1, maxPeriod);
      // If the sample is too short, double the count. Other processes may have
      // slowed the calibration, so that it chose too small a count.
      if (time < sampleSeconds / 2 && subject.count < maxCount)
        subject.count *= 2;
      if (now() - windowStart >= windowSeconds)
        closeWindow();
    }
    progress(std::min(1.0, (now() - start) / seconds));
    more &= now() < end;
  }
  closeWindow();
}

double Sampler::seconds(std::size_t number) const {
  const Subject &subject = subjects_[number];
  // Other processes can only increase the time of a sample. Therefore the
  // minimum is the best estimate if all samples are disturbed.
  if (subject.quiet.empty())
    return *std::min_element(subject.disturbed.begin(),
                             subject.disturbed.end());
  std::vector<double> times = subject.quiet;
  auto middle = times.begin() + std::ptrdiff_t((times.size() - 1) / 2);
  std::nth_element(times.begin(), middle, times.end());
  return *middle;
}

double Sampler::disturbedShare() const {
  auto count = std::count_if(subjects_.begin(), subjects_.end(),
                             [](const Subject &s) { return s.quiet.empty(); });
  return subjects_.empty() ? 0 : double(count) / double(subjects_.size());
}

} // namespace kiln::runtime
