//===- AttentionTest.cpp - Tests of attention through cuDNN ---------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "CudaToy.h"
#include "DnnAttention.h"
#include "PlaceQueues.h"

#include <cmath>
#include <cstring>
#include <gtest/gtest.h>

using namespace kiln::abi;
using namespace kiln::runtime::cuda;
using namespace kiln::runtime;
using namespace kiln;
using Json = nlohmann::json;

namespace {

float numberAt(const char *bf16, int64_t index) {
  float value = 0;
  std::memcpy(reinterpret_cast<char *>(&value) + 2, bf16 + 2 * index, 2);
  return value;
}

void put(char *bf16, int64_t index, double value) {
  auto single = float(value);
  uint32_t bits = 0;
  std::memcpy(&bits, &single, 4);
  auto narrow = uint16_t((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
  std::memcpy(bf16 + 2 * index, &narrow, 2);
}

/// A naive implementation of kiln's attention kernels in f64.
struct Naive {
  VendorAttention a;
  double scale;
  char *const *args;

  int64_t at(std::size_t matrix, int64_t s, int64_t t, int64_t head) const {
    return (s * a.length + t) * a.strides[matrix] + head * a.headDim;
  }
  /// Returns the dot product of two vectors of headDim elements: one begins at
  /// element `ix` of argument `x`, the other at element `iy` of argument `y`.
  double dot(std::size_t x, int64_t ix, std::size_t y, int64_t iy) const {
    double sum = 0;
    for (int64_t e = 0; e < a.headDim; ++e)
      sum +=
          double(numberAt(args[x], ix + e)) * double(numberAt(args[y], iy + e));
    return sum;
  }
  int64_t keys(int64_t row) const { return a.causal ? row + 1 : a.length; }

  void forward() const;
  void gradient() const;
};

void Naive::forward() const {
  for (int64_t s = 0; s < a.sequences; ++s)
    for (int64_t h = 0; h < a.heads; ++h)
      for (int64_t i = 0; i < a.length; ++i) {
        int64_t kv = h / (a.heads / a.kvHeads);
        std::vector<double> weights, row(std::size_t(a.headDim));
        double sum = 0;
        for (int64_t j = 0; j < keys(i); ++j) {
          weights.push_back(
              std::exp(scale * dot(0, at(0, s, i, h), 1, at(1, s, j, kv))));
          sum += weights.back();
        }
        for (int64_t j = 0; j < keys(i); ++j)
          for (int64_t e = 0; e < a.headDim; ++e)
            row[std::size_t(e)] +=
                weights[std::size_t(j)] / sum *
                double(numberAt(args[2], at(2, s, j, kv) + e));
        for (int64_t e = 0; e < a.headDim; ++e)
          put(args[3], at(3, s, i, h) + e, row[std::size_t(e)]);
        auto lse = float(std::log(sum));
        std::memcpy(args[4] + 4 * ((s * a.heads + h) * a.length + i), &lse, 4);
      }
}

void Naive::gradient() const {
  int64_t d = a.headDim, keyColumns = a.kvHeads * d;
  for (int64_t s = 0; s < a.sequences; ++s) {
    std::vector<double> dk(std::size_t(a.length * keyColumns)), dv(dk);
    for (int64_t h = 0; h < a.heads; ++h)
      for (int64_t i = 0; i < a.length; ++i) {
        int64_t kv = h / (a.heads / a.kvHeads);
        float lse = 0;
        std::memcpy(&lse, args[4] + 4 * ((s * a.heads + h) * a.length + i), 4);
        double all = dot(5, at(4, s, i, h), 3, at(3, s, i, h));
        std::vector<double> dq(std::size_t(d), 0.0);
        for (int64_t j = 0; j < keys(i); ++j) {
          int64_t key = at(1, s, j, kv);
          double weight =
              std::exp(scale * dot(0, at(0, s, i, h), 1, key) - double(lse));
          double dscore = weight * scale *
                          (dot(5, at(4, s, i, h), 2, at(2, s, j, kv)) - all);
          for (int64_t e = 0; e < d; ++e) {
            auto to = std::size_t(j * keyColumns + kv * d + e);
            dv[to] += weight * double(numberAt(args[5], at(4, s, i, h) + e));
            dk[to] += dscore * double(numberAt(args[0], at(0, s, i, h) + e));
            dq[std::size_t(e)] += dscore * double(numberAt(args[1], key + e));
          }
        }
        for (int64_t e = 0; e < d; ++e)
          put(args[6], at(5, s, i, h) + e, dq[std::size_t(e)]);
      }
    for (int64_t j = 0; j < a.length; ++j)
      for (int64_t c = 0; c < keyColumns; ++c) {
        put(args[7], at(6, s, j, 0) + c, dk[std::size_t(j * keyColumns + c)]);
        put(args[8], at(7, s, j, 0) + c, dv[std::size_t(j * keyColumns + c)]);
      }
  }
}

/// Returns a problem in which q, k and v share one matrix, and so do their
/// gradients.
VendorAttention attentionOf(bool isGradient, bool causal, int64_t kvHeads,
                            int64_t length = 6, int64_t headDim = 8) {
  VendorAttention a;
  a.isGradient = isGradient;
  a.causal = causal;
  a.sequences = 2;
  a.length = length;
  a.heads = 4;
  a.kvHeads = kvHeads;
  a.headDim = headDim;
  int64_t all = (a.heads + 2 * kvHeads) * headDim, one = a.heads * headDim;
  a.strides = {all, all, all, one, one, all, all, all};
  if (!isGradient)
    a.strides[4] = a.strides[5] = a.strides[6] = a.strides[7] = 0;
  return a;
}

constexpr double scale = 0.4;

class AttentionTest : public ::testing::Test {
protected:
  /// Returns the description of a program that runs attention and its gradient.
  Json attention(bool causal, int64_t kvHeads) {
    forward_ = attentionOf(false, causal, kvHeads);
    backward_ = attentionOf(true, causal, kvHeads);
    int64_t rows = forward_.sequences * forward_.length,
            all = forward_.strides[0], one = forward_.strides[3];
    Json description = toy::onCuda(toy::describe());
    Json states = Json::array();
    int64_t end = 0;
    auto state = [&](const char *name, const char *type, Json shape) {
      int64_t bytes = type == std::string("bf16") ? 2 : 4;
      for (const Json &size : shape)
        bytes *= int64_t(size);
      states.push_back({{"name", name},
                        {"role", "buffer"},
                        {"dtype", type},
                        {"shape", shape},
                        {"offset", end},
                        {"bytes", bytes},
                        {"trainable", false},
                        {"init", {{"kind", "constant"}, {"value", 0.0}}}});
      int64_t begin = end;
      end = (end + bytes + 255) / 256 * 256;
      return begin;
    };
    int64_t qkv = state("qkv", "bf16", {rows, all}),
            o = state("o", "bf16", {rows, one}),
            lse = state("lse", "f32",
                        {forward_.sequences * forward_.heads, forward_.length}),
            dout = state("dout", "bf16", {rows, one}),
            dqkv = state("dqkv", "bf16", {rows, all});
    int64_t stateBytes = end;
    auto launch = [&](const VendorAttention &a, std::vector<int64_t> places,
                      std::vector<int64_t> writes) {
      Json args = Json::array(), extents = Json::array(),
           strides = Json::array();
      for (std::size_t i = 0; i < places.size(); ++i) {
        args.push_back({places[i], 0});
        std::size_t matrix = i < 4 ? i : i - 1;
        extents.push_back(
            i == 4 ? 4 * rows * a.heads
                   : 2 * ((rows - 1) * a.strides[matrix] + a.columns(matrix)));
      }
      for (std::size_t i = 0; i < a.matrices(); ++i)
        strides.push_back(a.strides[i]);
      int64_t bits = 0;
      std::memcpy(&bits, &scale, 8);
      return Json{{"op", "launch"},
                  {"name", a.isGradient ? "backward" : "forward"},
                  {"kernel", a.isGradient ? 1 : 0},
                  {"args", args},
                  {"extents", extents},
                  {"writes", writes},
                  {"imm", {{0, 0}, {bits, 0}}},
                  {"units", 1},
                  {"grain", 1},
                  {"threads", 32},
                  {"shared", 0},
                  {"scratch", nullptr},
                  {"library",
                   {{"op", a.isGradient ? "attention_grad" : "attention"},
                    {"causal", a.causal},
                    {"sequences", a.sequences},
                    {"length", a.length},
                    {"heads", a.heads},
                    {"kv_heads", a.kvHeads},
                    {"head_dim", a.headDim},
                    {"strides", strides},
                    {"workspace", {stateBytes, attentionWorkspaceBytes(a)}}}}};
    };
    int64_t keys = 2 * forward_.columns(0),
            values = keys + 2 * forward_.columns(1);
    Json commands = {
        launch(forward_, {qkv, qkv + keys, qkv + values, o, lse}, {3, 4}),
        launch(backward_,
               {qkv, qkv + keys, qkv + values, o, lse, dout, dqkv, dqkv + keys,
                dqkv + values},
               {6, 7, 8})};
    description["states"] = states;
    description["programs"] = {{"train",
                                {{"inputs", Json::array()},
                                 {"outputs", Json::array()},
                                 {"commands", commands},
                                 {"slots", Json::array()}}}};
    description["arena"] = {
        {"bytes", stateBytes + attentionWorkspaceBytes(backward_)},
        {"state_bytes", stateBytes},
        {"host_bytes", 0},
        {"host_state_bytes", 0}};
    return toy::withQueues(std::move(description));
  }

  Result<std::unique_ptr<Engine>> make(const Json &description,
                                       const char *library = KILN_FAKE_CUDA) {
    static const void *const table[] = {"attention", "attention_grad"};
    for (bool isGradient : {false, true})
      fakecuda::addKernel(
          isGradient ? "attention_grad" : "attention",
          {isGradient ? 12u : 8u, [=](const fakecuda::Launch &launch) {
             const VendorAttention &a = isGradient ? backward_ : forward_;
             std::vector<char *> args;
             for (std::size_t i = 0; i < a.arguments(); ++i)
               args.push_back(fakecuda::hostPointer(launch.parameters[i]));
             Naive naive{a, scale, args.data()};
             ++kernels_;
             if (isGradient)
               naive.gradient();
             else
               naive.forward();
           }});
    Libraries libraries = toy::fakeLibraries();
    libraries.attention = {library};
    return createCudaEngine(description.dump(), table, 2, toy::toyImages(),
                            libraries);
  }

  /// Runs the program twice, first as commands and then as a graph, and returns
  /// the bytes of its results.
  std::string run(Engine &engine) {
    std::string text;
    for (std::size_t i : {0, 3}) {
      Status status = engine.accessState(i, HostAccess::Write, [&](char *data) {
        int64_t count = engine.description().states[i].bytes() / 2;
        for (int64_t j = 0; j < count; ++j)
          put(data, j, std::sin(double(j * 7 + int64_t(i))));
        return Status();
      });
      if (!status.ok())
        return "error: " + status.message();
    }
    for (int i = 0; i < 2; ++i) {
      Status status = engine.run(0);
      if (!status.ok())
        return "error: " + status.message();
    }
    for (std::size_t i : {1, 2, 4}) {
      Status status = engine.accessState(i, HostAccess::Read, [&](char *data) {
        text.append(data, std::size_t(engine.description().states[i].bytes()));
        return Status();
      });
      if (!status.ok())
        return "error: " + status.message();
    }
    return text;
  }

  struct Outcome {
    Status status;
    std::string values, notice, library;
  };
  Outcome outcomeOf(const Json &description,
                    const fakecuda::Settings &settings = {},
                    const char *library = KILN_FAKE_CUDA) {
    fakecuda::reset(settings);
    kernels_ = 0;
    Outcome outcome;
    {
      Result<std::unique_ptr<Engine>> engine = make(description, library);
      outcome.status = engine.ok() ? (*engine)->start(1) : engine.status();
      if (outcome.status.ok()) {
        outcome.values = run(**engine);
        outcome.notice = (*engine)->notice().value_or("");
        outcome.library = (*engine)->libraryName();
      }
    }
    EXPECT_TRUE(fakecuda::live().empty())
        << fakecuda::live().begin()->first << " is left";
    EXPECT_TRUE(fakecuda::violations().empty())
        << fakecuda::violations().front();
    return outcome;
  }
  /// Expects that kiln's kernels compute attention. `checks` is the number of
  /// kernel launches in the comparison with cuDNN. Each of the two kernels is
  /// then launched twice: by the first run and by its captured graph.
  void usesKernels(const Outcome &outcome, const std::string &why,
                   int64_t checks) {
    EXPECT_TRUE(outcome.status.ok()) << outcome.status.message();
    EXPECT_EQ(kernels_, checks + 4) << outcome.values;
    EXPECT_NE(outcome.notice.find(why), std::string::npos) << outcome.notice;
    EXPECT_EQ(outcome.notice.find('\n'), std::string::npos);
    EXPECT_EQ(outcome.library.find("cuDNN"), std::string::npos);
  }

  VendorAttention forward_, backward_;
  int64_t kernels_ = 0;
};

TEST_F(AttentionTest, TheGraphsAreAttention) {
  for (bool causal : {false, true})
    for (int64_t kvHeads : {4, 2, 1}) {
      SCOPED_TRACE(std::to_string(causal) + " " + std::to_string(kvHeads));
      Outcome outcome = outcomeOf(attention(causal, kvHeads));
      ASSERT_TRUE(outcome.status.ok()) << outcome.status.message();
      EXPECT_EQ(outcome.notice, "");
      EXPECT_NE(outcome.library.find("cuDNN 9.19.0"), std::string::npos);
      EXPECT_EQ(kernels_, 2); // The comparison launches both kernels.
      // cudnnBackendExecute is called for two plans in the comparison with the
      // kernels, for two plans in the first run, and for two in the capture.
      EXPECT_EQ(fakecuda::callsOf("cudnnBackendExecute"), 6);
      EXPECT_EQ(outcome.values.rfind("error", 0), std::string::npos);
    }
}

TEST_F(AttentionTest, WrongNumbersAreRefused) {
  fakecuda::Settings settings;
  settings.dnnError = 0.03;
  Json description = attention(true, 2);
  Outcome wrong = outcomeOf(description, settings);
  usesKernels(wrong,
              "cuDNN 9.19.0 computes results that differ from those of "
              "kiln's kernel: o of head 0",
              2);
  // The results equal those without cuDNN.
  Outcome without = outcomeOf(description, {}, "libnowhere.so.9");
  usesKernels(without, "cuDNN cannot be loaded: libnowhere.so.9", 0);
  EXPECT_TRUE(wrong.values == without.values);
  settings.dnnError = 0.0005;
  EXPECT_EQ(outcomeOf(description, settings).notice, "");
}

TEST_F(AttentionTest, LibrariesThatCannot) {
  Json description = attention(true, 4);
  fakecuda::Settings settings;
  settings.dnnVersion = 90501;
  usesKernels(outcomeOf(description, settings),
              "cuDNN 9.5.1 is too old, expected 9.6 or newer", 0);
  settings = {};
  settings.dnnKnows = false;
  usesKernels(outcomeOf(description, settings),
              "cannot compute attention with 4 heads of 8 elements: "
              "cuDNN's cudnnBackendFinalize failed: CUDNN_STATUS_NOT_SUPPORTED "
              "(said so)",
              0);
  settings = {};
  settings.dnnWorkspace = int64_t(1) << 30;
  usesKernels(outcomeOf(description, settings),
              "needs a workspace of 1073741824 bytes, but the limit is 1048576",
              0);
  settings = {};
  settings.dnnIsDeterministic = false;
  Outcome outcome = outcomeOf(description, settings);
  EXPECT_NE(outcome.notice.find("--attention=generated"), std::string::npos);
  EXPECT_NE(outcome.library.find("cuDNN"), std::string::npos);
}

TEST_F(AttentionTest, EveryCallMayFail) {
  Json description = attention(true, 2);
  fakecuda::Settings settings;
  Outcome good = outcomeOf(description, settings);
  ASSERT_TRUE(good.status.ok());
  int64_t calls = fakecuda::calls();
  ASSERT_GT(calls, 500);
  for (int64_t call = 0; call < calls; ++call) {
    settings.failingCall = call;
    settings.failingCode = 999;
    Outcome outcome = outcomeOf(description, settings);
    std::string function = fakecuda::failedFunction();
    SCOPED_TRACE(function + ", call " + std::to_string(call));
    ASSERT_FALSE(function.empty());
    bool isSaid = !outcome.status.ok() || !outcome.notice.empty() ||
                  outcome.values.rfind("error: ", 0) == 0;
    bool isEnd = function.find("Destroy") != std::string::npos ||
                 function.find("Free") != std::string::npos ||
                 function.find("Release") != std::string::npos ||
                 function.find("Unload") != std::string::npos ||
                 function == "cuCtxSynchronize";
    // A failure may be unreported only if it is in a call of cuDNN and cuDNN
    // still computes the attention, possibly with another engine.
    if (!isSaid && !isEnd) {
      EXPECT_EQ(function.rfind("cudnn", 0), 0u);
      EXPECT_EQ(outcome.library, good.library);
      EXPECT_TRUE(outcome.values == good.values);
    }
    // Errors of cuDNN never prevent a start.
    if (function.rfind("cudnn", 0) == 0)
      EXPECT_TRUE(outcome.status.ok()) << outcome.status.message();
    if (HasFailure())
      break;
  }
}

TEST_F(AttentionTest, DamagedDescriptions) {
  Json good = attention(true, 2);
  auto damaged = [&](const char *path, const Json &value) {
    Json description = good;
    toy::commandsOf(
        description["programs"]["train"])[1][Json::json_pointer(path)] = value;
    Result<std::unique_ptr<Engine>> engine = make(description);
    return engine.ok() ? std::string("accepted") : engine.status().message();
  };
  struct Case {
    const char *path;
    Json value;
    const char *expected;
  };
  const Case cases[] = {
      {"/library", 7, "library"},
      {"/library/op", "attend", "expected attention or attention_grad"},
      {"/library/op", "attention", "has 8 elements, expected 4"},
      {"/library/causal", 1, "causal"},
      {"/library/sequences", 0, "sequences"},
      {"/library/sequences", int64_t(1) << 40, "is more than 2^31 - 1"},
      {"/library/length", 5,
       "is not the number of bytes that this argument has according to the "
       "sizes in 'library'"},
      {"/library/length", 2147483647, "library"},
      {"/library/heads", 3, "library"},
      {"/library/heads", 2147483647, "library"},
      {"/library/kv_heads", 3, "library"},
      {"/library/kv_heads", 2147483647, "library"},
      {"/library/head_dim", 12, "library"},
      {"/library/head_dim", 2147483647, "library"},
      {"/library/strides", {64, 64}, "has 2 elements, expected 8"},
      {"/library/strides/0", 60, "that cuDNN does not support"},
      {"/library/strides/0", 8, "strides"},
      {"/library/strides/0", int64_t(1) << 62, "2^31 - 1"},
      {"/library/workspace", {0}, "is not [offset, bytes]"},
      {"/library/workspace/0", 32, "multiple of 64"},
      {"/library/workspace/0", int64_t(1) << 62, "workspace"},
      {"/library/workspace/1", 4096, "expected"},
      {"/library/workspace/1", -1, "workspace"},
      {"/imm",
       {{0, 0}},
       "has an 'op' that does not match the launch: the launch has 9 args and "
       "1 immediates"},
      {"/imm/1",
       {0, 0},
       "is not [bits, 0], where bits is the bit pattern of an f64 scale with "
       "0 < scale < 1e6"},
      {"/imm/1/1", 1,
       "is not [bits, 0], where bits is the bit pattern of an f64 scale with "
       "0 < scale < 1e6"},
      {"/writes",
       {6, 7},
       "are not the indexes of the op's results, expected [3, 4] for attention "
       "or [6, 7, 8] for attention_grad"},
      {"/extents/4", 4,
       "is not the number of bytes that this argument has according to the "
       "sizes in 'library'"},
      {"/threads", nullptr, "host kernel"},
  };
  EXPECT_EQ(damaged("/name", "other"), "accepted");
  for (const Case &item : cases) {
    std::string message = damaged(item.path, item.value);
    EXPECT_NE(message.find(item.expected), std::string::npos)
        << item.path << " " << item.value << ": " << message;
    EXPECT_EQ(message.find('\n'), std::string::npos);
  }
  good["target"]["kind"] = "cuda-emu";
  EXPECT_NE(damaged("/name", "other"), "accepted");
}

TEST_F(AttentionTest, ResultsInPlaceOfOperandsAreKernels) {
  Json description = attention(true, 4);
  Json &forward = toy::commandsOf(description["programs"]["train"])[0];
  forward["args"][3] = forward["args"][0];
  forward["library"]["strides"][3] = forward["library"]["strides"][0];
  forward["extents"][3] = forward["extents"][0];
  Outcome outcome = outcomeOf(description);
  EXPECT_NE(
      outcome.notice.find("a result of an attention op overlaps an operand"),
      std::string::npos);
}

/// If the real cuDNN is installed, it must accept the graphs. This check needs
/// no device.
TEST_F(AttentionTest, TheTrueLibraryTakesTheGraphs) {
  Result<Dnn> dnn = Dnn::open(Libraries().attention);
  if (!dnn.ok())
    GTEST_SKIP() << dnn.status().message();
  for (bool isGradient : {false, true})
    for (bool causal : {false, true})
      for (int64_t kvHeads : {4, 2})
        for (auto [length, headDim] :
             {std::pair(1024, 64), std::pair(6, 8), std::pair(100, 128)}) {
          Result<DnnAttention> attention = DnnAttention::describe(
              *dnn, attentionOf(isGradient, causal, kvHeads, length, headDim),
              scale);
          EXPECT_TRUE(attention.ok()) << attention.status().message();
        }
}

} // namespace
