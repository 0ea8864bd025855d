//===- CommandReader.cpp - Reads the commands of a program ----------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "CommandReader.h"

#include "AmxGemm.h"
#include "Avx512Gemm.h"
#include "GemmTiles.h"
#include "QueueReader.h"
#include "kiln/Abi/ArenaLayout.h"
#include "kiln/Abi/MemberTable.h"
#include "kiln/Support/CheckedMath.h"
#include "kiln/Support/Messages.h"

#include <algorithm>

using namespace kiln::abi;
using namespace kiln::support;

namespace kiln::runtime {

/// The smallest limits of all supported GPUs: threads per block, bytes of
/// shared memory per block, and blocks per grid.
static constexpr int64_t maxThreads = 1024, maxSharedBytes = 163 * 1024,
                         maxBlocks = INT32_MAX;

/// Reads "threads" and "shared". A launch with "threads" is a launch of a GPU
/// kernel.
void CommandReader::readGrid(const Node &node, Command &command) {
  auto read = [&](const char *key, int64_t minimum, int64_t maximum) {
    std::optional<Node> field = node.find(key);
    if (!field)
      return int64_t(0);
    int64_t value = field->integer(minimum);
    if (!hasGpu())
      field->fail("is given, but the target has no GPU");
    else if (value > maximum)
      field->fail("is " + std::to_string(value) + ", expected at most " +
                  std::to_string(maximum));
    return value;
  };
  command.threads = read("threads", 1, maxThreads);
  command.sharedBytes = read("shared", 0, maxSharedBytes);
  if (isDeviceLaunch(command) && command.scratch.bytesPerThread > 0)
    node.at("scratch").fail("is given, but a GPU kernel has no scratch memory");
  if (!isDeviceLaunch(command) && command.sharedBytes > 0)
    node.at("shared").fail("is given without 'threads'");
  if (hasGpu() && !isDeviceLaunch(command) &&
      command.scratch.bytesPerThread > 0)
    node.at("scratch").fail(
        "is in device memory, which a host kernel cannot use as "
        "scratch memory");
}

/// Reads "members" and "group", which only a launch of a kernel with an
/// argument table has.
void CommandReader::readGroup(const Node &node, Command &command) {
  std::optional<Node> members = node.find("members"),
                      group = node.find("group");
  if (!members) {
    if (group)
      group->fail("is given without 'members'");
    return;
  }
  command.tableMembers = members->integer(1);
  if (!isDeviceLaunch(command))
    return members->fail("is given without 'threads'");
  const KernelCall &call = *command.call;
  int64_t most = maxTableMembers(int64_t(call.args.size()),
                                 int64_t(call.immediates.size()));
  if (command.tableMembers > most)
    members->fail("is " + std::to_string(command.tableMembers) +
                  ", but the argument table of a kernel has room for at most " +
                  std::to_string(most) + " launches with " +
                  std::to_string(call.args.size()) + " args");
  if (!group)
    return;
  command.group = group->integer(2);
  if (command.group > command.tableMembers)
    group->fail("is " + std::to_string(command.group) +
                ", but 'members' limits the number of launches in a group to " +
                std::to_string(command.tableMembers));
}

void CommandReader::readExtents(const Node &node, KernelCall &call) {
  std::optional<Node> given = node.find("extents");
  if (!hasGpu()) {
    if (given)
      given->fail("is given, but the target has no GPU");
    return;
  }
  Node extents = node.at("extents");
  std::size_t args = node.at("args").size();
  if (extents.size() != args)
    return extents.fail("has " + std::to_string(extents.size()) +
                        " elements, expected one for each of " +
                        std::to_string(args) + " args");
  for (std::size_t i = 0; i < args; ++i)
    call.extents.push_back(extents.element(i).integer(0));
}

/// Checks that the kernel can access its arguments. A GPU kernel can access
/// only device memory. A host kernel can read arguments in device memory,
/// because the engine copies them to the host, but cannot write them.
void CommandReader::checkGpuArgs(const Node &args,
                                 const Command &command) const {
  const KernelCall &call = *command.call;
  if (isDeviceLaunch(command)) {
    for (std::size_t i = 0; i < call.args.size(); ++i)
      if (call.args[i].arena == ArenaKind::Host)
        args.element(i).fail("is in the host arena, which a GPU kernel "
                             "cannot access");
    return;
  }
  for (int64_t index : call.writes)
    if (call.args[std::size_t(index)].arena == ArenaKind::Device)
      args.element(std::size_t(index))
          .fail("is in device memory, which a host kernel cannot write");
}

void CommandReader::readCall(const Node &node, Command &command) {
  KernelCall &call = command.call.emplace();
  readExtents(node, call);
  if (node.failed())
    return;
  Node args = node.at("args");
  for (std::size_t i = 0; i < args.size(); ++i)
    call.args.push_back(
        readRef(args.element(i), hasGpu() ? call.extents[i] : 0));
  if (std::optional<Node> writes = node.find("writes")) {
    for (std::size_t i = 0; i < writes->size(); ++i) {
      Node entry = writes->element(i);
      int64_t index = entry.integer(0);
      if (index >= int64_t(call.args.size()))
        entry.fail("is not the index of an argument");
      call.writes.push_back(index);
    }
  } else {
    for (std::size_t i = 0; i < call.args.size(); ++i)
      call.writes.push_back(int64_t(i));
  }
  if (hasGpu() && !node.failed())
    checkGpuArgs(args, command);
  Node immediates = node.at("imm");
  for (std::size_t i = 0; i < immediates.size(); ++i) {
    Node entry = immediates.element(i);
    if (entry.size() != 2) {
      entry.fail("is not a list [value, after_first] of two integers");
      return;
    }
    Immediate immediate = {entry.element(0).integer(),
                           entry.element(1).integer()};
    if (!checkedAdd<int64_t>(immediate.value, immediate.afterFirst))
      entry.fail("is too large: value + after_first exceeds 64 bits");
    call.immediates.push_back(immediate);
  }
}

void CommandReader::readUnits(const Node &node, Command &command) {
  Node units = node.at("units");
  command.call->units = units.integer(0);
  if (!isDeviceLaunch(command) &&
      !checkedAdd<int64_t>(command.call->units, command.grain))
    return units.fail("is too large: the sum of 'units' and the grain of " +
                      std::to_string(command.grain) + " exceeds 64 bits");
  if (isDeviceLaunch(command) && !node.failed() &&
      (command.call->units - 1) / command.grain >= maxBlocks)
    units.fail("requires more than 2^31 - 1 blocks of " +
               std::to_string(command.grain) + " units");
}

void CommandReader::readKernel(const Node &node, Command &command) {
  Node kernel = node.at("kernel");
  command.kernel = kernel.integer(0);
  if (command.kernel >= kernelCount_)
    kernel.fail("is " + std::to_string(command.kernel) +
                ", expected a kernel index below " +
                std::to_string(kernelCount_) + ", the number of kernels");
  std::optional<Node> scratch = node.find("scratch");
  if (!scratch)
    return;
  if (scratch->size() != 2) {
    scratch->fail("is not [offset, bytes per thread]");
    return;
  }
  command.scratch.bytesPerThread = scratch->element(1).integer(0);
  std::optional<int64_t> bytes = checkedMul<int64_t>(
      command.scratch.bytesPerThread, file_.description.build.maxThreads);
  if (!bytes) {
    scratch->fail("requires more than 2^63 - 1 bytes for all threads");
    return;
  }
  command.scratch.bytes = *bytes;
  command.scratch.offset =
      readOffset(scratch->element(0), *bytes, file_, ArenaKind::Device);
  if (command.scratch.offset % abi::slotAlignment ||
      command.scratch.bytesPerThread % abi::slotAlignment)
    scratch->fail(
        "has an offset or a size per thread that is not a multiple of " +
        std::to_string(abi::slotAlignment) + " bytes");
}

GemmOperand CommandReader::readOperand(const Node &node, ElementType type,
                                       int64_t rows, int64_t columns,
                                       const Command &command) {
  GemmOperand operand;
  if (std::optional<Node> trans = node.find("trans"))
    operand.trans = trans->boolean();
  if (operand.trans)
    std::swap(rows, columns);
  Node ld = node.at("ld");
  operand.ld = ld.integer(columns);
  if (operand.ld > INT32_MAX) {
    ld.fail("is more than 2^31 - 1");
    return operand;
  }
  if (std::optional<Node> stride = node.find("batch_stride"))
    operand.batchStride = stride->integer(0);
  // The extent in elements: from the first element of the first matrix of the
  // batch to the last element of the last matrix, inclusive.
  int64_t elementBytes = bytesOf(type);
  std::optional<int64_t> batches =
      checkedMul<int64_t>(operand.batchStride, command.batch - 1);
  std::optional<int64_t> elements =
      batches ? checkedAdd<int64_t>(*batches, (rows - 1) * operand.ld + columns)
              : std::nullopt;
  std::optional<int64_t> bytes =
      elements ? checkedMul<int64_t>(*elements, elementBytes) : std::nullopt;
  if (!bytes) {
    node.fail("has more than 2^63 - 1 bytes");
    return operand;
  }
  operand.bytes = *bytes;
  operand.ref = readRef(node.at("ref"), *bytes);
  if (hasGpu() && operand.ref.arena == ArenaKind::Host)
    node.fail("is in the host arena, which a gemm on a GPU cannot access");
  return operand;
}

/// Reads the type of a and b, and the type of c. c has the type of a and b; if
/// that type is narrower than f32, c may instead be f32.
void CommandReader::readTypes(const Node &node, Command &command) {
  Node dtype = node.at("dtype");
  std::string name = dtype.text();
  std::optional<ElementType> type = elementTypeNamed(name);
  if (type && isGemmType(*type))
    command.type = *type;
  else
    dtype.fail("is " + inQuotes(name) + ", expected bf16, f16, f32 or f64");
  command.resultType = command.type;
  std::optional<Node> result = node.find("result");
  if (!result || node.failed() || result->text() == name)
    return;
  command.resultType = computeType(command.type);
  std::string_view wide = infoOf(command.resultType).name;
  if (command.resultType == command.type || result->text() != wide)
    result->fail("is " + inQuotes(result->text()) + ", expected " + name +
                 (command.resultType == command.type
                      ? std::string()
                      : " or " + std::string(wide)));
}

void CommandReader::readWorkspace(const Node &node, Command &command) {
  Node place = node;
  if (std::optional<Node> workspace = node.find("workspace")) {
    place = *workspace;
    if (place.size() != 2)
      return place.fail("is not [offset, bytes]");
    command.workspace.bytes = place.element(1).integer(0);
    command.workspace.offset = readOffset(
        place.element(0), command.workspace.bytes, file_, ArenaKind::Device);
    if (command.workspace.offset % abi::slotAlignment)
      place.fail("does not begin at a multiple of " +
                 std::to_string(abi::slotAlignment) + " bytes");
  }
  if (node.failed())
    return;
  // The required size of the workspace:
  //  * GPU: 0, because cuBLASLt can compute a bf16 GEMM without a workspace
  //  * emulated GPU: tileScratchBytes()
  //  * CPU: tileScratchBytes() per thread
  int64_t threads = file_.description.build.maxThreads;
  if (file_.description.target.kind == TargetKind::Cuda)
    threads = 0;
  else if (file_.description.target.kind == TargetKind::CudaEmu)
    threads = 1;
  // If the emulated GPU computes the GEMM with a kernel of kiln, it uses
  // scratch memory outside of the arena instead of the workspace.
  if (file_.description.target.kind == TargetKind::CudaEmu &&
      command.gemmKernel != GemmKernel::Blas)
    threads = 0;
  int64_t needed = tileScratchBytes(command) * threads;
  if (command.workspace.bytes < needed)
    place.fail("has " + std::to_string(command.workspace.bytes) +
               " bytes for this gemm, expected at least " +
               std::to_string(needed));
}

/// Reads "library": the epilogue that the vendor library applies to a GEMM.
void CommandReader::readLibrary(const Node &node, Command &command) {
  std::optional<Node> library = node.find("library");
  if (!library)
    return;
  if (!hasGpu())
    return library->fail("is given, but the target has no GPU");
  Node name = library->at("epilogue");
  std::optional<GemmEpilogue> epilogue = gemmEpilogueOf(name.text());
  if (!epilogue) {
    if (!node.failed())
      name.fail("is " + inQuotes(name.text()) +
                ", which is not an epilogue of the vendor library");
    return;
  }
  if (command.batch != 1 || command.beta != GemmBeta::Zero)
    return library->fail("is given, but only a gemm with a batch of 1 and a "
                         "beta of 0 can have an epilogue");
  if (command.type == ElementType::F64)
    return library->fail("is given, but a gemm of f64 operands cannot have an "
                         "epilogue");
  if (usesGelu(*epilogue) && command.resultType != command.type)
    return library->fail("has an epilogue with gelu, but the result type of "
                         "the gemm differs from the type of its operands");
  if (abi::hasAux(*epilogue) && command.n % auxRowMultiple != 0)
    return library->fail(
        "has an aux with rows of " + std::to_string(command.n) +
        " elements, expected a row length that is a multiple of " +
        std::to_string(auxRowMultiple));
  int64_t elementBytes = bytesOf(command.resultType);
  auto read = [&](const char *key, int64_t bytes, EpilogueOperand &to) {
    Node place = library->at(key);
    to.bytes = bytes;
    to.ref = readRef(place, bytes);
    if (to.ref.arena == ArenaKind::Host)
      place.fail("is in the host arena, which a gemm on a GPU cannot access");
    return place;
  };
  if (abi::hasBias(*epilogue))
    read("bias", elementBytes * biasLength(*epilogue, command.m, command.n),
         command.bias);
  if (abi::hasAux(*epilogue)) {
    std::optional<int64_t> bytes =
        checkedMul<int64_t>(command.m * command.n, elementBytes);
    if (!bytes)
      return library->fail("has an aux of more than 2^63 - 1 bytes");
    Node aux = read("aux", *bytes, command.aux);
    if (command.aux.ref.offset % auxAlignment ||
        command.aux.ref.stride % auxAlignment ||
        command.aux.ref.ring % auxAlignment)
      aux.fail("does not begin at a multiple of " +
               std::to_string(auxAlignment) + " bytes");
  }
  command.library = *epilogue;
  if (command.gemmKernel != GemmKernel::Blas)
    library->fail("is given, but only gemm_kernel blas can have an epilogue");
}

void CommandReader::readGemmKernel(const Node &node, Command &command) {
  std::optional<Node> kernel = node.find("gemm_kernel");
  if (!kernel)
    return;
  std::optional<GemmKernel> found = gemmKernelOf(kernel->text());
  if (!found)
    return kernel->fail("is " + inQuotes(kernel->text()) + ", expected " +
                        std::string(gemmKernelChoices));
  if (*found != GemmKernel::Blas &&
      file_.description.target.kind == TargetKind::Cuda)
    return kernel->fail("is " + inQuotes(kernel->text()) +
                        ", which runs only on a CPU");
  if (!canMultiply(*found, command.type))
    return kernel->fail("is " + inQuotes(kernel->text()) +
                        ", which multiplies only " +
                        std::string(operandTypesOf(*found)));
  if (*found == GemmKernel::Avx512 && !hasAvx512Gemm(command.type))
    return kernel->fail("is avx512, but this processor lacks AVX-512" +
                        std::string(command.type == ElementType::BF16
                                        ? " or AVX512-BF16"
                                        : ""));
  if (*found == GemmKernel::Amx && !hasAmxGemm(command.type))
    return kernel->fail("is amx, but this processor lacks AMX-BF16, or the "
                        "system does not permit its use; compile with "
                        "--gemm=avx512, or with --gemm=blas for a processor "
                        "without AVX512-BF16");
  command.gemmKernel = *found;
}

void CommandReader::readGemm(const Node &node, Command &command) {
  readTypes(node, command);
  auto extent = [&](const char *key) {
    Node field = node.at(key);
    int64_t value = field.integer(1);
    if (value > INT32_MAX)
      field.fail("is more than 2^31 - 1");
    return value > INT32_MAX || value < 1 ? 1 : value;
  };
  command.m = extent("m");
  command.n = extent("n");
  command.k = extent("k");
  if (node.find("batch"))
    command.batch = extent("batch");
  Node grid = node.at("grid");
  if (grid.size() != 2) {
    grid.fail("is not [tiles over m, tiles over n]");
    return;
  }
  command.gridM = grid.element(0).integer(1);
  command.gridN = grid.element(1).integer(1);
  if (command.gridM > command.m || command.gridN > command.n) {
    grid.fail("has more tiles over m than the result has rows, or more tiles "
              "over n than the result has columns");
    return;
  }
  readGemmKernel(node, command);
  readWorkspace(node, command);
  command.a =
      readOperand(node.at("a"), command.type, command.m, command.k, command);
  command.b =
      readOperand(node.at("b"), command.type, command.k, command.n, command);
  Node c = node.at("c");
  if (std::optional<Node> trans = c.find("trans"))
    if (trans->boolean())
      trans->fail("is true, but the result of a gemm cannot be transposed");
  command.c = readOperand(c, command.resultType, command.m, command.n, command);
  if (command.batch > 1 && command.c.batchStride == 0)
    c.fail("has batch_stride 0, but the results of a batch must not overlap");
  Node beta = node.at("beta");
  if (beta.json() == "first")
    command.beta = GemmBeta::First;
  else if (beta.json() == 1)
    command.beta = GemmBeta::One;
  else if (beta.json() != 0)
    beta.fail("is not 0, 1 or \"first\"");
  if (command.beta == GemmBeta::First && segment_.microbatches == 0)
    beta.fail("is \"first\" in a segment outside of the micro-batches, "
              "expected 0 or 1");
  readLibrary(node, command);
  if (std::optional<Node> epilogue = node.find("epilogue")) {
    if (hasGpu())
      return epilogue->fail(
          "is given, but a gemm on a GPU has no epilogue kernel; use the key "
          "'library' to give the gemm an epilogue");
    command.epilogue = true;
    readKernel(*epilogue, command);
    readCall(*epilogue, command);
    if (command.batch != 1)
      epilogue->fail("is given, but the gemm has a batch of " +
                     std::to_string(command.batch) + ", expected 1");
  }
}

void CommandReader::readTransfer(const Node &node, Command &command) {
  command.size = node.at("bytes").integer(0);
  if (command.kind == Command::Kind::Fill) {
    command.to = readRef(node.at("ref"), command.size);
    return;
  }
  int64_t read = command.size;
  if (std::optional<Node> axis = node.find("axis")) {
    if (command.kind == Command::Kind::CopyStart)
      return axis->fail(
          "is given, but a copy_start cannot copy the shard of a rank: use the "
          "command 'copy'");
    Node whole = node.at("whole_bytes");
    command.axis = readAxis(*axis);
    command.wholeBytes = read = whole.integer(1);
    if (!node.failed())
      checkShard(node.at("bytes"), command.size, read, command.axis);
  }
  command.from = readRef(node.at("from"), read);
  command.to = readRef(node.at("to"), command.size);
  if (command.kind == Command::Kind::CopyStart &&
      command.from.arena == command.to.arena)
    node.fail("must copy from the device arena to the host arena, or from the "
              "host arena to the device arena");
  if (hasGpu() && command.kind == Command::Kind::Copy &&
      command.from.arena != command.to.arena)
    node.fail("copies between the device arena and the host arena: on a GPU, "
              "use copy_start and copy_wait for such a copy");
}

When CommandReader::readWhen(const Node &node) const {
  if (segment_.microbatches == 0) {
    node.fail("is given, but only a command in a segment of micro-batches may "
              "have 'when'");
    return When::Always;
  }
  std::string when = node.text();
  if (when == "first")
    return When::First;
  if (when != "last")
    node.fail("is " + inQuotes(when) + ", expected first or last");
  return When::Last;
}

/// Returns the collective of this name.
static std::optional<Collective> collectiveNamed(std::string_view name) {
  for (Collective collective :
       {Collective::AllReduce, Collective::ReduceScatter,
        Collective::AllGather})
    if (name == nameOf(collective))
      return collective;
  return std::nullopt;
}

Command CommandReader::read(const Node &node) {
  Command command;
  Node op = node.at("op");
  std::string kind = op.text();
  if (std::optional<Node> name = node.find("name"))
    command.name = name->text();
  else
    command.name = kind;
  if (std::optional<Node> flops = node.find("flops"))
    command.flops = flops->integer(0);
  // "bytes" is the memory traffic of the command. In a fill or a copy, it is
  // also the number of bytes that are filled or copied.
  if (std::optional<Node> bytes = node.find("bytes"))
    command.bytes = bytes->integer(0);
  if (std::optional<Node> when = node.find("when"))
    command.when = readWhen(*when);
  if (std::optional<Node> owner = node.find("owner"))
    command.owner = readOwner(*owner, file_);

  if (kind == "launch") {
    command.kind = Command::Kind::Launch;
    readKernel(node, command);
    readGrid(node, command);
    command.grain = node.at("grain").integer(1);
    readCall(node, command);
    readUnits(node, command);
    readAttention(node, command);
    if (!node.failed())
      readGroup(node, command);
  } else if (kind == "gemm") {
    command.kind = Command::Kind::Gemm;
    readGemm(node, command);
  } else if (kind == "fill") {
    command.kind = Command::Kind::Fill;
    readTransfer(node, command);
  } else if (kind == "copy") {
    command.kind = Command::Kind::Copy;
    readTransfer(node, command);
  } else if (kind == "copy_start") {
    command.kind = Command::Kind::CopyStart;
    readTransfer(node, command);
    command.token = readToken(node.at("token"));
  } else if (std::optional<Collective> collective = collectiveNamed(kind)) {
    command.kind = Command::Kind::Collective;
    command.collective = *collective;
    readCollective(node, command);
    command.token = readToken(node.at("token"));
    if (command.token.ring != 0)
      node.at("token").fail(
          "is [number, 1] (a separate transfer token for each micro-batch in "
          "flight), but a collective may be in flight for only one micro-batch "
          "at a time: expected a number");
  } else if (kind == "copy_wait") {
    command.kind = Command::Kind::CopyWait;
    command.token = readToken(node.at("token"));
  } else {
    op.fail("is " + inQuotes(kind) + ", which is not a command");
  }
  if (command.owner >= 0 && command.kind == Command::Kind::Collective)
    node.at("owner").fail("is given, but a collective is executed by all "
                          "ranks, not by a single owner");
  if (!node.failed())
    readQueueUse(node, file_, command);
  return command;
}

} // namespace kiln::runtime
