//===- PlanFigures.h - What all views of a plan show ------------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Reads a plan's JSON into numbers and groups equal choices. A key that is
// missing counts as zero or empty, so that a view shows what there is. Texts
// point into the JSON object, which has to stay.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_LIB_REPORT_PLANFIGURES_H
#define KILN_LIB_REPORT_PLANFIGURES_H

#include "llvm/ADT/StringRef.h"
#include "kiln/Report/PlanReport.h"

#include "llvm/Support/JSON.h"

#include <array>
#include <optional>
#include <string>
#include <vector>

namespace kiln::report {

/// A class of buffers: the key of the plan's sums, and that of its buffers.
struct BufferClass {
  llvm::StringRef key, slotClass, color;
};
inline constexpr size_t kClasses = 10;
/// States first: they are the base that everything else lies on.
extern const std::array<BufferClass, kClasses> bufferClasses;

/// One of the device's arena, unless it is in hostBuffers.
struct PlanBuffer {
  llvm::StringRef name, why;
  size_t slotClass = 0; ///< index in bufferClasses
  int64_t bytes = 0, offset = 0, first = 0, last = 0;
  bool isState = false; ///< lives between steps too
  /// Bytes that the arena gives to it.
  int64_t size() const { return (bytes + 63) / 64 * 64; }
  bool livesAt(int64_t command) const {
    return first <= command && command <= last;
  }
};

/// Layers that are treated alike.
struct ChoiceGroup {
  std::string layers;
  /// What is offloaded is kept, on the host.
  std::vector<std::string> repeats, keeps, offloads;
  int64_t forwardRuns = 1; ///< most of any stage
  bool dropsInput = false;
  /// Of all layers together: tensors that are repeated instead of kept, those
  /// that wait on the host, and the time that repeating takes.
  int64_t repeatedBytes = 0, offloadedBytes = 0;
  double repeatedMs = 0;
  bool keepsEverything() const { return repeats.empty() && !keeps.empty(); }
  /// "repeat mlp.c_fc; keep the rest; on the host: attn.c_attn".
  std::string text() const;
};

/// Values that are kept as one kind of encoding.
struct EncodingGroup {
  std::string as;
  bool lossy = false;
  int64_t values = 0, bytes = 0, encodedBytes = 0;
  /// "4 values of 12.0 MiB kept as 1.1 MiB".
  std::string text() const;
};

/// Bytes alive at a command, by class.
struct Moment {
  int64_t command = 0, total = 0;
  std::array<int64_t, kClasses> byClass{};
};

/// What the host has for the device. All zero where it has nothing.
struct HostFigures {
  int64_t arena = 0, states = 0, budget = 0;
  std::vector<PlanBuffer> buffers;
  /// When most bytes are alive there, and which.
  int64_t peakCommand = 0;
  std::array<int64_t, kClasses> atPeak{}, declared{};
  /// Bytes that a step copies to the host and back.
  int64_t copiedOut = 0, copiedIn = 0;
  /// Bytes per second of the link that the plan was priced with.
  double outRate = 0, inRate = 0;
  /// The bytes of its arena that no buffer has at the peak.
  int64_t unused() const;
};

struct PlanFigures {
  explicit PlanFigures(const llvm::json::Object &plan);

  int64_t arena = 0, states = 0, microbatches = 1;
  /// Zero if the plan was made without.
  int64_t budget = 0, unplannedPeak = 0;
  double stepMs = 0, boundMs = 0, unplannedMs = 0;
  std::array<int64_t, kClasses> atPeak{}, declared{};
  /// The program whose buffers these are: the one that needs most.
  std::string program;
  int64_t commands = 0, peakCommand = 0;
  std::vector<PlanBuffer> buffers; ///< of the device
  HostFigures host;
  std::vector<ChoiceGroup> choices;
  /// The techniques that were named, and what was encoded.
  std::string lossy;
  std::vector<EncodingGroup> encodings;

  llvm::StringRef commandName(int64_t command) const;
  /// The buffers alive at the peak, largest first, without states unless they
  /// are asked for.
  std::vector<const PlanBuffer *> largestAtPeak(size_t count,
                                                bool withStates) const;
  /// What is alive at each command on the device; states included.
  std::vector<Moment> timeline() const { return follow(buffers); }
  /// The same on the host.
  std::vector<Moment> hostTimeline() const { return follow(host.buffers); }
  /// The bytes of the device's arena that no buffer has at the peak.
  int64_t unused() const;
  /// Percent by which `a` is above `b`, if that is a number.
  static std::optional<double> percentAbove(double a, double b);

private:
  std::vector<Moment> follow(const std::vector<PlanBuffer> &buffers) const;
  void sumHost();

  const llvm::json::Array *commandNames = nullptr;
};

/// "2,469,394,688".
std::string withCommas(int64_t number);
/// "14.2 s", "3.41 ms".
std::string timeText(double milliseconds);
/// "1.50 GB/s", in powers of ten as links are sold.
std::string rateText(double bytesPerSecond);
/// "+5.2 %".
std::string percentText(double percent);
/// What the bound says about this plan's time; empty without a budget.
std::string boundText(const PlanFigures &plan);
/// What the plan costs and gives against none; empty without a budget.
std::string priceText(const PlanFigures &plan);
/// What a step copies and for how long that keeps the link busy; empty if it
/// copies nothing.
std::string copiesText(const PlanFigures &plan);
/// Why the choices are as they are; empty without a budget.
std::string reasonText(const PlanFigures &plan);

} // namespace kiln::report

#endif // KILN_LIB_REPORT_PLANFIGURES_H
