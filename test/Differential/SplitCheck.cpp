//===- SplitCheck.cpp - Additivity of micro-batch losses ------------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "SplitCheck.h"

#include "kiln/Interpreter/InterpreterEngine.h"
#include "kiln/Runtime/Files/InitialValues.h"

#include "mlir/IR/Diagnostics.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Pass/PassRegistry.h"
#include "llvm/Support/FormatVariadic.h"

#include <cmath>
#include <random>

using namespace mlir;
using namespace kiln;
using kiln::runtime::Description;
using kiln::runtime::fillInitialValue;
using kiln::runtime::ProgramInfo;
using kiln::runtime::StateInfo;
using kiln::runtime::ValueInfo;

static constexpr double kScale = 0.125;

namespace {

/// The integer inputs of a batch.
struct Batch {
  std::vector<int32_t> tokens, targets;
};

/// The outputs of a program with their names.
using Outputs = std::vector<std::pair<std::string, std::vector<double>>>;

class SplitChecker {
public:
  SplitChecker(ModuleOp forward, uint64_t seed)
      : forward(forward), seed(seed), random(seed) {}
  std::vector<std::string> run();

private:
  Batch draw(int64_t elements, int64_t vocabulary);
  /// Returns a copy of the module after `passes`, or null if a pass fails.
  OwningOpRef<ModuleOp> apply(const std::string &passes);
  Outputs evaluate(ModuleOp module, StringRef program, const Batch &batch,
                   double scale);
  void expectEqual(const Outputs &expected, const Outputs &got, StringRef what);
  void checkSum();
  void checkSequences();

  ModuleOp forward;
  uint64_t seed;
  std::mt19937_64 random;
  std::vector<std::string> failures;
};

} // namespace

Batch SplitChecker::draw(int64_t elements, int64_t vocabulary) {
  Batch batch;
  for (int64_t i = 0; i < elements; ++i) {
    batch.tokens.push_back(static_cast<int32_t>(random() % vocabulary));
    batch.targets.push_back(random() % 8 == 0
                                ? static_cast<int32_t>(kIgnoreIndex)
                                : static_cast<int32_t>(random() % vocabulary));
  }
  return batch;
}

OwningOpRef<ModuleOp> SplitChecker::apply(const std::string &passes) {
  OwningOpRef<ModuleOp> module = cast<ModuleOp>(forward->clone());
  PassManager manager(forward.getContext());
  std::string message = "cannot run " + passes;
  ScopedDiagnosticHandler handler(
      forward.getContext(),
      [&](Diagnostic &diagnostic) { message += ": " + diagnostic.str(); });
  if (succeeded(parsePassPipeline(passes, manager)) &&
      succeeded(manager.run(*module)))
    return module;
  failures.push_back(message);
  return {};
}

Outputs SplitChecker::evaluate(ModuleOp module, StringRef name,
                               const Batch &batch, double scale) {
  InterpreterEngine engine(module, EvalType::F64);
  const Description &description = engine.description();
  for (size_t i = 0; i < description.states.size(); ++i) {
    const StateInfo &state = description.states[i];
    if (Status status = fillInitialValue(state.init, seed, state.name,
                                         state.shape, state.type, 0,
                                         state.elements(), engine.stateData(i));
        !status.ok()) {
      failures.push_back(status.message());
      return {};
    }
  }
  Outputs outputs;
  for (size_t p = 0; p < description.programs.size(); ++p) {
    const ProgramInfo &info = description.programs[p];
    if (info.name != name)
      continue;
    for (size_t i = 0; i < info.inputs.size(); ++i) {
      const ValueInfo &input = info.inputs[i];
      char *data = engine.inputData(p, i);
      if (input.name == "tokens" || input.name == "targets") {
        const auto &ids = input.name == "tokens" ? batch.tokens : batch.targets;
        auto *to = reinterpret_cast<int32_t *>(data);
        for (int64_t j = 0; j < input.elements(); ++j)
          to[j] = ids[j % ids.size()];
      } else if (input.name == "rng") {
        // All micro-batches get the same random state and therefore the same
        // dropout masks.
        for (int64_t j = 0; j < input.elements(); ++j)
          reinterpret_cast<int64_t *>(data)[j] = j % 3 == 0 ? 7 : 0;
      } else {
        *reinterpret_cast<double *>(data) =
            input.name == "loss_scale" ? scale : 0;
      }
    }
    if (Status status = engine.run(p); !status.ok()) {
      failures.push_back(status.message());
      return {};
    }
    for (size_t i = 0; i < info.outputs.size(); ++i) {
      const ValueInfo &output = info.outputs[i];
      const char *data = engine.outputData(p, i);
      std::vector<double> values;
      for (int64_t j = 0; j < output.elements(); ++j)
        values.push_back(output.type == kiln::ElementType::F64
                             ? reinterpret_cast<const double *>(data)[j]
                             : reinterpret_cast<const float *>(data)[j]);
      outputs.emplace_back(output.name, std::move(values));
    }
  }
  return outputs;
}

