//===- TransferOrder.cpp - Race checks of transfers -----------------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "TransferOrder.h"

#include "MemoryBlocks.h"
#include "kiln/Support/Messages.h"

#include <algorithm>
#include <cstdlib>

using namespace kiln::support;

namespace kiln::runtime {

namespace {

/// A range of bytes in an arena.
struct Bytes {
  Place begin;
  int64_t size;

  bool overlaps(const Bytes &other) const {
    return begin.arena == other.begin.arena && size > 0 && other.size > 0 &&
           begin.offset < other.begin.offset + other.size &&
           other.begin.offset < begin.offset + size;
  }
};

/// Memory that a transfer in flight accesses: the source or the destination of
/// a copy, or one tensor of a collective.
struct TransferEnd {
  Bytes bytes;
  bool isWritten;
  int64_t owner; ///< See MemoryAccess.
  /// The slots and states that contain the first byte of `bytes`.
  std::vector<MemoryBlocks::Block> blocks;
};

/// An asynchronous transfer that is in flight.
struct Transfer {
  std::size_t command;
  abi::SegmentRun run;
  int64_t token;
  std::vector<TransferEnd> ends;
};

/// Maximum number of comparisons of accesses with transfers in flight; programs
/// that need more are rejected. Without the limit, the check of a short program
/// file could take very long, because a program file can describe many executed
/// commands: segments (lists of commands) can be repeated per micro-batch.
constexpr int64_t maxComparisons = int64_t(1) << 34;

/// An access of a command.
struct KnownAccess {
  MemoryAccess access;
  /// The slots and states that may contain the first byte of the access. Set
  /// only if the size of the access is unknown or the command starts a
  /// transfer.
  MemoryBlocks::Candidates candidates;
};

class TransferOrder {
public:
  TransferOrder(const SegmentReader &segments, const ProgramFile &file,
                const Program &program)
      : segments_(segments), program_(program), blocks_(file, program),
        accesses_(program.commands.size()),
        started_(std::size_t(program.tokens)),
        isBackwardDone_(std::size_t(program.microbatches.count)) {}
  void check();

private:
  void visit(std::size_t command, const abi::SegmentRun &run);
  void start(std::size_t command, const abi::SegmentRun &run);
  void wait(std::size_t command, const abi::SegmentRun &run);
  void checkAccesses(std::size_t command, const abi::SegmentRun &run);
  const std::vector<KnownAccess> &accessesAt(std::size_t command);
  void checkAccess(std::size_t command, const abi::SegmentRun &run,
                   const KnownAccess &access);
  Bytes bytesOf(std::size_t command, const abi::SegmentRun &run,
                const MemoryAccess &access,
                const std::vector<MemoryBlocks::Block> &around,
                const std::vector<MemoryBlocks::Block> &ofTransfer) const;
  bool staysLive(const Transfer &transfer,
                 const std::vector<MemoryBlocks::Block> &blocks,
                 std::size_t wait, const abi::SegmentRun &run) const;
  void checkLives(const Transfer &transfer, std::size_t wait,
                  const abi::SegmentRun &run) const;
  bool isSameRun(const Transfer &transfer, std::size_t command,
                 const abi::SegmentRun &run) const {
    return &program_.segmentOf(transfer.command) ==
               &program_.segmentOf(command) &&
           transfer.run.microbatch == run.microbatch;
  }
  std::vector<Transfer>::iterator findTransfer(int64_t token) {
    return std::find_if(
        transfers_.begin(), transfers_.end(),
        [=](const Transfer &entry) { return entry.token == token; });
  }
  void fail(std::size_t command, const std::string &problem) const {
    segments_.fail(command, problem);
  }
  /// Formats an execution of a command, such as "launch 'loss' for micro-batch
  /// 1".
  std::string title(std::size_t command, const abi::SegmentRun &run) const {
    const Command &info = program_.commands[command];
    return std::string(commandKindName(info)) + " " + inQuotes(info.name) +
           program_.ofMicrobatch(command, run);
  }
  bool isCollective(const Transfer &transfer) const {
    return program_.commands[transfer.command].kind ==
           Command::Kind::Collective;
  }
  const char *noun(const Transfer &transfer) const {
    return isCollective(transfer) ? "collective" : "copy";
  }
  std::string titleAndPlace(const Transfer &transfer) const {
    return title(transfer.command, transfer.run) + " at commands[" +
           std::to_string(transfer.command) + "]";
  }

