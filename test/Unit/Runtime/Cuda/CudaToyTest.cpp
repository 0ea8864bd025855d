//===- CudaToyTest.cpp - Tests of training on a GPU -----------------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "CudaToy.h"
#include "RunToy.h"
#include "StepTensors.h"

#include <cstring>

using namespace kiln::runtime::toy;
using namespace kiln::runtime;
using namespace kiln;
using Json = nlohmann::json;

namespace {

class CudaToyTest : public ToyTest {
protected:
  /// Runs the toy and checks that all resources are released and that no rule
  /// of the driver is violated.
  Outcome runCuda(const Json &description, std::vector<std::string> flags,
                  const fakecuda::Settings &settings = toySettings()) {
    fakecuda::reset(settings);
    Outcome outcome = runToy(description, std::move(flags), makeCudaEngine);
    EXPECT_TRUE(fakecuda::live().empty())
        << fakecuda::live().begin()->first << " is left";
    EXPECT_TRUE(fakecuda::violations().empty())
        << fakecuda::violations().front();
    return outcome;
  }
  Json cpu_ = withWholeMatmuls(describe());
  Json plain_ = onCuda(describe());
  Json offloaded_ = onCuda(describeOffloaded());
};

std::string weightsOf(const std::string &checkpoint) {
  return readFile(checkpoint + "/model.safetensors") +
         readFile(checkpoint + "/optimizer.safetensors");
}

TEST_F(CudaToyTest, TrainsLikeTheCpuInEveryOrder) {
  auto flags = [&](const std::string &name) {
    return std::vector<std::string>{data(),
                                    "--steps=4",
                                    "--seed=3",
                                    "--grad-clip=0.01",
                                    "--log=" + path(name + ".jsonl"),
                                    "--save=" + path(name),
                                    "--val-data=" + path("text.txt"),
                                    "--val-every=2",
                                    "--val-batches=2"};
  };
  Outcome outcome = runToy(cpu_, flags("cpu"));
  ASSERT_EQ(outcome.exitCode, 0) << outcome.err;
  std::vector<std::string> losses = lossTexts(path("cpu.jsonl"));
  std::string weights = weightsOf(path("cpu/checkpoint-4"));
  ASSERT_EQ(losses.size(), 4u);
  ASSERT_FALSE(weights.empty());
  fakecuda::Settings settings = toySettings();
  for (int run = 0; run < 10; ++run) {
    for (bool offloads : {false, true}) {
      settings.seed = uint64_t(run);
      std::string name =
          std::to_string(run) + (offloads ? "-offloaded" : "-plain");
      std::vector<std::string> all = flags(name);
      if (run % 5 == 4)
        all.push_back("--sync-ops");
      outcome = runCuda(offloads ? offloaded_ : plain_, all, settings);
      ASSERT_EQ(outcome.exitCode, 0) << outcome.err;
      EXPECT_EQ(lossTexts(path(name + ".jsonl")), losses) << name;
      EXPECT_TRUE(weightsOf(path(name + "/checkpoint-4")) == weights) << name;
    }
  }
}

TEST_F(CudaToyTest, TrainsLikeTheCpuForEveryOrderOfMicrobatches) {
  auto losses = [&](const Outcome &outcome) {
    EXPECT_EQ(outcome.exitCode, 0) << outcome.err;
    return lossTexts(path("log"));
  };
  std::vector<std::string> flags = {data(), "--steps=4", "--seed=3",
                                    "--log=" + path("log")};
  std::vector<std::string> expected =
      losses(runToy(withWholeMatmuls(describe()), flags));
  ASSERT_EQ(expected.size(), 4u);
  for (const char *order : {"alternate", "all-forward-first", "F1 F0 B0 B1"}) {
    toy::Options options;
    options.order = order;
    options.slots = 2;
    for (const Json &description :
         {onCuda(describe(options)), onCuda(offload(describe(options)))})
      EXPECT_EQ(losses(runCuda(description, flags)), expected) << order;
  }
}

TEST_F(CudaToyTest, StepsAfterTheFirstAreOneLaunch) {
  auto run = [&](int steps, bool synced) {
    std::vector<std::string> flags = {data(),
                                      "--steps=" + std::to_string(steps)};
    if (synced)
      flags.push_back("--sync-ops");
    Outcome outcome = runCuda(offloaded_, flags);
    EXPECT_EQ(outcome.exitCode, 0) << outcome.err;
    return std::pair(fakecuda::callsOf("cuLaunchKernel"),
                     fakecuda::callsOf("cuGraphLaunch"));
  };
  auto [kernelsOfOne, graphsOfOne] = run(1, false);
  EXPECT_GT(kernelsOfOne, 0);
  EXPECT_EQ(graphsOfOne, 0);
  EXPECT_EQ(run(5, false), std::pair(kernelsOfOne, int64_t(4)));
  auto [kernels, graphs] = run(5, true);
  // kernelsOfOne counts each kernel twice: for its launch and for its capture.
  EXPECT_EQ(2 * kernels, 5 * kernelsOfOne);
  EXPECT_EQ(graphs, 0);
}

TEST_F(CudaToyTest, ReadsAndWritesStates) {
  std::vector<std::string> results[2];
  Json descriptions[] = {withWholeMatmuls(describe({.gradients = true})),
                         onCuda(describe({.gradients = true}))};
  for (int i = 0; i < 2; ++i) {
    std::string name = i ? "cuda" : "cpu";
    auto run = [&](std::vector<std::string> flags) {
      return i ? runCuda(descriptions[i], flags)
               : runToy(descriptions[i], flags);
    };
    Outcome outcome = run({data(), "--steps=2", "--save=" + path(name),
                           "--dump-gradients=" + path(name + ".gradients")});
    ASSERT_EQ(outcome.exitCode, 0) << outcome.err;
    results[i].push_back(readFile(path(name + ".gradients")));
    outcome = run({data(), "--steps=4", "--save=" + path(name),
                   "--resume=" + path(name)});
    ASSERT_EQ(outcome.exitCode, 0) << outcome.err;
    results[i].push_back(weightsOf(path(name + "/checkpoint-4")));
    outcome = run({"--init=" + path(name + "/checkpoint-4"), "--generate=8",
                   "--prompt=the ", "--temperature=0"});
    ASSERT_EQ(outcome.exitCode, 0) << outcome.err;
    results[i].push_back(outcome.out);
  }
  EXPECT_TRUE(results[0] == results[1]);
}

TEST_F(CudaToyTest, TensorsOfAStep) {
  Result<std::unique_ptr<Engine>> onHost =
      makeEngine(withWholeMatmuls(describe()));
  fakecuda::reset(toySettings());
  Result<std::unique_ptr<Engine>> onDevice = makeCudaEngine(offloaded_);
  ASSERT_TRUE(onHost.ok() && onDevice.ok());
  std::vector<std::string> expected;
  for (Engine *engine : {onHost->get(), onDevice->get()}) {
    ASSERT_TRUE(engine->start(1).ok());
    const std::vector<StateInfo> &states = engine->description().states;
    for (size_t i = 0; i < states.size(); ++i) {
      if (states[i].role == StateRole::Mirror)
        continue;
      Status status =
          engine->accessState(i, HostAccess::Write, [&](char *data) {
            return fillInitialValue(states[i].init, 7, states[i].name,
                                    states[i].shape, states[i].type, 0,
                                    states[i].elements(), data);
          });
      ASSERT_TRUE(status.ok()) << status.message();
    }
    StepTensors tensors(*engine, 0);
    std::vector<std::string> found;
    auto look = [&] {
      Result<std::vector<std::string>> hashes = tensors.hashes();
      ASSERT_TRUE(hashes.ok());
      for (size_t i = 0; i < hashes->size(); ++i)
        found.push_back(tensors.list()[i].name + (*hashes)[i]);
      std::sort(found.end() - std::ptrdiff_t(hashes->size()), found.end());
    };
    look();
    ASSERT_TRUE(tensors.keep().ok());
    ASSERT_TRUE(tensors.perturb().ok());
    look();
    ASSERT_TRUE(tensors.save(path("saved"), {0, 1}).ok());
    ASSERT_TRUE(tensors.restore().ok());
    look();
    EXPECT_TRUE(std::equal(found.begin(), found.begin() + 4, found.end() - 4));
    ASSERT_TRUE(tensors.load(path("saved"), {0, 1}).ok());
    look();
    EXPECT_TRUE(
        std::equal(found.begin() + 4, found.begin() + 8, found.end() - 4));
    if (engine == onHost->get())
      expected = found;
    else
      EXPECT_EQ(found, expected);
  }
}

TEST_F(CudaToyTest, ItsOpsAreRepeatedByTheEmulatedGpu) {
  Json descriptions[] = {plain_, offloaded_};
  for (Json &description : descriptions) {
    Outcome outcome =
        runCuda(description, {data(), "--check-ops=" + path("ops")});
    ASSERT_EQ(outcome.exitCode, 0) << outcome.err;
    description["target"]["kind"] = description["options"]["target"] =
        "cuda-emu";
    outcome =
        runToy(description, {"--check-trace=" + path("ops")}, makeEmuEngine);
    EXPECT_EQ(outcome.exitCode, 0) << outcome.out << outcome.err;
    EXPECT_NE(outcome.out.find("ok    train: launch, "), std::string::npos);
    EXPECT_EQ(outcome.out.find("worst"), std::string::npos) << outcome.out;
  }
}

/// Returns the command, micro-batch, buffer, tensor and hash of each observed
/// result. Omits scratch memory, which kernels write only partially.
std::vector<std::string> observed(Result<std::unique_ptr<Engine>> made) {
  std::vector<std::string> found;
  Engine &engine = **made;
  EXPECT_TRUE(engine.start(1).ok());
  const Description &description = engine.description();
  for (size_t i = 0; i < description.states.size(); ++i) {
    const StateInfo &state = description.states[i];
    Status status = engine.accessState(i, HostAccess::Write, [&](char *data) {
      return fillInitialValue(state.init, 7, state.name, state.shape,
                              state.type, 0, state.elements(), data);
    });
    EXPECT_TRUE(status.ok()) << status.message();
  }
  auto train =
      size_t(description.findProgram("train") - description.programs.data());
  const std::vector<InputInfo> &inputs = description.programs[train].inputs;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const double rate = 0.5;
    std::memset(engine.inputData(train, i), 0, size_t(inputs[i].bytes()));
    if (inputs[i].type == ElementType::F64)
      std::memcpy(engine.inputData(train, i), &rate, sizeof(rate));
  }
  StepTensors tensors(engine, train);
  Status status = engine.runObserved(train, [&](const OpResult &result) {
    if (result.buffer == "probabilities")
      return;
    size_t tensor = tensors.at(result.data);
    found.push_back(
        std::to_string(result.command) + " " +
        std::to_string(result.microbatch) + " " + result.buffer + " " +
        (tensor < tensors.list().size() ? tensors.list()[tensor].name : "") +
        " " +
        std::to_string(std::hash<std::string_view>()(
            {result.data, size_t(result.bytes)})));
  });
  EXPECT_TRUE(status.ok()) << status.message();
  return found;
}

