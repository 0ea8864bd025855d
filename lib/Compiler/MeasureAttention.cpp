//===- MeasureAttention.cpp - Measurement of generated attention ----------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Compiles a GPT-2 with three small layers for each sequence length and runs a
// few steps with --trace. The attention kernels and the matmuls of the
// feed-forward layers are identified in the trace by their number of
// floating-point operations.
//
//===----------------------------------------------------------------------===//

#include "MeasureAttention.h"

#include "FastestCompilation.h"

#include "kiln/Support/Json.h"
#include "kiln/Support/OutputFile.h"
#include "kiln/Support/Process.h"

#include "llvm/ADT/ScopeExit.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/Program.h"

#include <algorithm>
#include <cmath>

using namespace llvm;
using namespace kiln::support;
using namespace kiln;

static constexpr int64_t lengths[] = {64, 256, 1024};
static constexpr int64_t heads = 4, headWidth = 64, width = heads * headWidth;
static constexpr int repetitions = 3;

namespace {

/// A model with its executable and the times from its traces.
struct Trial {
  int64_t length, sequences;
  std::string executable;
  std::vector<double> forward, backward, product;

  double pairs() const { // Number of query-key pairs that are not masked.
    return double(sequences * heads) * double(length) * double(length) / 2;
  }
  double forwardFlops() const { return 4.0 * headWidth * pairs(); }
  double backwardFlops() const { return 10.0 * headWidth * pairs(); }
  double gemmFlops() const {
    return 8.0 * double(width * width) * double(length * sequences);
  }
};

} // namespace

