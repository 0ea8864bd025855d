//===- Command.cpp - Accesses of the commands of each kind ----------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "kiln/Runtime/Engine/Command.h"

#include <algorithm>

namespace kiln::runtime {

const char *commandKindName(const Command &command) {
  switch (command.kind) {
  case Command::Kind::Launch:
    return "launch";
  case Command::Kind::Gemm:
    return "gemm";
  case Command::Kind::Fill:
    return "fill";
  case Command::Kind::Copy:
    return "copy";
  case Command::Kind::CopyStart:
    return "copy_start";
  case Command::Kind::Collective:
    return nameOf(command.collective);
  case Command::Kind::CopyWait:
    return "copy_wait";
  }
  return "unknown";
}

bool KernelCall::isWritten(std::size_t argument) const {
  return std::find(writes.begin(), writes.end(), int64_t(argument)) !=
         writes.end();
}

/// Appends the accesses of a kernel's arguments to `list`. A written argument
/// counts as read and written, because the description does not distinguish
/// results from operands that are updated in place.
static void addCall(const KernelCall &call, std::vector<MemoryAccess> &list) {
  for (std::size_t i = 0; i < call.args.size(); ++i)
    list.push_back(
        {call.args[i], call.extents.empty() ? unknownBytes : call.extents[i],
         call.isWritten(i) ? AccessMode::ReadWrite : AccessMode::Read,
         AccessUse::Argument});
}

static void addGemm(const Command &command, std::vector<MemoryAccess> &list) {
  auto add = [&](const Ref &ref, int64_t bytes, AccessMode mode,
                 AccessUse use) {
    list.push_back({ref, bytes, mode, use});
  };
  auto writeIf = [](bool writes) {
    return writes ? AccessMode::Write : AccessMode::Read;
  };
  add(command.a.ref, command.a.bytes, AccessMode::Read, AccessUse::Matrix);
  add(command.b.ref, command.b.bytes, AccessMode::Read, AccessUse::Matrix);
  add(command.c.ref, command.c.bytes,
      command.beta == GemmBeta::Zero ? AccessMode::Write
                                     : AccessMode::ReadWrite,
      AccessUse::Matrix);
  if (hasBias(command.library))
    add(command.bias.ref, command.bias.bytes,
        writeIf(writesBias(command.library)), AccessUse::Beside);
  if (hasAux(command.library))
    add(command.aux.ref, command.aux.bytes, writeIf(writesAux(command.library)),
        AccessUse::Beside);
}

/// Appends the accesses of a collective. An all-gather writes the whole tensors
/// without reading them. All other collectives read and write them.
static void addCollective(const Command &command,
                          std::vector<MemoryAccess> &list) {
  bool gathers = command.collective == Collective::AllGather;
  for (const CollectiveTensor &tensor : command.tensors) {
    list.push_back({tensor.whole.ref, tensor.whole.bytes,
                    gathers ? AccessMode::Write : AccessMode::ReadWrite,
                    AccessUse::Transfer});
    if (command.collective != Collective::AllReduce && tensor.hasShard)
      list.push_back({tensor.shard.ref, tensor.shard.bytes,
                      gathers ? AccessMode::Read : AccessMode::Write,
                      AccessUse::Transfer, tensor.owner});
  }
}

std::vector<MemoryAccess> accessesOf(const Command &command) {
  std::vector<MemoryAccess> list;
  if (command.call)
    addCall(*command.call, list);
  if (command.scratch.bytes > 0)
    list.push_back({{command.scratch.offset},
                    command.scratch.bytes,
                    AccessMode::Write,
                    AccessUse::Scratch});
  switch (command.kind) {
  case Command::Kind::Gemm:
    addGemm(command, list);
    break;
  case Command::Kind::Copy:
  case Command::Kind::CopyStart:
    list.push_back({command.from,
                    command.wholeBytes > 0 ? command.wholeBytes : command.size,
                    AccessMode::Read, AccessUse::Transfer});
    list.push_back(
        {command.to, command.size, AccessMode::Write, AccessUse::Transfer});
    break;
  case Command::Kind::Collective:
    addCollective(command, list);
    break;
  case Command::Kind::Fill:
    list.push_back(
        {command.to, command.size, AccessMode::Write, AccessUse::Transfer});
    break;
  case Command::Kind::Launch:
  case Command::Kind::CopyWait:
    break;
  }
  if (command.workspace.bytes > 0)
    list.push_back({{command.workspace.offset},
                    command.workspace.bytes,
                    AccessMode::Write,
                    AccessUse::Workspace});
  for (MemoryAccess &access : list)
    if (command.owner >= 0)
      access.owner = command.owner;
  return list;
}

std::vector<MemoryAccess> resultsOf(const Command &command) {
  std::vector<MemoryAccess> list = accessesOf(command);
  list.erase(std::remove_if(list.begin(), list.end(),
                            [](const MemoryAccess &access) {
                              return !access.writes() || access.isTemporary();
                            }),
             list.end());
  return list;
}

bool startsTransfer(const Command &command) {
  return command.kind == Command::Kind::CopyStart ||
         command.kind == Command::Kind::Collective;
}

bool waitsForTransfer(const Command &command) {
  return command.kind == Command::Kind::CopyWait;
}

} // namespace kiln::runtime
