//===- PlanFigures.h - Figures of a memory plan -----------------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Reads the JSON of a plan into numbers and groups equal choices. A missing key
// counts as zero or empty. Strings refer to the JSON object, which must outlive
// the figures.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_LIB_REPORT_PLANFIGURES_H
#define KILN_LIB_REPORT_PLANFIGURES_H

#include "kiln/Report/PlanReport.h"
#include "llvm/ADT/StringRef.h"

#include "kiln/Abi/SegmentOrder.h"

#include "llvm/Support/JSON.h"

#include <array>
#include <optional>
#include <string>
#include <vector>

namespace kiln::report {

/// A class of buffers: `key` is its name in the sums of the plan, `slotClass`
/// its name in the list of buffers, and `color` its color in the report.
struct BufferClass {
  llvm::StringRef key, slotClass, color;
};
inline constexpr size_t kClasses = 11;
/// The classes, states first, because states have the lowest offsets.
extern const std::array<BufferClass, kClasses> bufferClasses;

/// A buffer of the device arena or, in HostFigures, of the host arena.
struct PlanBuffer {
  llvm::StringRef name, why;
  size_t slotClass = 0; ///< Index in bufferClasses.
  int64_t bytes = 0, offset = 0, first = 0, last = 0;
  bool isState = false; ///< True if the buffer is live between steps, too.
  /// For a state on the host: true if the host updates it.
  bool isUpdatedOnHost = false;
  /// Returns the allocated size, which is aligned to 64 bytes.
  int64_t size() const { return (bytes + 63) / 64 * 64; }
  bool livesAt(int64_t command) const {
    return first <= command && command <= last;
  }
};

/// Layers for which the planner made equal choices.
struct ChoiceGroup {
  std::string layers;
  /// Names of recomputed, kept and offloaded values. Offloaded values are kept
  /// in host memory.
  std::vector<std::string> repeats, keeps, offloads;
  /// How often a step runs the forward pass of a stage: the maximum over the
  /// stages of the layer.
  int64_t forwardRuns = 1;
  bool dropsInput = false;
  /// Sums over the layers of the group: `repeatedBytes` are the bytes of
  /// recomputed tensors, `repeatedMs` is the time to recompute them, and
  /// `offloadedBytes` are the bytes of offloaded tensors.
  int64_t repeatedBytes = 0, offloadedBytes = 0;
  double repeatedMs = 0;
  bool keepsEverything() const { return repeats.empty() && !keeps.empty(); }
  /// Returns text such as "repeat mlp.c_fc; keep the rest; on the host:
  /// attn.c_attn".
  std::string text() const;
};

/// Values that are stored in the same encoding.
struct EncodingGroup {
  std::string as;
  bool lossy = false;
  int64_t values = 0, bytes = 0, encodedBytes = 0;
  /// Returns text such as "4 values of 12.0 MiB kept as 1.1 MiB".
  std::string text() const;
};

/// Live bytes at a command, by class.
struct Moment {
  int64_t command = 0, total = 0;
  std::array<int64_t, kClasses> byClass{};
};

/// Figures of the host arena. All sizes are zero if the plan has no host arena.
struct HostFigures {
  int64_t arena = 0, states = 0, budget = 0;
  std::vector<PlanBuffer> buffers;
  int64_t peakCommand = 0; ///< The command with the most live bytes.
  /// For each class of buffers, `atPeak` is the number of live bytes at
  /// `peakCommand`, and `declared` is the total size of the buffers.
  std::array<int64_t, kClasses> atPeak{}, declared{};
  /// Bytes that a step copies to the host and back.
  int64_t copiedOut = 0, copiedIn = 0;
  /// Link rates in bytes per second that the plan's cost model used.
  double outRate = 0, inRate = 0;
  /// Returns the bytes of the host arena that are unused at the peak.
  int64_t unused() const;
};

struct PlanFigures {
  explicit PlanFigures(const llvm::json::Object &plan);

