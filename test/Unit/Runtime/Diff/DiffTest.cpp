//===- DiffTest.cpp - Tests of kiln-diff on the toy model -----------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <string>
#include <sys/wait.h>
#include <unistd.h>

namespace {

struct Outcome {
  int exitCode;
  std::string text; ///< stdout and stderr.
};

Outcome shell(const std::string &command) {
  Outcome outcome{-1, ""};
  std::FILE *pipe = ::popen((command + " 2>&1").c_str(), "r");
  char buffer[4096];
  while (size_t size = std::fread(buffer, 1, sizeof(buffer), pipe))
    outcome.text.append(buffer, size);
  int status = ::pclose(pipe);
  outcome.exitCode = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  return outcome;
}

class DiffTest : public testing::Test {
protected:
  void SetUp() override {
    directory_ = std::filesystem::temp_directory_path() /
                 ("kiln-diff-test-" + std::to_string(::getpid()));
    std::filesystem::create_directories(directory_ / "tmp");
    std::ofstream text(path("text.txt"));
    for (int i = 0; i < 40; ++i)
      text << "the quick brown fox jumps over the lazy dog " << i << "\n";
  }
  void TearDown() override { std::filesystem::remove_all(directory_); }

  std::string path(const std::string &name) const {
    return (directory_ / name).string();
  }
  /// Writes a shell script, to be used instead of the toy executable.
  std::string script(const std::string &name, const std::string &body) {
    std::ofstream(path(name)) << "#!/bin/sh\n" << body << "\n";
    std::filesystem::permissions(path(name), std::filesystem::perms::owner_all);
    return path(name);
  }
  Outcome diff(const std::string &a, const std::string &b,
               const std::string &flags) {
    Outcome outcome = shell("TMPDIR=" + path("tmp") + " " KILN_DIFF " " + a +
                            " " + b + " --lr=0.5 --threads=1 " + flags);
    EXPECT_TRUE(std::filesystem::is_empty(path("tmp")));
    return outcome;
  }
  Outcome toys(const std::string &flags) {
    return diff(KILN_TOY, KILN_TOY, "--data=" + path("text.txt") + " " + flags);
  }

