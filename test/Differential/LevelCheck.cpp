//===- LevelCheck.cpp - Equality of IR levels -----------------------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "LevelCheck.h"

#include "kiln/Interpreter/ScheduledEngine.h"
#include "kiln/Runtime/Files/InitialValues.h"

#include "mlir/IR/Diagnostics.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Pass/PassRegistry.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/raw_ostream.h"

#include <cmath>
#include <map>
#include <random>

using namespace mlir;
using namespace kiln;
using kiln::runtime::Description;
using kiln::runtime::fillInitialValue;
using kiln::runtime::ProgramInfo;
using kiln::runtime::StateInfo;
using kiln::runtime::ValueInfo;

namespace {

/// The outputs and states after each program. The key of an output is "PROGRAM:
/// INDEX NAME", and the key of a state is "PROGRAM: @NAME".
using Snapshot = std::map<std::string, HostTensor>;

class Checker {
public:
  Checker(ModuleOp forward, uint64_t seed)
      : forward(forward), seed(seed), random(seed) {}
  std::vector<std::string> run();

private:
  /// Permitted effect of a pass on results.
  enum class Promise { Exact, Reordering };

  int64_t upTo(int64_t count) { return random() % count; }
  std::string oneOf(std::initializer_list<const char *> list) {
    return *(list.begin() + upTo(list.size()));
  }
  OwningOpRef<ModuleOp> apply(ModuleOp from, const std::string &passes);
  std::optional<Snapshot> evaluate(ModuleOp module, EvalType type,
                                   const std::string &stage);
  void expect(ModuleOp before, ModuleOp after, Promise promise,
              const std::string &stage);
  void compare(const Snapshot &expected, const Snapshot &got, double tolerance,
               const std::string &stage);
  Status fill(ReferenceEngine &engine, size_t program);

  ModuleOp forward;
  uint64_t seed;
  std::mt19937_64 random;
  std::vector<std::string> failures;
  /// The passes that produced each module. They are printed with each failure,
  /// so that the failure can be reproduced.
  llvm::DenseMap<Operation *, std::string> paths;
  /// Cached evaluations of modules that are compared several times.
  std::map<std::pair<Operation *, EvalType>, Snapshot> known;
};

} // namespace

OwningOpRef<ModuleOp> Checker::apply(ModuleOp from, const std::string &passes) {
  OwningOpRef<ModuleOp> module = cast<ModuleOp>(from->clone());
  PassManager manager(from.getContext());
  std::string message;
  LogicalResult result = failure();
  {
    ScopedDiagnosticHandler handler(
        from.getContext(), [&](Diagnostic &diagnostic) {
          if (message.empty() &&
              diagnostic.getSeverity() == DiagnosticSeverity::Error)
            llvm::raw_string_ostream(message) << diagnostic;
        });
    result = parsePassPipeline(passes, manager);
    if (succeeded(result))
      result = manager.run(*module);
  }
  if (succeeded(result)) {
    std::string &path = paths[*module];
    path =
        paths.lookup(from) + (paths.lookup(from).empty() ? "" : ",") + passes;
    return module;
  }
  failures.push_back(passes + ": " + message);
  return {};
}

/// Sets the states and the inputs of a program. The values depend on the seed
/// and on names, but not on the passes that have been applied.
Status Checker::fill(ReferenceEngine &engine, size_t program) {
  const Description &description = engine.description();
  for (size_t i = 0; i < description.states.size(); ++i) {
    const StateInfo &state = description.states[i];
    Status status =
        fillInitialValue(state.init, seed, state.name, state.shape, state.type,
                         0, state.elements(), engine.stateData(i));
    if (!status.ok())
      return status;
  }
  std::mt19937_64 draw(seed + 1);
  int64_t vocabulary = description.model.vocabSize;
  const ProgramInfo &info = description.programs[program];
  for (size_t i = 0; i < info.inputs.size(); ++i) {
    const ValueInfo &input = info.inputs[i];
    char *data = engine.inputData(program, i);
    auto *ids = reinterpret_cast<int32_t *>(data);
    auto *integers = reinterpret_cast<int64_t *>(data);
    auto *reals = reinterpret_cast<double *>(data);
    bool targets = input.name == "targets";
    if (input.name == "tokens" || targets) {
      // Tokens and targets have separate seeds, so the tokens do not depend on
      // whether the program has targets, and the targets do not depend on
      // whether it has tokens.
      std::mt19937_64 tokens(seed + 2 + targets);
      for (int64_t j = 0; j < input.elements(); ++j) {
        bool ignored = targets && tokens() % 8 == 0;
        int32_t id = static_cast<int32_t>(tokens() % vocabulary);
        ids[j] = ignored ? static_cast<int32_t>(kIgnoreIndex) : id;
      }
    } else if (input.name == "rng") {
      for (int64_t j = 0; j < input.shape[0]; ++j) {
        integers[3 * j] = static_cast<int64_t>(seed);
        integers[3 * j + 1] = 4;
        integers[3 * j + 2] = j * description.model.batch / input.shape[0];
      }
    } else if (input.name == "step") {
      integers[0] = 3;
    } else if (input.name == "position") {
      integers[0] = 0;
    } else if (input.name == "lr") {
      reals[0] = 0.01;
    } else if (input.name == "clip") {
      reals[0] = 0.5;
    } else if (input.name == "loss_scale") {
      reals[0] = 0.125;
    } else {
      return Status::error("unknown input " + input.name);
    }
  }
  return {};
}

