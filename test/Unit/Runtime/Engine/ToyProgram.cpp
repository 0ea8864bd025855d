//===- ToyProgram.cpp - A small model with handwritten kernels ------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ToyProgram.h"

#include "PlaceQueues.h"
#include "kiln/Runtime/Engine/CommandEngine.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <optional>

namespace kiln::runtime::toy {

using Json = nlohmann::json;

//===----------------------------------------------------------------------===//
// Kernels
//===----------------------------------------------------------------------===//

template <typename T> static T *as(char *pointer) {
  return reinterpret_cast<T *>(pointer);
}

/// Copies rows of a table: hidden[row] = E[tokens[row]]. The arguments are (E,
/// tokens, hidden), the immediates are (width), and a unit of work is a row.
static void gather(char *const *args, const int64_t *imm, int64_t begin,
                   int64_t end, char *) {
  for (int64_t row = begin; row < end; ++row)
    std::copy_n(as<float>(args[0]) + as<int32_t>(args[1])[row] * imm[0], imm[0],
                as<float>(args[2]) + row * imm[0]);
}

/// Computes the loss of each row and replaces the logits with their gradients.
/// The arguments are (logits, targets, scale, row losses), the immediates are
/// (vocabulary), and a unit of work is a row. Scratch memory holds the
/// probabilities of one row.
static void crossEntropy(char *const *args, const int64_t *imm, int64_t begin,
                         int64_t end, char *scratch) {
  int64_t columns = imm[0];
  double scale = *as<double>(args[2]);
  float *probabilities = as<float>(scratch);
  for (int64_t row = begin; row < end; ++row) {
    float *logits = as<float>(args[0]) + row * columns;
    int32_t target = as<int32_t>(args[1])[row];
    double sum = 0;
    float largest = *std::max_element(logits, logits + columns);
    for (int64_t i = 0; i < columns; ++i) {
      probabilities[i] = std::exp(logits[i] - largest);
      sum += double(probabilities[i]);
    }
    bool counts = target >= 0;
    as<double>(args[3])[row] =
        counts ? scale * (std::log(sum) - double(logits[target] - largest)) : 0;
    for (int64_t i = 0; i < columns; ++i)
      logits[i] = counts ? float(scale * (double(probabilities[i]) / sum -
                                          (i == target ? 1 : 0)))
                         : 0.0f;
  }
}

/// Adds the losses of the rows of a micro-batch to the loss. The arguments are
/// (row losses, loss). The immediates are the number of rows, and 0 for the
/// first micro-batch or 1 for all others. There is one unit of work.
static void sumLoss(char *const *args, const int64_t *imm, int64_t, int64_t,
                    char *) {
  double &loss = *as<double>(args[1]);
  if (imm[1] == 0)
    loss = 0;
  for (int64_t row = 0; row < imm[0]; ++row)
    loss += as<double>(args[0])[row];
}

/// Computes the gradient of the lookup in the table E: adds each row of d
/// hidden to the row of d E that the token of the row selects. The arguments
/// are (d hidden, tokens, d E), the immediates are (rows, width), and a unit of
/// work is a column.
static void scatter(char *const *args, const int64_t *imm, int64_t begin,
                    int64_t end, char *) {
  for (int64_t row = 0; row < imm[0]; ++row)
    for (int64_t column = begin; column < end; ++column)
      as<float>(args[2])[as<int32_t>(args[1])[row] * imm[1] + column] +=
          as<float>(args[0])[row * imm[1] + column];
}

/// Computes the norm of the arrays a and b together. The arguments are (a, b,
/// norm), and the immediate is the number of elements of each array. There is
/// one unit of work.
static void norm(char *const *args, const int64_t *imm, int64_t, int64_t,
                 char *) {
  double sum = 0;
  for (int64_t i = 0; i < imm[0]; ++i)
    sum += double(as<float>(args[0])[i]) * double(as<float>(args[0])[i]) +
           double(as<float>(args[1])[i]) * double(as<float>(args[1])[i]);
  *as<double>(args[2]) = std::sqrt(sum);
}

/// Updates a parameter and its moment. The arguments are (parameter, gradient,
/// moment, lr, norm, clip), and a unit of work is an element.
static void update(char *const *args, const int64_t *, int64_t begin,
                   int64_t end, char *) {
  double clip = *as<double>(args[5]);
  double factor = clip > 0 ? clip / (*as<double>(args[4]) + 1e-6) : 1;
  factor = std::min(factor, 1.0);
  for (int64_t i = begin; i < end; ++i) {
    float &moment = as<float>(args[2])[i];
    moment = 0.9f * moment + float(factor) * as<float>(args[1])[i];
    as<float>(args[0])[i] -= float(*as<double>(args[3])) * moment;
  }
}

/// Copies one row of the logits. The arguments are (logits, position, result),
/// and the immediates are (vocabulary). There is one unit of work.
static void takeRow(char *const *args, const int64_t *imm, int64_t, int64_t,
                    char *) {
  std::copy_n(as<float>(args[0]) + *as<int64_t>(args[1]) * imm[0], imm[0],
              as<float>(args[2]));
}

namespace {
enum KernelIndex {
  Gather,
  CrossEntropy,
  SumLoss,
  Scatter,
  Norm,
  Update,
  TakeRow,
  KernelCount
};
} // namespace

static const KernelFunction kernels[KernelCount] = {
    gather, crossEntropy, sumLoss, scatter, norm, update, takeRow};

//===----------------------------------------------------------------------===//
// Description
//===----------------------------------------------------------------------===//

namespace {

constexpr int64_t rows = batch * length;
constexpr int64_t tableBytes = vocabulary * width * 4;
constexpr int64_t stateBytes = 4 * tableBytes;
constexpr int64_t offsetE = 0, offsetU = tableBytes;
constexpr int64_t offsetMomentE = 2 * tableBytes,
                  offsetMomentU = 3 * tableBytes;

/// Collects the slots, inputs, outputs and commands of one program.
class ProgramBuilder {
public:
  int64_t slot(const std::string &name, const char *slotClass, int64_t bytes,
               int64_t first, int64_t last) {
    int64_t offset = (end_ + 63) / 64 * 64;
    end_ = offset + bytes;
    slots.push_back({{"name", name},
                     {"class", slotClass},
                     {"offset", offset},
                     {"bytes", bytes},
                     {"alignment", 64},
                     {"first", first},
                     {"last", last},
                     {"why", "test"}});
    return offset;
  }
  /// Adds a slot with `count` instances in a ring, or a slot without a ring if
  /// `count` is 1. Returns the JSON reference to the slot.
  Json ring(const std::string &name, int64_t bytes, int64_t first, int64_t last,
            int64_t count) {
    int64_t offset = slot(name, "activation", bytes, first, last);
    if (count == 1)
      return {offset, 0};
    int64_t distance = (bytes + 63) / 64 * 64;
    slots.back()["ring"] = distance;
    end_ = offset + distance * (count - 1) + bytes;
    return {offset, 0, distance};
  }
  int64_t input(const char *name, const char *dtype, Json shape, int64_t bytes,
                int64_t last) {
    int64_t offset = slot(name, "input", bytes, 0, last);
    inputs.push_back({{"name", name},
                      {"dtype", dtype},
                      {"shape", std::move(shape)},
                      {"offset", offset}});
    return offset;
  }
  void output(const std::string &name, const char *dtype, Json shape,
              int64_t offset) {
    outputs.push_back({{"name", name},
                       {"dtype", dtype},
                       {"shape", std::move(shape)},
                       {"offset", offset}});
  }
  int64_t end() const { return end_; }
  Json json() const {
    Json program = {{"inputs", inputs}, {"outputs", outputs}, {"slots", slots}};
    if (division)
      program.update(inMicrobatches(commands, *division));
    else
      program["commands"] = commands;
    return program;
  }

