//===- AlgorithmsTest.cpp - Tests of the matmul algorithm search ----------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "AlgorithmFile.h"
#include "CudaToy.h"
#include "RunToy.h"

using namespace kiln::runtime::cuda;
using namespace kiln::runtime::toy;
using namespace kiln::runtime;
using namespace kiln;
using Json = nlohmann::json;

namespace {

class AlgorithmsTest : public ToyTest {
protected:
  Outcome run(std::vector<std::string> flags = {}) {
    fakecuda::reset(settings_);
    flags.insert(flags.begin(), {data(), "--steps=2", "--log=" + log_});
    Outcome outcome =
        runToy(onCuda(describe()), flags, [](const Json &description) {
          return makeCudaEngine(description, default_);
        });
    EXPECT_TRUE(fakecuda::live().empty());
    EXPECT_TRUE(fakecuda::violations().empty())
        << fakecuda::violations().front();
    return outcome;
  }
  Outcome search() { return run({"--gpu-algorithms=" + file_}); }
  std::string library() { return readLog(log_).front()["library"]; }
  int64_t products() {
    int64_t sum = 0;
    for (int64_t count : fakecuda::gemmsByAlgorithm())
      sum += count;
    return sum;
  }

  static std::string default_; ///< Default path of the algorithm file.
  std::string file_, log_;
  fakecuda::Settings settings_ = toySettings();