/// Returns an output as a tensor of f64 elements.
static HostTensor outputTensor(MLIRContext *context, const ValueInfo &output,
                               const char *data) {
  HostTensor tensor(RankedTensorType::get({output.elements()},
                                          Type(Float64Type::get(context))));
  for (int64_t i = 0; i < output.elements(); ++i)
    tensor.reals[i] = output.type == kiln::ElementType::F64
                          ? reinterpret_cast<const double *>(data)[i]
                          : reinterpret_cast<const float *>(data)[i];
  return tensor;
}

std::optional<Snapshot> Checker::evaluate(ModuleOp module, EvalType type,
                                          const std::string &stage) {
  auto found = known.find({module, type});
  if (found != known.end())
    return found->second;
  Snapshot snapshot;
  auto run = [&]() -> Status {
    std::unique_ptr<ReferenceEngine> engine;
    if (ScheduledEngine::accepts(module)) {
      auto made = ScheduledEngine::create(module);
      if (!made.ok())
        return made.status();
      engine = std::move(*made);
    } else {
      engine = std::make_unique<InterpreterEngine>(module, type);
    }
    const Description &description = engine->description();
    for (size_t p = 0; p < description.programs.size(); ++p) {
      const ProgramInfo &info = description.programs[p];
      if (Status status = fill(*engine, p); !status.ok())
        return status;
      if (Status status = engine->run(p); !status.ok())
        return status;
      for (size_t i = 0; i < info.outputs.size(); ++i)
        snapshot[info.name + ": " + std::to_string(i) + " " +
                 info.outputs[i].name] =
            outputTensor(module.getContext(), info.outputs[i],
                         engine->outputData(p, i));
      for (size_t i = 0; i < description.states.size(); ++i)
        snapshot[info.name + ": @" + description.states[i].name] =
            *engine->stateTensor(i);
    }
    return {};
  };
  if (Status status = run(); !status.ok()) {
    failures.push_back(stage + ": " + status.message());
    return std::nullopt;
  }
  return known[{module, type}] = std::move(snapshot);
}

static double norm(const HostTensor &tensor) {
  double sum = 0;
  for (double x : tensor.reals)
    sum += x * x;
  return std::sqrt(sum);
}

void Checker::compare(const Snapshot &expected, const Snapshot &got,
                      double tolerance, const std::string &stage) {
  for (auto &[name, value] : expected) {
    // The key of an output contains its index and its name, so the outputs must
    // have the same order and the same names at all levels.
    auto match = got.find(name);
    if (match == got.end()) {
      failures.push_back(stage + ": lost " + name);
      return;
    }
    const HostTensor &other = match->second;
    double difference = 0;
    int64_t elements = 0;
    for (auto [a, b] : llvm::zip_equal(value.reals, other.reals)) {
      bool same = a == b || (std::isnan(a) && std::isnan(b));
      elements += !same;
      if (!same)
        difference += (a - b) * (a - b);
    }
    difference = std::sqrt(difference);
    double allowed = tolerance * (norm(value) + 1);
    if (elements == 0 || difference <= allowed)
      continue;
    std::string line;
    llvm::raw_string_ostream(line)
        << stage << ": " << name << ": " << elements << " of "
        << value.reals.size() << " elements differ, by "
        << llvm::format("%.3g of a norm of %.3g, allowed %.3g", difference,
                        norm(value), allowed);
    failures.push_back(line);
    return;
  }
}

void Checker::expect(ModuleOp before, ModuleOp after, Promise promise,
                     const std::string &stage) {
  if (!before || !after)
    return;
  bool exact = promise == Promise::Exact;
  EvalType type = exact ? EvalType::Own : EvalType::F64;
  auto expected = evaluate(before, type, stage + " (before)");
  if (!expected)
    return;
  size_t failuresBefore = failures.size();
  if (auto got = evaluate(after, type, stage))
    compare(*expected, *got, exact ? 0 : 1e-12, stage);
  if (failures.size() > failuresBefore)
    failures.back() += "; passes: " + paths.lookup(after);
}

