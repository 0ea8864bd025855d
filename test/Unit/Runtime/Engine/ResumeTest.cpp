//===- ResumeTest.cpp - Tests of resumed runs -----------------------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "../Files/CheckpointFormat.h"
#include "RunToy.h"

using namespace kiln::runtime::toy;
using namespace kiln::runtime;
using namespace kiln;
using Json = nlohmann::json;

namespace {

class ResumeTest : public ToyTest {
protected:
  std::string resume() const { return "--resume=" + path("save"); }
  std::string save() const { return "--save=" + path("save"); }

  /// Trains `steps` steps; the last checkpoint is in "save".
  void train(const std::string &steps, std::vector<std::string> flags = {}) {
    flags.insert(flags.end(), {data(), "--steps=" + steps, save()});
    Outcome outcome = runToy(flags);
    ASSERT_EQ(outcome.exitCode, 0) << outcome.err;
  }

  /// Edits the `extra` member of a manifest.
  void editManifest(const std::string &checkpoint,
                    const std::function<void(Json &extra)> &edit) {
    std::string file = checkpoint + "/kiln_manifest.json";
    Result<CheckpointManifest> manifest = parseManifest(readFile(file), file);
    ASSERT_TRUE(manifest.ok()) << manifest.status().message();
    edit(manifest->extra);
    std::ofstream(file, std::ios::binary) << manifestText(*manifest);
  }

