//===- Fault.cpp - Fault of an emulated kernel ----------------------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Fault.h"
#include "AccessHistory.h"
#include "FiberPool.h"
#include "kiln/Support/Messages.h"

#include <algorithm>

using namespace kiln::runtime::emu;
using namespace kiln::runtime;
using namespace kiln::support;
using namespace kiln;

namespace {

std::string number(int64_t value) { return std::to_string(value); }

/// Returns the name of the launch to which a thread block belongs. If `launch`
/// executes a group of launches as one, this is the name of one of them.
std::string_view launchName(int64_t block, const EmuLaunch &launch) {
  return launch.members.empty()
             ? launch.name
             : launch.members[std::size_t(block / blocksOf(launch))];
}

/// Formats a block, such as "block 3" or "block 3 of 'member'".
std::string blockName(int64_t block, const EmuLaunch &launch) {
  std::string text = "block " + number(block % blocksOf(launch));
  return launch.members.empty()
             ? text
             : text + " of " + inQuotes(launchName(block, launch));
}

/// Returns 0 if the argument contains [begin, begin + bytes). Otherwise returns
/// the number of bytes by which the range begins before or ends after the
/// argument, whichever is larger.
int64_t distance(const EmuArgument &argument, const char *begin,
                 int64_t bytes) {
  int64_t before = argument.begin - begin;
  int64_t behind = begin + bytes - argument.end;
  return std::max({before, behind, int64_t{0}});
}

class Describer {
public:
  Describer(const Fault &fault, const EmuLaunch &launch, const char *sharedBase)
      : fault_(fault), launch_(launch), sharedBase_(sharedBase),
        nearest_(nearestArgument()) {}

  std::string text() const;

private:
  const EmuArgument *nearestArgument() const;
  /// The faulty block belongs to a launch, possibly of a group. Returns the
  /// index in launch_.arguments of the first argument of that launch.
  int64_t firstArgument() const {
    return fault_.block / blocksOf(launch_) * argumentCount();
  }
  int64_t argumentCount() const {
    return int64_t(launch_.arguments.size()) / memberCount(launch_);
  }
  std::string access() const;
  std::string space() const {
    return fault_.access.isShared ? "shared" : "global";
  }
  /// Formats an address, such as "argument 1 ('x') + 64" or "offset 64 of
  /// shared memory".
  std::string place(const char *address) const;
  std::string extent() const;
  std::string raceText() const;
  std::string absentText(const char *all) const;

  const Fault &fault_;
  const EmuLaunch &launch_;
  const char *sharedBase_;
  const EmuArgument *nearest_;
};

} // namespace

/// Returns the argument with the smallest distance to the access. For a write,
/// arguments that the kernel writes are preferred among arguments of equal
/// distance.
const EmuArgument *Describer::nearestArgument() const {
  const EmuArgument *nearest = nullptr;
  auto rank = [&](const EmuArgument &argument) {
    return std::pair(
        distance(argument, fault_.access.address, fault_.access.bytes),
        fault_.access.isWrite && !argument.isWritten);
  };
  const EmuArgument *own = launch_.arguments.data() + firstArgument();
  for (int64_t i = 0; i < argumentCount(); ++i)
    if (!nearest || rank(own[i]) < rank(*nearest))
      nearest = &own[i];
  return nearest;
}

std::string Describer::access() const {
  return std::string(fault_.access.isWrite ? "write" : "read") + " of " +
         number(fault_.access.bytes) + " bytes at " +
         place(fault_.access.address);
}

std::string Describer::place(const char *address) const {
  if (fault_.access.isShared)
    return "offset " + number(address - sharedBase_) + " of shared memory";
  if (!nearest_)
    return "some address";
  int64_t offset = address - nearest_->begin;
  std::string text = "argument " + number(nearest_ - launch_.arguments.data() -
                                          firstArgument());
  if (!nearest_->name.empty())
    text += " (" + inQuotes(nearest_->name) + ")";
  return text + (offset < 0 ? " - " : " + ") + number(std::abs(offset));
}

std::string Describer::extent() const {
  if (fault_.access.isShared)
    return "the block has " + number(launch_.sharedBytes) +
           " bytes of shared memory";
  if (!nearest_)
    return "the launch has no arguments";
  return "the argument has " + number(nearest_->end - nearest_->begin) +
         " bytes";
}

std::string Describer::raceText() const {
  const Accessor &other = fault_.other;
  std::string did = fault_.otherWrote ? "wrote" : "read";
  std::string text = "race in " + space() + " memory: " + access() + ", where ";
  if (other.block() == fault_.block)
    return text + "thread " + number(other.thread()) + " " + did + " " +
           place(fault_.firstByte) + " with no barrier between";
  return text + blockName(other.block(), launch_) + ", thread " +
         number(other.thread()) + " " + did + " " + place(fault_.firstByte) +
         " in the same launch";
}

std::string Describer::absentText(const char *all) const {
  return number(fault_.present) + " of " + number(fault_.expected) + " " + all +
         " wait, thread " + number(fault_.absent) +
         (fault_.absentEnded ? " has ended" : " waits at a barrier");
}

std::string Describer::text() const {
  switch (fault_.kind) {
  case Fault::Kind::None:
    break;
  case Fault::Kind::Misaligned:
    return "misaligned " + access() + ": the address must be a multiple of " +
           number(accessAlignment(fault_.access.bytes));
  case Fault::Kind::OutOfBounds:
    return "out of bounds: " + access() + ", but " + extent();
  case Fault::Kind::ReadOnly:
    return access() + ", which the launch only reads";
  case Fault::Kind::Uninitialised:
    return "uninitialised " + space() + " memory: " + access() +
           ", but nothing wrote the byte at " + place(fault_.firstByte);
  case Fault::Kind::Race:
    return raceText();
  case Fault::Kind::StackOverflow:
    return "stack overflow: the kernel needs more than the " +
           number(FiberPool::usableBytes) + " bytes of stack that a thread has";
  case Fault::Kind::TooManyBarriers:
    return "more than " + number(Accessor::maxEpoch) +
           " barriers, the most that the race check supports";
  case Fault::Kind::PartialBarrier:
    return "barrier reached by part of the block only: " +
           absentText("threads");
  case Fault::Kind::PartialWarp:
    if (fault_.expected < EmuDevice::warpLanes)
      return std::string(fault_.operation) +
             " reached by part of a warp only: the warp has " +
             number(fault_.expected) + " lanes of " +
             number(EmuDevice::warpLanes);
    return std::string(fault_.operation) + " reached by part of a warp only: " +
           absentText("lanes of the warp");
  case Fault::Kind::MixedWarp:
    return std::string("divergent warp: this thread waits at a ") +
           fault_.operation + ", thread " + number(fault_.absent) +
           " at a different operation, a " + fault_.otherOperation;
  case Fault::Kind::InFlight:
    return access() + ", but an asynchronous copy of thread " +
           number(fault_.other.thread()) + " to " + place(fault_.firstByte) +
           " is still in flight";
  }
  return "";
}

Status emu::faultStatus(const Fault &fault, const EmuLaunch &launch,
                        const char *sharedBase) {
  return Status::error("cuda-emu: kernel " +
                       inQuotes(launchName(fault.block, launch)) + ", block " +
                       number(fault.block % blocksOf(launch)) + ", thread " +
                       number(fault.thread) + ": " +
                       Describer(fault, launch, sharedBase).text());
}