static double median(std::vector<double> values) {
  auto middle = values.begin() + std::ptrdiff_t(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

static Status build(Trial &trial, const std::string &directory,
                    const MeasureOptions &options) {
  std::string model = directory + "/model-" + std::to_string(trial.length);
  if (std::error_code failure = sys::fs::create_directory(model))
    return Status::error("cannot create '" + model + "': " + failure.message());
  nlohmann::json config = {{"model_type", "gpt2"},
                           {"vocab_size", 256},
                           {"n_embd", width},
                           {"n_head", heads},
                           {"n_layer", 3},
                           {"n_positions", trial.length},
                           {"attn_pdrop", 0.0},
                           {"embd_pdrop", 0.0},
                           {"resid_pdrop", 0.0},
                           {"layer_norm_epsilon", 1e-5},
                           {"activation_function", "gelu_new"}};
  if (Status status = writeFile(model + "/config.json", config.dump());
      !status.ok())
    return status;
  CompileOptions compilation;
  compilation.model = model;
  compilation.output = trial.executable = model + "/train";
  compilation.batch = trial.sequences;
  compilation.clip = compilation.evaluation = false;
  compilation.maxThreads = options.threads;
  compilation.libraryDirectory = options.libraryDirectory;
  Status compiled = FastestCompilation(compilation).run();
  // Compilation also fails if the signal that stops the measurement ended the
  // linker.
  if (Status status = checkStop(); !status.ok())
    return status;
  if (!compiled.ok())
    return Status::error(
        "cannot compile the model for the attention measurement: " +
        compiled.message());
  // The contents of the data file do not matter.
  return writeFile(model + "/data.txt",
                   std::string(trial.length * trial.sequences + 1, 'a'));
}

static Status sample(Trial &trial, const MeasureOptions &options) {
  std::string trace = trial.executable + ".trace.json";
  std::string data =
      (sys::path::parent_path(trial.executable) + "/data.txt").str();
  std::string arguments[] = {trial.executable, "--data=" + data,
                             "--trace=" + trace, "--steps=3",
                             "--threads=" + std::to_string(options.threads)};
  std::vector<StringRef> views(std::begin(arguments), std::end(arguments));
  std::optional<StringRef> quiet[] = {StringRef(), StringRef(), StringRef()};
  std::string error;
  int code = sys::ExecuteAndWait(trial.executable, views, std::nullopt, quiet,
                                 0, 0, &error);
  if (Status status = checkStop(); !status.ok())
    return status;
  if (code != 0)
    return Status::error(
        "the executable of the attention measurement failed with exit code " +
        std::to_string(code) + (error.empty() ? "" : ": " + error));
  Result<nlohmann::json> document = readJsonFile(trace);
  if (!document.ok())
    return document.status();
  for (const nlohmann::json &event : (*document)["traceEvents"]) {
    if (event.value("ph", "") != "X")
      continue;
    double seconds = event.value("dur", 0.0) * 1e-6;
    double flops = event["args"].value("flops", 0.0);
    bool isMatmul = event.value("cat", "") == "gemm";
    if (seconds <= 0)
      continue;
    if (isMatmul && flops == trial.gemmFlops())
      trial.product.push_back(seconds);
    else if (!isMatmul && flops == trial.forwardFlops())
      trial.forward.push_back(seconds);
    else if (!isMatmul && flops == trial.backwardFlops())
      trial.backward.push_back(seconds);
  }
  if (trial.product.empty() || trial.forward.empty() || trial.backward.empty())
    return Status::error(
        "the trace of the attention measurement lacks events "
        "of the matmul, of attention, or of the gradient of attention");
  return Status();
}

/// Returns the mean predicted seconds of the six matmuls of a feed-forward
/// block. Each of its two linear layers has one matmul for the output, one for
/// the gradient of the input and one for the gradient of the weight.
static double expectedGemm(const Machine &machine, const Trial &trial) {
  int64_t tokens = trial.length * trial.sequences;
  const int64_t shapes[][3] = {{tokens, 4 * width, width},
                               {tokens, width, 4 * width},
                               {width, 4 * width, tokens},
                               {4 * width, width, tokens}};
  const double occurrences[] = {2, 2, 1, 1};
  double sum = 0;
  for (int i = 0; i < 4; ++i)
    sum +=
        occurrences[i] * machine.gemmSeconds(ElementType::F32, 1, shapes[i][0],
                                             shapes[i][1], shapes[i][2]);
  return sum / 6;
}

Result<AttentionCurve> kiln::measureAttention(const Machine &machine,
                                              const MeasureOptions &options) {
  SmallString<128> directory;
  if (std::error_code failure =
          sys::fs::createUniqueDirectory("kiln-attention", directory))
    return Status::error("cannot create a temporary folder: " +
                         failure.message());
  llvm::scope_exit cleanUp(
      [&] { (void)sys::fs::remove_directories(directory); });
  std::vector<Trial> trials;
  for (int64_t length : lengths) {
    // Choose enough sequences to give every thread at least two heads.
    int64_t sequences = std::max<int64_t>(
        2048 / length, (2 * options.threads + heads - 1) / heads);
    trials.push_back({length, sequences, "", {}, {}, {}});
    if (Status status = build(trials.back(), directory.str().str(), options);
        !status.ok())
      return status;
  }
  for (int i = 0; i < repetitions; ++i)
    for (Trial &trial : trials)
      if (Status status = sample(trial, options); !status.ok())
        return status;

  AttentionCurve curve;
  double peak = machine.gemmOf(ElementType::F32).peak();
  for (const Trial &trial : trials) {
    double drift = median(trial.product) / expectedGemm(machine, trial);
    auto share = [&](double flops, const std::vector<double> &seconds,
                     const std::vector<double> &before) {
      double value = flops / median(seconds) * drift / peak;
      // Limit the rate so that, in spite of noise, the time of attention per
      // token does not decrease as the sequence length increases.
      if (!before.empty())
        value = std::min(value, before.back() * double(trial.length) /
                                    double(curve.sequence.back()));
      return std::clamp(std::floor(value * 1000) / 1000, 0.01, 2.0);
    };
    double forward = share(trial.forwardFlops(), trial.forward, curve.forward);
    double backward =
        share(trial.backwardFlops(), trial.backward, curve.backward);
    curve.forward.push_back(forward);
    curve.backward.push_back(backward);
    curve.sequence.push_back(trial.length);
  }
  return curve;
}
