//===- CopyOrder.cpp - Race checks of asynchronous copies -----------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "CopyOrder.h"

#include "CommandWalk.h"
#include "kiln/Support/Messages.h"

#include <algorithm>
#include <cstdlib>

using namespace kiln::support;

namespace kiln::runtime {

namespace {

/// An asynchronous copy that is in flight.
struct Transfer {
  std::size_t command;
  int64_t token;
  /// The source and destination. The copy was started in iteration i - lag,
  /// where i is the current iteration.
  Ref from, to;
  int64_t lag = 0;
  /// Indexes in blocks_. `fromBlocks` are the slots and states that contain the
  /// first byte of the source, and `toBlocks` those that contain the first byte
  /// of the destination.
  std::vector<std::size_t> fromBlocks, toBlocks;
};

/// The loop iterations from `first` to `last`, inclusive.
struct Iterations {
  int64_t first = 0, last = 0;
};

class CopyOrder {
public:
  CopyOrder(const SegmentReader &segments, const ProgramFile &file,
            const Program &program);
  void check();

private:
  void walkLoop(const ProgramLoop &loop);
  void visit(std::size_t command);
  void moveTo(std::size_t command);
  void start(std::size_t command);
  void wait(std::size_t command);
  void checkAccesses(std::size_t command) const;
  void checkAccess(std::size_t command, const MemoryAccess &access,
                   const Transfer &transfer) const;
  bool disturbs(const MemoryAccess &access, int64_t runs,
                const Transfer &transfer, const Ref &ref,
                const std::vector<std::size_t> &around) const;
  bool livesAroundLoop(const std::vector<std::size_t> &blocks) const;
  void checkLives(std::size_t wait, const Transfer &transfer) const;
  bool isOfLoop(const Transfer &transfer) const {
    return loop_.begin < transfer.command && transfer.command < loop_.end;
  }
  std::vector<Transfer>::iterator findTransfer(int64_t token) {
    return std::find_if(
        transfers_.begin(), transfers_.end(),
        [=](const Transfer &entry) { return entry.token == token; });
  }
  std::vector<std::size_t> around(const Ref &ref) const;
  void fail(std::size_t command, const std::string &problem) const {
    segments_.fail(command, problem);
  }
  std::string title(std::size_t command) const {
    const Command &info = program_.commands[command];
    return std::string(commandKindName(info.kind)) + " " + inQuotes(info.name);
  }
  std::string place(std::size_t command) const {
    return "commands[" + std::to_string(command) + "]";
  }

  /// The memory and the lifetime of a slot or a state.
  struct Block {
    ArenaKind arena;
    int64_t begin, end;
    /// The slot or state is live from command `first` to command `last`.
    int64_t first, last;
  };

