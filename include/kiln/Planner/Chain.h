//===- Chain.h - A chain of stages and its schedules ------------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A network cut at single tensors is a chain. Stage i reads its input a_i and
// yields a_{i+1}; its backward pass turns the gradient delta_{i+1} of a_{i+1}
// into delta_i. The loss is the last stage.
//
//   a_0 --[stage 0]--> a_1 --[stage 1]--> a_2 ... --[stage n-1]--> a_n
//   delta_0 <--------- delta_1 <--------- delta_2 ... <----------- delta_n
//
// A schedule is a sequence of five operations. Each stage has options: how much
// its forward pass saves for its backward pass (abar_{i+1}, which includes
// a_{i+1}), against how long the two take.
//
//   operation             needs               yields               drops
//   ForwardCheckpoint(i)  a_i                 a_{i+1}
//   ForwardDrop(i)        a_i                 a_{i+1}              a_i
//   ForwardSave(i, k)     a_i                 abar_{i+1}
//   ForwardSaveDrop(i, k) a_i                 abar_{i+1}           a_i
//   Backward(i)           a_i, abar_{i+1},    delta_i              abar_{i+1},
//                         delta_{i+1}                              delta_{i+1},
//                                                                  a_i by
//                                                                  itself
//
// a_i counts as present by itself or as a part of abar_i; only by itself can it
// be dropped, and what is dropped has to be computed again before its next use.
// a_0 and delta_n are there from the start, and a_0 stays to the end.
//
// The memory of an operation is everything that is present when it starts, plus
// what it yields, plus its workspace. Nothing is smaller when an operation
// starts or ends, so a workspace may be negative: where delta_i takes the place
// of delta_{i+1}, say. Sizes are bytes, times are seconds.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_PLANNER_CHAIN_H
#define KILN_PLANNER_CHAIN_H

#include "kiln/Support/StageOperation.h"

#include "llvm/ADT/ArrayRef.h"

#include <cstdint>
#include <string>
#include <vector>

namespace kiln {

/// One way to run a stage so that its backward pass can follow.
struct StageOption {
  /// Bytes kept from forward to backward besides the stage's input: abar_{i+1}.
  /// At least the stage's output.
  int64_t saved = 0;
  /// Bytes that lie in host memory from forward to backward. They are reported,
  /// not limited.
  int64_t hostBytes = 0;
  double forward = 0;
  double backward = 0;
  int64_t forwardWorkspace = 0;
  int64_t backwardWorkspace = 0;
  /// The gradients are not those of the model as written.
  bool lossy = false;

  bool operator==(const StageOption &other) const;
};

struct Stage {
  /// Bytes of a_i and of delta_i. The latter may differ: token ids have no
  /// gradient.
  int64_t input = 0;
  int64_t inputGradient = 0;
  /// Of a forward pass that saves nothing.
  double fastForward = 0;
  int64_t fastForwardWorkspace = 0;
  /// At least one that is not lossy.
  std::vector<StageOption> options;

  bool operator==(const Stage &other) const;
};

struct Chain {
  std::vector<Stage> stages;
  /// Bytes of a_n and of delta_n.
  int64_t output = 0;
  int64_t outputGradient = 0;

  int32_t size() const { return static_cast<int32_t>(stages.size()); }
  /// Bytes of a_i and of delta_i, for i in [0, size()].
  int64_t value(int32_t i) const {
    return i < size() ? stages[i].input : output;
  }
  int64_t gradient(int32_t i) const {
    return i < size() ? stages[i].inputGradient : outputGradient;
  }
};

/// The first thing that is wrong with the chain, in one line, or nothing: no
/// stage, a stage without a lossless option, a negative size or time, an option
/// that saves less than the stage's output, sizes beyond 2^42 bytes.
std::string verifyChain(const Chain &chain);

struct ChainOp {
  support::ChainOpKind kind = support::ChainOpKind::Backward;
  int32_t stage = 0;
  /// Of ForwardSave and ForwardSaveDrop.
  int32_t option = -1;

  bool operator==(const ChainOp &other) const {
    return kind == other.kind && stage == other.stage && option == other.option;
  }
};

/// What a sequence of operations costs.
struct ChainCost {
  double time = 0;
  int64_t peak = 0;
  int64_t hostPeak = 0;
  /// The position of the first operation that reaches the peak.
  int32_t peakOp = -1;
  /// Why the sequence is not a schedule of the chain; empty if it is one.
  std::string error;

  bool ok() const { return error.empty(); }
};

/// Runs the sequence on the memory model above. Shares no code with the
/// planner, so that it can judge it.
ChainCost simulate(const Chain &chain, llvm::ArrayRef<ChainOp> ops);

} // namespace kiln

#endif // KILN_PLANNER_CHAIN_H
