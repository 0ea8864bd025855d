//===- LossyGradientTest.cpp - Gradients from encoded residuals -----------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The passes of the compiler differentiate a perceptron with one hidden layer
// and encode its residuals, the forward values that the backward pass uses. The
// resulting program is evaluated in f64. No residual is recomputed instead of
// being encoded, so every residual that can be encoded is encoded.
//
//===----------------------------------------------------------------------===//

#include "TestModule.h"

#include "kiln/Dialect/Kiln/Transforms/Lossy.h"
#include "kiln/Dialect/Kiln/Transforms/Passes.h"

#include "mlir/Pass/PassManager.h"

#include "gtest/gtest.h"

#include <cmath>
#include <map>

using namespace kiln;
using namespace kiln::test;

namespace {

constexpr int64_t kLength = 8;

/// Returns a model with sequences of 8 tokens, an embedding of width 5, a
/// hidden layer of width `hidden`, and 4 classes.
std::string modelText(int64_t batch, const std::string &activation,
                      int64_t hidden) {
  std::string text = R"(
    kiln.state @table : tensor<7x5xf32> {role = #kiln.role<parameter>, init = #kiln.splat<value = 0.0>}
    kiln.state @w1 : tensor<5xHxf32> {role = #kiln.role<parameter>, init = #kiln.splat<value = 0.0>}
    kiln.state @b1 : tensor<Hxf32> {role = #kiln.role<parameter>, init = #kiln.splat<value = 0.0>}
    kiln.state @w2 : tensor<4xHxf32> {role = #kiln.role<parameter>, init = #kiln.splat<value = 0.0>}
    kiln.program @forward(%tokens: tensor<BxTxi32> {kiln.name = "tokens"}, %targets: tensor<BxTxi32> {kiln.name = "targets"},
                          %rng: tensor<1x3xi64> {kiln.name = "rng"}, %scale: tensor<f64> {kiln.name = "loss_scale"})
        -> (tensor<f64> {kiln.name = "loss"}) attributes {kind = #kiln.program_kind<forward>} {
      %table = kiln.read @table : tensor<7x5xf32>
      %w1 = kiln.read @w1 : tensor<5xHxf32>
      %b1 = kiln.read @b1 : tensor<Hxf32>
      %w2 = kiln.read @w2 : tensor<4xHxf32>
      %x = kiln.embedding %tokens, %table : (tensor<BxTxi32>, tensor<7x5xf32>) -> tensor<Rx5xf32>
      %h0 = kiln.matmul %x, %w1 : (tensor<Rx5xf32>, tensor<5xHxf32>) -> tensor<RxHxf32>
      %b = kiln.broadcast %b1 dims [1] : tensor<Hxf32> to tensor<RxHxf32>
      %h = kiln.add %h0, %b : tensor<RxHxf32>
      %a = kiln.ACTIVATION : tensor<RxHxf32>
      %l = kiln.matmul %a, %w2 trans_b : (tensor<RxHxf32>, tensor<4xHxf32>) -> tensor<Rx4xf32>
      %loss = kiln.cross_entropy %l, %targets, %scale : (tensor<Rx4xf32>, tensor<BxTxi32>, tensor<f64>) -> tensor<f64>
      kiln.return %loss : tensor<f64>
    })";
  auto replace = [&](const std::string &from, const std::string &to) {
    for (size_t at = 0; (at = text.find(from, at)) != std::string::npos;
         at += to.size())
      text.replace(at, from.size(), to);
  };
  replace("ACTIVATION", activation);
  replace("Hxf32", std::to_string(hidden) + "xf32");
  replace("BxT", std::to_string(batch) + "x" + std::to_string(kLength));
  replace("Rx", std::to_string(batch * kLength) + "x");
  return text;
}

/// The loss, with the key "loss", and the gradient of each parameter, with the
/// name of the parameter as the key.
using Outcome = std::map<std::string, std::vector<double>>;

class Model {
public:
  Model(int64_t batch, const std::string &lossy,
        const std::string &activation = "gelu %h", int64_t hidden = 6)
      : batch(batch), module(modelText(batch, activation, hidden)) {
    if (!module.valid()) {
      ADD_FAILURE() << module.diagnostics();
      return;
    }
    mlir::PassManager passes(module.get().getContext());
    passes.addPass(createAutodiff());
    CompressResidualsOptions options;
    options.lossy = lossy;
    options.rebuild = false;
    passes.addPass(createCompressResiduals(options));
    QuantizeResidualsOptions quantize;
    quantize.lossy = lossy;
    passes.addPass(createQuantizeResiduals(quantize));
    if (failed(passes.run(module.get())))
      ADD_FAILURE() << module.diagnostics();
  }

  /// Runs the model on a batch of consecutive sequences of a fixed data set.
  /// `first` is the index of the first of these sequences. Adds `error` to one
  /// parameter of the hidden layer.
  Outcome run(int64_t seed, int64_t step, int64_t first, double error = 0) {
    Interpreter interpreter(module.get(), EvalType::F64);
    for (StateOp state : module.get().getOps<StateOp>()) {
      HostTensor value(llvm::cast<mlir::RankedTensorType>(
          interpreter.evaluationType(state.getTensorType())));
      double phase = double(state.getSymName().size());
      for (auto [i, x] : llvm::enumerate(value.reals))
        x = 1.2 * std::sin(12.9898 * double(i * i) + 4.1 * double(i) + phase);
      if (state.getSymName() == "b1")
        value.reals[0] += error;
      interpreter.setState(state.getSymName(), value);
    }
    ProgramOp train = module.program("train");
    llvm::SmallVector<TensorHandle> inputs;
    for (unsigned i = 0; i < train.getNumArguments(); ++i) {
      auto type = interpreter.evaluationType(train.getArgumentTypes()[i]);
      llvm::StringRef name = train.getInputName(i);
      std::vector<int64_t> numbers;
      for (int64_t j = 0; j < batch * kLength; ++j) {
        int64_t position = first * kLength + j;
        numbers.push_back(name == "tokens" ? position * position % 7
                                           : position * 3 % 4);
      }
      if (name == "loss_scale")
        inputs.push_back(reals(type, {0.125}));
      else if (name == "rng")
        inputs.push_back(integers(type, {seed, step, first}));
      else
        inputs.push_back(integers(type, numbers));
    }
    auto outputs = interpreter.run(train, inputs);
    Outcome outcome;
    if (failed(outputs)) {
      ADD_FAILURE() << module.diagnostics();
      return outcome;
    }
    outcome["loss"] = (*outputs)[0]->reals;
    for (unsigned i = 1; i < outputs->size(); ++i)
      outcome[train
                  .getResultAttrOfType<mlir::FlatSymbolRefAttr>(i,
                                                                "kiln.gradient")
                  .getValue()
                  .str()] = (*outputs)[i]->reals;
    return outcome;
  }

  mlir::ModuleOp get() { return module.get(); }

private:
  int64_t batch;
  TestModule module;
};

/// Returns |a - b| / |b|.
double distance(const std::vector<double> &a, const std::vector<double> &b) {
  double difference = 0, norm = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    difference += (a[i] - b[i]) * (a[i] - b[i]);
    norm += b[i] * b[i];
  }
  return std::sqrt(difference / norm);
}

TEST(LossyGradient, SketchedWeightGradientsAreUnbiased) {
  constexpr int64_t seeds = 1000;
  Outcome exact = Model(2, "").run(0, 0, 0);
  Model sketched(2, "rmm:0.25");
  Outcome sum, squares;
  for (int64_t seed = 0; seed < seeds; ++seed) {
    Outcome outcome = sketched.run(seed, 7, 0);
    // The sketches affect neither the loss nor the gradients of 'table' and
    // 'b1', so all three must equal those of the exact run bit for bit.
    for (const char *name : {"loss", "table", "b1"})
      ASSERT_EQ(outcome[name], exact[name]) << name << ", seed " << seed;
    for (auto &[name, values] : outcome) {
      sum[name].resize(values.size());
      squares[name].resize(values.size());
      for (size_t i = 0; i < values.size(); ++i) {
        double error = values[i] - exact[name][i];
        sum[name][i] += error;
        squares[name][i] += error * error;
      }
    }
  }
  for (const char *name : {"w1", "w2"}) {
    SCOPED_TRACE(name);
    double bias = 0, norm = 0, variance = 0;
    for (size_t i = 0; i < sum[name].size(); ++i) {
      double mean = sum[name][i] / seeds;
      double deviation = std::sqrt(squares[name][i] / seeds / seeds);
      ASSERT_GT(deviation, 0);
      // An unbiased mean deviates by more than five standard errors with a
      // probability of 1 in 1.7 million.
      EXPECT_LT(std::abs(mean), 5 * deviation) << "element " << i;
      bias += mean * mean;
      variance += squares[name][i] / seeds;
      norm += exact[name][i] * exact[name][i];
    }
    // The squared error of the mean of 1,000 samples, summed over all elements,
    // must not exceed 4 times its expected value.
    EXPECT_LT(bias, 4 * variance / seeds);
    // A single estimate must have a large error. Otherwise, the small error of
    // the mean would not show that the estimates are unbiased.
    EXPECT_GT(variance, 0.05 * norm);
  }
}

TEST(LossyGradient, SeedStepAndSequenceChooseTheSigns) {
  Model sketched(2, "rmm:0.25");
  Outcome outcome = sketched.run(3, 7, 0);
  EXPECT_EQ(outcome["w1"], sketched.run(3, 7, 0)["w1"]);
  EXPECT_NE(outcome["w1"], sketched.run(4, 7, 0)["w1"]);
  EXPECT_NE(outcome["w1"], sketched.run(3, 8, 0)["w1"]);
}

TEST(LossyGradient, MicrobatchesGiveTheSameEstimate) {
  Outcome whole = Model(2, "rmm:0.25,fewbit:3").run(5, 2, 0);
  Model part(1, "rmm:0.25,fewbit:3");
  Outcome first = part.run(5, 2, 0), second = part.run(5, 2, 1);
  for (auto &[name, values] : whole) {
    SCOPED_TRACE(name);
    for (size_t i = 0; i < values.size(); ++i)
      EXPECT_NEAR(values[i], first[name][i] + second[name][i], 1e-12);
  }
}

TEST(LossyGradient, MoreBitsAreNearer) {
  for (const char *activation : {"gelu %h", "gelu %h tanh", "silu %h"}) {
    SCOPED_TRACE(activation);
    Outcome exact = Model(3, "", activation).run(0, 0, 0);
    double previous = HUGE_VAL;
    for (int bits : {1, 2, 4, 8}) {
      Outcome coarse =
          Model(3, "fewbit:" + std::to_string(bits), activation).run(0, 0, 0);
      // The encoded residual of the activation affects neither the gradient of
      // the last layer nor the loss, so both are exact.
      EXPECT_EQ(coarse["w2"], exact["w2"]);
      EXPECT_EQ(coarse["loss"], exact["loss"]);
      double error = distance(coarse["w1"], exact["w1"]);
      EXPECT_LT(error, previous);
      EXPECT_GT(error, 0);
      previous = error;
    }
    EXPECT_LT(previous, 0.01);
  }
}

TEST(LossyGradient, MasksAreExact) {

  Model masked(3, "", "relu %h");
  bool found = false;
  masked.get().walk([&](BucketDecodeOp) { found = true; });
  EXPECT_TRUE(found);
  Outcome outcome = masked.run(0, 0, 0);
  // In the model `plain`, replace the op that computes the gradient of relu
  // from the encoded residual by the op that computes it from the residual
  // itself.
  Model plain(3, "", "relu %h");
  plain.get().walk([](BucketDecodeOp decode) {
    auto encode = decode.getCodes().getDefiningOp<BucketEncodeOp>();
    mlir::OpBuilder builder(decode);
    mlir::Value dx = ReluGradOp::create(builder, decode.getLoc(), encode.getX(),
                                        decode.getDy());
    decode.replaceAllUsesWith(dx);
    decode.erase();
  });
  EXPECT_EQ(outcome, plain.run(0, 0, 0));
}

/// The width of a hidden layer that is large enough for block quantization.
constexpr int64_t kWide = 160;

TEST(LossyGradient, CodesOfBlocksAreWithinRounding) {
  Outcome exact = Model(2, "", "gelu %h", kWide).run(0, 0, 0);
  std::map<int, Outcome> coarse;
  for (int bits : {8, 4}) {
    coarse[bits] =
        Model(2, "q" + std::to_string(bits), "gelu %h", kWide).run(0, 0, 0);
    EXPECT_EQ(coarse[bits]["loss"], exact["loss"]);
    // The rounding error of a code is uniform in [-1/2, 1/2], so its root mean
    // square is 1 / sqrt(12). The largest code is 2^(bits - 1) - 1, and a
    // typical code is about a third of the largest one. The expected relative
    // error is the ratio of the rounding error to a typical code.
    double expected = 3.0 / ((1 << (bits - 1)) - 1) / std::sqrt(12.0);
    for (const char *name : {"w1", "w2", "b1", "table"}) {
      double error = distance(coarse[bits][name], exact[name]);
      EXPECT_LT(error, 2 * expected) << name << ", " << bits << " bits";
      EXPECT_GT(error, 0) << name << ", " << bits << " bits";
    }
  }
  // The steps of 4-bit codes are 127/7 times as large as those of 8-bit codes.
  double ratio = distance(coarse[4]["w2"], exact["w2"]) /
                 distance(coarse[8]["w2"], exact["w2"]);
  EXPECT_GT(ratio, 127.0 / 7 / 2);
  EXPECT_LT(ratio, 127.0 / 7 * 2);
}

TEST(LossyGradient, BlocksDoNotSpanSequences) {
  for (const char *lossy : {"q8", "q4", "q4,fewbit:3", "q8,rmm:0.5"}) {
    SCOPED_TRACE(lossy);
    Outcome whole = Model(2, lossy, "gelu %h", kWide).run(5, 2, 0);
    Model part(1, lossy, "gelu %h", kWide);
    Outcome first = part.run(5, 2, 0), second = part.run(5, 2, 1);
    for (auto &[name, values] : whole)
      for (size_t i = 0; i < values.size(); ++i)
        EXPECT_NEAR(values[i], first[name][i] + second[name][i], 1e-12) << name;
  }
}

TEST(LossyGradient, TheSmallestEncodingIsChosen) {
  auto encodings = [](const char *lossy) {
    Model model(2, lossy, "gelu %h", kWide);
    std::vector<std::string> names;
    if (auto list = model.get()->getAttrOfType<mlir::ArrayAttr>(kEncodedAttr))
      for (auto encoded : list.getAsRange<EncodedAttr>())
        names.push_back(encoded.getAs().str());
    return names;
  };
  using Names = std::vector<std::string>;
  EXPECT_EQ(encodings("q8"), (Names{"q8", "q8"}));
  // If two encodings are possible for a residual, the one with fewer bits is
  // used: fewbit:3 instead of q4, but q4 instead of fewbit:5.
  EXPECT_EQ(encodings("q4,fewbit:3"), (Names{"fewbit:3", "q4"}));
  EXPECT_EQ(encodings("q4,fewbit:5"), (Names{"q4", "q4"}));
  // The inputs of both layers are sketched. A sketch of one row has 160
  // elements, which are too few for 8-bit codes. A sketch of seven rows has
  // enough elements.
  EXPECT_EQ(encodings("q8,rmm:0.125"), (Names{"rmm:1/8", "rmm:1/8", "q8"}));
  EXPECT_EQ(encodings("q8,rmm:0.875"),
            (Names{"rmm:7/8", "rmm:7/8", "q8", "q8"}));
}

TEST(LossyGradient, ValuesThatAreNotFiniteReachTheGradients) {
  for (int64_t bits : {8, 4}) {
    Model model(2, "q" + std::to_string(bits), "gelu %h", kWide);
    Outcome outcome = model.run(0, 0, 0, NAN);
    for (const char *name : {"w1", "w2"})
      EXPECT_TRUE(llvm::any_of(outcome[name], [](double x) {
        return !std::isfinite(x);
      })) << name;
  }
}

//===----------------------------------------------------------------------===//
// Parsing of the user's options.
//===----------------------------------------------------------------------===//

TEST(LossySpec, KeepsRows) {
  EXPECT_EQ(sketchRows(64, 0.25), 16);
  EXPECT_EQ(sketchRows(1000, 0.1), 100);
  // The number of rows is rounded to the nearest integer.
  EXPECT_EQ(sketchRows(64, 0.2), 13);
  EXPECT_EQ(sketchRows(1021, 0.5), 511);
  // A sketch is disabled (0) if the rounded number of rows is 0 or includes all
  // rows.
  EXPECT_EQ(sketchRows(2, 0.1), 0);
  EXPECT_EQ(sketchRows(8, 0.99), 0);
  EXPECT_EQ(sketchRows(1, 0.5), 0);
}

TEST(LossySpec, Parses) {
  std::string error;
  auto spec = LossySpec::parse("fewbit:3,rmm:0.2", error);
  ASSERT_TRUE(spec) << error;
  EXPECT_EQ(spec->fewbit, 3);
  EXPECT_EQ(spec->rmm, 0.2);
  EXPECT_EQ(spec->bits, 0);
  spec = LossySpec::parse("q4,fewbit:2", error);
  ASSERT_TRUE(spec) << error;
  EXPECT_EQ(spec->fewbit, 2);
  EXPECT_EQ(spec->bits, 4);
  for (const char *wrong : {"fewbit",
                            "fewbit:",
                            "fewbit:0",
                            "fewbit:9",
                            "fewbit:-1",
                            "fewbit:3.5",
                            "rmm:0",
                            "rmm:1",
                            "rmm:-0.5",
                            "rmm:nan",
                            "rmm:x",
                            "rmm:",
                            "bits:3",
                            "fewbit:3,",
                            ",",
                            "fewbit:3,fewbit:3",
                            "rmm:0.1,rmm:0.2",
                            "q8,q8",
                            "q8,q4",
                            "q8:",
                            "q4:4",
                            "q2"}) {
    error.clear();
    EXPECT_FALSE(LossySpec::parse(wrong, error)) << wrong;
    EXPECT_FALSE(error.empty());
    EXPECT_EQ(error.find('\n'), std::string::npos);
  }
}

} // namespace
