//===- DriverTest.cpp - Complete training runs ----------------------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "RunToy.h"
#include "kiln/Support/ModelWeights.h"

#include <set>
#include <tuple>

using namespace kiln::runtime::toy;
using namespace kiln::runtime;
using namespace kiln::support;
using namespace kiln;
using Json = nlohmann::json;

namespace {

class DriverTest : public ToyTest {};

TEST_F(DriverTest, LossFallsAndTheLogSaysSo) {
  Outcome outcome = runToy({data(), "--steps=60", "--lr=1",
                            "--log=" + path("log.jsonl"), "--threads=2"});
  ASSERT_EQ(outcome.exitCode, 0) << outcome.err;
  std::vector<Json> log = readLog(path("log.jsonl"));
  ASSERT_EQ(log.size(), 62u);
  EXPECT_EQ(log[0]["event"], "start");
  EXPECT_EQ(log[0]["model"], "toy");
  EXPECT_EQ(log[0]["parameters"], 2 * vocabulary * width);
  EXPECT_TRUE(log[0].contains("predicted_peak_bytes"));
  EXPECT_FALSE(log[0].contains("buffers"));
  for (int64_t step = 1; step <= 60; ++step) {
    const Json &line = log[size_t(step)];
    EXPECT_EQ(line["step"], step);
    EXPECT_EQ(line["lr"], 1.0);
    for (const char *key :
         {"loss", "grad_norm", "tokens_per_second", "step_ms"})
      EXPECT_TRUE(line[key].is_number()) << key;
  }
  EXPECT_NEAR(log[1]["loss"].get<double>(), std::log(256.0), 0.2);
  EXPECT_LT(log[60]["loss"].get<double>(), 4.0);
  const Json &end = log.back();
  EXPECT_EQ(end["event"], "end");
  EXPECT_EQ(end["steps"], 60);
  EXPECT_EQ(end["arena_bytes"], describe()["arena"]["bytes"]);
  EXPECT_EQ(end["host_arena_bytes"], 0);
  EXPECT_GT(end["peak_rss_bytes"].get<int64_t>(), 0);
}

TEST_F(DriverTest, TheLogHasTheLargestSeed) {
  Outcome outcome = runToy({data(), "--steps=1", "--seed=18446744073709551615",
                            "--log=" + path("log.jsonl")});
  ASSERT_EQ(outcome.exitCode, 0) << outcome.err;
  EXPECT_EQ(readLog(path("log.jsonl")).at(0)["seed"], UINT64_MAX);
}

TEST_F(DriverTest, BitsDoNotDependOnThreads) {
  for (const char *threads : {"1", "2", "3"})
    ASSERT_EQ(
        runToy({data(), "--steps=10", "--lr=1", "--seed=5",
                "--log=" + path(threads), "--save=" + path("save") + threads,
                std::string("--threads=") + threads})
            .exitCode,
        0);
  EXPECT_EQ(lossTexts(path("1")), lossTexts(path("2")));
  EXPECT_EQ(lossTexts(path("1")), lossTexts(path("3")));
  std::string file = "/checkpoint-10/model.safetensors";
  EXPECT_EQ(readFile(path("save1") + file), readFile(path("save2") + file));
  EXPECT_EQ(readFile(path("save1") + file), readFile(path("save3") + file));
}

TEST_F(DriverTest, SeedsDecideInitialValues) {
  ASSERT_EQ(runToy({data(), "--steps=1", "--log=" + path("a")}).exitCode, 0);
  ASSERT_EQ(
      runToy({data(), "--steps=1", "--seed=0", "--log=" + path("b")}).exitCode,
      0);
  ASSERT_EQ(
      runToy({data(), "--steps=1", "--seed=1", "--log=" + path("c")}).exitCode,
      0);
  EXPECT_EQ(lossTexts(path("a")), lossTexts(path("b")));
  EXPECT_NE(lossTexts(path("a")), lossTexts(path("c")));
}

TEST_F(DriverTest, ResumedRunHasTheSameBits) {
  std::vector<std::string> flags = {
      data(),         "--lr=0.5", "--lr-schedule=cosine", "--warmup-steps=3",
      "--shuffle=11", "--seed=4"};
  auto run = [&](std::vector<std::string> more) {
    std::vector<std::string> all = flags;
    all.insert(all.end(), more.begin(), more.end());
    return runToy(all);
  };
  ASSERT_EQ(run({"--steps=20", "--log=" + path("whole"),
                 "--save=" + path("whole-save"), "--save-every=8"})
                .exitCode,
            0);
  // Resume from the checkpoint of step 8. The log of the whole run already
  // contains later steps, which the resumed run must remove.
  std::filesystem::copy_file(path("whole"), path("part"));
  Outcome resumed = run({"--steps=20", "--log=" + path("part"),
                         "--resume=" + path("whole-save") + "/checkpoint-8",
                         "--save=" + path("part-save"), "--threads=1"});
  ASSERT_EQ(resumed.exitCode, 0) << resumed.err;
  EXPECT_EQ(lossTexts(path("whole")), lossTexts(path("part")));
  for (const char *file : {"model.safetensors", "optimizer.safetensors"})
    EXPECT_EQ(readFile(path("whole-save") + "/checkpoint-20/" + file),
              readFile(path("part-save") + "/checkpoint-20/" + file))
        << file;
}

TEST_F(DriverTest, SaysThatACheckpointHasAnotherPrecision) {
  ASSERT_EQ(runToy({data(), "--steps=1", "--save=" + path("save")}).exitCode,
            0);
  std::vector<std::string> flags = {data(), "--steps=2",
                                    "--resume=" + path("save")};
  Outcome same = runToy(flags);
  ASSERT_EQ(same.exitCode, 0) << same.err;
  EXPECT_EQ(same.err.find("precision"), std::string::npos) << same.err;
  nlohmann::json narrow = describe();
  narrow["options"]["precision"] = "bf16";
  Outcome other = runToy(narrow, flags);
  ASSERT_EQ(other.exitCode, 0) << other.err;
  EXPECT_NE(
      other.err.find("the checkpoint was made with precision 'fp32', this run "
                     "uses 'bf16': its results differ from those that the "
                     "first executable would give\n"),
      std::string::npos)
      << other.err;
}

TEST_F(DriverTest, CheckpointsAreModelDirectories) {
  ASSERT_EQ(runToy({data(), "--steps=6", "--save=" + path("save"),
                    "--save-every=2", "--keep=2"})
                .exitCode,
            0);
  EXPECT_FALSE(std::filesystem::exists(path("save/checkpoint-2")));
  EXPECT_TRUE(std::filesystem::exists(path("save/checkpoint-4")));
  std::string last = path("save/checkpoint-6");
  EXPECT_EQ(readFile(last + "/config.json"), "{\"model_type\": \"bigram\"}");
  EXPECT_EQ(readFile(last + "/tokenizer.bin"), std::string("\0\xff", 2));
  EXPECT_EQ(Json::parse(readFile(last + "/trainer_state.json"))["global_step"],
            6);
  Result<ModelWeights> weights = ModelWeights::open(last);
  ASSERT_TRUE(weights.ok()) << weights.status().message();
  EXPECT_EQ(weights->size(), 2u);
  EXPECT_TRUE(weights->find("embed.weight"));
  Result<ModelWeights> moments =
      ModelWeights::open(last + "/optimizer.safetensors");
  ASSERT_TRUE(moments.ok());
  EXPECT_TRUE(moments->find("head.weight.exp_avg"));
}

TEST_F(DriverTest, InitStartsFromSavedWeights) {
  ASSERT_EQ(runToy({data(), "--steps=30", "--lr=1", "--save=" + path("save"),
                    "--log=" + path("a")})
                .exitCode,
            0);
  Outcome outcome =
      runToy({"--steps=0", "--val-data=" + path("text.txt"),
              "--init=" + path("save/checkpoint-30"), "--log=" + path("b")});
  ASSERT_EQ(outcome.exitCode, 0) << outcome.err;
  std::vector<Json> log = readLog(path("b"));
  ASSERT_EQ(log.size(), 3u);
  EXPECT_EQ(log[1]["event"], "eval");
  EXPECT_EQ(log[1]["step"], 0);
  EXPECT_LT(log[1]["loss"].get<double>(), 4.5);
  // The evaluation covers all sequences of the file; the last batch is padded.
  int64_t tokens = int64_t(std::filesystem::file_size(path("text.txt")));
  EXPECT_EQ(log[1]["targets"], (tokens - 1) / length * length);
}

TEST_F(DriverTest, ValidatesEveryNSteps) {
  ASSERT_EQ(runToy({data(), "--steps=5", "--val-data=" + path("text.txt"),
                    "--val-every=2", "--val-batches=1", "--log=" + path("a"),
                    "--tensorboard=" + path("board")})
                .exitCode,
            0);
  std::vector<int64_t> steps;
  for (const Json &line : readLog(path("a")))
    if (line.value("event", "") == "eval") {
      steps.push_back(line["step"]);
      EXPECT_EQ(line["targets"], batch * length);
    }
  EXPECT_EQ(steps, (std::vector<int64_t>{2, 4, 5}));
  EXPECT_FALSE(std::filesystem::is_empty(path("board")));
}

TEST_F(DriverTest, ALimitBeyondAllCountsIsNoLimit) {
  ASSERT_EQ(runToy({data(), "--steps=1", "--val-data=" + path("text.txt"),
                    "--val-batches=9223372036854775807", "--log=" + path("a")})
                .exitCode,
            0);
  int64_t tokens = int64_t(std::filesystem::file_size(path("text.txt")));
  for (const Json &line : readLog(path("a")))
    if (line.value("event", "") == "eval")
      EXPECT_EQ(line["targets"], (tokens - 1) / length * length);
}

TEST_F(DriverTest, DivergenceEndsTheRunAndSavesNothing) {
  Outcome outcome = runToy({data(), "--steps=50", "--lr=1e38", "--grad-clip=0",
                            "--save=" + path("save"), "--save-every=1",
                            "--log=" + path("a")});
  EXPECT_EQ(outcome.exitCode, 5);
  EXPECT_NE(outcome.err.find("diverged"), std::string::npos) << outcome.err;
  EXPECT_EQ(std::count(outcome.err.begin(), outcome.err.end(), '\n'), 1);
  Json end = readLog(path("a")).back();
  EXPECT_EQ(end["reason"], "diverged");
  // The steps before the step that diverged have checkpoints. The step that
  // diverged has none.
  std::string step = end["steps"].dump();
  EXPECT_FALSE(std::filesystem::exists(path("save/checkpoint-") + step));
  EXPECT_TRUE(std::filesystem::exists(path("save/checkpoint-1")));
}

TEST_F(DriverTest, GeneratesTheSameTextForTheSameSeed) {
  std::vector<std::string> flags = {"--generate=12", "--prompt=the "};
  Outcome first = runToy(flags), second = runToy(flags);
  ASSERT_EQ(first.exitCode, 0) << first.err;
  EXPECT_EQ(first.out, second.out);
  EXPECT_EQ(first.out.substr(0, 4), "the ");
  EXPECT_EQ(first.out.size(), 4u + 12 + 1);
  flags.push_back("--seed=1");
  EXPECT_NE(runToy(flags).out, first.out);
}

TEST_F(DriverTest, LearnsToContinueText) {
  Outcome outcome = runToy({data(), "--steps=400", "--lr=2", "--generate=8",
                            "--prompt=q", "--temperature=0"});
  ASSERT_EQ(outcome.exitCode, 0);
  // A bigram model learns that 'u' always follows 'q'.
  EXPECT_NE(outcome.out.find("\nqu"), std::string::npos);
}

TEST_F(DriverTest, WritesATraceOfTheLastStep) {
  ASSERT_EQ(
      runToy({data(), "--steps=3", "--trace=" + path("trace.json")}).exitCode,
      0);
  Json trace = Json::parse(readFile(path("trace.json")));
  int launches = 0, gemms = 0;
  for (const Json &event : trace["traceEvents"]) {
    launches += event.value("cat", "") == "launch";
    gemms += event.value("cat", "") == "gemm";
  }
  EXPECT_EQ(gemms, 3 * microbatches);
  EXPECT_EQ(launches, 4 * microbatches + 3);
}

TEST_F(DriverTest, DumpsGradientsOfTheFirstStep) {
  toy::Options options;
  options.gradients = true;
  ASSERT_EQ(
      runToy(describe(options),
             {data(), "--steps=2", "--dump-gradients=" + path("g.safetensors")})
          .exitCode,
      0);
  Result<ModelWeights> gradients = ModelWeights::open(path("g.safetensors"));
  ASSERT_TRUE(gradients.ok()) << gradients.status().message();
  EXPECT_TRUE(gradients->find("embed.weight"));
  EXPECT_TRUE(gradients->find("head.weight"));
  EXPECT_EQ(
      runToy({data(), "--steps=2", "--dump-gradients=" + path("h.safetensors")})
          .exitCode,
      2);
}

TEST_F(DriverTest, DescribesItself) {
  Outcome outcome = runToy({"--describe"});
  ASSERT_EQ(outcome.exitCode, 0);
  for (const char *text :
       {"model: toy (bigram)", "parameters: 8192", "optimizer: momentum",
        "command line: kilnc toy", "plan predicted_peak_bytes: "})
    EXPECT_NE(outcome.out.find(text), std::string::npos) << text;
}

TEST_F(DriverTest, RefusesWhatTheExecutableCannotDo) {
  toy::Options options;
  options.hasWeights = true;
  EXPECT_EQ(runToy(describe(options), {data(), "--steps=1"}).exitCode, 2);
  EXPECT_EQ(runToy(describe(options), {data(), "--steps=1", "--from-scratch"})
                .exitCode,
            0);
  options = {};
  options.clip = false;
  EXPECT_EQ(runToy(describe(options), {data(), "--steps=1"}).exitCode, 0);
  EXPECT_EQ(runToy(describe(options), {data(), "--steps=1", "--grad-clip=2"})
                .exitCode,
            2);
  options = {};
  options.eval = false;
  EXPECT_EQ(
      runToy(describe(options), {"--steps=0", "--val-data=" + path("text.txt")})
          .exitCode,
      2);
  EXPECT_EQ(runToy(describe(options), {"--generate=1"}).exitCode, 2);
  EXPECT_EQ(runToy({data(), "--steps=1", "--threads=4"}).exitCode, 2);
}

TEST_F(DriverTest, TheScaledRateBoundsTheMinimumRate) {
  // A batch of 4 halves the rate for a batch of 8.
  static_assert(batch == 4);
  std::vector<std::string> flags = {
      data(),           "--steps=2",           "--lr=0.5",
      "--base-batch=8", "--lr-scaling=linear", "--lr-schedule=linear",
      "--min-lr=0.25"};
  EXPECT_EQ(runToy(flags).exitCode, 0);
  flags.back() = "--min-lr=0.3";
  Outcome outcome = runToy(flags);
  EXPECT_EQ(outcome.exitCode, 2);
  EXPECT_NE(outcome.err.find("--min-lr=0.3 is above the peak rate 0.25, which "
                             "is --lr scaled to a batch of 4"),
            std::string::npos)
      << outcome.err;
}

TEST_F(DriverTest, BadFilesEndWithCode3) {
  std::ofstream(path("short.txt")) << "ab";
  std::ofstream(path("bad.safetensors")) << "not a tensor file";
  EXPECT_EQ(runToy({"--data=" + path("missing.txt"), "--steps=1"}).exitCode, 3);
  EXPECT_EQ(runToy({"--data=" + path("short.txt"), "--steps=1"}).exitCode, 3);
  EXPECT_EQ(runToy({data(), "--steps=1", "--init=" + path("bad.safetensors")})
                .exitCode,
            3);
  EXPECT_EQ(runToy({data(), "--steps=1", "--resume=" + path("none")}).exitCode,
            3);
}

TEST_F(DriverTest, TriesEveryOutputBeforeItStarts) {
  std::ofstream(path("log")) << "{\"step\":1}\n";
  for (std::string flag :
       {"--trace=", "--dump-gradients=", "--save=", "--tensorboard="}) {
    toy::Options options;
    options.gradients = true;
    Outcome outcome =
        runToy(describe(options),
               {data(), "--steps=2", "--log=" + path("log"),
                flag + path("nowhere/out"), "--init=" + path("missing")});
    EXPECT_EQ(outcome.exitCode, 1) << flag;
    EXPECT_NE(outcome.err.find("nowhere"), std::string::npos) << outcome.err;
    EXPECT_EQ(std::count(outcome.err.begin(), outcome.err.end(), '\n'), 1);
  }
  Outcome check = runToy({"--check-ops=" + path("nowhere/out")});
  EXPECT_EQ(check.exitCode, 1) << check.err;
  EXPECT_FALSE(std::filesystem::exists(path("nowhere")));
  EXPECT_EQ(readFile(path("log")), "{\"step\":1}\n");
}

TEST_F(DriverTest, ARefusedRunChangesNothing) {
  std::ofstream(path("log")) << "{\"step\":1}\n";
  std::ofstream(path("trace")) << "old";
  for (std::string log : {"log", "new-log"}) {
    Outcome outcome =
        runToy({data(), "--steps=2", "--init=" + path("missing"),
                "--log=" + path(log), "--save=" + path("save"),
                "--tensorboard=" + path("events"), "--trace=" + path("trace")});
    EXPECT_EQ(outcome.exitCode, 3) << outcome.err;
  }
  EXPECT_EQ(readFile(path("log")), "{\"step\":1}\n");
  EXPECT_EQ(readFile(path("trace")), "old");
  std::set<std::string> names;
  for (const auto &entry : std::filesystem::directory_iterator(directory_))
    names.insert(entry.path().filename().string());
  EXPECT_EQ(names, (std::set<std::string>{"log", "text.txt", "trace"}));
}

TEST_F(DriverTest, FlagsThatNameOneFileAreRefused) {
  for (auto [flag, other] :
       {std::pair("--log=" + path("text.txt"), "--log and --data"),
        std::pair("--trace=" + path("./text.txt"), "--trace and --data")}) {
    Outcome outcome = runToy({data(), "--steps=2", flag});
    EXPECT_EQ(outcome.exitCode, 2);
    EXPECT_NE(outcome.err.find(other), std::string::npos) << outcome.err;
  }
  EXPECT_EQ(runToy({data(), "--steps=2", "--log=" + path("new"),
                    "--trace=" + path("new")})
                .exitCode,
            2);
  EXPECT_GT(std::filesystem::file_size(path("text.txt")), 1000u);
}

TEST_F(DriverTest, ALogThatCannotBeWrittenIsInTheExitCode) {
  Outcome outcome = runToy({data(), "--steps=3", "--log=/dev/full",
                            "--save=" + path("save"), "--generate=2"});
  EXPECT_EQ(outcome.exitCode, 1);
  EXPECT_NE(
      outcome.err.find("\nerror: 5 lines of the log '/dev/full' could not "
                       "be written: No space left on device\n"),
      std::string::npos)
      << outcome.err;
  EXPECT_TRUE(std::filesystem::exists(path("save/checkpoint-3")));
}

TEST_F(DriverTest, WarnsWhenBytesAreNotTheModelsTokens) {
  EXPECT_EQ(runToy({data(), "--steps=1", "--generate=1"}).err, "");
  nlohmann::json wide = describe();
  wide["model"]["vocab_size"] = 50257;
  Outcome outcome =
      runToy(wide, {data(), "--steps=1", "--prompt=the",
                    "--val-data=" + path("text.txt"), "--generate=1"});
  EXPECT_EQ(outcome.err,
            "warning: the model's vocabulary has 50257 tokens, but the "
            "executable has no tokenizer, so each byte is one token in '" +
                path("text.txt") + "', '" + path("text.txt") +
                "', --prompt, the text of --generate\n");
}

TEST_F(DriverTest, AdvisesOnlyWhatIsOff) {
  toy::Options unclipped;
  unclipped.clip = false;
  for (auto [options, flags, advice] :
       {std::tuple(toy::Options(), std::vector<std::string>{},
                   "; lower --lr, or add --warmup-steps\n"),
        std::tuple(toy::Options(), std::vector<std::string>{"--grad-clip=0"},
                   "; lower --lr, or add --warmup-steps, or set --grad-clip\n"),
        std::tuple(unclipped, std::vector<std::string>{"--warmup-steps=1"},
                   "; lower --lr, or compile it with --clip=on\n")}) {
    flags.insert(flags.end(), {data(), "--steps=50", "--lr=1e38"});
    Outcome outcome = runToy(describe(options), flags);
    EXPECT_EQ(outcome.exitCode, 5);
    EXPECT_NE(outcome.err.find(advice), std::string::npos) << outcome.err;
  }
}

TEST_F(DriverTest, RefusesToMixRuns) {
  ASSERT_EQ(runToy({data(), "--steps=2", "--save=" + path("save")}).exitCode,
            0);
  EXPECT_EQ(runToy({data(), "--steps=2", "--save=" + path("save")}).exitCode,
            2);
  EXPECT_EQ(
      runToy({data(), "--steps=4", "--resume=" + path("save"), "--seed=3"})
          .exitCode,
      2);
  EXPECT_EQ(
      runToy({data(), "--steps=4", "--resume=" + path("save"), "--shuffle=3"})
          .exitCode,
      2);
  EXPECT_EQ(runToy({data(), "--steps=4", "--resume=" + path("save"),
                    "--save=" + path("save")})
                .exitCode,
            0);
  EXPECT_TRUE(std::filesystem::exists(path("save/checkpoint-4")));
}

} // namespace
