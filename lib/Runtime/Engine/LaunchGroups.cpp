//===- LaunchGroups.cpp - Checks of launch groups -------------------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The size of an argument table limits the number of arguments of a group of
// launches to a few hundred. Therefore comparing all pairs of arguments in a
// group is cheap.
//
//===----------------------------------------------------------------------===//

#include "LaunchGroups.h"

#include "kiln/Support/Messages.h"

#include <algorithm>
#include <map>

using namespace kiln::support;

namespace kiln::runtime {

namespace {

using Accesses = std::vector<MemoryAccess>;

class GroupCheck {
public:
  GroupCheck(const SegmentReader &segments, Program &program)
      : segments_(segments), program_(program), commands_(program.commands) {}
  void run();

private:
  void checkGroup(std::size_t first);
  const char *differsFrom(const Command &first, const Command &member) const;
  static bool disturbs(const Accesses &one, const Accesses &other,
                       const Microbatches &executions);

  const SegmentReader &segments_;
  const Program &program_;
  std::vector<Command> &commands_;
};

/// The properties of a kernel's parameters, which must be equal in all launches
/// of the kernel.
struct Parameters {
  int64_t tableMembers;
  std::size_t args, immediates;

  bool operator==(const Parameters &other) const {
    return tableMembers == other.tableMembers &&
           (tableMembers == 0 ||
            (args == other.args && immediates == other.immediates));
  }
};

} // namespace

namespace {

/// The bytes [begin, end).
struct Range {
  int64_t begin, end;
};

} // namespace

/// Returns the smallest range that contains the bytes of `ref` in every
/// micro-batch, computed as if every micro-batch used the first instance of its
/// buffer (ring slot 0). The sums do not overflow, because they are offsets in
/// the arena.
static Range rangeOf(const Ref &ref, int64_t bytes,
                     const Microbatches &executions) {
  int64_t last =
      ref.offset + ref.stride * std::max<int64_t>(executions.count - 1, 0);
  return {std::min(ref.offset, last), std::max(ref.offset, last) + bytes};
}

/// Returns true if `a` in any ring slot overlaps `b` in any ring slot. Ring
/// slots are the instances of a buffer, and the range of a reference in a ring
/// slot is rangeOf() plus the offset of the ring slot. May return true without
/// an overlap if consecutive ring slots of `a` are not as far apart as those of
/// `b`.
static bool overlap(const Ref &a, int64_t aBytes, const Ref &b, int64_t bBytes,
                    const Microbatches &executions) {
  if (a.arena != b.arena || aBytes <= 0 || bBytes <= 0)
    return false;
  Range one = rangeOf(a, aBytes, executions),
        other = rangeOf(b, bBytes, executions);
  int64_t most = executions.slots - 1;
  if (a.ring != b.ring || a.ring == 0) {
    one.end += a.ring * most;
    other.end += b.ring * most;
    return one.begin < other.end && other.begin < one.end;
  }
  // Let d be the ring slot of `b` minus the ring slot of `a`. The ranges
  // overlap if one.begin - other.end < d * a.ring < one.end - other.begin.
  int64_t low = one.begin - other.end, high = one.end - other.begin;
  auto floorDiv = [&](int64_t value) {
    return value / a.ring - (value % a.ring < 0 ? 1 : 0);
  };
  int64_t first = std::max(floorDiv(low) + 1, -most),
          last = std::min(-floorDiv(-high) - 1, most);
  return first <= last;
}

/// Returns true if `one` writes an argument that overlaps an argument of
/// `other`. Attention workspaces are ignored: only cuDNN uses them, and a group
/// of launches never runs with cuDNN.
bool GroupCheck::disturbs(const Accesses &one, const Accesses &other,
                          const Microbatches &executions) {
  for (const MemoryAccess &a : one)
    for (const MemoryAccess &b : other)
      if (a.writes() && !a.isTemporary() && !b.isTemporary() &&
          overlap(a.ref, a.bytes, b.ref, b.bytes, executions))
        return true;
  return false;
}

/// Returns the reason why `member` must not be in the group of launches that
/// `first` begins, or null if it may be in the group.
const char *GroupCheck::differsFrom(const Command &first,
                                    const Command &member) const {
  if (member.kernel != first.kernel || !isDeviceLaunch(member))
    return "is not a launch of the same kernel";
  if (member.group > 1)
    return "begins a group itself";
  if (!member.after.empty())
    return "has an 'after', which only the first launch of a group may have";
  if (member.owner != first.owner)
    return "differs in 'owner'";
  if (member.when != first.when)
    return "differs in 'when'";
  const KernelCall &a = *first.call, &b = *member.call;
  if (a.units != b.units || first.grain != member.grain ||
      first.threads != member.threads ||
      first.sharedBytes != member.sharedBytes)
    return "differs in 'units', 'grain', 'threads' or 'shared'";
  auto same = [](const Immediate &x, const Immediate &y) {
    return x.value == y.value && x.afterFirst == y.afterFirst;
  };
  if (a.args.size() != b.args.size() ||
      !std::equal(a.immediates.begin(), a.immediates.end(),
                  b.immediates.begin(), b.immediates.end(), same))
    return "differs in its number of args or in its immediates";
  return nullptr;
}

void GroupCheck::checkGroup(std::size_t first) {
  const Command &head = commands_[first];
  auto count = std::size_t(head.group);
  std::size_t left = program_.segmentOf(first).end - first;
  if (count > left)
    return segments_.command(first).at("group").fail(
        "is " + std::to_string(count) + ", but the segment has only " +
        std::to_string(left) + " commands from this launch on");
  // Compare the launches for all executions of the micro-batches. This is also
  // correct for launches outside of the micro-batches: the addresses of their
  // arguments are the same for all of these executions.
  const Microbatches &executions = program_.microbatches;
  std::vector<Accesses> accesses = {accessesOf(head)};
  for (std::size_t i = 1; i < count; ++i) {
    Command &member = commands_[first + i];
    auto refuse = [&](const std::string &why) {
      segments_.fail(first + i, "is in the group of launch " +
                                    inQuotes(head.name) + " but " + why);
    };
    if (const char *why = differsFrom(head, member))
      return refuse(why);
    accesses.push_back(accessesOf(member));
    for (std::size_t j = 0; j < i; ++j)
      if (disturbs(accesses[i], accesses[j], executions) ||
          disturbs(accesses[j], accesses[i], executions))
        return refuse("has a data race with launch " +
                      inQuotes(commands_[first + j].name) +
                      ": both access the same bytes, and at least one of them "
                      "writes the bytes");
    member.member = int64_t(i);
  }
}

void GroupCheck::run() {
  for (std::size_t i = 0; i < commands_.size() && !segments_.failed(); ++i)
    if (commands_[i].group > 1)
      checkGroup(i);
}

static void checkParameters(const SegmentReader &segments,
                            const ProgramFile &file, const Program &program) {
  std::map<int64_t, Parameters> known;
  auto agrees = [&](const Command &command) {
    if (!isDeviceLaunch(command))
      return true;
    Parameters own = {command.tableMembers, command.call->args.size(),
                      command.call->immediates.size()};
    return known.emplace(command.kernel, own).first->second == own;
  };
  // The kernels of earlier programs have been checked already. Record the
  // parameters of these kernels in `known`.
  for (const Program &earlier : file.programs)
    for (const Command &command : earlier.commands)
      (void)agrees(command);
  for (std::size_t i = 0; i < program.commands.size(); ++i)
    if (!agrees(program.commands[i]))
      return segments.fail(
          i, "must have the same 'members' and the same numbers of args and "
             "immediates as an earlier launch of its kernel");
}

void checkGroups(const SegmentReader &segments, const ProgramFile &file,
                 Program &program) {
  checkParameters(segments, file, program);
  if (!segments.failed())
    GroupCheck(segments, program).run();
}

} // namespace kiln::runtime