  const SegmentReader &segments_;
  const Program &program_;
  MemoryBlocks blocks_;
  /// The accesses of each command, or nullopt if they have not been needed yet.
  /// Indexed by command.
  std::vector<std::optional<std::vector<KnownAccess>>> accesses_;
  /// Indexed by token: true if a transfer has been started with the token.
  std::vector<bool> started_;
  /// Indexed by micro-batch: true if its backward segment has been executed.
  std::vector<bool> isBackwardDone_;
  std::vector<Transfer> transfers_;
  /// Number of comparisons of accesses with transfers so far.
  int64_t comparisons_ = 0;
};

} // namespace

/// Returns the accesses of a command. Computes them in the first call for the
/// command; later calls return the stored result.
const std::vector<KnownAccess> &TransferOrder::accessesAt(std::size_t command) {
  std::optional<std::vector<KnownAccess>> &accesses = accesses_[command];
  if (accesses)
    return *accesses;
  accesses.emplace();
  for (const MemoryAccess &access : accessesOf(program_.commands[command])) {
    KnownAccess known = {access, {}};
    if (access.bytes == unknownBytes ||
        startsTransfer(program_.commands[command]))
      known.candidates = blocks_.candidates(command, access.ref, access.owner);
    accesses->push_back(std::move(known));
  }
  return *accesses;
}

/// Returns the bytes of an access. The caller compares them with the source or
/// the destination of a transfer. `around` lists the slots and states that
/// contain the first byte of the access; it is used only if the size of the
/// access is unknown. `ofTransfer` lists the slots and states that contain the
/// first byte of the source or destination.
Bytes TransferOrder::bytesOf(
    std::size_t command, const abi::SegmentRun &run, const MemoryAccess &access,
    const std::vector<MemoryBlocks::Block> &around,
    const std::vector<MemoryBlocks::Block> &ofTransfer) const {
  Bytes bytes = {access.ref.at(run), access.bytes};
  if (access.bytes != unknownBytes)
    return bytes;
  bytes.size = 1;
  for (const MemoryBlocks::Block &block : around) {
    if (std::find(ofTransfer.begin(), ofTransfer.end(), block) !=
        ofTransfer.end()) {
      bytes.size = 1;
      break;
    }
    bytes.size = std::max(bytes.size, block.end - bytes.begin.offset);
  }
  // If an argument has a stride, assume that each micro-batch accesses at most
  // |stride| bytes of it.
  if (program_.executionsOf(command) > 1 && access.ref.stride != 0)
    bytes.size = std::min(bytes.size, std::abs(access.ref.stride));
  return bytes;
}

void TransferOrder::checkAccess(std::size_t command, const abi::SegmentRun &run,
                                const KnownAccess &known) {
  const MemoryAccess &access = known.access;
  std::vector<MemoryBlocks::Block> around;
  if (access.bytes == unknownBytes)
    around = blocks_.around(known.candidates, access.ref, run);
  for (const Transfer &transfer : transfers_) {
    const char *what = nullptr;
    for (const TransferEnd &end : transfer.ends) {
      // Accesses by different ranks do not conflict.
      if (access.owner >= 0 && end.owner >= 0 && access.owner != end.owner)
        continue;
      if (access.ref.arena != end.bytes.begin.arena ||
          !(end.isWritten || access.writes()) ||
          !bytesOf(command, run, access, around, end.blocks)
               .overlaps(end.bytes))
        continue;
      what = isCollective(transfer) ? "the data"
             : end.isWritten        ? "the destination"
                                    : "the source";
    }
    if (what)
      return fail(command,
                  "(" + title(command, run) + ") " +
                      (access.writes() ? "writes " : "reads ") + what + " of " +
                      titleAndPlace(transfer) + " while that " +
                      noun(transfer) + " is in flight; the copy_wait of that " +
                      noun(transfer) + " must come before this command");
  }
}

void TransferOrder::checkAccesses(std::size_t command,
                                  const abi::SegmentRun &run) {
  if (transfers_.empty())
    return;
  const std::vector<KnownAccess> &accesses = accessesAt(command);
  for (const Transfer &transfer : transfers_)
    comparisons_ += int64_t((accesses.size() + 1) * transfer.ends.size());
  if (comparisons_ > maxComparisons)
    return fail(command, "is executed while " +
                             std::to_string(transfers_.size()) +
                             " transfers are in flight; checking the program "
                             "would take more than " +
                             std::to_string(maxComparisons) +
                             " comparisons of accesses with transfers");
  for (const KnownAccess &access : accesses)
    checkAccess(command, run, access);
}

void TransferOrder::start(std::size_t index, const abi::SegmentRun &run) {
  const Command &command = program_.commands[index];
  int64_t token = command.token.at(run);
  if (auto other = findTransfer(token); other != transfers_.end())
    return fail(index,
                "(" + title(index, run) + ") uses token " +
                    std::to_string(token) + " while " + titleAndPlace(*other) +
                    ", which has the same token, is in flight; the copy_wait "
                    "of that " +
                    noun(*other) + " must come before this command");
  started_[std::size_t(token)] = true;
  Transfer &transfer = transfers_.emplace_back(Transfer{index, run, token, {}});
  for (const KnownAccess &known : accessesAt(index))
    transfer.ends.push_back(
        {{known.access.ref.at(run), known.access.bytes},
         known.access.writes(),
         known.access.owner,
         blocks_.around(known.candidates, known.access.ref, run)});
}

/// Returns true if one of the blocks is live from the start of a transfer to
/// the wait for the transfer. The start and the wait are in different
/// executions of segments (lists of commands).
bool TransferOrder::staysLive(const Transfer &transfer,
                              const std::vector<MemoryBlocks::Block> &blocks,
                              std::size_t wait,
                              const abi::SegmentRun &run) const {
  auto isLive = [&](const MemoryBlocks::Block &block) {
    if (!block.perMicrobatch)
      return block.life.contains(int64_t(wait));
    if (program_.microbatches.contains(int64_t(wait)) &&
        run.microbatch == transfer.run.microbatch)
      return block.life.contains(int64_t(wait));
    // The wait belongs to no micro-batch, or to another micro-batch than the
    // start. The block is live if its lifetime extends into the backward
    // segment of the transfer's micro-batch, and this segment has not been
    // executed yet.
    return block.life.last >= int64_t(program_.microbatches.backward) &&
           !isBackwardDone_[std::size_t(transfer.run.microbatch)];
  };
  return std::any_of(blocks.begin(), blocks.end(), isLive);
}

/// Checks that the memory of a transfer is live from the start to the wait,
/// which are in different executions of segments (lists of commands).
void TransferOrder::checkLives(const Transfer &transfer, std::size_t wait,
                               const abi::SegmentRun &run) const {
  for (const TransferEnd &end : transfer.ends)
    if (!staysLive(transfer, end.blocks, wait, run))
      return fail(wait, "(" + title(wait, run) + ") waits for " +
                            titleAndPlace(transfer) +
                            ", but the bytes that this " + noun(transfer) +
                            (end.isWritten ? " writes" : " reads") +
                            " are in no slot that is live from its start to "
                            "this copy_wait");
}

void TransferOrder::wait(std::size_t index, const abi::SegmentRun &run) {
  int64_t token = program_.commands[index].token.at(run);
  if (token >= program_.tokens || !started_[std::size_t(token)])
    return fail(index, "(" + title(index, run) + ") waits for token " +
                           std::to_string(token) +
                           ", but no earlier transfer has this token");
  auto transfer = findTransfer(token);
  // An earlier wait may have completed the transfer. In that case this wait is
  // only a synchronization between queues.
  if (transfer == transfers_.end())
    return;
  if (program_.commands[index].owner !=
      program_.commands[transfer->command].owner)
    return fail(
        index,
        "(" + title(index, run) + ") waits for " + titleAndPlace(*transfer) +
            ", but the ranks that wait are not the ranks that execute the " +
            noun(*transfer) + ": both commands must have the same 'owner'");
  if (!isSameRun(*transfer, index, run))
    checkLives(*transfer, index, run);
  transfers_.erase(transfer);
}

void TransferOrder::visit(std::size_t index, const abi::SegmentRun &run) {
  const Command &command = program_.commands[index];
  checkAccesses(index, run);
  if (segments_.failed())
    return;
  if (startsTransfer(command))
    start(index, run);
  if (waitsForTransfer(command))
    wait(index, run);
}

void TransferOrder::check() {
  for (const ProgramRun &entry : program_.runs) {
    const ProgramSegment &segment = program_.segments[entry.segment];
    for (std::size_t i = segment.begin; i < segment.end && !segments_.failed();
         ++i)
      if (isExecuted(program_.commands[i], entry.run))
        visit(i, entry.run);
    if (entry.run.segment == abi::Segment::Backward)
      isBackwardDone_[std::size_t(entry.run.microbatch)] = true;
  }
  if (!transfers_.empty() && !segments_.failed()) {
    const Transfer &first = transfers_.front();
    fail(first.command,
         "(" + title(first.command, first.run) + ") has no copy_wait");
  }
}

/// Maximum number of tokens of a program. A token is the number by which a wait
/// identifies its transfer.
static constexpr int64_t maxTokens = int64_t(1) << 24;

/// Returns the number n of tokens of a program. Reports an error unless each of
/// 0, ..., n - 1 is the token of a transfer.
static int64_t countTokens(const SegmentReader &segments,
                           const Program &program) {
  // For each command that starts a transfer: its lowest token and its index.
  std::vector<std::pair<int64_t, std::size_t>> firsts;
  for (std::size_t i = 0; i < program.commands.size(); ++i)
    if (startsTransfer(program.commands[i]))
      firsts.emplace_back(program.commands[i].token.number, i);
  std::sort(firsts.begin(), firsts.end());
  int64_t count = 0;
  for (auto [first, command] : firsts) {
    if (first > count) {
      segments.fail(command,
                    "has token " + std::to_string(first) +
                        ", but no transfer has token " + std::to_string(count) +
                        "; tokens must be numbered from 0 without gaps");
      return 0;
    }
    int64_t ring = program.commands[command].token.ring;
    count =
        std::max(count, first + ring * (program.microbatches.slots - 1) + 1);
    if (count > maxTokens) {
      segments.fail(command, "uses token " + std::to_string(count - 1) +
                                 ", expected a token below " +
                                 std::to_string(maxTokens));
      return 0;
    }
  }
  return count;
}

void checkTransfers(const SegmentReader &segments, const ProgramFile &file,
                    Program &program) {
  program.tokens = countTokens(segments, program);
  if (segments.failed())
    return;
  if (std::any_of(program.commands.begin(), program.commands.end(),
                  [](const Command &command) {
                    return startsTransfer(command) || waitsForTransfer(command);
                  }))
    TransferOrder(segments, file, program).check();
}

} // namespace kiln::runtime