  std::filesystem::path directory_;
};

bool contains(const Outcome &outcome, const std::string &part) {
  return outcome.text.find(part) != std::string::npos;
}

TEST_F(DiffTest, EqualExecutablesAreEqualBitForBit) {
  Outcome outcome = toys("--steps=7");
  EXPECT_EQ(outcome.exitCode, 0);
  EXPECT_EQ(outcome.text, "equal: 7 steps, 4 tensors, bit for bit\n");
}

TEST_F(DiffTest, EqualInRoundingModeToo) {
  Outcome outcome = toys("--steps=3 --tolerance=rounding");
  EXPECT_EQ(outcome.exitCode, 0);
  EXPECT_EQ(outcome.text, "equal: 3 steps, 4 tensors, bit for bit\n");
}

TEST_F(DiffTest, OtherInitialValuesAreNamed) {
  Outcome outcome = toys("--steps=2 --only-b=--seed=5");
  EXPECT_EQ(outcome.exitCode, 1);
  EXPECT_TRUE(contains(outcome, "different before the first step"))
      << outcome.text;
  EXPECT_TRUE(contains(outcome, "differing tensors (4 compared): parameter '"));
  EXPECT_TRUE(contains(outcome, "not explained by rounding"));
}

TEST_F(DiffTest, AHostArenaChangesNothing) {
  // With --tolerance=rounding, kiln-diff perturbs parameters and repeats steps.
  // If it perturbs a parameter, it must also update the mirror, the copy of the
  // parameter on the device.
  for (const char *mode : {"exact", "rounding"}) {
    Outcome outcome =
        diff(KILN_TOY, KILN_OFFLOADED_TOY,
             "--steps=3 --data=" + path("text.txt") + " --tolerance=" + mode);
    EXPECT_EQ(outcome.exitCode, 0) << outcome.text;
  }
  // Compare an executable with itself. Only B runs with --stress-copies, so
  // only B executes the copies at random times.
  Outcome outcome =
      diff(KILN_OFFLOADED_TOY, KILN_OFFLOADED_TOY,
           "--steps=3 --only-b=--stress-copies=4 --tolerance=exact --data=" +
               path("text.txt"));
  EXPECT_EQ(outcome.exitCode, 0) << outcome.text;
}

TEST_F(DiffTest, AnOrderOfMicrobatchesChangesNothing) {
  for (const char *mode : {"exact", "rounding"}) {
    Outcome outcome =
        diff(KILN_TOY, KILN_IN_FLIGHT_TOY,
             "--steps=3 --data=" + path("text.txt") + " --tolerance=" + mode);
    EXPECT_EQ(outcome.exitCode, 0) << outcome.text;
  }
  Outcome outcome = diff(KILN_TOY, KILN_IN_FLIGHT_TOY,
                         "--steps=3 --lr-schedule=linear --only-b=--min-lr=0.1"
                         " --tolerance=exact --data=" +
                             path("text.txt"));
  EXPECT_EQ(outcome.exitCode, 1);
  EXPECT_TRUE(contains(outcome, "different at step 2")) << outcome.text;
}

TEST_F(DiffTest, AHostArenaIsLoadedIntoAndPerturbed) {
  // A and B train with different schedules. Only the offloaded toy, which is B
  // in the first pair and A in the second pair, has a mirror (a copy of a
  // parameter on the device).
  for (const char *pair :
       {KILN_TOY " " KILN_OFFLOADED_TOY, KILN_OFFLOADED_TOY " " KILN_TOY}) {
    std::string both = pair;
    size_t space = both.find(' ');
    Outcome outcome =
        diff(both.substr(0, space), both.substr(space + 1),
             "--steps=3 --lr-schedule=linear --only-b=--min-lr=0.1"
             " --tolerance=rounding --data=" +
                 path("text.txt"));
    EXPECT_EQ(outcome.exitCode, 1);
    EXPECT_TRUE(contains(outcome, "the learning rates differ")) << outcome.text;
    EXPECT_TRUE(contains(outcome, "different at step 2")) << outcome.text;
  }
}

TEST_F(DiffTest, AnotherUpdateIsNotRounding) {
  for (const char *mode : {"exact", "rounding"}) {
    Outcome outcome =
        toys("--steps=4 --lr-schedule=linear --only-b=--min-lr=0.1"
             " --tolerance=" +
             std::string(mode));
    EXPECT_EQ(outcome.exitCode, 1);
    EXPECT_TRUE(contains(outcome, "the learning rates differ")) << outcome.text;
    EXPECT_TRUE(contains(outcome, "different at step 2")) << outcome.text;
    EXPECT_TRUE(contains(outcome, "\nnot alike\n"));
  }
}

TEST_F(DiffTest, OtherDataIsFoundAtTheFirstOp) {
  for (const char *mode : {"exact", "rounding"}) {
    Outcome outcome =
        toys("--steps=2 --only-b=--shuffle=3 --tolerance=" + std::string(mode));
    EXPECT_EQ(outcome.exitCode, 1);
    EXPECT_TRUE(contains(outcome, "different at step 1\nloss differs: A "));
    EXPECT_TRUE(contains(outcome, "first differing op that both have: launch "
                                  "'gather'"))
        << outcome.text;
  }
}

TEST_F(DiffTest, DivergenceOfBothIsToldFromADifference) {
  Outcome outcome = shell(KILN_DIFF " " KILN_TOY " " KILN_TOY
                                    " --lr=1e38 --grad-clip=0 --threads=1 "
                                    "--steps=50 --data=" +
                          path("text.txt"));
  EXPECT_EQ(outcome.exitCode, 5);
  EXPECT_TRUE(contains(outcome, "bit for bit; both diverged at step "))
      << outcome.text;
}

TEST_F(DiffTest, FailuresAreOneLineWithTheRightCode) {
  struct Case {
    std::string flags;
    int exitCode;
    std::string message;
  };
  for (const Case &c : {
           Case{"--data=/nowhere.bin --steps=1", 3, "cannot open"},
           Case{"--data=" + path("text.txt"), 2, "--steps=N is missing"},
           Case{"--data=" + path("text.txt") + " --steps=0 --save=x", 2,
                "--lockstep needs --steps"},
           Case{"--data=" + path("text.txt") + " --steps=1 --log=x", 2,
                "--log is not supported with --lockstep"},
           Case{"--data=" + path("text.txt") + " --steps=1 --only-a=--nonsense",
                2, "--nonsense"},
       }) {
    Outcome outcome = diff(KILN_TOY, KILN_TOY, c.flags);
    EXPECT_EQ(outcome.exitCode, c.exitCode) << outcome.text;
    EXPECT_EQ(outcome.text.rfind("error: A ('", 0), 0u) << outcome.text;
    EXPECT_TRUE(contains(outcome, c.message)) << outcome.text;
    EXPECT_EQ(outcome.text.find('\n'), outcome.text.size() - 1);
  }
  Outcome steps = toys("--steps=2 --only-b=--steps=3");
  EXPECT_EQ(steps.exitCode, 2) << steps.text;
}

TEST_F(DiffTest, ProgramsThatDoNotTrainAreRefused) {
  std::string data = "--steps=1 --data=" + path("text.txt");
  Outcome missing = diff(KILN_TOY, path("missing"), data);
  EXPECT_EQ(missing.exitCode, 3);
  EXPECT_TRUE(contains(missing, "cannot run B")) << missing.text;
  Outcome silent = diff(KILN_TOY, "/bin/true", data);
  EXPECT_EQ(silent.exitCode, 1);
  EXPECT_TRUE(contains(silent, "is it an executable that kilnc compiled?"));
  Outcome killed = diff(script("killed", "kill -9 $$"), KILN_TOY, data);
  EXPECT_EQ(killed.exitCode, 1);
  EXPECT_TRUE(contains(killed, "was killed by signal 9")) << killed.text;
  for (const char *answer : {"nonsense", "{}", "[1]", "{\\\"model\\\":3}"}) {
    std::string body = "for last; do :; done\n"
                       "echo \"" +
                       std::string(answer) + "\" >&${last#*=}\nread x";
    Outcome outcome = diff(script("liar", body), KILN_TOY, data);
    EXPECT_EQ(outcome.exitCode, 1);
    EXPECT_TRUE(contains(outcome, "sent an invalid reply")) << outcome.text;
    EXPECT_EQ(outcome.text.find('\n'), outcome.text.size() - 1);
  }
}

/// Tests the server of the lockstep protocol without kiln-diff.
TEST_F(DiffTest, LockstepAnswersEveryCommandWithALine) {
  std::string toy =
      KILN_TOY " --lockstep=1 --threads=1 --steps=2 --data=" + path("text.txt");
  Outcome outcome = shell(
      "printf '{\"do\":\"step\",\"ops\":true,\"keep\":true}\\n"
      "{\"do\":\"perturb\",\"file\":\"" +
      path("p") + "\",\"tensors\":[0]}\\n{\"do\":\"save\",\"file\":\"" +
      path("s") + "\",\"tensors\":[1,0]}\\n{\"do\":\"step\"}\\n' | " + toy);
  EXPECT_EQ(outcome.exitCode, 0) << outcome.text;
  EXPECT_TRUE(contains(outcome, "\"lockstep\":1"));
  EXPECT_TRUE(contains(outcome, "\"ops\":[{"));
  EXPECT_TRUE(contains(outcome, "\"step\":2"));
  EXPECT_TRUE(std::filesystem::exists(path("p")));
  EXPECT_TRUE(std::filesystem::exists(path("s")));
  for (const char *command :
       {"{\"do\":\"dance\"}", "{\"do\":3}", "[]", "{", "{\"do\":\"perturb\"}",
        "{\"do\":\"save\",\"file\":\"x\",\"tensors\":[99]}",
        "{\"do\":\"save\",\"file\":\"x\",\"tensors\":\"all\"}",
        "{\"do\":\"load\",\"file\":\"/nowhere\",\"tensors\":[0]}"}) {
    Outcome refused = shell("echo '" + std::string(command) + "' | " + toy);
    EXPECT_NE(refused.exitCode, 0) << command;
    EXPECT_TRUE(contains(refused, "\nerror: ")) << refused.text;
  }
  Outcome closed = shell("echo | " KILN_TOY " --lockstep=77 --steps=1 "
                         "--threads=1 --data=" +
                         path("text.txt"));
  EXPECT_EQ(closed.exitCode, 2);
  EXPECT_TRUE(contains(closed, "this flag is for kiln-diff")) << closed.text;
}

} // namespace
