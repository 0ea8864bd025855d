//===- FakeNcclTest.cpp - Tests of the fake NCCL --------------------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Checks that the fake NCCL reports misuse, on which the tests of ranks rely.
//
//===----------------------------------------------------------------------===//

#include "FakeCuda.h"
#include "ForkedRanks.h"
#include "Gpu.h"
#include "Nccl.h"

#include <optional>
#include <sys/mman.h>

using namespace kiln::runtime::cuda;
using namespace kiln::runtime::toy;
using namespace kiln::runtime;
using namespace kiln;

namespace {

/// A GPU with a stream, memory for 64 floats, and a communicator.
class FakeNcclTest : public ::testing::Test {
protected:
  void SetUp() override { open(1, 0, nullptr); }
  void TearDown() override { close(); }

  /// Opens a rank of the communicator `id`, or of a new one if `id` is null.
  void open(int ranks, int rank, NcclId *id) {
    fakecuda::reset();
    Result<Driver> driver = Driver::open({KILN_FAKE_CUDA});
    ASSERT_TRUE(driver.ok());
    driver_.emplace(std::move(*driver));
    Result<Gpu> gpu = Gpu::open(*driver_);
    ASSERT_TRUE(gpu.ok());
    gpu_.emplace(std::move(*gpu));
    Result<DeviceMemory> memory = gpu_->allocate(256, "a test");
    ASSERT_TRUE(memory.ok());
    memory_ = std::move(*memory);
    StreamHandle stream = nullptr;
    ASSERT_TRUE(
        driver_->call(driver_->api().cuStreamCreate, &stream, streamNonBlocking)
            .ok());
    stream_ = {stream, driver_->api().cuStreamDestroy_v2};
    Result<Nccl> nccl = Nccl::open({KILN_FAKE_CUDA});
    ASSERT_TRUE(nccl.ok());
    nccl_.emplace(std::move(*nccl));
    NcclId own = {};
    if (!id)
      ASSERT_EQ(nccl_->api().ncclGetUniqueId.function(id = &own), 0);
    ASSERT_EQ(nccl_->api().ncclCommInitRank.function(&comm_, ranks, *id, rank),
              0);
  }
  void close() {
    if (comm_)
      (void)nccl_->api().ncclCommDestroy.function(comm_);
    comm_ = nullptr;
    stream_ = {};
    memory_ = {};
    gpu_.reset();
    driver_.reset();
  }
  int sum(int64_t from, int64_t to, std::size_t count) {
    return nccl_->api().ncclAllReduce.function(
        memory_.get() + uint64_t(from), memory_.get() + uint64_t(to), count,
        ncclTypeF32, ncclAdd, comm_, stream_.get());
  }
  void expectViolation(const char *text) {
    std::vector<std::string> found = fakecuda::violations();
    ASSERT_EQ(found.size(), 1u);
    EXPECT_NE(found[0].find(text), std::string::npos) << found[0];
    fakecuda::reset();
    comm_ = nullptr;
  }

