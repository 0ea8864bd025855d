//===- CommThread.cpp - The thread that communicates ----------------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "CommThread.h"

#include "SimulatedNetwork.h"
#include "kiln/Runtime/Comm/LibraryThread.h"
#include "kiln/Support/Messages.h"

#include <algorithm>
#include <chrono>
#include <csignal>
#include <ctime>
#include <immintrin.h>
#include <pthread.h>
#include <sys/prctl.h>
#include <system_error>
#include <unistd.h>

using namespace kiln::support;

namespace kiln::runtime {

__thread bool isLibraryThread = false;

/// Exit code of the processes of all ranks after a failure.
static constexpr int failureExitCode = int(ExitCode::Error);
/// Number of times that a thread that waits for a job polls `done_` before it
/// sleeps. The polls take a few microseconds.
static constexpr int spins = 500;

static int64_t now() {
  timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return int64_t(time.tv_sec) * 1'000'000'000 + time.tv_nsec;
}

static void sleepFor(int64_t nanoseconds) {
  timespec time = {0, long(nanoseconds)};
  nanosleep(&time, nullptr);
}

class CommThread::Pause {
public:
  explicit Pause(std::atomic<int64_t> &polled)
      : polled_(polled), advanced_(now()), last_(advanced_) {
    polled_.store(last_, std::memory_order_relaxed);
  }

  /// Returns the nanoseconds since the transport last advanced.
  int64_t idle() const { return last_ - advanced_; }

