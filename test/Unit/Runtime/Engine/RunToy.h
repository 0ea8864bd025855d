//===- RunToy.h - Running the driver in a test ------------------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef KILN_TEST_UNIT_RUNTIME_ENGINE_RUNTOY_H
#define KILN_TEST_UNIT_RUNTIME_ENGINE_RUNTOY_H

#include "ToyProgram.h"
#include "kiln/Runtime/Training/Driver.h"

#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <sstream>
#include <string>
#include <vector>

namespace kiln::runtime::toy {

struct Outcome {
  int exitCode;
  std::string out;
  std::string err;
};

/// Runs the driver on a new engine in this process.
inline Outcome runToy(const nlohmann::json &description,
                      std::vector<std::string> flags,
                      Result<std::unique_ptr<Engine>> (*make)(
                          const nlohmann::json &) = makeEngine) {
  Result<std::unique_ptr<Engine>> engine = make(description);
  if (!engine.ok()) {
    ADD_FAILURE() << engine.status().message();
    return {-1, "", engine.status().message()};
  }
  flags.insert(flags.begin(), "toy");
  std::vector<char *> argv;
  for (std::string &flag : flags)
    argv.push_back(flag.data());
  testing::internal::CaptureStdout();
  testing::internal::CaptureStderr();
  Outcome outcome;
  outcome.exitCode = runTraining(**engine, int(argv.size()), argv.data());
  outcome.out = testing::internal::GetCapturedStdout();
  outcome.err = testing::internal::GetCapturedStderr();
  return outcome;
}

inline Outcome runToy(std::vector<std::string> flags) {
  return runToy(describe(), std::move(flags));
}

inline std::string readFile(const std::string &path) {
  std::ifstream file(path, std::ios::binary);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

/// Returns the objects of a JSONL file.
inline std::vector<nlohmann::json> readLog(const std::string &path) {
  std::vector<nlohmann::json> lines;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);)
    lines.push_back(nlohmann::json::parse(line));
  return lines;
}

/// Returns the losses of all steps as they are printed in the log.
inline std::vector<std::string> lossTexts(const std::string &path) {
  std::vector<std::string> losses;
  for (const nlohmann::json &line : readLog(path))
    if (!line.contains("event"))
      losses.push_back(line["loss"].dump());
  return losses;
}

/// Provides each test with its own directory and a text to train on.
class ToyTest : public testing::Test {
protected:
  void SetUp() override {
    const testing::TestInfo *test =
        testing::UnitTest::GetInstance()->current_test_info();
    directory_ = std::filesystem::temp_directory_path() /
                 ("kiln-toy-" + std::to_string(getpid()) + "-" + test->name());
    std::filesystem::remove_all(directory_);
    std::filesystem::create_directories(directory_);
    std::ofstream text(path("text.txt"), std::ios::binary);
    for (int i = 0; i < 40; ++i)
      text << "the quick brown fox jumps over the lazy dog " << i << "\n";
  }
  void TearDown() override { std::filesystem::remove_all(directory_); }

  std::string path(const std::string &name) const {
    return (directory_ / name).string();
  }
  std::string data() const { return "--data=" + path("text.txt"); }

  std::filesystem::path directory_;
};

} // namespace kiln::runtime::toy

#endif // KILN_TEST_UNIT_RUNTIME_ENGINE_RUNTOY_H