  Json inputs = Json::array(), outputs = Json::array(),
       commands = Json::array(), slots = Json::array();
  std::optional<Division> division;

private:
  int64_t end_ = stateBytes;
};

} // namespace

static Json ref(int64_t offset, int64_t stride = 0) {
  return Json::array({offset, stride});
}

static Json launch(const char *name, KernelIndex kernel, Json args, Json writes,
                   Json imm, int64_t units, int64_t grain,
                   Json scratch = nullptr) {
  return {{"op", "launch"},     {"name", name},     {"kernel", int(kernel)},
          {"args", args},       {"writes", writes}, {"imm", imm},
          {"units", units},     {"grain", grain},   {"scratch", scratch},
          {"flops", 2 * units}, {"bytes", 0}};
}

static Json operand(Json place, int64_t ld, bool trans = false) {
  return {{"ref", std::move(place)},
          {"ld", ld},
          {"trans", trans},
          {"batch_stride", 0}};
}

static Json gemm(const char *name, int64_t m, int64_t n, int64_t k, Json a,
                 Json b, Json c, Json beta, Json grid) {
  return {{"op", "gemm"},
          {"name", name},
          {"dtype", "f32"},
          {"m", m},
          {"n", n},
          {"k", k},
          {"batch", 1},
          {"a", a},
          {"b", b},
          {"c", c},
          {"beta", beta},
          {"grid", grid},
          {"flops", 2 * m * n * k},
          {"epilogue", nullptr}};
}

static int64_t probabilityScratch(ProgramBuilder &program, int64_t last) {
  return program.slot("probabilities", "workspace", maxThreads * vocabulary * 4,
                      0, last);
}

static ProgramBuilder trainProgram(const Options &options) {
  ProgramBuilder p;
  constexpr int64_t part = rows / microbatches;
  // Command indexes: 0 fill; forward: 1 gather, 2 logits; backward: 3 loss,
  // 4 sum, 5 d U, 6 d hidden, 7 scatter; end: 8 norm, 9 update E, 10 update U.
  p.division = {1, 3, 8, microbatches, options.order, options.slots};
  int64_t tokens = p.input("tokens", "i32", {batch, length}, rows * 4, 7);
  int64_t targets = p.input("targets", "i32", {batch, length}, rows * 4, 7);
  int64_t rng = p.input("rng", "i64", {microbatches, 3}, microbatches * 24, 0);
  (void)rng;
  int64_t scale = p.input("loss_scale", "f64", Json::array(), 8, 7);
  int64_t lr = p.input("lr", "f64", Json::array(), 8, 10);
  int64_t clip = p.input("clip", "f64", Json::array(), 8, 10);
  p.input("step", "i64", Json::array(), 8, 10);
  int64_t loss = p.slot("loss", "output", 8, 4, 11);
  int64_t gradNorm = p.slot("grad_norm", "output", 8, 8, 11);
  int64_t scratch = probabilityScratch(p, 7);
  Json hidden = p.ring("hidden", part * width * 4, 1, 5, options.slots);
  int64_t rowLoss = p.slot("row_loss", "activation", part * 8, 3, 4);
  Json logits = p.ring("logits", part * vocabulary * 4, 2, 6, options.slots);
  int64_t gradE = p.slot("grad_E", "gradient", tableBytes, 0, 9);
  int64_t gradU = p.slot("grad_U", "gradient", tableBytes, 5, 10);
  int64_t gradHidden =
      p.slot("grad_hidden", "activation", part * width * 4, 6, 7);

  Json partTokens = ref(tokens, part * 4);
  p.commands = {
      {{"op", "fill"},
       {"name", "zero"},
       {"ref", ref(gradE)},
       {"bytes", tableBytes}},
      launch("gather", Gather, {ref(offsetE), partTokens, hidden}, {2},
             {{width, 0}}, part, 3),
      gemm("logits", part, vocabulary, width, operand(hidden, width),
           operand(ref(offsetU), vocabulary), operand(logits, vocabulary), 0,
           {1, 2}),
      launch("loss", CrossEntropy,
             {logits, ref(targets, part * 4), ref(scale), ref(rowLoss)}, {0, 3},
             {{vocabulary, 0}}, part, 2, {scratch, vocabulary * 4}),
      launch("sum", SumLoss, {ref(rowLoss), ref(loss)}, {1},
             {{part, 0}, {0, 1}}, 1, 1),
      gemm("d_U", width, vocabulary, part, operand(hidden, width, true),
           operand(logits, vocabulary), operand(ref(gradU), vocabulary),
           "first", {1, 3}),
      gemm("d_hidden", part, width, vocabulary, operand(logits, vocabulary),
           operand(ref(offsetU), vocabulary, true),
           operand(ref(gradHidden), width), 0, {1, 1}),
      launch("scatter", Scatter, {ref(gradHidden), partTokens, ref(gradE)}, {2},
             {{part, 0}, {width, 0}}, width, 4),
      launch("norm", Norm, {ref(gradE), ref(gradU), ref(gradNorm)}, {2},
             {{vocabulary * width, 0}}, 1, 1),
  };
  auto update = [&](const char *name, int64_t parameter, int64_t gradient,
                    int64_t moment) {
    p.commands.push_back(launch(name, Update,
                                {ref(parameter), ref(gradient), ref(moment),
                                 ref(lr), ref(gradNorm), ref(clip)},
                                {0, 2}, Json::array(), vocabulary * width,
                                1000));
  };
  update("update_E", offsetE, gradE, offsetMomentE);
  update("update_U", offsetU, gradU, offsetMomentU);
  p.output("loss", "f64", Json::array(), loss);
  if (options.clip)
    p.output("grad_norm", "f64", Json::array(), gradNorm);
  if (options.gradients) {
    p.output("gradient:E", "f32", {vocabulary, width}, gradE);
    p.output("gradient:U", "f32", {width, vocabulary}, gradU);
  }
  for (Json &slot : p.slots) {
    if (slot["name"] == options.shortSlot)
      slot["bytes"] = slot["bytes"].get<int64_t>() - 1;
    if (slot["name"] == options.shortLife)
      slot["last"] = slot["last"].get<int64_t>() - 1;
  }
  return p;
}

static ProgramBuilder evaluateProgram() {
  ProgramBuilder p;
  int64_t tokens = p.input("tokens", "i32", {batch, length}, rows * 4, 0);
  int64_t targets = p.input("targets", "i32", {batch, length}, rows * 4, 2);
  int64_t scale = p.input("loss_scale", "f64", Json::array(), 8, 2);
  int64_t loss = p.slot("loss", "output", 8, 3, 4);
  int64_t scratch = probabilityScratch(p, 2);
  int64_t hidden = p.slot("hidden", "activation", rows * width * 4, 0, 1);
  int64_t rowLoss = p.slot("row_loss", "activation", rows * 8, 2, 3);
  int64_t logits = p.slot("logits", "activation", rows * vocabulary * 4, 1, 2);
  p.commands = {
      launch("gather", Gather, {ref(offsetE), ref(tokens), ref(hidden)}, {2},
             {{width, 0}}, rows, 3),
      gemm("logits", rows, vocabulary, width, operand(ref(hidden), width),
           operand(ref(offsetU), vocabulary), operand(ref(logits), vocabulary),
           0, {2, 2}),
      launch("loss", CrossEntropy,
             {ref(logits), ref(targets), ref(scale), ref(rowLoss)}, {0, 3},
             {{vocabulary, 0}}, rows, 2, {scratch, vocabulary * 4}),
      launch("sum", SumLoss, {ref(rowLoss), ref(loss)}, {1},
             {{rows, 0}, {0, 0}}, 1, 1)};
  p.output("loss", "f64", Json::array(), loss);
  return p;
}

static ProgramBuilder generateProgram() {
  ProgramBuilder p;
  int64_t tokens = p.input("tokens", "i32", {batch, length}, rows * 4, 0);
  int64_t position = p.input("position", "i64", Json::array(), 8, 2);
  int64_t hidden = p.slot("hidden", "activation", rows * width * 4, 0, 1);
  int64_t all = p.slot("all_logits", "activation", rows * vocabulary * 4, 1, 2);
  int64_t row = p.slot("row", "activation", vocabulary * 4, 2, 3);
  int64_t logits = p.slot("logits", "output", vocabulary * 4, 3, 4);
  p.commands = {
      launch("gather", Gather, {ref(offsetE), ref(tokens), ref(hidden)}, {2},
             {{width, 0}}, rows, 3),
      gemm("logits", rows, vocabulary, width, operand(ref(hidden), width),
           operand(ref(offsetU), vocabulary), operand(ref(all), vocabulary), 0,
           {2, 2}),
      launch("take", TakeRow, {ref(all), ref(position), ref(row)}, {2},
             {{vocabulary, 0}}, 1, 1),
      {{"op", "copy"},
       {"name", "result"},
       {"from", ref(row)},
       {"to", ref(logits)},
       {"bytes", vocabulary * 4}}};
  p.output("logits", "f32", {vocabulary}, logits);
  return p;
}

static Json state(const char *name, const char *source, Json shape,
                  int64_t offset) {
  return {{"name", name},
          {"source_name", source},
          {"aliases", Json::array()},
          {"role", "parameter"},
          {"of", nullptr},
          {"dtype", "f32"},
          {"shape", std::move(shape)},
          {"offset", offset},
          {"bytes", tableBytes},
          {"trainable", true},
          {"init", {{"kind", "normal"}, {"mean", 0.0}, {"stddev", 0.2}}}};
}

static Json moment(const char *name, const char *of, Json shape,
                   int64_t offset) {
  Json json = state(name, name, std::move(shape), offset);
  json["role"] = "optimizer";
  json["of"] = of;
  json["slot"] = "m";
  json["init"] = {{"kind", "constant"}, {"value", 0.0}};
  return json;
}

Json describe(const Options &options) {
  std::map<std::string, ProgramBuilder> programs;
  programs.emplace("train", trainProgram(options));
  if (options.eval) {
    programs.emplace("evaluate", evaluateProgram());
    programs.emplace("generate", generateProgram());
  }
  Json programsJson;
  int64_t arenaBytes = 0;
  for (auto &[name, program] : programs) {
    programsJson[name] = program.json();
    arenaBytes = std::max(arenaBytes, program.end());
  }
  return withQueues({
      {"format", 4},
      {"kiln", "0.1.0"},
      {"model",
       {{"name", "toy"},
        {"type", "bigram"},
        {"vocab_size", vocabulary},
        {"batch", batch},
        {"sequence_length", length},
        {"has_weights", options.hasWeights},
        {"files",
         {{{"name", "config.json"}, {"text", "{\"model_type\": \"bigram\"}"}},
          {{"name", "tokenizer.bin"}, {"base64", "AP8="}}}}}},
      {"options",
       {{"optimizer", "momentum"},
        {"precision", "fp32"},
        {"microbatches", microbatches},
        {"clip", options.clip},
        {"eval", options.eval},
        {"max_threads", maxThreads},
        {"dropout", 0.0},
        {"target", "cpu"},
        {"command_line", "kilnc toy"}}},
      {"training",
       {{"optimizer",
         {{{"name", "momentum"},
           {"options", {{"momentum", 0.9}, {"weight_decay", 0.0}}},
           {"decay", "matrices"}}}},
        {"dropout",
         {{"activations", Json::array()}, {"attention", Json::array()}}},
        {"lossy", Json::array()}}},
      {"target",
       {{"cpu", "x86-64"},
        {"features", {"sse2"}},
        {"blas", "openblas"},
        {"machine", "none"}}},
      {"arena",
       {{"bytes", arenaBytes}, {"state_bytes", stateBytes}, {"host_bytes", 0}}},
      {"states",
       {state("E", "embed.weight", {vocabulary, width}, offsetE),
        state("U", "head.weight", {width, vocabulary}, offsetU),
        moment("E.m", "E", {vocabulary, width}, offsetMomentE),
        moment("U.m", "U", {width, vocabulary}, offsetMomentU)}},
      {"programs", programsJson},
      {"plan",
       {{"predicted_peak_bytes", arenaBytes},
        {"by_class", {{"parameters", 2 * tableBytes}}},
        {"buffers", Json::array()}}},
  });
}

const void *const *kernelTable() {
  static_assert(KernelCount == kernelCount);
  return reinterpret_cast<const void *const *>(kernels);
}

Result<std::unique_ptr<Engine>> makeEngine(const Json &description) {
  return createCommandEngine(description.dump(), kernelTable(), kernelCount);
}

} // namespace kiln::runtime::toy
