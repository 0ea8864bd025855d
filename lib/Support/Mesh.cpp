//===- Mesh.cpp - Axes of the ranks of a job --------------------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "kiln/Support/Mesh.h"

#include "kiln/Support/Messages.h"

#include <algorithm>
#include <array>
#include <charconv>

namespace kiln::support {

int64_t Mesh::sizeOf(std::string_view axis) const {
  for (const MeshAxis &each : axes)
    if (each.name == axis)
      return each.size;
  return 1;
}

int64_t Mesh::size() const {
  int64_t ranks = 1;
  for (const MeshAxis &axis : axes)
    ranks *= axis.size;
  return ranks;
}

MeshGroup Mesh::groupOf(std::string_view axis, int64_t rank) const {
  MeshGroup group = {rank, 1, 1};
  for (auto each = axes.rbegin(); each != axes.rend(); ++each) {
    if (each->name == axis) {
      int64_t index = rank / group.stride % each->size;
      return {rank - index * group.stride, group.stride, each->size};
    }
    group.stride *= each->size;
  }
  return {rank, 1, 1};
}

int64_t Mesh::indexOn(std::string_view axis, int64_t rank) const {
  return groupOf(axis, rank).indexOf(rank);
}

int64_t Mesh::firstWith(const std::vector<std::string> &kept,
                        int64_t rank) const {
  int64_t first = 0;
  for (const std::string &axis : kept) {
    MeshGroup group = groupOf(axis, rank);
    first += group.indexOf(rank) * group.stride;
  }
  return first;
}

std::string Mesh::text() const {
  std::string text;
  for (const MeshAxis &axis : axes)
    text +=
        (text.empty() ? "" : ",") + axis.name + "=" + std::to_string(axis.size);
  return text;
}

/// Returns an error if a size is not a number from 1 to maxRanks.
static Result<int64_t> parseSize(std::string_view digits,
                                 const std::string &axis) {
  int64_t size = 0;
  auto [end, error] =
      std::from_chars(digits.data(), digits.data() + digits.size(), size);
  if (error != std::errc() || end != digits.data() + digits.size() ||
      size < 1 || size > maxRanks)
    return Status(ExitCode::Usage, "has " + inQuotes(std::string(digits), 40) +
                                       " ranks on the axis " + inQuotes(axis) +
                                       ", expected a number from 1 to " +
                                       std::to_string(maxRanks));
  return size;
}

Result<Mesh> parseMesh(std::string_view text) {
  constexpr std::array<std::string_view, 2> names = {dataAxis, tensorAxis};
  std::array<int64_t, names.size()> sizes = {}; // 0: not given.
  auto refuse = [](std::string message) {
    return Status(ExitCode::Usage, std::move(message));
  };
  while (!text.empty()) {
    std::size_t comma = text.find(',');
    std::string_view item = text.substr(0, comma);
    text = comma == std::string_view::npos ? std::string_view()
                                           : text.substr(comma + 1);
    std::size_t equals = item.find('=');
    std::string name(item.substr(0, equals));
    auto found = std::find(names.begin(), names.end(), name);
    if (found == names.end())
      return refuse("has the unknown axis " + inQuotes(name, 40) +
                    ", expected " + std::string(dataAxis) + "=N or " +
                    std::string(tensorAxis) + "=N");
    int64_t &place = sizes[std::size_t(found - names.begin())];
    if (place > 0)
      return refuse("has the axis " + inQuotes(name) + " twice");
    Result<int64_t> size =
        parseSize(equals == std::string_view::npos ? std::string_view()
                                                   : item.substr(equals + 1),
                  name);
    if (!size.ok())
      return size.status();
    place = *size;
  }
  Mesh mesh;
  for (std::size_t i = 0; i < names.size(); ++i)
    if (sizes[i] > 1)
      mesh.axes.push_back({std::string(names[i]), sizes[i]});
  // size() does not overflow, because there are at most two axes, each of at
  // most maxRanks ranks.
  if (mesh.size() > maxRanks)
    return refuse("has " + std::to_string(mesh.size()) +
                  " ranks, expected at most " + std::to_string(maxRanks));
  return mesh;
}

} // namespace kiln::support
