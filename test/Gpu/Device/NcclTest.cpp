//===- NcclTest.cpp - Tests of NCCL on GPUs -------------------------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Executes each collective that the engine uses, with each type, directly and
// in a captured graph: on one rank, and on two ranks, each of which is a
// process with a GPU of its own. The tests are skipped if NCCL, or a second
// GPU, is missing.
//
//===----------------------------------------------------------------------===//

#include "Nccl.h"
#include "DeviceUnderTest.h"
#include "ForkedRanks.h"
#include "Gpu.h"
#include "kiln/Support/ElementConversion.h"

#include <sys/mman.h>

using namespace kiln::runtime::cuda;
using namespace kiln::runtime::toy;
using namespace kiln::runtime;
using namespace kiln::support;
using namespace kiln;

namespace {

/// The number of elements of a shard, and the number of elements that the last
/// shard of a padded tensor lacks.
constexpr int64_t shard = 100, missing = 3;
/// The number of bytes from one buffer to the next.
constexpr int64_t step = 4096;

enum Buffer : int64_t {
  Sum,       ///< All-reduced in place.
  Whole,     ///< Reduce-scattered into Scattered.
  Padded,    ///< Whole without the last `missing` elements; its sum is
             ///< scattered into PaddedShard.
  Scattered, ///< This rank's shard of the sum of Whole over all ranks.
  PaddedShard,
  Gathered, ///< The Scattered shards of all ranks.
  PaddedGathered,
  buffers
};

class RankOfTest {
public:
  RankOfTest(const Driver &driver, const Gpu &gpu, const Nccl &nccl, int ranks,
             int rank)
      : driver_(driver), gpu_(gpu), nccl_(nccl), ranks_(ranks), rank_(rank) {}

  /// Returns the first error or the first wrong result.
  Status run(const NcclId &id);

private:
  int64_t whole() const { return ranks_ * shard; }
  int64_t padded() const { return whole() - missing; }
  int64_t elementsOf(int index) const {
    return index == ranks_ - 1 ? shard - missing : shard;
  }
  DevicePointer at(Buffer buffer, int64_t element = 0) const {
    return memory_.get() +
           DevicePointer(buffer * step + element * bytesOf(type_));
  }
  float valueOf(int rank, int64_t element) const {
    return float((3 * element + rank + run_) % 5 - 2);
  }
  Status write(Buffer buffer, int64_t elements);
  Status compare(Buffer buffer, int64_t first, int64_t elements);
  Status queue();
  Status capture(GraphExec &exec);
  Status checkType();
  Status finish() const {
    return driver_.call(driver_.api().cuStreamSynchronize, stream_.get());
  }

