//===- Ranks.cpp - Agreements of the ranks of a training run --------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Ranks.h"

#include "kiln/Support/Messages.h"

#include <algorithm>
#include <cstring>

using namespace kiln::support;

namespace kiln::runtime {

/// The message of a rank in a vote, a joint decision of all ranks.
struct Ranks::Message {
  int64_t code = 0; ///< ExitCode of the outcome.
  int64_t atEnd = 0;
  int64_t stop = 0;
  int64_t targets = 0;
  double loss = 0;
};

namespace {

/// The text of an error, which may be cut off.
struct ErrorText {
  char text[2048] = {};
};

} // namespace

Result<Ranks> Ranks::connect(bool haveGpus) {
  if (!World::isLaunched())
    return Ranks();
  WorldOptions options;
  options.usesSockets = haveGpus;
  Result<std::unique_ptr<World>> world = World::connect(options);
  if (!world.ok())
    return world.status();
  Ranks ranks;
  if ((*world)->size() == 1)
    return ranks;
  ranks.owned_ = std::move(*world);
  ranks.world_ = ranks.owned_.get();
  ranks.useMesh({{{std::string(dataAxis), ranks.size()}}});
  return ranks;
}

void Ranks::useMesh(const Mesh &mesh) {
  if (world_)
    mesh_ = mesh;
}

int Ranks::dataIndex() const { return int(mesh_.indexOn(dataAxis, rank())); }

int Ranks::dataSize() const { return int(mesh_.sizeOf(dataAxis)); }

int Ranks::firstWithSequencesOf(int rank) const {
  return int(mesh_.firstWith({std::string(dataAxis)}, rank));
}

Status Ranks::checkSize(const Description &description,
                        const std::string &command) const {
  int64_t expected = description.ranks();
  if (size() == expected)
    return Status();
  std::string started = size() == 1 ? "one was started"
                                    : std::to_string(size()) + " were started";
  std::string launch = "mpirun -n " + std::to_string(expected);
  if (expected == 1)
    return Status(ExitCode::Usage,
                  "this executable was compiled for one rank, but " + started +
                      ": compile it with --mesh=" + std::string(dataAxis) +
                      "=" + std::to_string(size()) +
                      ", or start it without mpirun");
  return Status(
      ExitCode::Usage,
      "this executable was compiled for " + std::to_string(expected) +
          " ranks (--mesh=" + description.mesh.text() + "), but " + started +
          ": start it with " + launch + " " + printable(command, 200) + " ..." +
          (size() == 1 ? "" : ", or compile it for " + std::to_string(size())));
}

Result<std::vector<Ranks::Message>>
Ranks::exchange(const char *what, const Status &outcome, const Ballot &mine,
                bool atEnd, Patience patience) {
  Message message = {int64_t(outcome.code()), atEnd, mine.stop, mine.targets,
                     mine.loss};
  std::vector<Message> messages(static_cast<size_t>(size()));
  Status status =
      world_->gather(what, &message, sizeof message, messages.data(), patience);
  if (!status.ok())
    return status;
  return messages;
}

Status Ranks::firstError(const std::vector<Message> &messages,
                         const Status &outcome) {
  auto failed =
      std::find_if(messages.begin(), messages.end(),
                   [](const Message &message) { return message.code != 0; });
  if (failed == messages.end())
    return Status();
  ErrorText text;
  std::strncpy(text.text, outcome.message().c_str(), sizeof text.text - 1);
  std::vector<ErrorText> texts(messages.size());
  Status status = world_->gather("the exchange of errors", &text, sizeof text,
                                 texts.data());
  if (!status.ok())
    return status;
  auto rank = failed - messages.begin();
  std::string message = texts[size_t(rank)].text;
  if (rank > 0)
    message = "rank " + std::to_string(rank) + ": " + message;
  return Status(ExitCode(failed->code), message);
}

Result<Ballot> Ranks::vote(const char *what, const Status &outcome,
                           const Ballot &mine, Patience patience) {
  if (!world_) {
    if (!outcome.ok())
      return outcome;
    return mine;
  }
  Result<std::vector<Message>> messages =
      exchange(what, outcome, mine, /*atEnd=*/false, patience);
  if (!messages.ok())
    return messages.status();
  if (Status status = firstError(*messages, outcome); !status.ok())
    return status;
  auto atEnd =
      std::find_if(messages->begin(), messages->end(),
                   [](const Message &message) { return message.atEnd != 0; });
  if (atEnd != messages->end())
    return Status::error("rank " + std::to_string(atEnd - messages->begin()) +
                         " has ended its run, but other ranks continue with " +
                         what);
  Ballot all;
  for (int rank = 0; rank < size(); ++rank) {
    const Message &message = (*messages)[size_t(rank)];
    all.stop |= message.stop != 0;
    if (firstWithSequencesOf(rank) != rank)
      continue;
    all.targets += message.targets;
    all.loss += message.loss;
  }
  return all;
}

Result<std::vector<std::string>> Ranks::collect(const char *what,
                                                const std::string &text) {
  if (!world_)
    return std::vector<std::string>{text};
  std::vector<int64_t> sizes(std::size_t(world_->size()));
  auto size = int64_t(text.size());
  Status status = world_->gather(what, &size, sizeof size, sizes.data());
  std::vector<std::string> texts(isFirst() ? sizes.size() : 0);
  for (int from = 0; from < world_->size() && status.ok(); ++from) {
    int64_t bytes = sizes[std::size_t(from)];
    char *there = nullptr;
    if (isFirst()) {
      texts[std::size_t(from)].resize(std::size_t(bytes));
      there = texts[std::size_t(from)].data();
    }
    status = world_->fetch(what, from, text.data(), bytes, there);
  }
  if (!status.ok())
    return status;
  return texts;
}

Status Ranks::compare(const std::vector<RankFact> &facts) {
  if (!world_)
    return Status();
  std::vector<uint64_t> mine;
  for (const RankFact &fact : facts)
    mine.push_back(fact.hash);
  std::vector<uint64_t> all(mine.size() * size_t(size()));
  Status status =
      world_->gather("the comparison of ranks", mine.data(),
                     int64_t(mine.size() * sizeof(uint64_t)), all.data());
  if (!status.ok())
    return status;
  for (size_t i = 0; i < facts.size(); ++i)
    for (int rank = 1; rank < size(); ++rank) {
      auto other = mesh_.firstWith(facts[i].axes, rank);
      if (all[size_t(rank) * facts.size() + i] !=
          all[size_t(other) * facts.size() + i])
        return Status(ExitCode::Usage,
                      "the " + std::string(facts[i].name) + " of rank " +
                          std::to_string(rank) + " differ from those of rank " +
                          std::to_string(other) +
                          (facts[i].axes.empty() ? "; all ranks must"
                                                 : "; both ranks must") +
                          " have the same " + facts[i].name);
    }
  return Status();
}

Status Ranks::finish(const Status &outcome) {
  if (!world_)
    return outcome;
  for (;;) {
    // Wait without a limit, because the first rank may write files for a long
    // time.
    Result<std::vector<Message>> messages =
        exchange("the end", outcome, {}, /*atEnd=*/true, Patience::Unlimited);
    if (!messages.ok())
      return messages.status();
    Status error = firstError(*messages, outcome);
    if (std::all_of(messages->begin(), messages->end(),
                    [](const Message &message) { return message.atEnd != 0; }))
      return error;
  }
}

Status Ranks::abort(const Status &status) {
  if (world_)
    world_->fail(status.message());
  return status;
}

} // namespace kiln::runtime