  /// Must be called after each poll.
  void after(bool advanced) {
    int64_t time = now();
    // If more than `longestPoll` passes between two polls, assume that this
    // process was stopped. Do not count this time as time for which a peer did
    // not answer.
    constexpr int64_t longestPoll = 1'000'000'000;
    if (time - last_ > longestPoll)
      advanced_ += time - last_;
    last_ = time;
    polled_.store(time, std::memory_order_relaxed);
    if (advanced) {
      advanced_ = time;
      return;
    }
    // Polls take processor time from the threads that compute, so poll less
    // often the longer nothing has arrived. A message that arrives after a wait
    // of length t is noticed at most t / 4 later, or 20 microseconds if that is
    // longer.
    constexpr int64_t second = 1'000'000'000;
    if (idle() < 20'000)
      _mm_pause();
    else if (idle() < second)
      sleepFor(std::clamp<int64_t>(idle() / 4, 20'000, 200'000));
    else
      sleepFor(1'000'000);
  }

private:
  std::atomic<int64_t> &polled_;
  int64_t advanced_, last_;
};

CommThread::CommThread(const Open &open, const WorldOptions &options)
    : options_(options), timeout_(options.peerTimeout * 1'000'000'000),
      jobs_(1) {
  // New threads inherit the signal mask. Block all signals while starting the
  // thread, so that it and the threads of the MPI library block them, too.
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  try {
    thread_ = std::thread([this, &open] { serve(open); });
  } catch (const std::system_error &error) {
    status_ = Status::error("cannot start the thread that communicates with "
                            "other ranks: " +
                            error.code().message() +
                            "; allow this process more threads (ulimit -u)");
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  if (!thread_.joinable())
    return;
  // The thread sets `status_` before it sets `ready_`.
  std::unique_lock<std::mutex> lock(mutex_);
  carriedOut_.wait(lock, [&] { return ready_; });
}

CommThread::~CommThread() {
  if (!thread_.joinable())
    return;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    stopping_ = true;
  }
  given_.notify_one();
  thread_.join();
}

void CommThread::reserve(int64_t jobs, char *scratch) {
  // Allocate one more job than the collectives need, because a gather may begin
  // while they are in progress.
  std::vector<CommJob> resized(std::size_t(jobs) + 1);
  std::lock_guard<std::mutex> lock(mutex_);
  jobs_ = std::move(resized);
  scratch_ = scratch;
}

void CommThread::simulateNetwork(double bytesPerSecond) {
  std::lock_guard<std::mutex> lock(mutex_);
  if (transport_ && size_ > 1)
    transport_ = std::make_unique<SimulatedNetwork>(std::move(transport_),
                                                    bytesPerSecond);
}

void CommThread::restrictTo(const cpu_set_t &processors) {
  if (thread_.joinable())
    pthread_setaffinity_np(thread_.native_handle(), sizeof(processors),
                           &processors);
}

uint64_t CommThread::begin(const CommJob &job) {
  uint64_t number = started_.load(std::memory_order_relaxed);
  jobs_[std::size_t(number % jobs_.size())] = job;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    started_.store(number + 1, std::memory_order_release);
  }
  given_.notify_one();
  return number;
}

void CommThread::wait(uint64_t job) {
  auto isDone = [&] { return done_.load(std::memory_order_acquire) > job; };
  for (int i = 0; i < spins && !isDone(); ++i)
    _mm_pause();
  if (isDone())
    return;
  int64_t last = now(), idle = 0;
  int64_t polled = polled_.load(std::memory_order_relaxed);
  std::unique_lock<std::mutex> lock(mutex_);
  while (!carriedOut_.wait_for(lock, std::chrono::seconds(1), isDone)) {
    // If a peer does not answer, the communication thread itself fails the job.
    // It cannot do so while it is inside a function of the MPI library that
    // does not return, so check here that it still polls. Time for which this
    // process was stopped does not count, because the communication thread
    // could not poll during it.
    constexpr int64_t longestSlice = 2'000'000'000;
    int64_t time = now();
    int64_t latest = polled_.load(std::memory_order_relaxed);
    idle = latest == polled ? idle + std::min(time - last, longestSlice) : 0;
    polled = latest;
    last = time;
    int64_t limit = timeout_.load(std::memory_order_relaxed) + 10'000'000'000;
    if (options_.endsProcess && idle > limit)
      endAlone("the MPI library has not returned for " +
               std::to_string(idle / 1'000'000'000) +
               " s, which is more than --peer-timeout");
  }
}

void CommThread::fail(const std::string &reason) {
  if (size_ == 1)
    return end(reason, nullptr);
  {
    std::lock_guard<std::mutex> lock(mutex_);
    if (reason_.empty())
      reason_ = reason;
  }
  failing_.store(true);
  given_.notify_one();
  if (!options_.endsProcess)
    return;
  // The communication thread soon ends the process, unless that thread is
  // inside the MPI library.
  ::sleep(20);
  endAlone(reason);
}

Status CommThread::failure() const {
  std::lock_guard<std::mutex> lock(mutex_);
  return failure_;
}

Traffic CommThread::sent() const {
  Traffic traffic;
  for (std::size_t kind = 0; kind < trafficKinds; ++kind)
    traffic.bytes[kind] = sent_[kind].load(std::memory_order_acquire);
  return traffic;
}

/// Writes a line that no other line of this process interrupts.
static void printError(int rank, int size, const std::string &message) {
  std::string line =
      "error: " + (size > 1 ? "rank " + std::to_string(rank) + ": " : "") +
      message + "\n";
  if (::write(STDERR_FILENO, line.data(), line.size()) < 0)
    return; // There is nobody to tell.
}

void CommThread::endAlone(const std::string &message) {
  printError(rank_, size_, message);
  ::_exit(failureExitCode);
}

void CommThread::end(const std::string &message, Transport *transport) {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    if (failure_.ok())
      failure_ = Status::error(message);
  }
  if (options_.endsProcess)
    printError(rank_, size_, message);
  if (transport)
    transport->abort(failureExitCode);
  if (options_.endsProcess)
    ::_exit(failureExitCode);
}

std::string CommThread::titleOf(const CommJob &job) const {
  return (job.kind == CommJob::Kind::Collective
              ? nameOf(job.collective.collective) +
                    (" " + inQuotes(job.collective.name))
              : std::string(job.what)) +
         " of step " + std::to_string(step_.load(std::memory_order_relaxed));
}

Status CommThread::checkPeers(const Pause &pause, const CommJob &job) const {
  if (failing_.load(std::memory_order_relaxed)) {
    std::lock_guard<std::mutex> lock(mutex_);
    return Status::error(reason_);
  }
  int64_t timeout = timeout_.load(std::memory_order_relaxed);
  bool isPatient = job.kind != CommJob::Kind::Collective &&
                   job.patience == Patience::Unlimited;
  if (isPatient || pause.idle() < timeout)
    return Status();
  MeshGroup group = {0, 1, size_};
  if (job.kind == CommJob::Kind::Collective)
    group = groupOf(job.collective, size_);
  int64_t index = group.indexOf(rank_);
  int64_t previous = group.rankAt((index + group.size - 1) % group.size);
  int64_t next = group.rankAt((index + 1) % group.size);
  return Status::error(
      "nothing has arrived for " + std::to_string(timeout / 1'000'000'000) +
      " s (--peer-timeout): another rank has ended or hangs; this rank "
      "exchanges messages with rank " +
      std::to_string(previous) +
      (next != previous ? " and rank " + std::to_string(next) : ""));
}

Status CommThread::carryOutCollective(const CommJob &job, int tag) {
  if (groupOf(job.collective, size_).size == 1) {
    carryOutAlone(job.collective);
    return Status();
  }
  ring_.begin(job.collective, scratch_, tag, *transport_);
  for (Pause pause(polled_); !ring_.isDone();) {
    bool advanced = false;
    Status status = ring_.advance(*transport_, advanced);
    if (status.ok())
      status = checkPeers(pause, job);
    if (!status.ok())
      return status;
    pause.after(advanced);
  }
  return Status();
}

/// Passes the bytes of each rank around the ring.
Status CommThread::carryOutGather(const CommJob &job, int tag) {
  int next = (rank_ + 1) % size_, previous = (rank_ + size_ - 1) % size_;
  Pause pause(polled_);
  for (int round = 0; round < size_ - 1; ++round) {
    int mine = (rank_ - round + size_) % size_;
    int other = (mine - 1 + size_) % size_;
    MessageRequest sends, receives;
    Status status = transport_->receive(previous, job.all + other * job.bytes,
                                        job.bytes, tag, receives);
    if (status.ok())
      status = transport_->send(next, job.all + mine * job.bytes, job.bytes,
                                tag, TrafficKind::Agreement, sends);
    for (bool sent = false, received = false;
         status.ok() && !(sent && received);) {
      bool advanced = false;
      for (auto [request, done] :
           {std::pair(&receives, &received), std::pair(&sends, &sent)}) {
        if (*done || !status.ok())
          continue;
        Result<bool> isDone = transport_->test(*request);
        status = isDone.status();
        *done = isDone.ok() && *isDone;
        advanced |= *done;
      }
      if (status.ok())
        status = checkPeers(pause, job);
      pause.after(advanced);
    }
    if (!status.ok())
      return status;
  }
  return Status();
}

/// A fetch sends bytes from one rank to rank 0. Receives the bytes if this is
/// rank 0, and otherwise sends them. Only one message is in progress at a time.
Status CommThread::carryOutFetch(const CommJob &job, int tag) {
  const int64_t largest =
      std::min(options_.fetchMessageBytes, Transport::maxMessageBytes);
  Pause pause(polled_);
  for (int64_t done = 0; done < job.bytes;) {
    int64_t bytes = std::min(largest, job.bytes - done);
    MessageRequest request;
    Status status =
        rank_ == 0
            ? transport_->receive(job.peer, job.to + done, bytes, tag, request)
            : transport_->send(job.peer, job.from + done, bytes, tag,
                               TrafficKind::State, request);
    for (bool isDone = false; status.ok() && !isDone;) {
      Result<bool> tested = transport_->test(request);
      status = tested.ok() ? checkPeers(pause, job) : tested.status();
      isDone = tested.ok() && *tested;
      pause.after(isDone);
    }
    if (!status.ok())
      return status;
    done += bytes;
  }
  return Status();
}

/// Returns the tag of the messages of a job. It consists of the kind of the job
/// and the lowest bits of `number`. A message is thus never received by a job
/// of another kind. If two jobs of one kind have the same tag, their numbers
/// differ by at least 4096, so they are never in progress at the same time.
static int tagOf(const CommJob &job, uint64_t number) {
  constexpr int numberBits = 12;
  int kind = 0;
  switch (job.kind) {
  case CommJob::Kind::Gather:
    break;
  case CommJob::Kind::Fetch:
    kind = 1;
    break;
  case CommJob::Kind::Collective:
    kind = 2 + int(job.collective.collective);
    break;
  }
  return kind << numberBits | int(number & ((1u << numberBits) - 1));
}

void CommThread::carryOut(const CommJob &job) {
  // `commonJobs_` must be the same on all ranks, but only two ranks take part
  // in a fetch. Fetches are therefore numbered separately.
  bool isFetch = job.kind == CommJob::Kind::Fetch;
  int tag = tagOf(job, isFetch ? job.number : commonJobs_++);
  bool isCollective = job.kind == CommJob::Kind::Collective;
  TransferTiming *timing = isCollective ? job.collective.timing : nullptr;
  if (timing)
    timing->begin = now();
  Status status;
  if (failure().ok())
    status = isCollective ? carryOutCollective(job, tag)
             : isFetch    ? carryOutFetch(job, tag)
                          : carryOutGather(job, tag);
  if (timing)
    timing->end = now();
  for (std::size_t kind = 0; kind < trafficKinds; ++kind)
    sent_[kind].store(transport_->sent().bytes[kind],
                      std::memory_order_release);
  if (!status.ok())
    end(failing_.load() ? status.message()
                        : titleOf(job) + " failed: " + status.message(),
        transport_.get());
}

Status CommThread::waitForJob(std::unique_lock<std::mutex> &lock,
                              uint64_t next) {
  auto hasWork = [&] {
    return stopping_ || (failing_.load() && failure_.ok()) ||
           started_.load(std::memory_order_acquire) > next;
  };
  while (transport_->watchesPeers() && failure_.ok()) {
    if (given_.wait_for(lock, std::chrono::milliseconds(200), hasWork))
      return Status();
    lock.unlock();
    Status status = transport_->idle();
    lock.lock();
    if (!status.ok())
      return status;
  }
  given_.wait(lock, hasWork);
  return Status();
}

void CommThread::serve(const Open &open) {
  isLibraryThread = true;
  prctl(PR_SET_NAME, "kiln-comm");
  // Reduce the timer slack, whose default delays wakeups by up to 50
  // microseconds.
  prctl(PR_SET_TIMERSLACK, 1);
  // Flush denormals to zero, as on all threads that compute.
  _mm_setcsr(_mm_getcsr() | 0x8040);
  Result<std::unique_ptr<Transport>> transport = open();
  if (transport.ok()) {
    transport_ = std::move(*transport);
    rank_ = transport_->rank();
    size_ = transport_->size();
  } else {
    status_ = transport.status();
  }
  {
    std::lock_guard<std::mutex> lock(mutex_);
    ready_ = true;
  }
  carriedOut_.notify_one();
  if (!transport_)
    return;
  for (uint64_t next = 0;;) {
    std::string reason;
    {
      std::unique_lock<std::mutex> lock(mutex_);
      if (Status status = waitForJob(lock, next); !status.ok())
        reason = status.message();
      if (stopping_)
        break;
      if (failing_.load() && failure_.ok())
        reason = reason_;
    }
    if (!reason.empty()) {
      end(reason, transport_.get());
      continue;
    }
    carryOut(jobs_[std::size_t(next % jobs_.size())]);
    ++next;
    {
      std::lock_guard<std::mutex> lock(mutex_);
      done_.store(next, std::memory_order_release);
    }
    carriedOut_.notify_all();
  }
  transport_.reset();
}

} // namespace kiln::runtime
