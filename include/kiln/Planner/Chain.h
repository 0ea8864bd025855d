//===- Chain.h - A chain of stages and its schedules ------------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A chain is a network that is cut into stages such that each stage reads only
// the output of the previous stage. Stage i reads its input a_i and computes
// a_{i+1}. Its backward pass computes delta_i, the gradient of a_i, from
// delta_{i+1}. The loss is the last stage (in contrast to StageChain.h, where
// it is not a stage).
//
//   a_0 --[stage 0]--> a_1 --[stage 1]--> a_2 ... --[stage n-1]--> a_n
//   delta_0 <--------- delta_1 <--------- delta_2 ... <----------- delta_n
//
// A schedule is a sequence of five kinds of operations. Each stage has options,
// numbered k. With a slower option, the forward pass of stage i saves fewer
// bytes for the backward pass of stage i. The saved values are called
// abar_{i+1}, and include a_{i+1}.
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
// The value a_i is present by itself or as a part of abar_i. It can be dropped
// only if it is present by itself, and a dropped a_i must be recomputed before
// its next use. The input a_0 of the chain and the gradient delta_n of its
// output are present at the start, and a_0 is kept until the end.
//
// The memory of an operation is the sum of the sizes of all values that are
// present when the operation starts, of its result and of its workspace. A
// workspace may be negative, for example if delta_i overwrites delta_{i+1}.
// However, the memory of an operation is at least the sum of the sizes of the
// values that are present before the operation, and at least the sum of the
// sizes of the values that are present after it. Sizes are in bytes, times in
// seconds.
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

/// An option for running the forward and backward passes of a stage.
struct StageOption {
  /// For an option of stage i, the size of abar_{i+1}: the bytes that the
  /// forward pass saves for the backward pass, not counting the stage's input.
  /// Must be at least the size of the stage's output.
  int64_t saved = 0;
  /// Bytes of host memory that the stage occupies from its forward to its
  /// backward pass. ChainCost::hostPeak is the peak of the sum over all stages.
  /// The planner does not limit this peak.
  int64_t hostBytes = 0;
  double forward = 0;
  double backward = 0;
  int64_t forwardWorkspace = 0;
  int64_t backwardWorkspace = 0;
  /// True if this option changes the gradients of the model.
  bool lossy = false;

  bool operator==(const StageOption &other) const;
};

struct Stage {
  /// Bytes of the input of the stage and of the gradient of this input. The two
  /// sizes may differ, for example because token ids have no gradient.
  int64_t input = 0;
  int64_t inputGradient = 0;
  /// Seconds of a forward pass that saves nothing.
  double fastForward = 0;
  int64_t fastForwardWorkspace = 0;
  /// Options of the stage, at least one of which must not be lossy.
  std::vector<StageOption> options;

  bool operator==(const Stage &other) const;
};

struct Chain {
  std::vector<Stage> stages;
  /// Bytes of the output of the last stage and of the gradient of this output.
  int64_t output = 0;
  int64_t outputGradient = 0;

  int32_t size() const { return static_cast<int32_t>(stages.size()); }
  /// Return the bytes of a_i and of the gradient of a_i, respectively. a_i is
  /// the input of stage i or, for i = size(), the output of the last stage.
  int64_t value(int32_t i) const {
    return i < size() ? stages[i].input : output;
  }
  int64_t gradient(int32_t i) const {
    return i < size() ? stages[i].inputGradient : outputGradient;
  }
};

/// Returns a one-line description of the first error of the chain, or an empty
/// string. Errors are: no stage, a stage without a lossless option, a negative
/// size or time, an option that saves less than the stage's output, or a size
/// above 2^42 bytes.
std::string verifyChain(const Chain &chain);

struct ChainOp {
  support::ChainOpKind kind = support::ChainOpKind::Backward;
  int32_t stage = 0;
  /// For ForwardSave and ForwardSaveDrop: the index of an option in
  /// Stage::options.
  int32_t option = -1;

  bool operator==(const ChainOp &other) const {
    return kind == other.kind && stage == other.stage && option == other.option;
  }
};

/// Cost of a sequence of operations.
struct ChainCost {
  double time = 0;
  int64_t peak = 0;
  int64_t hostPeak = 0;
  /// Index of the first operation that reaches the peak.
  int32_t peakOp = -1;
  /// Reason why the sequence is not a valid schedule of the chain; empty if it
  /// is valid.
  std::string error;

  bool ok() const { return error.empty(); }
};

/// Simulates the sequence with the memory model that the comment at the top of
/// this file describes. Shares no code with the planner, so that the simulation
/// can verify the planner's schedules.
ChainCost simulate(const Chain &chain, llvm::ArrayRef<ChainOp> ops);

} // namespace kiln

#endif // KILN_PLANNER_CHAIN_H
