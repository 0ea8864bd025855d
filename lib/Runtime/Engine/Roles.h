//===- Roles.h - Reads the roles of programs and states ---------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A role is a group of ranks that execute the same programs. This file reads
// the roles of a program description, and the references to roles in programs
// and states. The format supports any number of roles and ranks. All ranks of
// an engine execute the same role; engines call requireKnownAxes() to reject
// all other descriptions.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_LIB_RUNTIME_ENGINE_ROLES_H
#define KILN_LIB_RUNTIME_ENGINE_ROLES_H

#include "kiln/Runtime/Engine/Description.h"
#include "kiln/Support/JsonReader.h"
#include "kiln/Support/Status.h"

namespace kiln::runtime {

/// Reads the top-level member "roles".
std::vector<RoleInfo> readRoles(const support::Node &node);

/// Reads the member "roles" of a program or a state. Returns indexes in the
/// roles of `description`, which must have been read before.
std::vector<std::size_t> readRoleNames(const support::Node &node,
                                       const Description &description);

/// Checks that every role (a group of ranks) in `roles` runs at least one
/// program of `description`.
void checkRoles(const support::Node &roles, const Description &description);

/// Fails if a description has more than one role (a group of ranks that run the
/// same programs), if its role has more than one rank, or if a state stores
/// only a part of its tensor although it is not divided over the ranks of the
/// mesh.
Status requireOneRole(const Description &description);

/// Fails if requireOneRole() fails, or if the mesh has several ranks on an axis
/// that no engine knows.
Status requireKnownAxes(const Description &description);

} // namespace kiln::runtime

#endif // KILN_LIB_RUNTIME_ENGINE_ROLES_H
