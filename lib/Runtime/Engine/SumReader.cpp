//===- SumReader.cpp - Reads sums over ranks ------------------------------===//
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

using namespace kiln::support;

namespace kiln::runtime {

SummedElements CommandReader::readSummed(const Node &place, const Node &count,
                                         ElementType type) {
  SummedElements elements;
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
  if (!elements.ref.isFixed())
    place.fail("differs between micro-batches, but a sum over ranks has the "
               "same elements in all of them");
  else if (elements.ref.offset % elementBytes)
    place.fail("is not at a multiple of " + std::to_string(elementBytes) +
               " bytes, the size of an element");
  return elements;
}

/// Reads a sum over the ranks of an axis of the mesh. On an axis of one rank,
/// it has no effect.
void CommandReader::readAllReduce(const Node &node, Command &command) {
  if (hasGpu())
    return node.at("op").fail("is all_reduce, but ranks are supported on "
                              "--target=cpu only");
  Node axis = node.at("axis"), dtype = node.at("dtype");
  const std::vector<MeshAxis> &mesh = file_.description.mesh.axes;
  std::string axisName = axis.text(), typeName = dtype.text();
  auto found =
      std::find_if(mesh.begin(), mesh.end(), [&](const MeshAxis &entry) {
        return entry.name == axisName;
      });
  if (found == mesh.end())
    return axis.fail("is " + inQuotes(axisName) +
                     ", which is no axis of the mesh");
  command.axis = found - mesh.begin();
  std::optional<ElementType> type = elementTypeNamed(typeName);
  if (!type || !isSummable(*type))
    return dtype.fail("is " + inQuotes(typeName) +
                      ", expected f64, f32, bf16 or f16");
  command.type = *type;
  Node data = node.at("data"), counts = node.at("counts");
  if (data.size() == 0)
    return data.fail("is empty, expected the address of at least one tensor");
  if (counts.size() != data.size())
    return counts.fail("has " + std::to_string(counts.size()) +
                       " elements, expected one for each of the " +
                       std::to_string(data.size()) + " elements of 'data'");
  for (std::size_t i = 0; i < data.size() && !node.failed(); ++i) {
    command.sums.push_back(
        readSummed(data.element(i), counts.element(i), *type));
    std::optional<int64_t> size =
        checkedAdd<int64_t>(command.size, command.sums.back().bytes);
    if (!size)
      return counts.fail("require more than 2^63 - 1 bytes in total");
    command.size = *size;
  }
  std::vector<SummedElements> sorted = command.sums;
  auto keyOf = [](const SummedElements &elements) {
    return std::pair(elements.ref.arena, elements.ref.offset);
  };
  std::sort(sorted.begin(), sorted.end(),
            [&](const SummedElements &a, const SummedElements &b) {
              return keyOf(a) < keyOf(b);
            });
  for (std::size_t i = 1; i < sorted.size() && !node.failed(); ++i)
    if (sorted[i].ref.arena == sorted[i - 1].ref.arena &&
        sorted[i].ref.offset - sorted[i - 1].ref.offset < sorted[i - 1].bytes)
      data.fail("has tensors that overlap at byte " +
                std::to_string(sorted[i].ref.offset) +
                ", but an all_reduce sums every byte at most once");
  command.bytes = command.size;
}

} // namespace kiln::runtime