  Json manifestOf(const std::string &checkpoint) {
    return Json::parse(readFile(checkpoint + "/kiln_manifest.json"))["extra"];
  }
};

void expectSays(const Outcome &outcome, const std::string &text) {
  EXPECT_NE(outcome.err.find(text), std::string::npos)
      << "expected: " << text << "\nstandard error: " << outcome.err;
}

int countOf(const std::string &text, const std::string &part) {
  int count = 0;
  for (size_t at = text.find(part); at != std::string::npos;
       at = text.find(part, at + 1))
    ++count;
  return count;
}

TEST_F(ResumeTest, TakesWhatIsNotGivenFromTheCheckpoint) {
  const std::vector<std::vector<std::string>> schedules = {
      {"--lr=0.5"},
      {"--lr=0.5", "--lr-schedule=cosine", "--warmup-steps=3", "--min-lr=0.1"},
      {"--lr=0.5", "--lr-schedule=linear", "--grad-clip=0"},
      {"--lr=0.4", "--lr-schedule=exponential", "--lr-gamma=0.9",
       "--min-lr=0.1", "--grad-clip=0.25"},
      {"--lr=0.3", "--lr-schedule=wsd", "--cooldown-steps=9",
       "--warmup-steps=10", "--warmup=constant", "--lr-scaling=sqrt",
       "--base-batch=2", "--min-lr=0.01", "--grad-clip=0.5"}};
  for (size_t i = 0; i < schedules.size(); ++i) {
    SCOPED_TRACE(i);
    std::string whole = path("whole" + std::to_string(i)), part = whole + "p";
    std::vector<std::string> flags = schedules[i];
    flags.insert(flags.end(),
                 {data(), "--steps=20", "--save-every=8", "--seed=4",
                  "--shuffle=11", "--save=" + whole, "--log=" + whole + ".l"});
    ASSERT_EQ(runToy(flags).exitCode, 0);
    std::filesystem::copy_file(whole + ".l", part + ".l");
    Outcome resumed = runToy({data(), "--resume=" + whole + "/checkpoint-8",
                              "--save=" + part, "--log=" + part + ".l"});
    ASSERT_EQ(resumed.exitCode, 0) << resumed.err;
    EXPECT_EQ(resumed.err,
              "resuming from " + whole + "/checkpoint-8 at step 8 of 20\n");
    EXPECT_EQ(lossTexts(whole + ".l"), lossTexts(part + ".l"));
    for (const char *file : {"model.safetensors", "optimizer.safetensors"})
      EXPECT_EQ(readFile(whole + "/checkpoint-20/" + file),
                readFile(part + "/checkpoint-20/" + file))
          << file;
    EXPECT_EQ(manifestOf(whole + "/checkpoint-20")["trajectory"],
              manifestOf(part + "/checkpoint-20")["trajectory"]);
  }
}

TEST_F(ResumeTest, AFlagThatIsGivenWinsAndThatIsSaid) {
  train("4", {"--lr=0.5", "--lr-schedule=cosine", "--grad-clip=2"});
  Outcome outcome =
      runToy({data(), resume(), save(), "--steps=8", "--lr=0.25",
              "--lr-schedule=cosine", "--min-lr=0.125", "--grad-clip=0"});
  ASSERT_EQ(outcome.exitCode, 0) << outcome.err;
  EXPECT_EQ(outcome.err,
            "resuming from " + path("save/checkpoint-4") +
                " at step 4 of 8\n"
                "note: --steps changes from 4 to 8; from here on, the rates "
                "are those of a cosine schedule over 8 steps\n"
                "note: --lr changes from 0.5 to 0.25\n"
                "note: --min-lr changes from 0 to 0.125\n"
                "note: --grad-clip changes from 2 to 0\n");
  // A checkpoint of the resumed run contains the trajectory (the properties) of
  // the resumed run, not that of the first run.
  outcome = runToy({data(), resume(), save(), "--steps=9"});
  ASSERT_EQ(outcome.exitCode, 0) << outcome.err;
  Json trajectory = manifestOf(path("save/checkpoint-9"))["trajectory"];
  EXPECT_EQ(trajectory["schedule"]["lr"], 0.25);
  EXPECT_EQ(trajectory["schedule"]["min_lr"], 0.125);
  EXPECT_EQ(trajectory["grad_clip"], 0.0);
  EXPECT_EQ(trajectory["steps"], 9);
  // A constant schedule does not inherit --min-lr, an option of the cosine
  // schedule in the checkpoint.
  outcome = runToy(
      {data(), resume(), save(), "--steps=10", "--lr-schedule=constant"});
  ASSERT_EQ(outcome.exitCode, 0) << outcome.err;
  expectSays(outcome, "note: --lr-schedule changes from cosine to constant\n");
  trajectory = manifestOf(path("save/checkpoint-10"))["trajectory"];
  EXPECT_EQ(trajectory["schedule"]["min_lr"], 0.0);
}

TEST_F(ResumeTest, FlagsMustGoWithThoseOfTheCheckpoint) {
  train("4", {"--lr=0.5", "--lr-schedule=cosine"});
  auto refuse = [&](std::vector<std::string> flags, const std::string &text) {
    flags.insert(flags.end(), {data(), resume()});
    Outcome outcome = runToy(flags);
    EXPECT_EQ(outcome.exitCode, 2) << outcome.err;
    expectSays(outcome, text);
  };
  refuse({"--min-lr=0.6"}, "--min-lr is above --lr");
  refuse({"--min-lr=0.6"},
         "flags that are not given take their values from checkpoint '" +
             path("save/checkpoint-4") + "'");
  refuse({"--lr-schedule=wsd"}, "--lr-schedule=wsd needs --cooldown-steps");
  refuse({"--lr-schedule=wsd", "--cooldown-steps=5"}, "more than --steps");
  refuse({"--lr-schedule=constant", "--min-lr=0.1"},
         "--min-lr needs an --lr-schedule that decays");
  refuse({"--cooldown-steps=2"}, "--cooldown-steps needs --lr-schedule=wsd");
  refuse({"--steps=3"},
         "--steps=3 is the total number of updates, but checkpoint ");
  refuse({"--seed=3"}, "--seed=3 contradicts the checkpoint");
  refuse({"--shuffle=3"}, "--shuffle=3 contradicts the checkpoint");
  refuse({"--resume-changing=optimiser"},
         "--resume-changing: 'optimiser' is unknown, expected one or more of "
         "optimizer, dropout, lossy, lora, batch, seq, clip, frozen, data");
  refuse({"--resume-changing=data,,batch"}, "'' is unknown");
  EXPECT_EQ(runToy({data(), "--steps=1", "--resume-changing=data"}).exitCode,
            2);
}

TEST_F(ResumeTest, AFinishedRunSaysSo) {
  train("4");
  Outcome outcome = runToy({data(), resume(), save()});
  ASSERT_EQ(outcome.exitCode, 0) << outcome.err;
  EXPECT_EQ(outcome.err, "resuming from " + path("save/checkpoint-4") +
                             " at step 4 of 4\n"
                             "note: this run is finished: its 4 steps are "
                             "done; to continue it, give a larger --steps=N\n");
}

struct OtherExecutable {
  const char *name;
  const char *pointer; ///< JSON pointer into the description.
  Json value;
  const char *difference;
};

TEST_F(ResumeTest, AnotherExecutableIsRefusedUnlessThatIsAllowed) {
  train("4", {"--lr=0.5", "--grad-clip=2"});
  const OtherExecutable others[] = {
      {"optimizer", "/training/optimizer/0/options/momentum", 0.5,
       "the optimizer was momentum (momentum=0.9, weight_decay=0) and is "
       "momentum (momentum=0.5, weight_decay=0)"},
      {"optimizer", "/training/optimizer/0/decay", "all",
       "is momentum (momentum=0.9, weight_decay=0, decay=all)"},
      {"dropout", "/training/dropout/activations", Json::array({0.1}),
       "dropout was none and is 0.1, of attention none"},
      {"lossy", "/training/lossy",
       Json::array({{{"encoding", "fewbit:3"}, {"residuals", 4}}}),
       "the lossy encoding was none and is fewbit:3 of 4 residuals"},
      {"batch", "/model/batch", 8, "the batch was 4 and is 8"},
      {"seq", "/model/sequence_length", 16,
       "the sequence length was 8 and is 16"},
      {"clip", "/options/clip", false,
       "gradient clipping was at norm 2 and is off"},
      {"frozen", "/states/0/trainable", false,
       "the number of frozen parameters was 0 and is 4096"}};
  for (const OtherExecutable &other : others) {
    SCOPED_TRACE(other.pointer);
    Json description = describe();
    description[Json::json_pointer(other.pointer)] = other.value;
    std::vector<std::string> flags = {data(), resume(), "--steps=6"};
    Outcome outcome = runToy(description, flags);
    EXPECT_EQ(outcome.exitCode, 2) << outcome.err;
    expectSays(outcome, other.difference);
    expectSays(outcome, "with --resume-changing=" + std::string(other.name));
    EXPECT_EQ(countOf(outcome.err, "\n"), 1) << outcome.err;

    // The message names only the settings that differ. --resume-changing also
    // allows changes of the data, but the data are equal and are not named.
    flags.push_back("--resume-changing=data");
    outcome = runToy(description, flags);
    EXPECT_EQ(outcome.exitCode, 2) << outcome.err;
    expectSays(outcome,
               "with --resume-changing=" + std::string(other.name) + "\n");
    flags.back() = "--resume-changing=" + std::string(other.name);
    outcome = runToy(description, flags);
    EXPECT_EQ(outcome.exitCode, 0) << outcome.err;
    expectSays(outcome, " changes from ");
    // The unchanged executable accepts the same flags and does not report a
    // change of the setting `other.name`.
    outcome = runToy(describe(), flags);
    EXPECT_EQ(outcome.exitCode, 0) << outcome.err;
    EXPECT_EQ(countOf(outcome.err, "changes from"), 1) << outcome.err;
  }
  // --grad-clip=0 is equivalent to --clip=off.
  toy::Options unclipped;
  unclipped.clip = false;
  Outcome outcome = runToy(describe(unclipped),
                           {data(), resume(), "--steps=6", "--grad-clip=0"});
  EXPECT_EQ(outcome.exitCode, 0) << outcome.err;
  expectSays(outcome, "note: --grad-clip changes from 2 to 0\n");
}

TEST_F(ResumeTest, AllDifferencesAreInOneLine) {
  train("4");
  Json description = describe();
  description["model"]["batch"] = 8;
  description["training"]["optimizer"][0]["name"] = "sgd";
  std::ofstream(path("other.txt")) << std::string(500, 'a');
  Outcome outcome =
      runToy(description, {"--data=" + path("other.txt"), resume(), "--steps=5",
                           "--resume-changing=batch"});
  EXPECT_EQ(outcome.exitCode, 2);
  expectSays(outcome, "belongs to another run: the optimizer was ");
  expectSays(outcome, "with --resume-changing=optimizer,batch,data\n");
  EXPECT_EQ(countOf(outcome.err, "\n"), 1) << outcome.err;
}

TEST_F(ResumeTest, StatesOfAnotherOptimizerStartAfresh) {
  train("4", {"--lr=0.5"});
  Json sgd = describe(), nesterov = describe();
  sgd["training"]["optimizer"][0]["name"] = "sgd";
  nesterov["training"]["optimizer"][0]["name"] = "nesterov";
  std::vector<std::string> flags = {data(), resume(), "--steps=4",
                                    "--resume-changing=optimizer"};
  auto moments = [&](const Json &description, const std::string &name) {
    std::vector<std::string> all = flags;
    all.push_back("--save=" + path(name));
    Outcome outcome = runToy(description, all);
    EXPECT_EQ(outcome.exitCode, 0) << outcome.err;
    expectSays(outcome, name == "fresh" ? "; the optimizer states are reset\n"
                                        : "; its states are kept\n");
    return readFile(path(name) + "/checkpoint-4/optimizer.safetensors");
  };
  std::string before =
      readFile(path("save/checkpoint-4/optimizer.safetensors"));
  EXPECT_EQ(moments(nesterov, "kept"), before);
  std::string fresh = moments(sgd, "fresh");
  EXPECT_EQ(fresh.size(), before.size());
  EXPECT_NE(fresh, before);
  EXPECT_EQ(fresh.substr(fresh.size() - 1000), std::string(1000, '\0'));
  EXPECT_EQ(
      manifestOf(path("kept/checkpoint-4"))["training"]["optimizer_start"], 0);
  EXPECT_EQ(
      manifestOf(path("fresh/checkpoint-4"))["training"]["optimizer_start"], 4);
}

TEST_F(ResumeTest, DataIsKnownByItsContentNotByItsPath) {
  train("4");
  std::filesystem::copy_file(path("text.txt"), path("copy.txt"));
  EXPECT_EQ(
      runToy({"--data=" + path("copy.txt"), resume(), "--steps=6"}).exitCode,
      0);
  std::string text = readFile(path("text.txt"));
  text[text.size() / 2] ^= 1;
  std::ofstream(path("other.txt"), std::ios::binary) << text;
  std::vector<std::string> flags = {"--data=" + path("other.txt"), resume(),
                                    "--steps=6", "--save=" + path("new")};
  Outcome outcome = runToy(flags);
  EXPECT_EQ(outcome.exitCode, 2);
  expectSays(outcome, "the data was " + std::to_string(text.size()) +
                          " tokens of 1 byte with hash ");
  flags.push_back("--resume-changing=data");
  outcome = runToy(flags);
  EXPECT_EQ(outcome.exitCode, 0) << outcome.err;
  expectSays(outcome, "; reading starts at its beginning\n");
  // The run has read two batches from the beginning of the data.
  EXPECT_EQ(manifestOf(path("new/checkpoint-6"))["training"]["sequence"],
            2 * batch);
  // The validation data may change freely.
  EXPECT_EQ(runToy({data(), resume(), "--steps=6", "--val-batches=1",
                    "--val-data=" + path("other.txt")})
                .exitCode,
            0);
}

TEST_F(ResumeTest, AnotherLengthGoesOnAtTheSameToken) {
  train("4");
  Json longer = describe();
  longer["model"]["sequence_length"] = 2 * length - 1;
  Outcome outcome =
      runToy(longer, {data(), resume(), "--steps=5", "--resume-changing=seq"});
  EXPECT_EQ(outcome.exitCode, 0) << outcome.err;
  // The first run has read 16 sequences of 8 tokens, which equal 8.53 sequences
  // of 15 tokens.
  expectSays(outcome, "note: the sequence length changes from 8 to 15; reading "
                      "continues at the same token, in sequence 9\n");
}

TEST_F(ResumeTest, ACheckpointOfAnEarlierFormatIsReadWithOneWarning) {
  train("4", {"--lr=0.5"});
  editManifest(path("save/checkpoint-4"), [](Json &extra) {
    extra.erase("trajectory");
    extra["training"].erase("optimizer_start");
  });
  Outcome outcome = runToy({data(), resume()});
  EXPECT_EQ(outcome.exitCode, 2);
  expectSays(outcome, "--steps is required: checkpoint ");
  outcome = runToy({data(), resume(), "--steps=6", "--lr=0.5", save()});
  EXPECT_EQ(outcome.exitCode, 0) << outcome.err;
  EXPECT_EQ(countOf(outcome.err, "warning: "), 1) << outcome.err;
  expectSays(outcome, "was saved by an earlier version of kiln");
  EXPECT_EQ(manifestOf(path("save/checkpoint-6"))["trajectory"]["steps"], 6);

  editManifest(path("save/checkpoint-6"),
               [](Json &extra) { extra.erase("trajectory"); });
  Json sgd = describe();
  sgd["training"]["optimizer"][0]["name"] = "sgd";
  outcome = runToy(sgd, {data(), resume(), "--steps=7"});
  EXPECT_EQ(outcome.exitCode, 2);
  expectSays(outcome, "the optimizer was momentum and is sgd");
  // A run of 0 steps that resumes from a checkpoint without "trajectory" saves
  // a checkpoint without it, too.
  ASSERT_EQ(runToy({resume(), "--steps=0", "--save=" + path("same")}).exitCode,
            0);
  EXPECT_FALSE(manifestOf(path("same/checkpoint-6")).contains("trajectory"));
}

TEST_F(ResumeTest, RunsThatDoNotTrainCompareNothing) {
  train("4");
  Json other = describe();
  other["model"]["batch"] = 8;
  other["training"]["optimizer"][0]["name"] = "sgd";
  const std::vector<std::vector<std::string>> runs = {
      {"--steps=0", "--val-data=" + path("text.txt"), "--val-batches=1"},
      {"--generate=2"},
      {data(), "--steps=0", "--generate=2"},
      {data(), "--check-memory"},
      {data(), "--check-ops=" + path("trace")}};
  for (std::vector<std::string> flags : runs) {
    flags.push_back(resume());
    Outcome outcome = runToy(other, flags);
    EXPECT_EQ(outcome.exitCode, 0) << outcome.err;
    EXPECT_EQ(outcome.err,
              "using " + path("save/checkpoint-4") + " at step 4 of 4\n");
  }
}

TEST_F(ResumeTest, ARunThatDoesNotTrainKeepsTheTrajectory) {
  train("4", {"--lr=0.5", "--lr-schedule=linear"});
  ASSERT_EQ(runToy({resume(), "--steps=0", "--save=" + path("same")}).exitCode,
            0);
  EXPECT_EQ(manifestOf(path("same/checkpoint-4"))["trajectory"],
            manifestOf(path("save/checkpoint-4"))["trajectory"]);
  EXPECT_EQ(readFile(path("same/checkpoint-4/optimizer.safetensors")),
            readFile(path("save/checkpoint-4/optimizer.safetensors")));
  // Resume with another optimizer, which has no states, and save. The new
  // checkpoint does not contain the states of the old optimizer.
  Json sgd = describe();
  sgd["training"]["optimizer"][0]["name"] = "sgd";
  Outcome outcome =
      runToy(sgd, {resume(), "--steps=0", "--save=" + path("sgd")});
  ASSERT_EQ(outcome.exitCode, 0) << outcome.err;
  expectSays(outcome, "note: the states of the checkpoint's optimizer, "
                      "momentum (momentum=0.9, weight_decay=0), are not kept: "
                      "this executable has sgd (");
  Json trajectory = manifestOf(path("sgd/checkpoint-4"))["trajectory"];
  EXPECT_EQ(trajectory["optimizer"][0]["name"], "sgd");
  EXPECT_EQ(trajectory["schedule"]["kind"], "linear");
  // A run must not replace a checkpoint that may be the only one with the
  // states of the old optimizer.
  std::string before =
      readFile(path("save/checkpoint-4/optimizer.safetensors"));
  for (const std::string &from : {path("save"), path("save/checkpoint-4/")}) {
    outcome = runToy(sgd, {"--resume=" + from, "--steps=0", save()});
    EXPECT_EQ(outcome.exitCode, 2);
    expectSays(outcome, "--save=" + path("save") + " would replace checkpoint");
    EXPECT_EQ(readFile(path("save/checkpoint-4/optimizer.safetensors")),
              before);
  }
}

TEST_F(ResumeTest, InitialWeightsHaveNoTrajectory) {
  ASSERT_EQ(runToy({"--steps=0", save()}).exitCode, 0);
  EXPECT_TRUE(manifestOf(path("save/checkpoint-0"))["trajectory"].is_null());
  Json other = describe();
  other["model"]["batch"] = 8;
  Outcome outcome = runToy(other, {data(), resume()});
  EXPECT_EQ(outcome.exitCode, 2);
  expectSays(outcome, "belongs to a run that has not trained yet");
  outcome = runToy(other, {data(), resume(), "--steps=3", "--lr=0.5"});
  EXPECT_EQ(outcome.exitCode, 0) << outcome.err;
  EXPECT_EQ(outcome.err,
            "resuming from " + path("save/checkpoint-0") + " at step 0 of 3\n");
}

TEST_F(ResumeTest, AnOrderCanBeChosenUntilASequenceIsRead) {
  ASSERT_EQ(runToy({"--steps=0", save()}).exitCode, 0);
  Outcome outcome = runToy(
      {data(), resume(), save(), "--steps=2", "--lr=0.5", "--shuffle=3"});
  ASSERT_EQ(outcome.exitCode, 0) << outcome.err;
  EXPECT_EQ(manifestOf(path("save/checkpoint-2"))["training"]["shuffle"], 3);
  outcome = runToy({data(), resume(), "--steps=3", "--shuffle=4"});
  EXPECT_EQ(outcome.exitCode, 2);
  expectSays(outcome, "--shuffle=4 contradicts the checkpoint");
}

TEST_F(ResumeTest, NoCheckpointFollowsTheLastSequenceNumber) {
  train("2");
  std::string file = path("save/checkpoint-2/kiln_manifest.json");
  Result<CheckpointManifest> manifest = parseManifest(readFile(file), file);
  ASSERT_TRUE(manifest.ok()) << manifest.status().message();
  manifest->sequence = INT64_MAX;
  std::ofstream(file, std::ios::binary) << manifestText(*manifest);
  Outcome outcome = runToy({data(), resume(), save(), "--steps=3"});
  EXPECT_EQ(outcome.exitCode, 1) << outcome.err;
  expectSays(outcome, "'" + path("save") +
                          "' holds a checkpoint with the highest possible "
                          "sequence number, 9223372036854775807; choose "
                          "another directory to save in\n");
  // The checkpoint itself is intact.
  outcome =
      runToy({data(), resume(), "--steps=3", "--save=" + path("another")});
  EXPECT_EQ(outcome.exitCode, 0) << outcome.err;
}

TEST_F(ResumeTest, DamagedFactsAreBadInput) {
  train("4");
  const std::pair<const char *, Json> damages[] = {
      {"/trajectory", "x"},
      {"/trajectory", Json::array()},
      {"/trajectory/schedule/lr", -1},
      {"/trajectory/data/tokens", INT64_MIN},
      {"/training/step", 5},
      {"/training/sequence", INT64_MAX},
      {"/training", nullptr}};
  for (auto &damage : damages) {
    auto *pointer = damage.first;
    const Json &value = damage.second;
    SCOPED_TRACE(pointer);
    Json kept;
    editManifest(path("save/checkpoint-4"), [&](Json &extra) {
      kept = extra;
      extra[Json::json_pointer(pointer)] = value;
    });
    for (const char *steps : {"--steps=6", "--steps=0"}) {
      Outcome outcome = runToy({data(), resume(), steps, "--generate=1"});
      EXPECT_EQ(outcome.exitCode, 3) << outcome.err;
      EXPECT_EQ(countOf(outcome.err, "\n"), 1) << outcome.err;
    }
    editManifest(path("save/checkpoint-4"), [&](Json &extra) { extra = kept; });
  }
}

} // namespace