  const SegmentReader &segments_;
  const Program &program_;
  std::vector<Block> blocks_; ///< Sorted by `first`.
  /// Index of the first block with Block::first after the current command.
  std::size_t nextBlock_ = 0;
  /// Indexes of the blocks that are live at the current command.
  std::vector<std::size_t> alive_;
  /// Indexed by token: true if a copy has been started with the token.
  std::vector<bool> started_;
  std::vector<Transfer> transfers_;
  std::vector<int64_t> runs_; ///< Indexed by command: number of executions.
  /// The current loop. Outside of loops, an empty loop.
  ProgramLoop loop_ = {0, 0, 1};
  /// The iterations that the current pass over the loop represents.
  Iterations iterations_;
};

} // namespace

CopyOrder::CopyOrder(const SegmentReader &segments, const ProgramFile &file,
                     const Program &program)
    : segments_(segments), program_(program),
      started_(std::size_t(program.copies)), runs_(runsOf(program.commands)) {
  for (std::size_t i = 0; i < file.statePlaces.size(); ++i) {
    const Place &place = file.statePlaces[i];
    blocks_.push_back({place.arena, place.offset,
                       place.offset + file.description.states[i].bytes(),
                       INT64_MIN, INT64_MAX});
  }
  for (const Slot &slot : program.slots)
    blocks_.push_back({slot.arena, slot.offset, slot.offset + slot.bytes,
                       slot.first, slot.last});
  std::sort(blocks_.begin(), blocks_.end(),
            [](const Block &a, const Block &b) { return a.first < b.first; });
}

/// Advances alive_ to the blocks that are live at `command`.
void CopyOrder::moveTo(std::size_t command) {
  auto index = int64_t(command);
  for (; nextBlock_ < blocks_.size() && blocks_[nextBlock_].first <= index;
       ++nextBlock_)
    alive_.push_back(nextBlock_);
  alive_.erase(
      std::remove_if(alive_.begin(), alive_.end(),
                     [&](std::size_t i) { return blocks_[i].last < index; }),
      alive_.end());
}

/// Returns the indexes of the live blocks that contain the first byte of `ref`.
std::vector<std::size_t> CopyOrder::around(const Ref &ref) const {
  std::vector<std::size_t> found;
  for (std::size_t i : alive_)
    if (blocks_[i].arena == ref.arena && blocks_[i].begin <= ref.offset &&
        ref.offset < blocks_[i].end)
      found.push_back(i);
  return found;
}

/// Let x(i) = x.offset + x.stride * i. Returns true if
/// [a(i), a(i) + aBytes) overlaps [b(i - lag), b(i - lag) + bBytes)
/// for any i in `iterations`.
static bool overlap(const Ref &a, int64_t aBytes, const Ref &b, int64_t bBytes,
                    int64_t lag, const Iterations &iterations) {
  using Wide = __int128; // Sums of offsets and sizes can exceed 64 bits.
  if (a.arena != b.arena || aBytes <= 0 || bBytes <= 0)
    return false;
  // The ranges overlap if low < b - a < high. b - a grows by `step` per
  // iteration.
  Wide step = Wide(b.stride) - a.stride;
  Wide distance = Wide(b.offset) - Wide(b.stride) * lag - a.offset +
                  step * iterations.first;
  Wide low = -Wide(bBytes), high = aBytes;
  if (step < 0) {
    distance = -distance;
    step = -step;
    low = -Wide(aBytes);
    high = bBytes;
  }
  if (distance <= low) {
    if (step == 0)
      return false;
    Wide iteration = (low - distance) / step + 1;
    if (iteration > iterations.last - iterations.first)
      return false;
    distance += iteration * step;
  }
  return distance < high;
}

/// Returns true if `access` overlaps `ref` in any iteration of `iterations_`.
/// `ref` is the source or the destination of `transfer`, and `around` are the
/// blocks that contain the first byte of `ref`. `runs` is the number of
/// executions of the command that makes the access.
bool CopyOrder::disturbs(const MemoryAccess &access, int64_t runs,
                         const Transfer &transfer, const Ref &ref,
                         const std::vector<std::size_t> &around) const {
  if (access.ref.arena != ref.arena)
    return false;
  int64_t bytes = access.bytes;
  if (bytes == unknownBytes) {
    bytes = 1;
    for (std::size_t i : this->around(access.ref)) {
      if (std::find(around.begin(), around.end(), i) != around.end()) {
        bytes = 1;
        break;
      }
      bytes = std::max(bytes, blocks_[i].end - access.ref.offset);
    }
    // If an argument has a stride, assume that each iteration accesses at most
    // |stride| bytes of it.
    if (runs > 1 && access.ref.stride != 0)
      bytes = std::min(bytes, std::abs(access.ref.stride));
  }
  return overlap(access.ref, bytes, ref,
                 program_.commands[transfer.command].size, transfer.lag,
                 iterations_);
}

void CopyOrder::checkAccess(std::size_t command, const MemoryAccess &access,
                            const Transfer &transfer) const {
  const char *does = access.writes() ? "writes" : "reads";
  const char *what = nullptr;
  int64_t runs = runs_[command];
  if (disturbs(access, runs, transfer, transfer.to, transfer.toBlocks))
    what = "the destination";
  else if (access.writes() &&
           disturbs(access, runs, transfer, transfer.from, transfer.fromBlocks))
    what = "the source";
  if (what)
    fail(command, "(" + title(command) + ") " + does + " " + what + " of " +
                      title(transfer.command) + " at " +
                      place(transfer.command) +
                      " while that copy is in flight; the copy_wait of that "
                      "copy must come before this command");
}

void CopyOrder::checkAccesses(std::size_t command) const {
  if (transfers_.empty())
    return;
  for (const MemoryAccess &access : accessesOf(program_.commands[command]))
    for (const Transfer &transfer : transfers_)
      checkAccess(command, access, transfer);
}

void CopyOrder::start(std::size_t index) {
  const Command &command = program_.commands[index];
  if (command.token >= program_.copies)
    return fail(index, "has token " + std::to_string(command.token) +
                           ", expected a token below " +
                           std::to_string(program_.copies) +
                           ", the number of copies that the program starts");
  if (auto other = findTransfer(command.token); other != transfers_.end())
    return fail(index,
                "uses token " + std::to_string(command.token) + " while " +
                    title(other->command) + " at " + place(other->command) +
                    ", which has the same token, is in flight; the copy_wait "
                    "of that copy must come before this command");
  started_[std::size_t(command.token)] = true;
  Transfer transfer = {
      index, command.token,        command.from,      command.to,
      0,     around(command.from), around(command.to)};
  // Outside of loops, a stride is ignored.
  if (!isOfLoop(transfer))
    transfer.from.stride = transfer.to.stride = 0;
  transfers_.push_back(std::move(transfer));
}

bool CopyOrder::livesAroundLoop(const std::vector<std::size_t> &blocks) const {
  return std::any_of(blocks.begin(), blocks.end(), [&](std::size_t i) {
    return blocks_[i].first <= int64_t(loop_.begin) &&
           int64_t(loop_.end) <= blocks_[i].last;
  });
}

/// Checks a copy that was started in the previous iteration: its source and its
/// destination must each be in a slot or state that is live during the whole
/// loop.
void CopyOrder::checkLives(std::size_t wait, const Transfer &transfer) const {
  const char *what = nullptr;
  if (!livesAroundLoop(transfer.fromBlocks))
    what = "reads";
  else if (!livesAroundLoop(transfer.toBlocks))
    what = "writes";
  if (what)
    fail(wait, "waits for " + title(transfer.command) + " at " +
                   place(transfer.command) +
                   " of the previous iteration; a slot that is live during the "
                   "whole loop, from " +
                   place(loop_.begin) + " to " + place(loop_.end) +
                   ", must contain the bytes that this copy " + what);
}

void CopyOrder::wait(std::size_t index) {
  int64_t token = program_.commands[index].token;
  if (token >= program_.copies || !started_[std::size_t(token)])
    return fail(index, "waits for token " + std::to_string(token) +
                           ", but no earlier copy_start has this token");
  auto transfer = findTransfer(token);
  // An earlier wait may have completed the copy. In that case this wait is only
  // a synchronization between queues.
  if (transfer == transfers_.end())
    return;
  if (isOfLoop(*transfer) && transfer->command > index)
    checkLives(index, *transfer);
  transfers_.erase(transfer);
}

void CopyOrder::visit(std::size_t index) {
  const Command &command = program_.commands[index];
  moveTo(index);
  checkAccesses(index);
  if (startsCopy(command))
    start(index);
  if (waitsForCopy(command))
    wait(index);
}

void CopyOrder::walkLoop(const ProgramLoop &loop) {
  loop_ = loop;
  moveTo(loop.begin);
  const std::vector<std::size_t> aliveBefore = alive_;
  const std::size_t nextBefore = nextBlock_;
  int64_t walks = std::min<int64_t>(loop.count, 2);
  for (int64_t walk = 0; walk < walks; ++walk) {
    alive_ = aliveBefore;
    nextBlock_ = nextBefore;
    iterations_ = walk == 0 ? Iterations{0, 0} : Iterations{1, loop.count - 1};
    for (std::size_t i = loop.begin + 1; i < loop.end; ++i)
      if (!segments_.failed())
        visit(i);
    // In the next pass, the unfinished copies of this pass belong to the
    // previous iteration. After the last pass, they belong to the last
    // iteration.
    for (Transfer &transfer : transfers_) {
      if (!isOfLoop(transfer))
        continue;
      transfer.lag = walk + 1 < walks ? 1 : 0;
      if (transfer.lag == 0)
        for (Ref *ref : {&transfer.from, &transfer.to})
          *ref = {ref->at(loop.count - 1).offset, 0, ref->arena};
    }
  }
  loop_ = {0, 0, 1};
  iterations_ = {};
}

void CopyOrder::check() {
  std::vector<ProgramLoop> loops = loopsOf(program_.commands);
  auto loop = loops.begin();
  for (std::size_t i = 0; i < program_.commands.size() && !segments_.failed();
       ++i) {
    if (!beginsLoop(program_.commands[i])) {
      visit(i);
      continue;
    }
    walkLoop(*loop);
    i = loop++->end;
  }
  if (!transfers_.empty())
    fail(transfers_.front().command,
         "(" + title(transfers_.front().command) + ") has no copy_wait");
}

void checkCopies(const SegmentReader &segments, const ProgramFile &file,
                 Program &program) {
  program.copies = std::count_if(program.commands.begin(),
                                 program.commands.end(), startsCopy);
  CopyOrder(segments, file, program).check();
}

} // namespace kiln::runtime
