//===- World.h - The ranks of a run and their agreements --------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A World connects a rank to the other ranks that train the same model. It has
// a communication thread, which is the only thread that uses the transport.
// Other threads queue jobs for it: collectives, which run while the caller
// continues, as well as agreements (of all ranks on a value) and copies of data
// to rank 0, for which the caller waits. The thread executes the jobs in the
// order in which they were queued. All ranks must queue the same jobs in the
// same order.
//
// A failure of communication cannot be repaired, because the ranks no longer
// know what the others have received. It ends the processes of all ranks, after
// one line on stderr. A job fails if the transport reports an error, or if
// nothing arrives for WorldOptions::peerTimeout seconds, because a peer has
// ended or hangs.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_RUNTIME_COMM_WORLD_H
#define KILN_RUNTIME_COMM_WORLD_H

#include "kiln/Runtime/Comm/Collective.h"
#include "kiln/Runtime/Comm/Traffic.h"
#include "kiln/Support/Status.h"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <sched.h>
#include <string>
#include <vector>

namespace kiln::runtime {

class CommThread;
class Transport;

struct WorldOptions {
  /// Seconds without progress after which a job fails. At least 1.
  int64_t peerTimeout = 600;
  /// If false, a failure does not end the process: all later jobs fail, and
  /// World::failure() returns the message. For tests.
  bool endsProcess = true;
  /// Determines what connect() does if a launcher without MPI has started the
  /// ranks. True: it connects them by TCP. False: it returns an error.
  bool usesSockets = false;
  /// The maximum size of a message of World::fetch(). Tests set a small size.
  int64_t fetchMessageBytes = int64_t(1) << 30;
};

/// How World::agree() combines the values of the ranks. Sum adds the values in
/// the order of the ranks.
enum class AgreeBy {
  Min,
  Max,
  Sum,
  Equal ///< 1 if all ranks have the same value, otherwise 0.
};

/// How long an agreement waits for the other ranks.
enum class Patience {
  Limited, ///< WorldOptions::peerTimeout.
  /// No limit, because a rank may be writing a checkpoint or reading files.
  Unlimited
};

class World {
public:
  /// Returns true if a launcher such as mpirun started this process as one of
  /// several ranks.
  static bool isLaunched();
  /// Returns the rank that the launcher gave this process, or 0.
  static int launchedRank();
  /// Returns the number of this rank among the ranks that the launcher started
  /// on this machine, or std::nullopt if the launcher does not provide this
  /// number.
  static std::optional<int> launchedLocalRank();
  /// Connects to the other ranks through the launcher that started this
  /// process: by MPI or, if `options` permit it, by TCP. Without a launcher,
  /// returns a world of one rank. Fails if the launcher or its MPI library is
  /// not usable.
  static Result<std::unique_ptr<World>> connect(const WorldOptions &options);
  /// Returns a world of one rank, in which carryOutAlone() carries out all
  /// collectives, and agreements involve only this rank.
  static Result<std::unique_ptr<World>> alone();
  /// Returns a world with the transport that `open` creates. The communication
  /// thread calls `open`.
  static Result<std::unique_ptr<World>>
  over(const std::function<Result<std::unique_ptr<Transport>>()> &open,
       const WorldOptions &options);

  /// Disconnects. Waits until all other ranks do so, too.
  ~World();
  World(const World &) = delete;
  World &operator=(const World &) = delete;

  int rank() const { return rank_; } ///< In [0, size()).
  int size() const { return size_; } ///< At least 1.

  /// Allocates the memory for collectives, so that later jobs allocate none.
  /// Must be called before the first collective, once for each size of a group
  /// of ranks that computes sums.
  /// - `jobs`: the maximum number of jobs that are begun and not yet waited for
  /// - `ranks`: the number of ranks of a group; 0: all ranks
  /// - `bytes`: the maximum size of a sum over such a group. The size of a
  ///   reduce-scatter is the size of the shards of all ranks, including
  ///   padding.
  void reserve(int64_t jobs, int64_t bytes, int64_t ranks = 0);
  /// Returns the scratch bytes that reserve() allocated. They belong to the
  /// transport and are not part of an arena.
  int64_t scratchBytes() const { return int64_t(scratch_.size()); }
  /// Delays messages as in a network over which each rank sends at most
  /// `bytesPerSecond`. No job may be in progress.
  void simulateNetwork(double bytesPerSecond);
  /// Restricts the communication thread to these processors.
  void restrictTo(const cpu_set_t &processors);
  /// Sets the number of the step that messages about failures name.
  void setStep(int64_t step);
  int64_t step() const;
  /// Sets the time after which jobs fail.
  void setPeerTimeout(int64_t seconds);
  int64_t peerTimeout() const; ///< In seconds.

  /// Begins a collective and returns its number, which wait() takes. Until
  /// wait() has returned, the tensors of the collective must not be accessed,
  /// except that the shards of an all-gather may be read.
  uint64_t begin(const CollectiveJob &job);
  /// Waits until the collective with this number is done. All jobs that began
  /// before it are then done, too.
  void wait(uint64_t job);

  /// Copies the `bytes` bytes that each rank has at `mine` to all ranks. Every
  /// rank receives them at `all`, in the order of the ranks. `what` names this
  /// exchange in messages about failures.
  Status gather(const char *what, const void *mine, int64_t bytes, void *all,
                Patience patience = Patience::Limited);
  /// Copies `bytes` bytes from `mine` of rank `from` to `there` of rank 0. The
  /// other ranks do not use `mine`, and ranks other than 0 pass null as
  /// `there`. All ranks call this function in the same order, with the same
  /// `from` and `bytes`.
  /// Ranks other than 0 and `from` return at once. Waits without a limit
  /// (Patience::Unlimited), because rank 0 may be writing a file. `what` names
  /// the copy in messages about failures.
  Status fetch(const char *what, int from, const void *mine, int64_t bytes,
               void *there);
  /// Combines the values of all ranks. The result is the same on all ranks.
  Result<int64_t> agree(const char *what, int64_t value, AgreeBy by);
  Result<double> agree(const char *what, double value, AgreeBy by);

  /// Ends the processes of all ranks, after one line on stderr.
  void fail(const std::string &reason);
  /// Returns the first failure. Returns a failure only if
  /// WorldOptions::endsProcess is false; otherwise, a failure ends the process.
  Status failure() const;

  /// Returns the bytes that this rank has sent in the jobs that are done.
  Traffic sent() const;

private:
  explicit World(std::unique_ptr<CommThread> thread);

  int rank_ = 0, size_ = 1;
  /// The number of calls of fetch(), which is the same on all ranks.
  uint64_t fetches_ = 0;
  /// The largest argument `jobs` of reserve().
  int64_t jobs_ = 0;
  /// The scratch memory of collectives.
  std::vector<char> scratch_;
  std::unique_ptr<CommThread> thread_;
};

} // namespace kiln::runtime

#endif // KILN_RUNTIME_COMM_WORLD_H
