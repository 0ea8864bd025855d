//===- Mesh.cpp - Axes of the ranks of a job --------------------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "kiln/Support/Mesh.h"

#include "kiln/Support/Messages.h"

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

Result<Mesh> parseMesh(std::string_view text) {
  Mesh mesh;
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
    if (name != dataAxis)
      return refuse("has the unknown axis " + inQuotes(name, 40) +
                    ", expected " + std::string(dataAxis) + "=N");
    for (const MeshAxis &axis : mesh.axes)
      if (axis.name == name)
        return refuse("has the axis " + inQuotes(name) + " twice");
    std::string_view digits = equals == std::string_view::npos
                                  ? std::string_view()
                                  : item.substr(equals + 1);
    int64_t size = 0;
    auto [end, error] =
        std::from_chars(digits.data(), digits.data() + digits.size(), size);
    if (error != std::errc() || end != digits.data() + digits.size() ||
        size < 1 || size > maxRanks)
      return refuse("has " + inQuotes(std::string(digits), 40) +
                    " ranks on the axis " + inQuotes(name) +
                    ", expected a number from 1 to " +
                    std::to_string(maxRanks));
    if (size > 1)
      mesh.axes.push_back({std::move(name), size});
  }
  return mesh;
}

} // namespace kiln::support
