//===- Ranks.h - Agreements of the ranks of a training run ------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The decisions that the ranks of a run make together. All ranks execute the
// same steps with the same states, so most decisions need no message. What only
// one rank knows (an error, a stop signal, the number of targets of its
// sequences) is exchanged in votes: each rank contributes a ballot, and all
// ranks receive the same combination. A run of one rank votes without messages.
//
// Errors. A rank that fails between two votes passes its error to finish(),
// which votes until all ranks have called finish(). The other ranks see the
// error in their next vote, whichever it is, because all votes have the same
// format. Therefore no rank waits for a rank that has failed. The only errors
// that cannot be voted on are those of a program that sums over ranks, because
// the other ranks may be waiting in a sum. Such an error ends all processes
// (abort()).
//
//===----------------------------------------------------------------------===//

#ifndef KILN_LIB_RUNTIME_TRAINING_RANKS_H
#define KILN_LIB_RUNTIME_TRAINING_RANKS_H

#include "kiln/Runtime/Comm/World.h"
#include "kiln/Runtime/Engine/Description.h"
#include "kiln/Support/Status.h"

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace kiln::runtime {

/// The values that one rank contributes to a vote (a joint decision), or the
/// combined values of all ranks.
struct Ballot {
  bool stop = false; ///< Combined: true if any rank was asked to stop.
  /// Combined: the sums of `targets` and of `loss` over the ranks, in rank
  /// order. Of several ranks with the same sequences, only the first counts.
  int64_t targets = 0;
  double loss = 0;
};

/// A property that must be the same on all ranks.
struct RankFact {
  const char *name; ///< In plural, such as "flags".
  uint64_t hash;
  /// Axes of the mesh. A rank is compared only with ranks that have the same
  /// indexes on these axes.
  std::vector<std::string> axes = {};
};

class Ranks {
public:
  /// Creates a run of one rank.
  Ranks() = default;
  /// Creates a run of the ranks of `world`, which must outlive this object.
  explicit Ranks(World &world) : world_(world.size() > 1 ? &world : nullptr) {
    useMesh({{{std::string(support::dataAxis), world.size()}}});
  }

  /// Connects to the ranks that the launcher of this process has started.
  /// Without a launcher, returns one rank. If `haveGpus` is false, a launcher
  /// without MPI is an error.
  static Result<Ranks> connect(bool haveGpus);

  /// Arranges the ranks in `mesh`, which must have size() ranks. Before this
  /// call, all ranks are on the axis of data parallelism.
  void useMesh(const support::Mesh &mesh);

  int rank() const { return world_ ? world_->rank() : 0; }
  int size() const { return world_ ? world_->size() : 1; }
  /// Return the index of this rank on the axis of data parallelism, and the
  /// size of this axis. Ranks with the same index have the same sequences.
  int dataIndex() const;
  int dataSize() const;
  /// Returns true on the rank that prints messages and writes files.
  bool isFirst() const { return rank() == 0; }
  /// Returns the connections to the other ranks, or null if there is only one
  /// rank.
  World *world() const { return world_; }

  /// Fails unless there are as many ranks as the executable requires. `command`
  /// is the path of the executable.
  Status checkSize(const Description &description,
                   const std::string &command) const;

  /// Combines the ballots of all ranks. If `outcome` is an error on any rank,
  /// returns this error on all ranks. Unless it is the error of the first rank,
  /// the message contains the number of the rank. Also fails if another rank
  /// has ended its run without an error. `what` names the vote in messages.
  Result<Ballot> vote(const char *what, const Status &outcome,
                      const Ballot &mine = {},
                      Patience patience = Patience::Limited);

  /// Fails if a hash differs between ranks. The message names the first fact
  /// that differs, and a rank on which it differs. Must follow a successful
  /// call of vote().
  Status compare(const std::vector<RankFact> &facts);

  /// On the first rank, returns the texts of all ranks in rank order. On all
  /// other ranks, returns an empty list. `what` names the exchange in messages.
  Result<std::vector<std::string>> collect(const char *what,
                                           const std::string &text);

  /// Ends the run: calls vote() until all ranks have called finish(). Returns
  /// the same error on all ranks if `outcome` is an error on any rank.
  Status finish(const Status &outcome);

  /// Ends the processes of all ranks after an error in a program with
  /// collectives, in which the other ranks would wait for this one. Returns
  /// `status` if there is only one rank.
  Status abort(const Status &status);

private:
  struct Message;
  Result<std::vector<Message>> exchange(const char *what, const Status &outcome,
                                        const Ballot &mine, bool atEnd,
                                        Patience patience);
  /// Returns the error that all ranks report.
  Status firstError(const std::vector<Message> &messages,
                    const Status &outcome);
  /// Returns the number of the first rank that reads the same sequences as
  /// `rank`.
  int firstWithSequencesOf(int rank) const;

  std::unique_ptr<World> owned_;
  World *world_ = nullptr;
  support::Mesh mesh_;
};

} // namespace kiln::runtime

#endif // KILN_LIB_RUNTIME_TRAINING_RANKS_H
