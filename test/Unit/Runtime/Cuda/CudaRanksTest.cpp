//===- CudaRanksTest.cpp - Tests of ranks with NCCL -----------------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Runs a program with all collectives on two or three ranks, which connect by
// TCP. The CUDA driver and NCCL are fakes.
//
//===----------------------------------------------------------------------===//

#include "FakeCuda.h"
#include "ForkedRanks.h"
#include "HandProgram.h"
#include "TcpTransport.h"
#include "kiln/Runtime/Comm/World.h"
#include "kiln/Runtime/Cuda/CudaEngine.h"

#include <algorithm>
#include <map>

using namespace kiln::runtime::testing;
using namespace kiln::runtime::toy;
using namespace kiln::runtime;
using namespace kiln;

namespace {

/// The numbers of elements of two tensors. For two and for three ranks, the
/// shards of the first tensor have padding, and those of the second have none.
constexpr int64_t count = 1001, small = 6;
/// The number of bytes from one buffer to the next.
constexpr int64_t step = 8192;

int64_t shardOf(int64_t elements, int64_t ranks) {
  return (elements + ranks - 1) / ranks;
}

Json copyCommand(const char *name, int64_t from, int64_t to, int64_t elements) {
  return {{"op", "copy"},
          {"name", name},
          {"from", device(from * step)},
          {"to", device(to * step)},
          {"bytes", 4 * elements}};
}

enum Buffer : int64_t {
  In,
  Sum,
  Whole,
  SmallWhole,
  Shard,
  SmallShard,
  Gathered,
  SmallGathered,
  Taken,
  buffers
};

/// Returns a program that sums its input over the ranks, both in place and by a
/// reduce-scatter and an all-gather of two tensors. The program also copies the
/// rank's shard of the input.
Json describeCollectives(int64_t ranks) {
  int64_t shard = shardOf(count, ranks), smallShard = shardOf(small, ranks);
  Json copies = {copyCommand("sum", In, Sum, count),
                 copyCommand("whole", In, Whole, count),
                 copyCommand("small", In, SmallWhole, small)};
  Json slots = {slot("in", "input", 0, 4 * count, 0, 3)};
  auto add = [&](const char *name, Buffer buffer, int64_t elements,
                 int64_t first) {
    slots.push_back(
        slot(name, "output", buffer * step, 4 * elements, first, 9));
  };
  add("sum", Sum, count, 0);
  add("whole", Whole, count, 1);
  add("small", SmallWhole, small, 2);
  add("shard", Shard, shard, 5);
  add("smallShard", SmallShard, smallShard, 5);
  add("gathered", Gathered, count, 8);
  add("smallGathered", SmallGathered, small, 8);
  add("taken", Taken, shard, 3);
  Json json = handProgram(copies, slots, {value("in", 0, count)},
                          {value("sum", Sum * step, count),
                           value("gathered", Gathered * step, count),
                           value("smallGathered", SmallGathered * step, small),
                           value("shard", Shard * step, shard),
                           value("smallShard", SmallShard * step, smallShard),
                           value("taken", Taken * step, shard)},
                          buffers * step);
  json["mesh"] = {{{"name", "dp"}, {"size", ranks}}};
  json["queues"].push_back({{"name", "dp"}, {"engine", "link"}});
  json["target"]["kind"] = json["options"]["target"] = "cuda";
  Json &commands = commandsOf(json["programs"]["run"]);
  auto collective = [&](const char *op, Json data, Json counts, int64_t token) {
    return Json{{"op", op},       {"name", op},    {"axis", "dp"},
                {"dtype", "f32"}, {"data", data},  {"counts", counts},
                {"token", token}, {"queue", "dp"}, {"after", {"compute"}}};
  };
  auto wait = [&](int64_t token) {
    return Json{{"op", "copy_wait"},
                {"name", "wait"},
                {"token", token},
                {"queues", {"compute"}}};
  };
  Json take = copyCommand("take", In, Taken, shard);
  take["axis"] = "dp";
  take["whole_bytes"] = 4 * count;
  take["queue"] = "compute";
  Json scatter = collective("reduce_scatter",
                            {device(Whole * step), device(SmallWhole * step)},
                            {count, small}, 1),
       gather =
           collective("all_gather",
                      {device(Gathered * step), device(SmallGathered * step)},
                      {count, small}, 2);
  scatter["shards"] =
      gather["shards"] = {device(Shard * step), device(SmallShard * step)};
  scatter["shard_counts"] = gather["shard_counts"] = {shard, smallShard};
  for (const Json &command :
       {take, collective("all_reduce", {device(Sum * step)}, {count}, 0),
        scatter, wait(0), wait(1), gather, wait(2)})
    commands.push_back(command);
  return json;
}

Result<std::unique_ptr<Engine>>
makeRankEngine(const Json &description,
               const std::string &nccl = KILN_FAKE_CUDA) {
  static const void *const kernels[] = {"nobody"};
  static const char ptx[] = "//\n.version 7.0\n.target sm_80\n";
  static const cuda::GpuImage images[] = {{80, 1, ptx, sizeof(ptx)}};
  cuda::Libraries libraries = {
      {KILN_FAKE_CUDA}, {KILN_FAKE_CUDA}, {KILN_FAKE_CUDA}, {nccl}};
  return cuda::createCudaEngine(inFull(description).dump(), kernels, 1,
                                {images, 1}, libraries);
}

/// Returns small integers, whose sums are exact.
float inputOf(int rank, int64_t element, int run) {
  return float((element * 7 + 3 * rank + run) % 64 - 20);
}

std::string problemOf(Engine &engine, int64_t ranks, int rank, int run) {
  auto sum = [&](int64_t element) {
    float total = 0;
    for (int other = 0; other < ranks; ++other)
      total += inputOf(other, element, run);
    return total;
  };
  auto compare = [&](std::size_t output, int64_t elements, auto expected) {
    const auto *found =
        reinterpret_cast<const float *>(engine.outputData(0, output));
    for (int64_t i = 0; i < elements; ++i)
      if (found[i] != expected(i))
        return "run " + std::to_string(run) + ", output " +
               std::to_string(output) + ", element " + std::to_string(i) +
               ": " + std::to_string(found[i]) + ", expected " +
               std::to_string(expected(i));
    return std::string();
  };
  int64_t shard = shardOf(count, ranks), smallShard = shardOf(small, ranks);
  auto inShard = [&](int64_t shardCount, int64_t whole, auto value) {
    return [=](int64_t i) {
      int64_t element = rank * shardCount + i;
      return element < whole ? value(element) : 0.0f;
    };
  };
  auto own = [&](int64_t element) { return inputOf(rank, element, run); };
  for (const std::string &problem :
       {compare(0, count, sum), compare(1, count, sum), compare(2, small, sum),
        compare(3, shard, inShard(shard, count, sum)),
        compare(4, smallShard, inShard(smallShard, small, sum)),
        compare(5, shard, inShard(shard, count, own))})
    if (!problem.empty())
      return problem;
  return "";
}

int freePort() { return TcpSocket::listen(0).port(); }

struct RankTest {
  int64_t ranks = 2;
  int64_t peerTimeout = 20;
  /// Changes the settings of the fake driver of a rank.
  std::function<void(int rank, fakecuda::Settings &)> change =
      [](int, fakecuda::Settings &) {};
  /// Called before each run.
  std::function<void(int rank, int run)> before = [](int, int) {};
  bool syncsOps = false;
  std::string nccl = KILN_FAKE_CUDA;
};

/// Exit code of a rank with wrong results, which it prints.
constexpr int wrong = 9;

int fail(const std::string &problem) {
  std::fprintf(stderr, "%s\n", problem.c_str());
  return wrong;
}

/// Executes the program of a rank four times: first as single commands, and
/// later as a graph. Returns the exit code of the rank.
int runRank(const RankTest &test, int rank, int port) {
  fakecuda::Settings settings;
  settings.devices = int(test.ranks);
  settings.seed = uint64_t(rank);
  test.change(rank, settings);
  fakecuda::reset(settings);
  TcpOptions tcp;
  tcp.rank = rank;
  tcp.size = int(test.ranks);
  tcp.host = "127.0.0.1";
  tcp.port = port;
  WorldOptions options;
  options.peerTimeout = test.peerTimeout;
  Result<std::unique_ptr<World>> world =
      World::over([&] { return openTcp(tcp); }, options);
  if (!world.ok())
    return fail(world.status().message());
  Result<std::unique_ptr<Engine>> engine =
      makeRankEngine(describeCollectives(test.ranks), test.nccl);
  if (!engine.ok())
    return fail(engine.status().message());
  Status status = (*engine)->join(**world);
  if (status.ok() && test.syncsOps)
    status = (*engine)->syncOps();
  if (status.ok())
    status = (*engine)->start(1);
  if (!status.ok()) {
    std::fprintf(stderr, "error: %s\n", status.message().c_str());
    return int(status.code());
  }
  std::string problem;
  for (int run = 0; run < 4 && problem.empty(); ++run) {
    (*world)->setStep(run + 1);
    auto *in = reinterpret_cast<float *>((*engine)->inputData(0, 0));
    for (int64_t i = 0; i < count; ++i)
      in[i] = inputOf(rank, i, run);
    test.before(rank, run);
    status = (*engine)->run(0);
    if (!status.ok())
      (*world)->fail(status.message());
    problem = problemOf(**engine, test.ranks, rank, run);
  }
  int64_t sent = (*engine)->sums(0)->sentBytes;
  if (problem.empty() && sent <= 0)
    problem = "no bytes are sent";
  world->reset();
  engine->reset();
  for (const std::string &violation : fakecuda::violations())
    problem += violation;
  for (auto &[kind, number] : fakecuda::live())
    problem += kind + " is left; ";
  return problem.empty() ? 0 : fail(problem);
}

std::vector<RankEnd> runRanks(const RankTest &test) {
  int port = freePort();
  return forkRanks(int(test.ranks),
                   [&](int rank) { return runRank(test, rank, port); });
}

void expectSuccess(const RankTest &test) {
  for (const RankEnd &end : runRanks(test)) {
    EXPECT_EQ(end.exitCode, 0) << end.err;
    EXPECT_EQ(end.err, "");
  }
}

TEST(CudaRanksTest, CollectivesHaveTheSumsOfAllRanks) {
  for (int64_t ranks : {2, 3})
    for (bool syncsOps : {false, true}) {
      RankTest test;
      test.ranks = ranks;
      test.syncsOps = syncsOps;
      expectSuccess(test);
    }
}

/// Ranks reach each run at different times.
TEST(CudaRanksTest, RanksMayBeLate) {
  RankTest test;
  test.ranks = 3;
  test.before = [](int rank, int run) {
    std::this_thread::sleep_for(
        std::chrono::milliseconds(20 * ((rank + run) % 3)));
  };
  expectSuccess(test);
}

TEST(CudaRanksTest, WithoutAWorldOtherRanksHaveZeros) {
  fakecuda::reset();
  Result<std::unique_ptr<Engine>> engine =
      makeRankEngine(describeCollectives(2));
  ASSERT_TRUE(engine.ok()) << engine.status().message();
  ASSERT_TRUE((*engine)->start(1).ok());
  for (int run = 0; run < 3; ++run) {
    auto *in = reinterpret_cast<float *>((*engine)->inputData(0, 0));
    for (int64_t i = 0; i < count; ++i)
      in[i] = inputOf(0, i, run);
    ASSERT_TRUE((*engine)->run(0).ok());
    const auto *sum =
        reinterpret_cast<const float *>((*engine)->outputData(0, 0));
    const auto *gathered =
        reinterpret_cast<const float *>((*engine)->outputData(0, 1));
    for (int64_t i = 0; i < count; ++i) {
      ASSERT_EQ(sum[i], inputOf(0, i, run));
      ASSERT_EQ(gathered[i], i < shardOf(count, 2) ? inputOf(0, i, run) : 0);
    }
  }
  EXPECT_FALSE((*engine)->sums(0));
  EXPECT_EQ(fakecuda::callsOf("ncclGetVersion"), 0);
  engine->reset();
  EXPECT_TRUE(fakecuda::violations().empty());
  EXPECT_TRUE(fakecuda::live().empty());
}

/// Every call of NCCL on rank 0 that returns an error ends both processes with
/// one line that names the call.
TEST(CudaRanksTest, EveryCallOfNcclMayFail) {
  const std::map<std::string, std::string> where = {
      {"ncclGetVersion", ""},
      {"ncclGetUniqueId", ""},
      {"ncclCommInitRank", ""},
      {"ncclCommGetAsyncError", "; in step "},
      {"ncclGroupStart", "; in step 1; in program 'run', "},
      {"ncclGroupEnd", "; in step 1; in program 'run', "},
      {"ncclAllReduce",
       "; in step 1; in program 'run', all_reduce 'all_reduce'"},
      {"ncclReduceScatter",
       "; in step 1; in program 'run', reduce_scatter 'reduce_scatter'"},
      {"ncclAllGather",
       "; in step 1; in program 'run', all_gather 'all_gather'"},
      {"ncclReduce",
       "; in step 1; in program 'run', reduce_scatter 'reduce_scatter'"},
      {"ncclBroadcast",
       "; in step 1; in program 'run', all_gather 'all_gather'"}};
  for (const auto &entry : where) {
    const std::string &function = entry.first, &place = entry.second;
    int64_t failures = 0;
    // The number of calls of ncclCommGetAsyncError differs between runs, so
    // only the first call fails.
    int64_t most = function == "ncclCommGetAsyncError" ? 1 : 100;
    for (int64_t call = 0; call < most; ++call) {
      SCOPED_TRACE(function + ", call " + std::to_string(call));
      RankTest test;
      test.change = [&](int rank, fakecuda::Settings &settings) {
        if (rank != 0)
          return;
        settings.failingFunction = function;
        settings.failingCall = call;
      };
      test.before = [](int rank, int) {
        if (rank == 1)
          std::this_thread::sleep_for(std::chrono::milliseconds(20));
      };
      std::vector<RankEnd> ends = runRanks(test);
      if (ends[0].exitCode == 0)
        break;
      ++failures;
      EXPECT_EQ(ends[0].exitCode, 1) << ends[0].err;
      EXPECT_EQ(ends[1].exitCode, 1) << ends[1].err;
      EXPECT_EQ(std::count(ends[0].err.begin(), ends[0].err.end(), '\n'), 1)
          << ends[0].err;
      EXPECT_EQ(ends[0].err.rfind("error: ", 0), 0u) << ends[0].err;
      EXPECT_NE(ends[0].err.find("NCCL's " + function +
                                 " failed: internal error; set NCCL_DEBUG"),
                std::string::npos)
          << ends[0].err;
      EXPECT_NE(ends[0].err.find(place), std::string::npos) << ends[0].err;
      if (HasFailure())
        return;
    }
    EXPECT_GT(failures, 0) << function;
  }
}

/// An error of ncclCommDestroy() is ignored, and the function is not called
/// again for the same communicator.
TEST(CudaRanksTest, CommunicatorsAreDestroyedOnce) {
  RankTest test;
  test.change = [](int, fakecuda::Settings &settings) {
    settings.failingFunction = "ncclCommDestroy";
    settings.failingCall = 0;
  };
  expectSuccess(test);
}

/// Rank 1 ends without a message. NCCL or the connection reports this to rank
/// 0.
TEST(CudaRanksTest, ARankThatEndsIsNoticed) {
  for (int lastRun : {0, 2}) {
    RankTest test;
    test.before = [&](int rank, int run) {
      if (rank == 1 && run == lastRun)
        ::_exit(77);
    };
    std::vector<RankEnd> ends = runRanks(test);
    EXPECT_EQ(ends[1].exitCode, 77);
    EXPECT_EQ(ends[0].exitCode, 1);
    EXPECT_EQ(std::count(ends[0].err.begin(), ends[0].err.end(), '\n'), 1)
        << ends[0].err;
    bool byNccl =
        ends[0].err.find("error: rank 0: NCCL's collective failed: remote "
                         "process exited or there was a network error; set "
                         "NCCL_DEBUG=WARN for details; in step " +
                         std::to_string(lastRun + 1)) == 0;
    bool byTcp = ends[0].err.find("the connection to rank 1 has failed: ") !=
                 std::string::npos;
    EXPECT_TRUE(byNccl || byTcp) << ends[0].err;
  }
}

/// Rank 1 lives, but does not call NCCL.
TEST(CudaRanksTest, ARankThatHangsIsNoticed) {
  for (int lastRun : {0, 2}) {
    RankTest test;
    test.peerTimeout = 1;
    test.before = [&](int rank, int run) {
      if (rank == 1 && run == lastRun)
        std::this_thread::sleep_for(std::chrono::seconds(30));
    };
    std::vector<RankEnd> ends = runRanks(test);
    EXPECT_EQ(ends[0].exitCode, 1);
    EXPECT_EQ(ends[1].exitCode, 1);
    EXPECT_EQ(ends[0].err.rfind("error: rank 0: work of the GPU of step " +
                                    std::to_string(lastRun + 1) +
                                    " has not ended for 1 s (--peer-timeout): "
                                    "another rank has ended or hangs",
                                0),
              0u)
        << ends[0].err;
  }
}

/// Rank 1 hangs in the call that creates its communicator.
TEST(CudaRanksTest, ARankThatDoesNotConnectIsNoticed) {
  RankTest test;
  test.peerTimeout = 1;
  test.change = [](int rank, fakecuda::Settings &settings) {
    settings.ncclHangs = rank == 1;
  };
  std::vector<RankEnd> ends = runRanks(test);
  EXPECT_EQ(ends[0].exitCode, 1);
  EXPECT_EQ(ends[1].exitCode, 1);
  EXPECT_NE((ends[0].err + ends[1].err)
                .find("the start of NCCL of step 0 has not ended for 1 s "
                      "(--peer-timeout)"),
            std::string::npos)
      << ends[0].err << ends[1].err;
}

/// Expects that both ranks fail to start, and that rank 0 prints `message`.
void failsToStart(const RankTest &test, const std::string &message,
                  int exitCode = 1) {
  std::vector<RankEnd> ends = runRanks(test);
  for (const RankEnd &end : ends)
    EXPECT_EQ(end.exitCode, exitCode) << end.err;
  EXPECT_NE(ends[0].err.find(message), std::string::npos) << ends[0].err;
}

TEST(CudaRanksTest, RanksThatCannotCommunicate) {
  RankTest test;
  test.change = [](int rank, fakecuda::Settings &settings) {
    settings.devices = 1;
  };
  failsToStart(test,
               "error: ranks 0 and 1 of one machine have the same GPU, but "
               "each rank needs its own",
               2);
  test.change = [](int rank, fakecuda::Settings &settings) {
    settings.devices = 1;
    settings.firstDevice = rank;
  };
  expectSuccess(test);
  test.ranks = 3;
  test.change = [](int, fakecuda::Settings &settings) { settings.devices = 2; };
  failsToStart(test,
               "error: rank 2: this rank has the number 2 on its machine, but "
               "the CUDA driver reports only 2 GPUs (0 to 1)",
               2);
  test.ranks = 2;
  test.change = [](int rank, fakecuda::Settings &settings) {
    settings.ncclVersion += rank;
  };
  failsToStart(test, "error: rank 0 has NCCL 22809, but rank 1 has NCCL 22810; "
                     "install the same version for all ranks");
  test.change = [](int rank, fakecuda::Settings &settings) {
    if (rank == 1)
      settings.deviceName = "Other GPU";
  };
  failsToStart(test, "error: rank 0 computes on 'Fake GPU', but rank 1 on "
                     "'Other GPU'; ranks need the same kind of GPU");
  test.change = [](int rank, fakecuda::Settings &settings) {
    settings.initCode = rank == 1 ? 100 : 0;
  };
  failsToStart(test, "error: rank 1: this executable needs an NVIDIA GPU, and "
                     "the CUDA driver cannot start");
  test = RankTest();
  test.nccl = "libnccl-that-is-nowhere.so.2";
  failsToStart(test, "error: the ranks of this executable communicate through "
                     "NVIDIA's NCCL, but it cannot be loaded: "
                     "libnccl-that-is-nowhere.so.2: cannot open shared object "
                     "file: No such file or directory; install NCCL 2.13");
  test.nccl = "libm.so.6";
  failsToStart(test, "error: libm.so.6 lacks ncclGetVersion; install NCCL");
}

} // namespace