void SplitChecker::expectEqual(const Outputs &expected, const Outputs &got,
                               StringRef what) {
  if (expected.empty() || expected.size() != got.size()) {
    failures.push_back((what + ": no results to compare").str());
    return;
  }
  bool narrow = false;
  forward.walk([&](StateOp state) {
    narrow |= state.getTensorType().getElementType().isF32();
  });
  for (auto [a, b] : llvm::zip_equal(expected, got)) {
    double difference = 0, norm = 0;
    for (auto [x, y] : llvm::zip_equal(a.second, b.second)) {
      difference += (x - y) * (x - y);
      norm += x * x;
    }
    // The negated comparison is also true if one of its sides is NaN.
    if (!(std::sqrt(difference) <=
          (narrow ? 1e-5 : 1e-11) * (std::sqrt(norm) + 1)))
      failures.push_back(
          llvm::formatv("{0}: {1} differs by {2:e3} of a norm of {3:e3}", what,
                        a.first, std::sqrt(difference), std::sqrt(norm)));
  }
}

/// Checks that a step on two micro-batches A, A with loss_scale s gives the
/// results of a step on the single batch A with loss_scale 2 s. In both steps,
/// terms that depend on sequences are doubled, and terms that depend only on
/// parameters count once.
void SplitChecker::checkSum() {
  auto step = [](const char *count) {
    return std::string("kiln-autodiff{microbatches=") + count +
           "},kiln-build-step{optimizer=sgd clip=false keep-gradients=true "
           "microbatches=" +
           count + "}";
  };
  auto one = apply(step("1")), two = apply(step("2"));
  if (!one || !two)
    return;
  ProgramOp program = *forward.getOps<ProgramOp>().begin();
  auto tokens = tensorTypeOf(program.getInput("tokens"));
  int64_t vocabulary = forward->getAttrOfType<DictionaryAttr>("kiln.model")
                           .getAs<IntegerAttr>("vocab_size")
                           .getInt();
  Batch batch = draw(tokens.getNumElements(), vocabulary);
  expectEqual(evaluate(*one, "train", batch, 2 * kScale),
              evaluate(*two, "train", batch, kScale),
              "two micro-batches and one batch");
}

/// Checks that the loss does not depend on which sequences share a batch.
void SplitChecker::checkSequences() {
  ProgramOp program = *forward.getOps<ProgramOp>().begin();
  auto tokens = tensorTypeOf(program.getInput("tokens"));
  int64_t sequences = tokens.getDimSize(0), length = tokens.getDimSize(1);
  int64_t vocabulary = forward->getAttrOfType<DictionaryAttr>("kiln.model")
                           .getAs<IntegerAttr>("vocab_size")
                           .getInt();
  Batch first = draw(sequences * length, vocabulary);
  Batch second = draw(sequences * length, vocabulary);
  auto sum = [&] {
    Outputs a = evaluate(forward, "forward", first, kScale);
    Outputs b = evaluate(forward, "forward", second, kScale);
    if (!a.empty() && !b.empty())
      a[0].second[0] += b[0].second[0];
    return a;
  };
  Outputs before = sum();
  int64_t exchanged = random() % sequences;
  for (int64_t i = exchanged * length; i < (exchanged + 1) * length; ++i) {
    std::swap(first.tokens[i], second.tokens[i]);
    std::swap(first.targets[i], second.targets[i]);
  }
  expectEqual(before, sum(), "batches that exchanged a sequence");
}

std::vector<std::string> SplitChecker::run() {
  checkSum();
  checkSequences();
  return failures;
}

std::vector<std::string> kiln::checkSplits(ModuleOp forward, uint64_t seed) {
  return SplitChecker(forward, seed).run();
}