  const Driver &driver_;
  const Gpu &gpu_;
  const Nccl &nccl_;
  int ranks_, rank_;
  ElementType type_ = ElementType::F32;
  int ncclType_ = 0, run_ = 0;
  DeviceMemory memory_;
  QueueStream stream_;
  Communicator communicator_;
};

Status RankOfTest::write(Buffer buffer, int64_t elements) {
  std::vector<float> values;
  for (int64_t i = 0; i < elements; ++i)
    values.push_back(valueOf(rank_, i));
  std::vector<char> narrow(std::size_t(bytesOf(type_, elements)));
  convertElements(ElementType::F32,
                  reinterpret_cast<const char *>(values.data()), type_,
                  narrow.data(), values.size());
  Status status = driver_.call(driver_.api().cuMemcpyHtoDAsync_v2, at(buffer),
                               static_cast<const void *>(narrow.data()),
                               narrow.size(), stream_.get());
  return status.ok() ? finish() : status;
}

/// Compares the elements of a buffer with the elements [first, first +
/// elements) of the sum over all ranks.
Status RankOfTest::compare(Buffer buffer, int64_t first, int64_t elements) {
  std::vector<char> narrow(std::size_t(bytesOf(type_, elements)));
  Status status = driver_.call(driver_.api().cuMemcpyDtoHAsync_v2,
                               static_cast<void *>(narrow.data()), at(buffer),
                               narrow.size(), stream_.get());
  if (status.ok())
    status = finish();
  std::vector<float> values(std::size_t(elements), 0);
  convertElements(type_, narrow.data(), ElementType::F32,
                  reinterpret_cast<char *>(values.data()), values.size());
  for (int64_t i = 0; i < elements && status.ok(); ++i) {
    float expected = 0;
    for (int rank = 0; rank < ranks_; ++rank)
      expected += valueOf(rank, first + i);
    if (values[std::size_t(i)] != expected)
      status = Status::error("type " + std::to_string(ncclType_) + ", buffer " +
                             std::to_string(int(buffer)) + ", element " +
                             std::to_string(i) + " is " +
                             std::to_string(values[std::size_t(i)]) +
                             ", expected " + std::to_string(expected));
  }
  return status;
}

/// Queues the collectives of a step in three NCCL groups, as the engine does.
Status RankOfTest::queue() {
  const NcclApi &api = nccl_.api();
  CommHandle comm = communicator_.get();
  StreamHandle stream = stream_.get();
  auto elementBytes = std::size_t(bytesOf(type_));
  Status status;
  auto call = [&](const auto &entry, auto... arguments) {
    if (status.ok())
      status = nccl_.call(entry, arguments...);
  };
  call(api.ncclGroupStart);
  call(api.ncclAllReduce, at(Sum), at(Sum), std::size_t(whole()), ncclType_,
       ncclAdd, comm, stream);
  call(api.ncclGroupEnd);
  call(api.ncclGroupStart);
  call(api.ncclReduceScatter, at(Whole), at(Scattered), std::size_t(shard),
       ncclType_, ncclAdd, comm, stream);
  for (int i = 0; i < ranks_; ++i)
    call(api.ncclReduce, at(Padded, i * shard),
         i == rank_ ? at(PaddedShard) : DevicePointer(0),
         std::size_t(elementsOf(i)), ncclType_, ncclAdd, i, comm, stream);
  call(api.ncclGroupEnd);
  call(api.ncclGroupStart);
  call(api.ncclAllGather, at(Scattered), at(Gathered), shard * elementBytes,
       ncclTypeI8, comm, stream);
  for (int i = 0; i < ranks_; ++i)
    call(api.ncclBroadcast, i == rank_ ? at(PaddedShard) : DevicePointer(0),
         at(PaddedGathered, i * shard),
         std::size_t(elementsOf(i)) * elementBytes, ncclTypeI8, i, comm,
         stream);
  call(api.ncclGroupEnd);
  return status;
}

Status RankOfTest::capture(GraphExec &exec) {
  const DriverApi &api = driver_.api();
  Status status = driver_.call(api.cuStreamBeginCapture_v2, stream_.get(),
                               captureThreadLocal);
  if (!status.ok())
    return status;
  status = queue();
  GraphHandle recorded = nullptr;
  Status ended = driver_.call(api.cuStreamEndCapture, stream_.get(), &recorded);
  Graph graph(recorded, api.cuGraphDestroy);
  GraphExecHandle executable = nullptr;
  if (status.ok())
    status = ended;
  if (status.ok())
    status = driver_.call(api.cuGraphInstantiateWithFlags, &executable,
                          graph.get(), 0ull);
  exec = GraphExec(executable, api.cuGraphExecDestroy);
  return status;
}

/// Runs the collectives three times, each time on different values: first
/// directly, and then twice as a captured graph.
Status RankOfTest::checkType() {
  GraphExec exec;
  Status status;
  for (run_ = 0; run_ < 3 && status.ok(); ++run_) {
    for (auto [buffer, elements] :
         {std::pair(Sum, whole()), std::pair(Whole, whole()),
          std::pair(Padded, padded())})
      if (status.ok())
        status = write(buffer, elements);
    if (status.ok() && run_ == 1)
      status = capture(exec);
    if (status.ok())
      status = run_ == 0 ? queue()
                         : driver_.call(driver_.api().cuGraphLaunch, exec.get(),
                                        stream_.get());
    if (status.ok())
      status = finish();
    for (auto [buffer, first, elements] :
         {std::tuple(Sum, int64_t(0), whole()),
          std::tuple(Scattered, rank_ * shard, shard),
          std::tuple(PaddedShard, rank_ * shard, elementsOf(rank_)),
          std::tuple(Gathered, int64_t(0), whole()),
          std::tuple(PaddedGathered, int64_t(0), padded())})
      if (status.ok())
        status = compare(buffer, first, elements);
  }
  return status;
}

Status RankOfTest::run(const NcclId &id) {
  Result<DeviceMemory> memory = gpu_.allocate(buffers * step, "a test");
  if (!memory.ok())
    return memory.status();
  memory_ = std::move(*memory);
  StreamHandle stream = nullptr;
  Status status =
      driver_.call(driver_.api().cuStreamCreate, &stream, streamNonBlocking);
  if (!status.ok())
    return status;
  stream_ = {stream, driver_.api().cuStreamDestroy_v2};
  CommHandle handle = nullptr;
  status = nccl_.call(nccl_.api().ncclCommInitRank, &handle, ranks_, id, rank_);
  if (!status.ok())
    return status;
  communicator_ = {handle, nccl_.api().ncclCommDestroy};
  for (auto [type, ncclType] : {std::pair(ElementType::F64, ncclTypeF64),
                                std::pair(ElementType::F32, ncclTypeF32),
                                std::pair(ElementType::BF16, ncclTypeBF16),
                                std::pair(ElementType::F16, ncclTypeF16)}) {
    type_ = type;
    ncclType_ = ncclType;
    if (status.ok())
      status = checkType();
  }
  int error = ncclOk;
  if (status.ok())
    status = nccl_.call(nccl_.api().ncclCommGetAsyncError, handle, &error);
  if (status.ok() && error != ncclOk)
    status = nccl_.failure(error, "collective");
  return status;
}

/// Opens the driver, a GPU and NCCL, and runs the test on one rank.
Status runOnRank(int ranks, int rank,
                 const std::function<NcclId(const Nccl &)> &id) {
  Result<Driver> driver = Driver::open(devicetest::libraries().driver);
  if (!driver.ok())
    return driver.status();
  Result<Gpu> gpu = Gpu::open(*driver, rank);
  if (!gpu.ok())
    return gpu.status();
  Result<Nccl> nccl = Nccl::open(devicetest::libraries().collectives);
  if (!nccl.ok())
    return nccl.status();
  return RankOfTest(*driver, *gpu, *nccl, ranks, rank).run(id(*nccl));
}

bool hasNccl() { return Nccl::open(devicetest::libraries().collectives).ok(); }

TEST(NcclTest, CollectivesOfOneRank) {
  if (!hasNccl())
    GTEST_SKIP() << "NCCL is not installed";
  Status status = runOnRank(1, 0, [](const Nccl &nccl) {
    NcclId id = {};
    EXPECT_EQ(nccl.api().ncclGetUniqueId.function(&id), 0);
    return id;
  });
  EXPECT_TRUE(status.ok()) << status.message();
}

/// Returns the number of devices. Another process queries it, because a process
/// that has opened the driver must not fork.
int deviceCount() {
  return forkRanks(1,
                   [](int) {
                     Result<Driver> driver =
                         Driver::open(devicetest::libraries().driver);
                     int count = 0;
                     if (driver.ok())
                       (void)driver->call(driver->api().cuDeviceGetCount,
                                          &count);
                     return count;
                   })[0]
      .exitCode;
}

TEST(NcclTest, CollectivesOfTwoRanks) {
  devicetest::useTwoDevices();
  if (!hasNccl())
    GTEST_SKIP() << "NCCL is not installed";
  if (int count = deviceCount(); count < 2)
    GTEST_SKIP() << "needs two GPUs, but there are " << count;
  struct Shared {
    NcclId id;
    volatile int isSet;
  };
  auto *shared = static_cast<Shared *>(
      ::mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE,
             MAP_SHARED | MAP_ANONYMOUS, -1, 0));
  ASSERT_NE(shared, MAP_FAILED);
  for (const RankEnd &end : forkRanks(2, [&](int rank) {
         Status status = runOnRank(2, rank, [&](const Nccl &nccl) {
           if (rank == 0) {
             (void)nccl.api().ncclGetUniqueId.function(&shared->id);
             __sync_synchronize();
             shared->isSet = 1;
           }
           while (!shared->isSet)
             ::usleep(1000);
           __sync_synchronize();
           return shared->id;
         });
         std::fputs(status.message().c_str(), stderr);
         return status.ok() ? 0 : 1;
       })) {
    EXPECT_EQ(end.exitCode, 0) << end.err;
  }
  ::munmap(shared, sizeof(Shared));
}

} // namespace