TEST_F(CudaToyTest, WatchedRunsShowWhatTheEmulatedGpuShows) {
  toy::Options keepGradients;
  keepGradients.gradients = true;
  toy::Options inFlight;
  inFlight.order = "all-forward-first";
  inFlight.slots = 2;
  for (Json description : {plain_, offloaded_, onCuda(describe(keepGradients)),
                           onCuda(offload(describe(inFlight)))}) {
    fakecuda::reset(toySettings());
    std::vector<std::string> onGpu = observed(makeCudaEngine(description));
    description["target"]["kind"] = description["options"]["target"] =
        "cuda-emu";
    EXPECT_EQ(onGpu, observed(makeEmuEngine(description)));
    EXPECT_GT(onGpu.size(), 10u);
    EXPECT_TRUE(fakecuda::violations().empty());
  }
  // StepTensors finds the gradients, which are in device memory, by their
  // offsets in the arena.
  std::vector<std::string> onGpu =
      observed(makeCudaEngine(onCuda(describe(keepGradients))));
  EXPECT_TRUE(
      std::any_of(onGpu.begin(), onGpu.end(), [](const std::string &line) {
        return line.find(" gradient:E ") != std::string::npos;
      }));
}

TEST_F(CudaToyTest, TracesWhatTheGpuDid) {
  Outcome outcome = runCuda(
      offloaded_, {data(), "--steps=2", "--trace=" + path("trace.json")});
  ASSERT_EQ(outcome.exitCode, 0) << outcome.err;
  std::string trace = readFile(path("trace.json"));
  for (const char *name : {"\"gather\"", "\"logits\"", "\"host\"", "\"zero\""})
    EXPECT_NE(trace.find(name), std::string::npos) << name;
}

