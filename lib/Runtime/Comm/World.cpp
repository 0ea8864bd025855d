//===- World.cpp - The ranks of a run and their agreements ----------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "kiln/Runtime/Comm/World.h"

#include "CommThread.h"
#include "MpiTransport.h"
#include "TcpTransport.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>

namespace kiln::runtime {

World::World(std::unique_ptr<CommThread> thread)
    : rank_(thread->rank()), size_(thread->size()), thread_(std::move(thread)) {
}

World::~World() = default;

Result<std::unique_ptr<World>>
World::over(const std::function<Result<std::unique_ptr<Transport>>()> &open,
            const WorldOptions &options) {
  auto thread = std::make_unique<CommThread>(open, options);
  if (!thread->status().ok())
    return thread->status();
  return std::unique_ptr<World>(new World(std::move(thread)));
}

Result<std::unique_ptr<World>> World::alone() {
  return over(
      []() -> Result<std::unique_ptr<Transport>> {
        return std::unique_ptr<Transport>(
            std::make_unique<LoopbackTransport>());
      },
      {});
}

static const char *readEnvironment(const char *name) {
  return std::getenv(name);
}

/// Returns how an MPI launcher started this process, or nullopt if none did.
/// Also returns nullopt if srun has started torchrun, because this process is
/// then a rank of torchrun.
static std::optional<Launch> findMpiLaunch() {
  return isLaunchedByTorchrun(readEnvironment) ? std::nullopt
                                               : findLaunch(readEnvironment);
}

bool World::isLaunched() {
  std::optional<Launch> launch = findMpiLaunch();
  return launch ? launch->size != 1 : launchedWithoutMpi(readEnvironment) > 1;
}

int World::launchedRank() {
  if (std::optional<Launch> launch = findMpiLaunch())
    return launch->rank;
  return launchedWithoutMpi(readEnvironment) > 1
             ? rankWithoutMpi(readEnvironment)
             : 0;
}

std::optional<int> World::launchedLocalRank() {
  return findLocalRank(readEnvironment);
}

Result<std::unique_ptr<World>> World::connect(const WorldOptions &options) {
  std::optional<Launch> launch = findMpiLaunch();
  if (launch && launch->size != 1)
    return over([&] { return openMpi(*launch); }, options);
  int size = launchedWithoutMpi(readEnvironment);
  if (launch || size == 1)
    return alone();
  if (!options.usesSockets)
    return Status(ExitCode::Usage,
                  "RANK and WORLD_SIZE are set, as by torchrun, but ranks of "
                  "kiln without GPUs find each other by MPI: start them with "
                  "mpirun -n " +
                      std::to_string(size));
  Result<TcpOptions> sockets = readTcpOptions(readEnvironment);
  if (!sockets.ok())
    return sockets.status();
  sockets->endsProcess = options.endsProcess;
  return over([&] { return openTcp(*sockets); }, options);
}

void World::reserve(int64_t jobs, int64_t bytes, int64_t ranks) {
  auto needed = std::size_t(
      RingCollective::scratchBytes(bytes, ranks == 0 ? size_ : int(ranks)));
  jobs_ = std::max(jobs_, jobs);
  scratch_.resize(std::max(scratch_.size(), needed));
  thread_->reserve(jobs_, scratch_.data());
}

void World::restrictTo(const cpu_set_t &processors) {
  thread_->restrictTo(processors);
}

void World::simulateNetwork(double bytesPerSecond) {
  thread_->simulateNetwork(bytesPerSecond);
}

void World::setStep(int64_t step) { thread_->setStep(step); }

int64_t World::step() const { return thread_->step(); }

void World::setPeerTimeout(int64_t seconds) {
  thread_->setPeerTimeout(seconds);
}

int64_t World::peerTimeout() const { return thread_->peerTimeout(); }

uint64_t World::begin(const CollectiveJob &job) {
  CommJob begun;
  begun.kind = CommJob::Kind::Collective;
  begun.collective = job;
  return thread_->begin(begun);
}

void World::wait(uint64_t job) { thread_->wait(job); }

Status World::gather(const char *what, const void *mine, int64_t bytes,
                     void *all, Patience patience) {
  char *place = static_cast<char *>(all);
  std::memcpy(place + rank_ * bytes, mine, std::size_t(bytes));
  if (size_ == 1)
    return Status();
  CommJob job;
  job.kind = CommJob::Kind::Gather;
  job.all = place;
  job.bytes = bytes;
  job.what = what;
  job.patience = patience;
  thread_->wait(thread_->begin(job));
  return thread_->failure();
}

Status World::fetch(const char *what, int from, const void *mine, int64_t bytes,
                    void *there) {
  uint64_t number = fetches_++;
  if (from == 0 && rank_ == 0 && bytes > 0)
    std::memcpy(there, mine, std::size_t(bytes));
  if (from == 0 || (rank_ != 0 && rank_ != from))
    return failure();
  CommJob job;
  job.kind = CommJob::Kind::Fetch;
  job.from = static_cast<const char *>(mine);
  job.to = static_cast<char *>(there);
  job.peer = rank_ == 0 ? from : 0;
  job.number = number;
  job.bytes = bytes;
  job.what = what;
  job.patience = Patience::Unlimited;
  thread_->wait(thread_->begin(job));
  return thread_->failure();
}

/// Combines the values of all ranks in the order of the ranks.
template <typename T>
static T combine(const std::vector<T> &values, AgreeBy by) {
  T result = values.front();
  bool isEqual = true;
  for (std::size_t i = 1; i < values.size(); ++i) {
    isEqual = isEqual && values[i] == values.front();
    result = by == AgreeBy::Min   ? std::min(result, values[i])
             : by == AgreeBy::Max ? std::max(result, values[i])
                                  : result + values[i];
  }
  return by == AgreeBy::Equal ? T(isEqual ? 1 : 0) : result;
}

template <typename T>
static Result<T> agreeOn(World &world, const char *what, T value, AgreeBy by) {
  std::vector<T> values(std::size_t(world.size()));
  Status status = world.gather(what, &value, sizeof value, values.data());
  if (!status.ok())
    return status;
  return combine(values, by);
}

Result<int64_t> World::agree(const char *what, int64_t value, AgreeBy by) {
  return agreeOn(*this, what, value, by);
}

Result<double> World::agree(const char *what, double value, AgreeBy by) {
  return agreeOn(*this, what, value, by);
}

void World::fail(const std::string &reason) { thread_->fail(reason); }

Status World::failure() const { return thread_->failure(); }

Traffic World::sent() const { return thread_->sent(); }

} // namespace kiln::runtime
