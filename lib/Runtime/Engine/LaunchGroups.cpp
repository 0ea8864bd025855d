//===- LaunchGroups.cpp - Checks of launch groups -------------------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A group has at most as many arguments as fit into an argument table, a few
// hundred. Therefore comparing all pairs of arguments in a group is cheap.
//
//===----------------------------------------------------------------------===//

#include "LaunchGroups.h"

#include "CommandWalk.h"
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
      : segments_(segments), program_(program), commands_(program.commands),
        runs_(runsOf(commands_)) {}
  void run();

private:
  void checkGroup(std::size_t first);
  const char *differsFrom(const Command &first, const Command &member) const;
  static bool disturbs(const Accesses &one, const Accesses &other,
                       int64_t iterations);

  const SegmentReader &segments_;
  const Program &program_;
  std::vector<Command> &commands_;
  std::vector<int64_t> runs_; ///< Indexed by command: number of executions.
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

/// Let range(x) be the smallest byte range that contains the bytes of x in all
/// iterations. Returns true if range(a) and range(b) overlap. The sums do not
/// overflow, because both ranges are within their arenas.
static bool overlap(const Ref &a, int64_t aBytes, const Ref &b, int64_t bBytes,
                    int64_t iterations) {
  auto begin = [&](const Ref &ref) {
    return std::min(ref.offset, ref.at(iterations - 1).offset);
  };
  auto end = [&](const Ref &ref, int64_t bytes) {
    return std::max(ref.offset, ref.at(iterations - 1).offset) + bytes;
  };
  return a.arena == b.arena && aBytes > 0 && bBytes > 0 &&
         begin(a) < end(b, bBytes) && begin(b) < end(a, aBytes);
}

/// Returns true if `one` writes an argument that overlaps an argument of
/// `other`. Attention workspaces are ignored: only cuDNN uses them, and a group
/// never runs with cuDNN.
bool GroupCheck::disturbs(const Accesses &one, const Accesses &other,
                          int64_t iterations) {
  for (const MemoryAccess &a : one)
    for (const MemoryAccess &b : other)
      if (a.writes() && !a.isTemporary() && !b.isTemporary() &&
          overlap(a.ref, a.bytes, b.ref, b.bytes, iterations))
        return true;
  return false;
}

/// Returns the reason why `member` must not be in the group that `first`
/// begins, or null if there is none.
const char *GroupCheck::differsFrom(const Command &first,
                                    const Command &member) const {
  if (member.kernel != first.kernel || !isDeviceLaunch(member))
    return "is not a launch of the same kernel";
  if (member.group > 1)
    return "begins a group itself";
  if (!member.after.empty())
    return "has an 'after', which only the first launch of a group may have";
  const KernelCall &a = *first.call, &b = *member.call;
  if (a.units != b.units || first.grain != member.grain ||
      first.threads != member.threads ||
      first.sharedBytes != member.sharedBytes)
    return "differs in 'units', 'grain', 'threads' or 'shared'";
  auto same = [](const Immediate &x, const Immediate &y) {
    return x.value == y.value && x.stride == y.stride;
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
  int64_t iterations = runs_[first];
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
      if (disturbs(accesses[i], accesses[j], iterations) ||
          disturbs(accesses[j], accesses[i], iterations))
        return refuse("has a data race (both launches access the same bytes, "
                      "and at least one launch writes them) with launch " +
                      inQuotes(commands_[first + j].name));
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
          i, "differs in 'members', or in the number of args or immediates, "
             "from an earlier launch of the same kernel");
}

void checkGroups(const SegmentReader &segments, const ProgramFile &file,
                 Program &program) {
  checkParameters(segments, file, program);
  if (!segments.failed())
    GroupCheck(segments, program).run();
}

} // namespace kiln::runtime
