//===- CollectiveReader.cpp - Reads collectives of ranks ------------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "../Comm/SumElements.h"
#include "CommandReader.h"
#include "kiln/Support/CheckedMath.h"
#include "kiln/Support/Messages.h"

#include <algorithm>
#include <set>

using namespace kiln::support;

namespace kiln::runtime {

CollectiveElements CommandReader::readElements(const Node &place,
                                               const Node &count,
                                               ElementType type) {
  CollectiveElements elements;
  int64_t elementBytes = bytesOf(type);
  elements.count = count.integer(1);
  std::optional<int64_t> bytes =
      checkedMul<int64_t>(elements.count, elementBytes);
  if (!bytes) {
    count.fail("requires more than 2^63 - 1 bytes");
    return elements;
  }
  elements.bytes = *bytes;
  elements.ref = readRef(place, elements.bytes);
  for (int64_t distance :
       {elements.ref.offset, elements.ref.stride, elements.ref.ring})
    if (distance % elementBytes)
      place.fail("has an offset, stride or ring that is not a multiple of " +
                 std::to_string(elementBytes) +
                 " bytes, the size of an element");
  return elements;
}

int64_t CommandReader::readAxis(const Node &axis) {
  const std::vector<MeshAxis> &mesh = file_.description.mesh.axes;
  std::string name = axis.text();
  auto found =
      std::find_if(mesh.begin(), mesh.end(),
                   [&](const MeshAxis &entry) { return entry.name == name; });
  if (found == mesh.end()) {
    axis.fail("is " + inQuotes(name) +
              ", expected the name of an axis of the mesh");
    return -1;
  }
  return found - mesh.begin();
}

/// Checks `count`, the size of one rank's shard of a tensor that is divided
/// over the ranks on `axis`. It must be at least whole / ranks, rounded up, and
/// at most `whole`, the size of the tensor. Both sizes are in elements, or both
/// are in bytes.
void CommandReader::checkShard(const Node &shard, int64_t count, int64_t whole,
                               int64_t axis) const {
  int64_t ranks = file_.description.mesh.axes[std::size_t(axis)].size;
  int64_t least = whole / ranks + (whole % ranks != 0);
  if (count < least || count > whole)
    shard.fail("is " + std::to_string(count) + ", expected " +
               std::to_string(least) + " to " + std::to_string(whole) +
               ", because " + std::to_string(ranks) +
               " ranks divide a tensor of size " + std::to_string(whole));
}

int64_t readOwner(const Node &owner, const ProgramFile &file) {
  int64_t ranks = file.description.mesh.sizeOf(dataAxis);
  int64_t index = owner.integer(0);
  if (!owner.failed() && index >= ranks)
    owner.fail("is " + std::to_string(index) +
               ", expected the index of one of the " + std::to_string(ranks) +
               " ranks of data parallelism");
  return index;
}

/// Checks that NCCL can access the elements.
void CommandReader::checkPlace(const Node &place,
                               const CollectiveElements &elements) const {
  if (hasGpu() && elements.ref.arena == ArenaKind::Host)
    place.fail("is in the host arena, but collectives of ranks with GPUs "
               "access only the device arena");
}

/// Reads the tensors of a collective.
void CommandReader::readTensors(const Node &node, Command &command) {
  Node data = node.at("data"), counts = node.at("counts");
  bool hasShards = command.collective != Collective::AllReduce;
  std::optional<Node> shards, shardCounts, owners = node.find("owners");
  if (hasShards) {
    shards = node.at("shards");
    shardCounts = node.at("shard_counts");
  }
  if (data.size() == 0)
    return data.fail("is empty, expected the address of at least one tensor");
  if (owners && (!hasShards || node.at("axis").text() != dataAxis))
    return owners->fail("is given, but a single rank can own a tensor only in "
                        "a reduce_scatter or an all_gather on the axis 'dp'");
  for (const std::optional<Node> &list :
       {std::optional(counts), shards, shardCounts, owners})
    if (list && list->size() != data.size())
      return list->fail("has " + std::to_string(list->size()) +
                        " elements, expected one for each of the " +
                        std::to_string(data.size()) + " elements of 'data'");
  for (std::size_t i = 0; i < data.size() && !node.failed(); ++i) {
    CollectiveTensor &tensor = command.tensors.emplace_back();
    tensor.whole =
        readElements(data.element(i), counts.element(i), command.type);
    checkPlace(data.element(i), tensor.whole);
    std::optional<int64_t> size =
        checkedAdd<int64_t>(command.size, tensor.whole.bytes);
    if (!size)
      return counts.fail("require more than 2^63 - 1 bytes in total");
    command.size = *size;
    if (!hasShards || node.failed())
      continue;
    Node count = shardCounts->element(i);
    tensor.shard = readElements(shards->element(i), count, command.type);
    checkPlace(shards->element(i), tensor.shard);
    if (owners)
      tensor.owner = readOwner(owners->element(i), file_);
    if (node.failed())
      continue;
    if (!owners)
      checkShard(count, tensor.shard.count, tensor.whole.count, command.axis);
    else if (tensor.shard.count != tensor.whole.count)
      count.fail("is " + std::to_string(tensor.shard.count) + ", expected " +
                 std::to_string(tensor.whole.count) +
                 ", all elements of the tensor, because one rank owns it");
  }
}

/// Checks that no two tensors or shards of a collective overlap on the
/// data-parallel rank `owner`. This rank stores the shards that it owns and the
/// shards without an owner.
static void checkDisjoint(const Node &data, const Command &command,
                          int64_t owner) {
  std::vector<CollectiveElements> sorted;
  for (const CollectiveTensor &tensor : command.tensors) {
    sorted.push_back(tensor.whole);
    if (command.collective != Collective::AllReduce &&
        (tensor.owner < 0 || tensor.owner == owner))
      sorted.push_back(tensor.shard);
  }
  auto keyOf = [](const CollectiveElements &elements) {
    return std::pair(elements.ref.arena, elements.ref.offset);
  };
  std::sort(sorted.begin(), sorted.end(),
            [&](const CollectiveElements &a, const CollectiveElements &b) {
              return keyOf(a) < keyOf(b);
            });
  for (std::size_t i = 1; i < sorted.size(); ++i)
    if (sorted[i].ref.arena == sorted[i - 1].ref.arena &&
        sorted[i].ref.offset - sorted[i - 1].ref.offset < sorted[i - 1].bytes)
      return data.fail("has tensors that overlap at byte " +
                       std::to_string(sorted[i].ref.offset) +
                       ", but a collective accesses every byte at most once");
}

/// Reads a collective among the ranks of a mesh axis. If the axis has one rank,
/// the collective only copies.
void CommandReader::readCollective(const Node &node, Command &command) {
  Node dtype = node.at("dtype");
  command.axis = readAxis(node.at("axis"));
  if (node.failed())
    return;
  std::string typeName = dtype.text();
  std::optional<ElementType> type = elementTypeNamed(typeName);
  bool sums = command.collective != Collective::AllGather;
  if (!type || bitsOf(*type) % 8 != 0 || (sums && !isSummable(*type)))
    return dtype.fail("is " + inQuotes(typeName) +
                      (sums ? ", expected f64, f32, bf16, f16 or i8"
                            : ", expected an element type of whole bytes"));
  command.type = *type;
  readTensors(node, command);
  std::set<int64_t> owners;
  for (const CollectiveTensor &tensor : command.tensors)
    owners.insert(tensor.owner);
  for (int64_t owner : owners)
    if (!node.failed())
      checkDisjoint(node.at("data"), command, owner);
  command.bytes = command.size;
}

} // namespace kiln::runtime