TEST_F(CudaToyTest, ChecksItsMemory) {
  Outcome outcome = runCuda(offloaded_, {data(), "--check-memory"});
  EXPECT_EQ(outcome.exitCode, 0) << outcome.out << outcome.err;
  for (const char *line :
       {"train: events order all accesses",
        "free memory of the GPU taken by: arena",
        "generate: free memory of the GPU over runs 2 to 20 changes by"})
    EXPECT_NE(outcome.out.find(line), std::string::npos) << outcome.out;
}

TEST_F(CudaToyTest, RefusesFlagsOfOthers) {
  for (const char *flag :
       {"--check-trace=x", "--emu-seed=1", "--stress-copies=1"}) {
    Outcome outcome = runCuda(plain_, {data(), "--steps=1", flag});
    EXPECT_EQ(outcome.exitCode, 2) << flag;
  }
  Outcome outcome = runToy({data(), "--steps=1", "--sync-ops"});
  EXPECT_EQ(outcome.exitCode, 2);
  EXPECT_NE(outcome.err.find("--target=cuda"), std::string::npos);
  EXPECT_FALSE(makeEngine(plain_).ok());
  EXPECT_FALSE(makeEmuEngine(plain_).ok());
  EXPECT_FALSE(makeCudaEngine(describe()).ok());
}

TEST_F(CudaToyTest, LogsWhatItRanOn) {
  Outcome outcome =
      runCuda(offloaded_, {data(), "--steps=2", "--log=" + path("log.jsonl")});
  ASSERT_EQ(outcome.exitCode, 0) << outcome.err;
  EXPECT_EQ(readLog(path("log.jsonl")).front()["library"],
            "cuBLASLt 13.1.2 on Fake GPU");
  Json end = readLog(path("log.jsonl")).back();
  EXPECT_EQ(end["copied_out_bytes_per_step"], copiedOutBytes);
  EXPECT_EQ(end["copied_in_bytes_per_step"], copiedInBytes);
}

} // namespace
