//===- StateLimits.h - Memory limits for choosing states --------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef KILN_LIB_COMPILER_STATELIMITS_H
#define KILN_LIB_COMPILER_STATELIMITS_H

#include "OffloadModel.h"

#include "kiln/Compiler/Passes.h"

#include <algorithm>
#include <cstdint>
#include <optional>

namespace kiln {

/// The memory limits within which the planner chooses the states on the host.
/// Copies to the device start early and use all memory within the limits but
/// for the reserve (StateProblem::reserve). If offloads() is true, the limits
/// assume that activations are offloaded, so that the states can use the memory
/// of these activations.
class StateLimits {
public:
  StateLimits() = default;
  explicit StateLimits(const PlanMemoryOptions &request)
      : capacity(request.budget), hostCapacity(request.hostBudget),
        canOffload(request.offloadActivations) {}

  /// Returns the state problem of `model` with these limits.
  StateProblem problemOf(const OffloadModel &model) const;
  /// Returns the state problem of `model` with these limits if the activations
  /// in `offloaded` are offloaded, and no others.
  StateProblem problemOf(const OffloadModel &model,
                         llvm::ArrayRef<OffloadChoice> offloaded) const;
  bool offloads() const { return away != Away::None; }

  /// Relaxes these memory limits. Called if no choice of the states to store on
  /// the host is within the limits. Returns false if the limits cannot be
  /// relaxed.
  bool relax() {
    if (canOffload && away != Away::All) {
      away = away == Away::None ? Away::Hidden : Away::All;
      return true;
    }
    // The capacity was reduced too much, so undo half of the reduction.
    away = Away::None;
    lastExcess = 0;
    reduced /= 2;
    capacity += reduced;
    return reduced > 0;
  }
  /// Tightens the limits after an arena exceeded its budget, by `excess` bytes
  /// on the device or `hostExcess` bytes on the host, or after the activations
  /// did not fit beside the states. With `delaysCopies`, the first small excess
  /// on the device does not reduce the capacity: it only sets the reserve,
  /// which hardly makes the step slower.
  void reduce(int64_t excess, int64_t hostExcess, bool delaysCopies) {
    hostCapacity -= std::max<int64_t>(hostExcess, 0);
    lastExcess = reduced = 0;
    if (excess <= 0)
      return;
    // The reduction has a minimum, and later reductions of the capacity are
    // larger, so that few rounds are needed.
    int64_t least = capacity / kLeastReduction;
    if (delaysCopies && reserve == 0 && excess <= capacity / kSmallExcess) {
      reserve = excess * 3 / 2 + least;
      return;
    }
    reduced = excess * (2 + reductions++) / 2 + least;
    capacity -= reduced;
    lastExcess = excess;
  }
  /// Returns limits with a larger capacity with which an arena may fit as well.
  /// `slack` is the number of bytes by which the arena with these limits is
  /// below the budget. If the search for buffer offsets ended as soon as the
  /// arena fitted, the true slack is larger. Interpolates linearly between the
  /// capacity of these limits and the smallest one whose arena exceeded the
  /// budget. Returns nullopt if there is none, or if the difference is small.
  std::optional<StateLimits> interpolate(int64_t slack) const {
    if (reduced <= 0 || lastExcess <= 0 || slack <= 0)
      return std::nullopt;
    auto regained =
        int64_t(double(reduced) * double(slack) / double(slack + lastExcess));
    if (regained < capacity / kLeastRegained)
      return std::nullopt;
    StateLimits limits = *this;
    limits.capacity += regained;
    limits.reduced -= regained;
    return limits;
  }
  /// Records that an arena with the limits `larger`, which interpolate()
  /// returned, exceeded the budget by `excess` bytes.
  void exceedsWith(const StateLimits &larger, int64_t excess) {
    reduced = larger.capacity - capacity;
    lastExcess = excess;
  }

private:
  /// reduce() lowers the capacity by at least capacity / kLeastReduction, and
  /// interpolate() raises it by at least capacity / kLeastRegained.
  static constexpr int64_t kLeastReduction = 512, kLeastRegained = 2048;
  /// An excess of at most capacity / kSmallExcess is small.
  static constexpr int64_t kSmallExcess = 16;

  int64_t capacity = 0, hostCapacity = 0;
  int64_t reserve = 0; ///< See StateProblem::reserve.
  /// The bytes of the last reduction of the capacity that neither relax() nor
  /// interpolate() has undone, and the number of reductions of the capacity.
  int64_t reduced = 0, reductions = 0;
  /// The bytes by which the arena exceeded the budget before that reduction.
  int64_t lastExcess = 0;
  /// The activations that are assumed to be offloaded. Hidden: those that are
  /// not needed again before they can be copied to the host and back.
  enum class Away { None, Hidden, All };
  bool canOffload = false;
  Away away = Away::None;
};

} // namespace kiln

#endif // KILN_LIB_COMPILER_STATELIMITS_H
