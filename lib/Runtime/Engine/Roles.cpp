//===- Roles.cpp - Reads the roles of programs and states -----------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Roles.h"

#include "kiln/Support/Messages.h"

#include <algorithm>

using namespace kiln::support;

namespace kiln::runtime {

/// Maximum number of roles (groups of ranks that run the same programs). The
/// limit keeps the pairwise comparison of roles cheap.
static constexpr std::size_t maxRoles = 4096;

std::vector<RoleInfo> readRoles(const Node &node) {
  std::vector<RoleInfo> roles;
  std::size_t count = node.size();
  if (count == 0)
    node.fail("is empty, but a description has at least one role");
  if (count > maxRoles)
    node.fail("has " + std::to_string(count) + " entries, expected at most " +
              std::to_string(maxRoles));
  for (std::size_t i = 0; i < count && !node.failed(); ++i) {
    Node entry = node.element(i), name = entry.at("name");
    RoleInfo role;
    role.name = name.text();
    role.ranks = entry.at("ranks").integer(1);
    for (const RoleInfo &other : roles)
      if (other.name == role.name)
        name.fail("is " + inQuotes(role.name) + ", the name of another role");
    roles.push_back(std::move(role));
  }
  return roles;
}

std::vector<std::size_t> readRoleNames(const Node &node,
                                       const Description &description) {
  std::vector<std::size_t> indexes;
  std::size_t count = node.size();
  if (count == 0)
    node.fail("is empty, expected the name of at least one role");
  for (std::size_t i = 0; i < count && !node.failed(); ++i) {
    Node entry = node.element(i);
    std::string name = entry.text();
    auto found =
        std::find_if(description.roles.begin(), description.roles.end(),
                     [&](const RoleInfo &role) { return role.name == name; });
    if (found == description.roles.end()) {
      entry.fail("is " + inQuotes(name) + ", expected the name of a role");
      break;
    }
    auto index = std::size_t(found - description.roles.begin());
    if (std::find(indexes.begin(), indexes.end(), index) != indexes.end())
      entry.fail("is " + inQuotes(name) + ", which is named twice");
    indexes.push_back(index);
  }
  return indexes;
}

void checkRoles(const Node &roles, const Description &description) {
  std::vector<bool> runs(description.roles.size());
  for (const ProgramInfo &program : description.programs)
    for (std::size_t role : program.roles)
      runs[role] = true;
  auto idle = std::find(runs.begin(), runs.end(), false);
  if (idle == runs.end())
    return;
  auto index = std::size_t(idle - runs.begin());
  roles.element(index).fail("is role " +
                            inQuotes(description.roles[index].name) +
                            ", which runs no program");
}

Status requireOneRole(const Description &description) {
  auto refuse = [](const std::string &problem) {
    return Status::error("the program description " + problem +
                         ", but this version of kiln runs only programs of a "
                         "single rank: compile the model for one rank");
  };
  if (description.roles.size() != 1)
    return refuse("has " + std::to_string(description.roles.size()) + " roles");
  const RoleInfo &role = description.roles.front();
  if (role.ranks != 1)
    return refuse("has " + std::to_string(role.ranks) + " ranks in the role " +
                  inQuotes(role.name));
  for (const StateInfo &state : description.states)
    if (!state.isSharded() && !state.isWhole())
      return refuse("has a state, " + inQuotes(state.name) +
                    ", that is only a shard of its tensor");
  return Status();
}

Status requireKnownAxes(const Description &description) {
  for (const MeshAxis &axis : description.mesh.axes)
    if (axis.size > 1 && axis.name != dataAxis && axis.name != tensorAxis)
      return Status::error(
          "the mesh of the program description has " +
          std::to_string(axis.size) + " ranks on axis " + inQuotes(axis.name) +
          ", but this version of kiln supports only the axes " +
          inQuotes(dataAxis) + " and " + inQuotes(tensorAxis));
  return requireOneRole(description);
}

} // namespace kiln::runtime
