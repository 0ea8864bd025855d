//===- TcpTest.cpp - Tests of ranks that connect by TCP -------------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The ranks are threads of this process, which connect by real sockets.
//
//===----------------------------------------------------------------------===//

#include "TcpTransport.h"
#include "kiln/Runtime/Comm/World.h"

#include <atomic>
#include <cstring>
#include <gtest/gtest.h>
#include <map>
#include <sys/socket.h>
#include <thread>

using namespace kiln::runtime;
using namespace kiln;

namespace {

using std::chrono::milliseconds;

/// Returns a port that nothing listens on.
int freePort() {
  TcpSocket socket = TcpSocket::listen(0);
  EXPECT_TRUE(socket);
  return socket.port();
}

TcpOptions optionsOf(int rank, int size, int port) {
  TcpOptions options;
  options.rank = rank;
  options.size = size;
  options.host = "127.0.0.1";
  options.port = port;
  options.token = 42;
  options.connectTimeout = std::chrono::seconds(20);
  options.endsProcess = false;
  return options;
}

/// Calls body(rank) on a thread of each rank.
template <typename Body> void onEach(int size, Body body) {
  std::vector<std::thread> threads;
  for (int rank = 0; rank < size; ++rank)
    threads.emplace_back([&body, rank] { body(rank); });
  for (std::thread &thread : threads)
    thread.join();
}

WorldOptions worldOptions(int64_t peerTimeout = 20) {
  WorldOptions options;
  options.endsProcess = false;
  options.peerTimeout = peerTimeout;
  options.fetchMessageBytes = 100'000;
  return options;
}

Result<std::unique_ptr<World>> openWorld(const TcpOptions &options,
                                         WorldOptions world = worldOptions()) {
  return World::over([&] { return openTcp(options); }, world);
}

TcpClock::time_point soon() {
  return TcpClock::now() + std::chrono::seconds(10);
}

/// Returns a raw connection to a port of this machine.
TcpSocket connectRaw(int port) {
  for (;;) {
    Result<TcpSocket> socket = TcpSocket::connect({"127.0.0.1", port}, soon());
    if (socket.ok())
      return std::move(*socket);
    std::this_thread::sleep_for(milliseconds(5));
  }
}

TEST(TcpTest, WorldsExchangeAllKindsOfMessages) {
  constexpr int size = 4;
  // More bytes than the buffers of a socket and a transport can store.
  constexpr int64_t bytes = 3'000'001;
  int port = freePort();
  onEach(size, [&](int rank) {
    Result<std::unique_ptr<World>> world =
        openWorld(optionsOf(rank, size, port));
    ASSERT_TRUE(world.ok()) << world.status().message();
    ASSERT_EQ((*world)->rank(), rank);
    ASSERT_EQ((*world)->size(), size);
    for (int round = 0; round < 20; ++round) {
      Result<int64_t> sum =
          (*world)->agree("a vote", int64_t(rank + round), AgreeBy::Sum);
      ASSERT_TRUE(sum.ok()) << sum.status().message();
      EXPECT_EQ(*sum, 6 + 4 * round);
      std::vector<char> mine(bytes, char(rank + round)), there(bytes);
      int from = round % size;
      Status status = (*world)->fetch("a state", from, mine.data(), bytes,
                                      rank == 0 ? there.data() : nullptr);
      ASSERT_TRUE(status.ok()) << status.message();
      if (rank == 0)
        EXPECT_EQ(there, std::vector<char>(bytes, char(from + round)));
    }
    // Run an all-gather. Training uses it to exchange shards at the start.
    std::vector<float> whole(10), shard = {float(rank), float(rank), -1};
    shard.resize(3);
    CollectiveSpan span = {reinterpret_cast<char *>(whole.data()), 10,
                           reinterpret_cast<char *>(shard.data()), 3};
    setEnds(Collective::AllGather, &span, 1);
    CollectiveJob job;
    job.collective = Collective::AllGather;
    job.spans = &span;
    job.spanCount = 1;
    (*world)->wait((*world)->begin(job));
    ASSERT_TRUE((*world)->failure().ok());
    EXPECT_EQ(whole, (std::vector<float>{0, 0, -1, 1, 1, -1, 2, 2, -1, 3}));
    EXPECT_GT((*world)->sent().of(TrafficKind::Agreement), 0);
    EXPECT_EQ((*world)->sent().of(TrafficKind::State),
              rank == 0 ? 0 : 5 * bytes);
  });
}

TEST(TcpTest, TransportsMatchTagsAndSizes) {
  int port = freePort();
  onEach(2, [&](int rank) {
    Result<std::unique_ptr<Transport>> opened =
        openTcp(optionsOf(rank, 2, port));
    ASSERT_TRUE(opened.ok()) << opened.status().message();
    Transport &transport = **opened;
    auto finish = [&](MessageRequest &request) -> Status {
      TcpClock::time_point end = soon();
      while (TcpClock::now() < end) {
        Result<bool> done = transport.test(request);
        if (!done.ok() || *done)
          return done.status();
      }
      return Status::error("the message has not arrived");
    };
    // Rank 0 receives in another order than rank 1 sends. One message is empty.
    const int sent[] = {7, 8, 7, 9, 8}, received[] = {8, 7, 9, 8, 7};
    std::map<int, int> counts;
    std::vector<MessageRequest> requests(5);
    std::vector<int> values(5);
    for (int i = 0; i < 5; ++i) {
      int tag = rank == 1 ? sent[i] : received[i];
      int64_t bytes = tag == 9 ? 0 : sizeof(int);
      if (rank == 1)
        values[std::size_t(i)] = 10 * tag + counts[tag]++;
      Status status =
          rank == 1
              ? transport.send(0, &values[std::size_t(i)], bytes, tag,
                               TrafficKind::Agreement, requests[std::size_t(i)])
              : transport.receive(1, &values[std::size_t(i)], bytes, tag,
                                  requests[std::size_t(i)]);
      ASSERT_TRUE(status.ok()) << status.message();
      if (rank == 0)
        std::this_thread::sleep_for(milliseconds(10));
    }
    for (MessageRequest &request : requests) {
      Status status = finish(request);
      ASSERT_TRUE(status.ok()) << status.message();
    }
    if (rank == 0)
      EXPECT_EQ(values, (std::vector<int>{80, 70, 0, 81, 71}));
    // Rank 1 sends more bytes than rank 0 expects.
    MessageRequest request;
    if (rank == 1) {
      ASSERT_TRUE(
          transport
              .send(0, values.data(), 8, 1, TrafficKind::Agreement, request)
              .ok());
      (void)finish(request);
      return;
    }
    Status status = transport.receive(1, values.data(), 4, 1, request);
    if (status.ok())
      status = finish(request);
    EXPECT_EQ(status.message(), "the connection to rank 1 has failed: the "
                                "peer sent 8 bytes, expected 4");
  });
}

TEST(TcpTest, StrangersAreIgnored) {
  constexpr int size = 3;
  int port = freePort();
  std::atomic<bool> stop{false};
  std::thread strangers([&] {
    const char *request = "GET / HTTP/1.1\r\nHost: example\r\n\r\n";
    std::vector<TcpSocket> silent;
    silent.push_back(connectRaw(port));
    connectRaw(port);
    for (int i = 0; i < 3; ++i)
      (void)connectRaw(port).sendAll(request, std::strlen(request), soon());
    // A rank of another run, which has another token, is refused.
    TcpOptions other = optionsOf(1, size, port);
    other.token = 43;
    other.connectTimeout = milliseconds(300);
    Result<std::vector<TcpSocket>> refused = connectRanks(other);
    EXPECT_NE(refused.status().message().find("cannot connect to rank 0"),
              std::string::npos);
    stop = true;
  });
  onEach(size, [&](int rank) {
    // The other ranks connect after the strangers, which are not ranks.
    while (rank > 0 && !stop)
      std::this_thread::sleep_for(milliseconds(5));
    Result<std::unique_ptr<World>> world =
        openWorld(optionsOf(rank, size, port));
    ASSERT_TRUE(world.ok()) << world.status().message();
    Result<int64_t> sum = (*world)->agree("a vote", int64_t(1), AgreeBy::Sum);
    ASSERT_TRUE(sum.ok());
    EXPECT_EQ(*sum, size);
  });
  strangers.join();
}

TEST(TcpTest, TheOldestOfManySilentConnectionsAreClosed) {
  int port = freePort();
  std::atomic<bool> isClosed{false};
  onEach(2, [&](int rank) {
    std::vector<TcpSocket> silent;
    for (int i = 0; rank == 1 && i < 100; ++i)
      silent.push_back(connectRaw(port));
    // Every connection has 10 s to send a greeting. Rank 0 closes the first
    // connection earlier, because too many connections are silent.
    char byte = 0;
    TcpClock::time_point begin = TcpClock::now();
    if (rank == 1)
      isClosed = !silent.front()
                      .receiveAll(&byte, 1, begin + std::chrono::seconds(30))
                      .ok() &&
                 TcpClock::now() < begin + std::chrono::seconds(5);
    Result<std::unique_ptr<World>> world = openWorld(optionsOf(rank, 2, port));
    EXPECT_TRUE(world.ok()) << world.status().message();
  });
  EXPECT_TRUE(isClosed);
}

TEST(TcpTest, ARankThatNeverConnects) {
  int port = freePort();
  onEach(3, [&](int rank) {
    if (rank == 1)
      return;
    TcpOptions options = optionsOf(rank, 3, port);
    options.connectTimeout = std::chrono::seconds(1);
    Status status = openWorld(options).status();
    EXPECT_EQ(status.code(), ExitCode::Error);
    if (rank == 0)
      EXPECT_EQ(status.message(),
                "port " + std::to_string(port) +
                    " of rank 0 was not reached within 1 s by these ranks: 1; "
                    "start all ranks, and allow connections to this port");
    else
      EXPECT_NE(status.message().find("rank 0 has not sent the addresses"),
                std::string::npos)
          << status.message();
  });
}

TEST(TcpTest, NobodyListens) {
  TcpOptions options = optionsOf(1, 2, freePort());
  options.connectTimeout = milliseconds(1000);
  EXPECT_EQ(openWorld(options).status().message(),
            "cannot connect to rank 0 at 127.0.0.1 port " +
                std::to_string(options.port) +
                " within 1 s (Connection refused); start all ranks, allow "
                "connections to this port, or set KILN_PORT on all ranks to "
                "the same free port of the machine of rank 0");
  options.host = "no-such-machine.invalid";
  std::string message = openWorld(options).status().message();
  EXPECT_EQ(message.rfind("MASTER_ADDR is 'no-such-machine.invalid', which "
                          "cannot be resolved (",
                          0),
            0u)
      << message;
}

TEST(TcpTest, ThePortIsInUse) {
  TcpSocket other = TcpSocket::listen(0);
  ASSERT_TRUE(other);
  EXPECT_EQ(openWorld(optionsOf(0, 2, other.port())).status().message(),
            "cannot listen on port " + std::to_string(other.port()) +
                " for the other ranks: Address already in use; set KILN_PORT "
                "to a free port, to the same one for all ranks");
  // The program that listens on this port is not rank 0. It answers with bytes
  // that rank 0 would not send.
  std::thread answers([&] {
    TcpClock::time_point end = TcpClock::now() + milliseconds(1500);
    std::vector<char> text(64, 'x');
    while (TcpClock::now() < end)
      if (TcpSocket socket = other.accept())
        (void)socket.sendAll(text.data(), text.size(), soon());
      else
        std::this_thread::sleep_for(milliseconds(1));
  });
  TcpOptions options = optionsOf(1, 2, other.port());
  options.connectTimeout = milliseconds(1000);
  std::string message = openWorld(options).status().message();
  EXPECT_EQ(message.rfind("cannot connect to rank 0", 0), 0u) << message;
  answers.join();
}

TEST(TcpTest, RanksOfDifferentSizes) {
  int port = freePort();
  onEach(2, [&](int rank) {
    TcpOptions options = optionsOf(rank, 2 + rank, port);
    options.connectTimeout = std::chrono::seconds(5);
    EXPECT_EQ(openWorld(options).status().message(),
              "rank 1 was started as one of 3 ranks, but rank 0 as one of 2: "
              "start all of them with the same WORLD_SIZE");
  });
}

TEST(TcpTest, TwoProcessesOfOneRank) {
  int port = freePort();
  std::atomic<int> refused{0};
  onEach(3, [&](int thread) {
    TcpOptions options = optionsOf(thread == 0 ? 0 : 1, 3, port);
    options.connectTimeout = std::chrono::seconds(5);
    Status status = openWorld(options).status();
    EXPECT_FALSE(status.ok());
    refused += status.message().find("give each process its own RANK") !=
                       std::string::npos
                   ? 1
                   : 0;
  });
  EXPECT_EQ(refused, 2);
}

/// If `inVote` is true, returns the error of World::agree(). Otherwise waits,
/// without exchanging messages, until World::failure() is an error, and returns
/// that error.
Status awaitFailure(World &world, bool inVote) {
  if (inVote)
    return world.agree("a vote", int64_t(0), AgreeBy::Sum).status();
  TcpClock::time_point end = soon();
  while (world.failure().ok() && TcpClock::now() < end)
    std::this_thread::sleep_for(milliseconds(5));
  return world.failure();
}

TEST(TcpTest, ARankThatFailsEndsTheOthers) {
  for (bool inVote : {false, true}) {
    int port = freePort();
    onEach(3, [&](int rank) {
      Result<std::unique_ptr<World>> world =
          openWorld(optionsOf(rank, 3, port));
      ASSERT_TRUE(world.ok()) << world.status().message();
      if (rank == 1) {
        (*world)->fail("out of paper");
        EXPECT_EQ(awaitFailure(**world, false).message(), "out of paper");
        return;
      }
      std::string message = awaitFailure(**world, inVote).message();
      EXPECT_TRUE(message.find("another rank has aborted the run") !=
                      std::string::npos ||
                  message.find("has failed") != std::string::npos)
          << message;
    });
  }
}

/// A rank whose process ends closes its connections without a goodbye.
TEST(TcpTest, ARankThatEndsIsNoticed) {
  for (bool inVote : {false, true}) {
    int port = freePort();
    onEach(2, [&](int rank) {
      TcpOptions options = optionsOf(rank, 2, port);
      if (rank == 1) {
        Result<std::vector<TcpSocket>> sockets = connectRanks(options);
        ASSERT_TRUE(sockets.ok()) << sockets.status().message();
        return;
      }
      Result<std::unique_ptr<World>> world = openWorld(options);
      ASSERT_TRUE(world.ok()) << world.status().message();
      std::string message = awaitFailure(**world, inVote).message();
      EXPECT_NE(message.find("the connection to rank 1 has failed: "),
                std::string::npos)
          << message;
    });
  }
}

TEST(TcpTest, FramesThatAreDamaged) {
  struct Case {
    uint32_t kind;
    int64_t bytes;
    const char *message;
  };
  for (const Case &damage :
       {Case{1, 0, "the peer sent an unknown frame"},
        Case{0x4b4d5347, -1, "the peer sent a frame of -1 bytes"},
        Case{0x4b4d5347, int64_t(1) << 40,
             "the peer sent a frame of 1099511627776"}}) {
    int port = freePort();
    onEach(2, [&](int rank) {
      TcpOptions options = optionsOf(rank, 2, port);
      if (rank == 0) {
        Result<std::unique_ptr<World>> world = openWorld(options);
        ASSERT_TRUE(world.ok()) << world.status().message();
        std::string message = awaitFailure(**world, false).message();
        EXPECT_NE(message.find(damage.message), std::string::npos) << message;
        return;
      }
      Result<std::vector<TcpSocket>> sockets = connectRanks(options);
      ASSERT_TRUE(sockets.ok());
      struct {
        uint32_t kind;
        int32_t tag;
        int64_t bytes;
      } header = {damage.kind, 0, damage.bytes};
      // Send the header in two parts, since a connection may divide it
      // anywhere.
      const auto *data = reinterpret_cast<const char *>(&header);
      ASSERT_TRUE((*sockets)[0].sendAll(data, 5, soon()).ok());
      std::this_thread::sleep_for(milliseconds(20));
      ASSERT_TRUE(
          (*sockets)[0].sendAll(data + 5, sizeof header - 5, soon()).ok());
      std::this_thread::sleep_for(milliseconds(500));
    });
  }
}

TEST(TcpTest, ASilentRankIsNoticed) {
  int port = freePort();
  std::atomic<bool> done{false};
  onEach(2, [&](int rank) {
    Result<std::unique_ptr<World>> world =
        openWorld(optionsOf(rank, 2, port), worldOptions(/*peerTimeout=*/1));
    ASSERT_TRUE(world.ok()) << world.status().message();
    if (rank == 0) {
      std::string message = awaitFailure(**world, true).message();
      EXPECT_NE(message.find("a vote of step 0 failed: nothing has arrived for "
                             "1 s (--peer-timeout)"),
                std::string::npos)
          << message;
      done = true;
    }
    while (!done)
      std::this_thread::sleep_for(milliseconds(5));
  });
}

Environment environment(std::map<std::string, std::string> values) {
  return [values](const char *name) -> const char * {
    auto found = values.find(name);
    return found == values.end() ? nullptr : found->second.c_str();
  };
}

TEST(TcpOptionsTest, ReadsTheVariablesOfTorchrun) {
  std::map<std::string, std::string> values = {{"RANK", "2"},
                                               {"WORLD_SIZE", "4"},
                                               {"MASTER_ADDR", "node1"},
                                               {"MASTER_PORT", "29500"},
                                               {"TORCHELASTIC_RUN_ID", "a"}};
  Result<TcpOptions> options = readTcpOptions(environment(values));
  ASSERT_TRUE(options.ok()) << options.status().message();
  EXPECT_EQ(options->rank, 2);
  EXPECT_EQ(options->size, 4);
  EXPECT_EQ(options->host, "node1");
  EXPECT_EQ(options->port, 29501);
  uint64_t token = options->token;
  values["RANK"] = "0";
  EXPECT_EQ(readTcpOptions(environment(values))->token, token);
  values["TORCHELASTIC_RESTART_COUNT"] = "1";
  EXPECT_NE(readTcpOptions(environment(values))->token, token);
  values["KILN_PORT"] = "4000";
  EXPECT_EQ(readTcpOptions(environment(values))->port, 4000);
  values.erase("MASTER_PORT");
  EXPECT_EQ(readTcpOptions(environment(values))->port, 4000);
}

TEST(TcpOptionsTest, NamesTheVariableThatIsWrong) {
  const std::map<std::string, std::string> right = {{"RANK", "1"},
                                                    {"WORLD_SIZE", "2"},
                                                    {"MASTER_ADDR", "node1"},
                                                    {"MASTER_PORT", "29500"}};
  auto refusal = [&](const char *name, const char *value) {
    std::map<std::string, std::string> values = right;
    values.erase(name);
    if (value)
      values[name] = value;
    return readTcpOptions(environment(values)).status().message();
  };
  EXPECT_EQ(refusal("RANK", "2"),
            "RANK is '2', expected an integer from 0 to 1");
  EXPECT_EQ(refusal("MASTER_PORT", "65535"),
            "MASTER_PORT is '65535', expected an integer from 1 to 65534");
  EXPECT_EQ(refusal("KILN_PORT", "x"),
            "KILN_PORT is 'x', expected an integer from 1 to 65535");
  EXPECT_EQ(refusal("MASTER_PORT", nullptr),
            "MASTER_PORT is not set: start the ranks with torchrun, or set the "
            "variables that it sets");
  EXPECT_EQ(refusal("MASTER_ADDR", ""),
            "MASTER_ADDR is not set: set it to the name or the address of the "
            "machine of rank 0, as torchrun does");
}

TEST(LauncherTest, FindsTheLocalRank) {
  EXPECT_FALSE(findLocalRank(environment({})));
  for (const char *name : {"LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_RANK",
                           "MPI_LOCALRANKID", "SLURM_LOCALID"})
    EXPECT_EQ(findLocalRank(environment({{name, "3"}})), 3) << name;
  // If srun has started torchrun, both variables are set. LOCAL_RANK is used.
  EXPECT_EQ(
      findLocalRank(environment({{"SLURM_LOCALID", "0"}, {"LOCAL_RANK", "2"}})),
      2);
  std::map<std::string, std::string> values = {
      {"PMIX_RANK", "0"}, {"RANK", "2"}, {"WORLD_SIZE", "4"}};
  EXPECT_FALSE(isLaunchedByTorchrun(environment(values)));
  values["TORCHELASTIC_RUN_ID"] = "none";
  EXPECT_TRUE(isLaunchedByTorchrun(environment(values)));
}

} // namespace