  int64_t arena = 0, states = 0, microbatches = 1;
  /// The executions of the forward and backward segments of micro-batches;
  /// empty if the step has no micro-batches.
  std::vector<abi::SegmentRun> segmentRuns;
  std::string order; ///< The order of the segments, as a name or a list.
  /// Maximum number of micro-batches in flight.
  int64_t ringSlots = 1;
  /// True if backward segments are executed in the order of their
  /// micro-batches.
  bool hasAscendingBackward = true;
  /// Bytes of the budget, and of the arena of a plan that keeps every value.
  /// Both are zero if the plan has no budget.
  int64_t budget = 0, unplannedPeak = 0;
  double stepMs = 0, boundMs = 0, unplannedMs = 0;
  /// The bytes of the whole tensors that a step all-reduces, reduce-scatters
  /// and all-gathers, and of the states that ranks average every `syncEvery`
  /// steps. `mesh` is the text of the mesh, such as "dp=2", and is empty for
  /// one rank.
  struct {
    int64_t reduced = 0, scattered = 0, gathered = 0, averaged = 0;
  } rankBytes;
  int64_t syncEvery = 1;
  /// True if the ranks of the mesh axis tp divide not only layers, but also the
  /// tokens of the values between these layers.
  bool isSequenceParallel = false;
  double syncMs = 0;
  std::string mesh;
  std::array<int64_t, kClasses> atPeak{}, declared{};
  /// Program with the highest memory use. `buffers` contains its buffers.
  std::string program;
  int64_t commands = 0, peakCommand = 0;
  std::vector<PlanBuffer> buffers; ///< Buffers of the device.
  HostFigures hostFigures;
  std::vector<ChoiceGroup> choices;
  /// Lossy techniques that the user requested.
  std::string lossy;
  std::vector<EncodingGroup> encodings;

  llvm::StringRef commandName(int64_t command) const;
  /// Returns the buffers that are live at the peak, largest first. Includes
  /// states only if `withStates` is true.
  std::vector<const PlanBuffer *> largestAtPeak(size_t count,
                                                bool withStates) const;
  /// Returns the live bytes of the device at each command, including states.
  std::vector<Moment> timeline() const { return follow(buffers); }
  /// Returns the live bytes of the host at each command.
  std::vector<Moment> hostTimeline() const {
    return follow(hostFigures.buffers);
  }
  /// Returns the bytes of the device arena that are unused at the peak.
  int64_t unused() const;
  /// Returns by how many percent `a` exceeds `b`, or nullopt if undefined.
  static std::optional<double> percentAbove(double a, double b);

private:
  void readSegments(const llvm::json::Object &segments);
  std::vector<Moment> follow(const std::vector<PlanBuffer> &buffers) const;
  void sumHost();

  const llvm::json::Array *commandNames = nullptr;
  /// The first and the last command while micro-batches are in flight: the
  /// first command of the forward segment and the last command of the backward
  /// segment.
  std::pair<int64_t, int64_t> inFlight;
};

/// Formats a number with separators, such as "2,469,394,688".
std::string withCommas(int64_t number);
/// Formats a time, such as "14.20 s" or "3.41 ms".
std::string timeText(double milliseconds);
/// Formats a rate in decimal units, such as "1.50 GB/s".
std::string rateText(double bytesPerSecond);
/// Formats a percentage, such as "+5.2 %".
std::string percentText(double percent);
/// Returns text that compares the predicted time with its lower bound, or "" if
/// there is no budget.
std::string boundText(const PlanFigures &plan);
/// Compares time and memory with a plan that keeps every value; "" without a
/// budget.
std::string priceText(const PlanFigures &plan);
/// Describes the copies of a step and the time that they occupy the link; "" if
/// there are none.
std::string copiesText(const PlanFigures &plan);
/// Describes the mesh and what a step sums over ranks; "" for one rank.
std::string ranksText(const PlanFigures &plan);
/// Describes by how much the memory of a plan that keeps every value exceeds
/// the budget; "" without a budget.
std::string reasonText(const PlanFigures &plan);

} // namespace kiln::report

#endif // KILN_LIB_REPORT_PLANFIGURES_H
