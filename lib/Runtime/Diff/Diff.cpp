//===- Diff.cpp - Lockstep comparison of executables ----------------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// kiln-diff runs two executables, A and B, and compares hashes of their results
// after each step. If the hashes differ, the step is reported. The report
// requires data that an executable no longer has after the step: the states
// before the step (to compute the rounding bound) and the results of the step's
// ops. With --tolerance=exact, both executables are therefore restarted and run
// again up to and including that step. With --tolerance=rounding, executable A
// copies its states before every step, and the results of ops are recorded in
// every step until the first difference.
//
//===----------------------------------------------------------------------===//

#include "kiln/Runtime/Diff/Diff.h"

#include "ModelMatch.h"
#include "Report.h"
#include "TemporaryDirectory.h"
#include "kiln/Support/SafeTensors.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>

using namespace kiln::support;

namespace kiln::runtime {

namespace {

class Comparison {
public:
  explicit Comparison(const DiffOptions &options)
      : options_(options), a_({"A", options.pathA, options.flagsA}),
        b_({"B", options.pathB, options.flagsB}) {}

  Result<ExitCode> run();

private:
  Status start();
  Result<ExitCode> compareSteps();
  Status repeat(int64_t step, TrainedStep &a, TrainedStep &b);
  Result<StepFindings> judge(const TrainedStep &a, const TrainedStep &b);
  Status judgeNumbers(const TrainedStep &a, const TrainedStep &b,
                      const TrainedStep *moved, StepFindings &findings);
  Status judgeTensor(const TensorPair &pair, bool moved, Finding &finding);
  std::vector<TensorPair> differing(const std::vector<std::string> &a,
                                    const std::vector<std::string> &b) const;
  bool sameNumbers(const TrainedStep &a, const TrainedStep &b) const;
  Status adoptStates(const std::vector<TensorPair> &pairs);
  std::string summary(int64_t steps) const;