  std::optional<Driver> driver_;
  std::optional<Gpu> gpu_;
  DeviceMemory memory_;
  QueueStream stream_;
  std::optional<Nccl> nccl_;
  CommHandle comm_ = nullptr;
};

TEST_F(FakeNcclTest, AcceptsWhatNcclPermits) {
  EXPECT_EQ(sum(0, 0, 32), 0);
  EXPECT_EQ(sum(0, 128, 32), 0);
  EXPECT_EQ(driver_->api().cuStreamSynchronize.function(stream_.get()), 0);
  EXPECT_TRUE(fakecuda::violations().empty());
  close();
  EXPECT_TRUE(fakecuda::live().empty());
}

TEST_F(FakeNcclTest, BuffersOutsideOfTheMemory) {
  EXPECT_NE(sum(0, 0, 65), 0);
  expectViolation("260 bytes are not device memory");
}

TEST_F(FakeNcclTest, BuffersThatOverlap) {
  EXPECT_NE(sum(0, 4, 16), 0);
  expectViolation("the buffers of a call overlap");
}

TEST_F(FakeNcclTest, CallsOfAGroupThatOverlap) {
  EXPECT_EQ(nccl_->api().ncclGroupStart.function(), 0);
  EXPECT_EQ(sum(0, 0, 16), 0);
  EXPECT_EQ(sum(60, 60, 4), 0);
  EXPECT_NE(nccl_->api().ncclGroupEnd.function(), 0);
  expectViolation("a call of a group writes what another one accesses");
}

TEST_F(FakeNcclTest, GroupsThatAreNotEnded) {
  EXPECT_EQ(nccl_->api().ncclGroupStart.function(), 0);
  EXPECT_EQ(fakecuda::live().count("NCCL group"), 1u);
  EXPECT_EQ(nccl_->api().ncclGroupEnd.function(), 0);
  EXPECT_EQ(fakecuda::live().count("NCCL group"), 0u);
  EXPECT_NE(nccl_->api().ncclGroupEnd.function(), 0);
  expectViolation("a group is ended that was not started");
}

TEST_F(FakeNcclTest, CommunicatorsThatAreDestroyedTwice) {
  EXPECT_EQ(fakecuda::live().count("NCCL communicator"), 1u);
  EXPECT_EQ(nccl_->api().ncclCommDestroy.function(comm_), 0);
  EXPECT_EQ(fakecuda::live().count("NCCL communicator"), 0u);
  EXPECT_NE(nccl_->api().ncclCommDestroy.function(comm_), 0);
  expectViolation("no such NCCL communicator");
}

/// In these tests, two ranks make different calls.
class FakeNcclRanksTest : public FakeNcclTest {
protected:
  void SetUp() override {
    shared_ = static_cast<NcclId *>(::mmap(nullptr, sizeof(NcclId),
                                           PROT_READ | PROT_WRITE,
                                           MAP_SHARED | MAP_ANONYMOUS, -1, 0));
    ASSERT_NE(shared_, MAP_FAILED);
  }
  void TearDown() override { ::munmap(shared_, sizeof(NcclId)); }
  /// Expects that two ranks that execute `call` report a violation that
  /// contains `text`.
  void expectMismatch(const std::function<int(int rank)> &call,
                      const char *text) {
    fakecuda::reset();
    Result<Nccl> nccl = Nccl::open({KILN_FAKE_CUDA});
    ASSERT_TRUE(nccl.ok());
    ASSERT_EQ(nccl->api().ncclGetUniqueId.function(shared_), 0);
    for (const RankEnd &end : forkRanks(2, [&](int rank) {
           open(2, rank, shared_);
           if (call(rank) != 0)
             return 1;
           if (driver_->api().cuStreamSynchronize.function(stream_.get()) == 0)
             return 2;
           for (const std::string &violation : fakecuda::violations())
             std::fprintf(stderr, "%s\n", violation.c_str());
           return 0;
         })) {
      EXPECT_EQ(end.exitCode, 0);
      EXPECT_NE(end.err.find(text), std::string::npos) << end.err;
    }
  }

  NcclId *shared_ = nullptr;
};

TEST_F(FakeNcclRanksTest, CallsThatDiffer) {
  expectMismatch([&](int rank) { return sum(0, 0, std::size_t(10 + rank)); },
                 "called ncclAllReduce of 1");
  expectMismatch(
      [&](int rank) {
        const NcclApi &api = nccl_->api();
        return api.ncclBroadcast.function(memory_.get(), memory_.get(), 10,
                                          ncclTypeF32, rank, comm_,
                                          stream_.get());
      },
      "with root 1");
  expectMismatch(
      [&](int rank) {
        const NcclApi &api = nccl_->api();
        return api.ncclAllReduce.function(memory_.get(), memory_.get(), 10,
                                          rank ? ncclTypeF32 : ncclTypeI8,
                                          ncclAdd, comm_, stream_.get());
      },
      "of type 7");
}

} // namespace