  void SetUp() override {
    ToyTest::SetUp();
    default_.clear();
    file_ = path("algorithms.json");
    log_ = path("log.jsonl");
  }
};

std::string AlgorithmsTest::default_;

TEST_F(AlgorithmsTest, TheFastestIsFoundOnceAndKept) {
  settings_.gemmTimes = {3, 2, 1, 5};
  ASSERT_EQ(run().exitCode, 0);
  int64_t each = products();
  EXPECT_EQ(fakecuda::gemmsByAlgorithm(),
            (std::vector<int64_t>{each, 0, 0, 0}));
  EXPECT_EQ(library(), "cuBLASLt 13.1.2 on Fake GPU");
  EXPECT_FALSE(std::filesystem::exists(file_));

  Outcome outcome = search();
  ASSERT_EQ(outcome.exitCode, 0) << outcome.err;
  EXPECT_EQ(outcome.err, "");
  std::vector<int64_t> counts = fakecuda::gemmsByAlgorithm();
  EXPECT_EQ(counts[2], each + counts[1]);
  EXPECT_EQ(counts[0], counts[1]);
  EXPECT_GT(counts[0], 0);
  std::string found = library(), kept = readFile(file_);
  EXPECT_NE(found.find("(algorithms "), std::string::npos) << found;
  std::vector<std::string> losses = lossTexts(log_);

  // The next run uses the algorithms in the file and measures nothing, even if
  // other algorithms are now faster.
  settings_.gemmTimes = {1, 2, 3, 4};
  ASSERT_EQ(search().exitCode, 0);
  EXPECT_EQ(fakecuda::gemmsByAlgorithm(),
            (std::vector<int64_t>{0, 0, each, 0}));
  EXPECT_EQ(library(), found);
  EXPECT_EQ(lossTexts(log_), losses);
  EXPECT_EQ(readFile(file_), kept);
}

TEST_F(AlgorithmsTest, NoiseDoesNotDecide) {
  settings_.gemmTimes = {1, 0.99, 1.01};
  ASSERT_EQ(search().exitCode, 0);
  std::vector<int64_t> counts = fakecuda::gemmsByAlgorithm();
  EXPECT_GT(counts[0], counts[1]);
  EXPECT_EQ(counts[1], counts[2]);
}

TEST_F(AlgorithmsTest, AnotherLibraryIsSearchedAnew) {
  settings_.gemmTimes = {2, 1};
  ASSERT_EQ(search().exitCode, 0);
  Json json = Json::parse(readFile(file_));
  ASSERT_EQ(json["devices"].size(), 1u);
  auto device = json["devices"].items().begin();
  EXPECT_EQ(device.key(), "Fake GPU, CUDA 13.0, cuBLASLt 13.1.2");
  settings_.driverVersion = 12080;
  settings_.gemmTimes = {1, 2};
  ASSERT_EQ(search().exitCode, 0);
  Json both = Json::parse(readFile(file_));
  EXPECT_EQ(both["devices"].size(), 2u);
  EXPECT_EQ(both["devices"][device.key()], device.value());
}

TEST_F(AlgorithmsTest, WhatTheLibraryDoesNotProposeIsNotRun) {
  settings_.gemmTimes = {1, 1};
  ASSERT_EQ(search().exitCode, 0);
  std::string kept = readFile(file_);
  Json json = Json::parse(kept);
  for (Json &device : json["devices"])
    for (Json &algorithm : device)
      algorithm = std::string(128, 'f');
  std::ofstream(file_) << json;
  // The fake library reports a violation if it runs an algorithm that it has
  // not proposed.
  ASSERT_EQ(search().exitCode, 0);
  EXPECT_EQ(readFile(file_), kept);
}

TEST_F(AlgorithmsTest, BadFilesAreRefused) {
  std::string digits(128, '0');
  for (std::string text :
       {std::string("{"), std::string("[]"), std::string("{\"format\": 2}"),
        std::string("{\"format\": 1}"),
        std::string("{\"format\": 1, \"devices\": []}"),
        std::string("{\"format\": 1, \"devices\": {\"x\": 1}}"),
        std::string("{\"format\": 1, \"devices\": {\"x\": {\"y\": 1}}}"),
        "{\"format\": 1, \"devices\": {\"x\": {\"y\": \"" + digits + "0\"}}}",
        "{\"format\": 1, \"devices\": {\"x\": {\"y\": \"" + digits.substr(1) +
            "A\"}}}"}) {
    std::ofstream(file_) << text;
    Outcome outcome = search();
    EXPECT_EQ(outcome.exitCode, 3) << text;
    EXPECT_EQ(outcome.err.rfind("error: ", 0), 0u) << outcome.err;
    EXPECT_NE(outcome.err.find(file_), std::string::npos) << outcome.err;
    EXPECT_EQ(std::count(outcome.err.begin(), outcome.err.end(), '\n'), 1);
    EXPECT_EQ(readFile(file_), text);
  }
}

TEST_F(AlgorithmsTest, TheCacheIsCreated) {
  settings_.gemmTimes = {2, 1};
  default_ = path("cache/kiln/algorithms.json");
  Outcome outcome = run();
  EXPECT_EQ(outcome.exitCode, 0) << outcome.err;
  EXPECT_EQ(outcome.err, "");
  EXPECT_TRUE(std::filesystem::exists(default_));
}

TEST_F(AlgorithmsTest, WithoutACacheARunGoesOn) {
  settings_.gemmTimes = {2, 1};
  std::ofstream(path("cache")) << "a file where a folder should be";
  default_ = path("cache/kiln/algorithms.json");
  Outcome outcome = run();
  EXPECT_EQ(outcome.exitCode, 0) << outcome.err;
  EXPECT_NE(outcome.err.find("every start searches"), std::string::npos)
      << outcome.err;
}

TEST_F(AlgorithmsTest, AFileThatCannotBeWrittenIsRefusedBeforeTheSearch) {
  settings_.gemmTimes = {2, 1};
  file_ = path("typo/algorithms.json");
  Outcome outcome = search();
  EXPECT_EQ(outcome.exitCode, 1);
  EXPECT_EQ(outcome.err, "error: cannot create '" + file_ +
                             "': No such file or directory; create its "
                             "directory first\n");
  EXPECT_EQ(fakecuda::calls(), 0);
  EXPECT_FALSE(std::filesystem::exists(path("typo")));
}

TEST_F(AlgorithmsTest, EveryCallOfASearchMayFail) {
  settings_.gemmTimes = {2, 1};
  ASSERT_EQ(run().exitCode, 0);
  int64_t without = fakecuda::calls();
  ASSERT_EQ(search().exitCode, 0);
  int64_t more = fakecuda::calls() - without;
  ASSERT_GT(more, 50);
  for (int64_t call = 0; call < fakecuda::calls(); ++call) {
    std::filesystem::remove(file_);
    settings_.failingCall = call;
    Outcome outcome = search();
    std::string function = fakecuda::failedFunction();
    if (outcome.exitCode == 0)
      continue;
    EXPECT_EQ(std::count(outcome.err.begin(), outcome.err.end(), '\n'), 1)
        << function << ": " << outcome.err;
    if (std::filesystem::exists(file_)) // The search is complete.
      break;
  }
}

TEST_F(AlgorithmsTest, OnlyForAGpu) {
  Outcome outcome = runToy({data(), "--steps=1", "--gpu-algorithms=x"});
  EXPECT_EQ(outcome.exitCode, 2);
  EXPECT_NE(outcome.err.find("--gpu-algorithms"), std::string::npos);
  settings_.gemmTimes = {2, 1};
  ASSERT_EQ(run({"--gpu-algorithms=none"}).exitCode, 0);
  EXPECT_EQ(fakecuda::gemmsByAlgorithm()[1], 0);
}

TEST(AlgorithmFileTest, ForgetsTheOthersWhenItIsFull) {
  std::string path = std::filesystem::temp_directory_path() /
                     ("kiln-algorithms-" + std::to_string(getpid()));
  Result<AlgorithmFile> file = AlgorithmFile::open(path, "device");
  ASSERT_TRUE(file.ok());
  for (int i = 0; i < 5000; ++i)
    file->add(std::to_string(i),
              {{uint64_t(i), 0, 0, 0, 0, 0, 0, ~uint64_t(0)}});
  ASSERT_TRUE(file->save().ok());
  Result<AlgorithmFile> again = AlgorithmFile::open(path, "device");
  ASSERT_TRUE(again.ok()) << again.status().message();
  std::optional<Algorithm> last = again->find("4999");
  ASSERT_TRUE(last.has_value());
  EXPECT_EQ(last->words[0], 4999u);
  EXPECT_EQ(last->words[7], ~uint64_t(0));
  EXPECT_FALSE(again->find("1").has_value());
  std::filesystem::remove(path);
}

} // namespace