  const DiffOptions &options_;
  TrainingProcess a_, b_;
  std::vector<TensorPair> pairs_;
  TemporaryDirectory directory_;
  bool sawDifference_ = false;
  double worstShare_ = 0;
  /// The title and the step of the finding whose Finding::share() is
  /// worstShare_.
  std::string worst_;
};

} // namespace

static bool sameBits(double a, double b) {
  return std::memcmp(&a, &b, sizeof(a)) == 0;
}

bool Comparison::sameNumbers(const TrainedStep &a, const TrainedStep &b) const {
  return sameBits(a.loss, b.loss) &&
         (!a.gradNorm || !b.gradNorm || sameBits(*a.gradNorm, *b.gradNorm));
}

/// Returns true if a number of the step is not finite and the step is not
/// skipped, so that training ends.
static bool diverges(const TrainedStep &step) {
  return !step.skipped && (!std::isfinite(step.loss) ||
                           (step.gradNorm && !std::isfinite(*step.gradNorm)));
}

std::vector<TensorPair>
Comparison::differing(const std::vector<std::string> &a,
                      const std::vector<std::string> &b) const {
  std::vector<TensorPair> result;
  for (const TensorPair &pair : pairs_)
    if (a[pair.a] != b[pair.b])
      result.push_back(pair);
  return result;
}

static std::vector<size_t> sideA(const std::vector<TensorPair> &pairs) {
  std::vector<size_t> indexes;
  for (const TensorPair &pair : pairs)
    indexes.push_back(pair.a);
  return indexes;
}

static std::vector<size_t> sideB(const std::vector<TensorPair> &pairs) {
  std::vector<size_t> indexes;
  for (const TensorPair &pair : pairs)
    indexes.push_back(pair.b);
  return indexes;
}

Status Comparison::start() {
  Status status = a_.start();
  return status.ok() ? b_.start() : status;
}

static Finding numberFinding(const char *name, double a, double b, double moved,
                             double eps, double longestSum) {
  Finding finding;
  finding.tensor.name = name;
  finding.tensor.role = "number";
  finding.tensor.type = ElementType::F64;
  DifferenceMeter meter(ElementType::F64);
  meter.add(&a, &b, 1);
  finding.difference = meter.result();
  finding.rounding = {eps, longestSum, std::fabs(a), std::fabs(moved - a)};
  return finding;
}

/// Let eps(T) be the distance from 1 to the next larger number of type T.
/// Returns the maximum of eps(T) over the types T of the model's parameters.
static double modelSpacing(const TrainedModel &model) {
  double eps = infoOf(ElementType::F64).spacingAtOne;
  for (const TrainedTensor &tensor : model.tensors)
    if (tensor.role == "parameter")
      eps = std::max(eps, infoOf(tensor.type).spacingAtOne);
  return eps;
}

Status Comparison::judgeNumbers(const TrainedStep &a, const TrainedStep &b,
                                const TrainedStep *moved,
                                StepFindings &findings) {
  double eps = modelSpacing(a_.model()), sum = longestSumOf(a_.model());
  auto add = [&](const char *name, double x, double y, double z) {
    if (!sameBits(x, y))
      findings.numbers.push_back(numberFinding(name, x, y, z, eps, sum));
  };
  add("loss", a.loss, b.loss, moved->loss);
  if (a.gradNorm && b.gradNorm)
    add("gradient norm", *a.gradNorm, *b.gradNorm, *moved->gradNorm);
  return Status();
}

/// Compares tensor `name` of two files block by block. The tensor must have the
/// same type in both files.
static Result<TensorDifference> compareFiles(const SafeTensorsFile &a,
                                             const SafeTensorsFile &b,
                                             const std::string &name) {
  const TensorInfo *infoA = a.find(name), *infoB = b.find(name);
  if (!infoA || !infoB)
    return Status::error("one of the two executables did not save the tensor " +
                         inQuotes(name));
  constexpr int64_t block = 1 << 16;
  size_t bytes = bytesOf(infoA->type);
  std::vector<char> dataA(size_t(block) * bytes), dataB(size_t(block) * bytes);
  DifferenceMeter meter(infoA->type);
  for (int64_t first = 0; first < infoA->elements; first += block) {
    int64_t count = std::min(block, infoA->elements - first);
    Status status =
        a.readElements(*infoA, first, count, infoA->type, dataA.data());
    if (status.ok())
      status = b.readElements(*infoB, first, count, infoA->type, dataB.data());
    if (!status.ok())
      return status;
    meter.add(dataA.data(), dataB.data(), count);
  }
  return meter.result();
}

Status Comparison::judgeTensor(const TensorPair &pair, bool moved,
                               Finding &finding) {
  finding.tensor = a_.model().tensors[pair.a];
  const std::string &name = finding.tensor.name;
  auto open = [&](const char *file) {
    return SafeTensorsFile::open(directory_.file(file));
  };
  Result<SafeTensorsFile> a = open("a.safetensors");
  Result<SafeTensorsFile> b = open("b.safetensors");
  if (!a.ok() || !b.ok())
    return a.ok() ? b.status() : a.status();
  Result<TensorDifference> difference = compareFiles(*a, *b, name);
  if (!difference.ok())
    return difference.status();
  finding.difference = *difference;
  if (!moved)
    return Status(); // A rounding bound is not defined for the initial state.
  Result<SafeTensorsFile> other = open("moved.safetensors");
  if (!other.ok())
    return other.status();
  Result<TensorDifference> sensitivity = compareFiles(*a, *other, name);
  if (!sensitivity.ok())
    return sensitivity.status();
  // The codes of an 8-bit moment are computed from f32 numbers. If a number is
  // close to the border between two codes, rounding may change its code by one,
  // but the step from perturbed weights, which determines the sensitivity, may
  // not show this. Therefore add 1 to the sensitivity.
  bool isCodes =
      finding.tensor.role == "optimizer" && !isFloat(finding.tensor.type);
  ElementType rounded = isCodes ? ElementType::F32 : finding.tensor.type;
  finding.rounding = {infoOf(rounded).spacingAtOne, longestSumOf(a_.model()),
                      finding.difference.normA,
                      sensitivity->norm + (isCodes ? 1 : 0)};
  return Status();
}

/// Compares the tensors, the numbers (loss and gradient norm) and the ops of a
/// step in which hashes or numbers of A and B differ. Both executables must
/// have completed the step, and A must still have a copy of the states before
/// the step. Step 0 is the initial state and needs no copy.
Result<StepFindings> Comparison::judge(const TrainedStep &a,
                                       const TrainedStep &b) {
  StepFindings findings;
  findings.step = a.step;
  findings.compared = int64_t(pairs_.size());
  std::vector<TensorPair> pairs = differing(a.hashes, b.hashes);
  if (!a.order.empty())
    std::sort(pairs.begin(), pairs.end(),
              [&](const TensorPair &x, const TensorPair &y) {
                // The order of an unwritten tensor is -1, which converts to the
                // largest uint64_t. Therefore unwritten tensors sort last.
                return std::pair(uint64_t(a.order[x.a]), x.a) <
                       std::pair(uint64_t(a.order[y.a]), y.a);
              });
  Status status = a_.save(directory_.file("a.safetensors"), sideA(pairs));
  if (status.ok())
    status = b_.save(directory_.file("b.safetensors"), sideB(pairs));
  if (!status.ok())
    return status;
  if (a.step > 0) {
    Result<TrainedStep> moved =
        a_.perturb(directory_.file("moved.safetensors"), sideA(pairs));
    if (!moved.ok())
      return moved.status();
    status = judgeNumbers(a, b, &*moved, findings);
    if (!status.ok())
      return status;
  }
  for (const TensorPair &pair : pairs) {
    Finding finding;
    status = judgeTensor(pair, a.step > 0, finding);
    if (!status.ok())
      return status;
    findings.tensors.push_back(std::move(finding));
  }
  if (!a.ops.empty() && !b.ops.empty()) {
    findings.opsWatched = true;
    findings.op = firstDifferentOp(a.ops, b.ops);
  }
  return findings;
}

/// Restarts both executables and runs them up to and including `step`, with the
/// options that judge() requires. Stores the results of that step in `a` and
/// `b`.
Status Comparison::repeat(int64_t step, TrainedStep &a, TrainedStep &b) {
  std::vector<std::string> hashes[2] = {a.hashes, b.hashes};
  // At most one instance of each executable runs at a time.
  a_.stop();
  b_.stop();
  for (int side = 0; side < 2; ++side) {
    TrainingProcess &trainee = side == 0 ? a_ : b_;
    TrainedStep &result = side == 0 ? a : b;
    Status status = trainee.start();
    if (!status.ok())
      return status;
    for (int64_t i = trainee.model().firstStep; i <= step; ++i) {
      Result<TrainedStep> done = trainee.step(i == step, i == step && !side);
      if (!done.ok())
        return done.status();
      result = std::move(*done);
    }
    if (result.hashes != hashes[side])
      return Status::error(
          std::string(side == 0 ? "A" : "B") +
          " gave different bits in a second run up to step " +
          std::to_string(step) +
          ": this executable is not deterministic; if it reads uninitialised "
          "memory, run both executables with --threads=1, which makes such "
          "reads repeatable");
  }
  return Status();
}

/// Loads the states of A that differ from those of B into B. The file
/// a.safetensors, which judge() wrote, contains these states.
Status Comparison::adoptStates(const std::vector<TensorPair> &pairs) {
  return b_.load(directory_.file("a.safetensors"), sideB(pairs));
}

std::string Comparison::summary(int64_t steps) const {
  std::string counts = std::to_string(steps) +
                       (steps == 1 ? " step, " : " steps, ") +
                       std::to_string(pairs_.size()) + " tensors, ";
  if (!sawDifference_)
    return "equal: " + counts + "bit for bit";
  char share[32];
  std::snprintf(share, sizeof(share), "%.2g", worstShare_);
  return "alike: " + counts + "each step within rounding; at most " + share +
         " of its bound (" + worst_ + ")";
}

Result<ExitCode> Comparison::compareSteps() {
  const TrainedModel &model = a_.model();
  int64_t first = model.firstStep, last = model.lastStep;
  for (int64_t i = first; i <= last; ++i) {
    bool rounding = options_.allowRounding;
    Result<TrainedStep> a = a_.step(rounding && !sawDifference_, rounding);
    if (!a.ok())
      return a.status();
    Result<TrainedStep> b = b_.step(rounding && !sawDifference_, false);
    if (!b.ok())
      return b.status();
    std::vector<TensorPair> pairs = differing(a->hashes, b->hashes);
    if (!pairs.empty() || !sameNumbers(*a, *b)) {
      if (!rounding) {
        Status status = repeat(i, *a, *b);
        if (!status.ok())
          return status;
      }
      if (!sameBits(a->rate, b->rate))
        std::printf("the learning rates differ: A %.17g, B %.17g\n", a->rate,
                    b->rate);
      Result<StepFindings> findings = judge(*a, *b);
      if (!findings.ok())
        return findings.status();
      if (!sawDifference_ || !findings->explained())
        std::fputs(reportOf(*findings).c_str(), stdout);
      if (!rounding || !findings->explained()) {
        std::printf("%s\n", findings->explained()
                                ? "every difference of this step is explained "
                                  "by rounding; --tolerance=rounding checks "
                                  "the later steps"
                                : "not alike");
        return ExitCode::Error;
      }
      sawDifference_ = true;
      const Finding &worst = findings->worst();
      if (worst.share() >= worstShare_) {
        worstShare_ = worst.share();
        worst_ = titleOf(worst.tensor) + " at step " + std::to_string(i);
      }
      Status status = adoptStates(pairs);
      if (!status.ok())
        return status;
    }
    if (diverges(*a)) {
      std::printf("%s; both diverged at step %lld\n",
                  summary(i - first + 1).c_str(), (long long)i);
      return ExitCode::Diverged;
    }
  }
  std::printf("%s\n", summary(last - first + 1).c_str());
  return ExitCode::Done;
}

Result<ExitCode> Comparison::run() {
  Status status = directory_.create();
  if (status.ok())
    status = start();
  if (!status.ok())
    return status;
  for (const TrainingProcess *side : {&a_, &b_})
    for (const std::string &warning : side->warnings())
      std::fprintf(stderr, "warning: %s: %s\n", side == &a_ ? "A" : "B",
                   warning.c_str());
  Result<std::vector<TensorPair>> pairs = matchModels(a_.model(), b_.model());
  if (!pairs.ok())
    return pairs.status();
  pairs_ = std::move(*pairs);
  for (const std::string &note : differentBuilds(a_.model(), b_.model()))
    std::printf("%s\n", note.c_str());
  std::fflush(stdout);
  TrainedStep a, b; // The default step number 0 stands for the initial state.
  a.hashes = a_.model().hashes;
  b.hashes = b_.model().hashes;
  // Gradients are undefined before the first step, so they are not compared.
  for (const TensorPair &pair : pairs_)
    if (!a_.model().tensors[pair.a].isState())
      a.hashes[pair.a] = b.hashes[pair.b];
  if (!differing(a.hashes, b.hashes).empty()) {
    Result<StepFindings> findings = judge(a, b);
    if (!findings.ok())
      return findings.status();
    std::fputs(reportOf(*findings).c_str(), stdout);
    std::printf("not alike: the runs must start from the same values\n");
    return ExitCode::Error;
  }
  return compareSteps();
}

Result<ExitCode> diffExecutables(const DiffOptions &options) {
  return Comparison(options).run();
}

} // namespace kiln::runtime