std::vector<std::string> Checker::run() {
  const std::string clean[] = {"canonicalize", "cse", "cse,canonicalize",
                               "canonicalize,cse"};
  auto tidy = [&](ModuleOp module) {
    return apply(module, clean[upTo(std::size(clean))]);
  };
  OwningOpRef<ModuleOp> tidied = tidy(forward);
  expect(forward, tidied ? *tidied : ModuleOp(), Promise::Exact,
         "clean-up of forward");

  // The Adam optimizers below use eps = 1e-4. With the usual, smaller eps, a
  // gradient that is zero except for rounding errors would cause an update of
  // full size.
  std::string microbatches = oneOf({"1", "1", "2", "3"});
  // Do not split the batch if the program writes states, because each
  // micro-batch would write them again. Do not split it either if autodiff
  // fails: the compiler splits only if it can prove that the loss is a sum over
  // micro-batches, and it cannot prove this for every loss.
  forward.walk([&](WriteOp) { microbatches = "1"; });
  auto autodiff = [&] {
    return "kiln-autodiff{microbatches=" + microbatches + "}";
  };
  if (size_t before = failures.size(); !apply(forward, autodiff())) {
    failures.resize(before);
    microbatches = "1";
  }
  std::string step = "kiln-build-step{optimizer=" +
                     oneOf({"adamw:eps=1e-4", "adam:eps=1e-4", "sgd",
                            "momentum", "nesterov"}) +
                     " clip=" + oneOf({"true", "false"}) +
                     " microbatches=" + microbatches +
                     " keep-gradients=" + oneOf({"true", "false"}) +
                     "},kiln-build-eval,canonicalize,"
                     "kiln-verify-level{level=step}";
  std::string front = "canonicalize,cse," + autodiff() + ",";
  std::string threads = "{max-threads=" + oneOf({"1", "2", "4"}) + "}";
  auto kept = apply(forward, front + step);
  auto base = apply(forward, front + "kiln-rebuild-activations," + step);
  if (!kept || !base)
    return failures;
  // A norm op rounds its result once. kiln-rebuild-activations replaces the
  // norm op by two ops that each round, so the results at the step level may
  // differ. After lowering they are equal again, because the norm op and the
  // two ops are lowered to the same sequence of operations on a row.
  bool norms = false;
  forward.walk(
      [&](Operation *op) { norms |= isa<LayerNormOp, RmsNormOp>(op); });
  expect(*kept, *base, norms ? Promise::Reordering : Promise::Exact,
         "rebuild-activations");
  auto masked =
      apply(forward, front + "kiln-compress-residuals{rebuild=false}," + step);
  if (!masked)
    return failures;
  expect(*kept, *masked, Promise::Exact, "compress-residuals");
  auto tidyStep = tidy(*base);
  if (!tidyStep)
    return failures;
  expect(*base, *tidyStep, Promise::Exact, "clean-up of step");

  ModuleOp from = upTo(2) ? *base : *tidyStep;
  auto expanded = apply(from, "kiln-expand-loss");
  auto planned = apply(from, "kiln-to-planned-pipeline" + threads);
  if (!expanded || !planned)
    return failures;
  expect(from, *expanded, Promise::Reordering, "expand-loss");
  expect(from, *planned, Promise::Reordering, "to planned");
  auto tidyPlanned = tidy(*planned);
  if (!tidyPlanned)
    return failures;
  expect(*planned, *tidyPlanned, Promise::Exact, "clean-up of planned");
  std::string policy =
      "kiln-recompute{policy=" + oneOf({"full", "blocks", "sqrt", "poor"}) +
      "}";
  auto repeated = apply(upTo(2) ? *planned : *tidyPlanned, policy);
  auto tidyRepeated = repeated ? tidy(*repeated) : OwningOpRef<ModuleOp>();
  if (!tidyRepeated)
    return failures;
  expect(*planned, *repeated, Promise::Exact, policy);
  expect(*planned, *tidyRepeated, Promise::Exact, "clean-up of " + policy);
  ModuleOp sources[] = {*planned, *tidyPlanned, *repeated, *tidyRepeated};
  for (const char *fuse : {"true", "false"}) {
    ModuleOp source = sources[upTo(std::size(sources))];
    std::string form =
        std::string("kiln-to-dispatched-pipeline{fuse=") + fuse + "}";
    auto dispatched = apply(source, form);
    if (!dispatched)
      continue;
    expect(*planned, *dispatched, Promise::Exact, form);
    auto scheduled = apply(*dispatched, "kiln-to-scheduled-pipeline" + threads);
    if (scheduled)
      expect(*planned, *scheduled, Promise::Exact, form + " and schedule");
    known.erase({*dispatched, EvalType::Own});
    if (scheduled)
      known.erase({*scheduled, EvalType::Own});
  }
  return failures;
}

std::vector<std::string> kiln::checkLevels(ModuleOp forward, uint64_t seed) {
  return Checker(forward, seed).run();
}
