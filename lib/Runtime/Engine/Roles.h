//===- Roles.h - Reads who runs programs and holds states -------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The roles of a program description, and how programs and states name them.
// The format has any number of roles and ranks; an engine that runs one rank
// refuses the others here.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_LIB_RUNTIME_ENGINE_ROLES_H
#define KILN_LIB_RUNTIME_ENGINE_ROLES_H

#include "kiln/Runtime/Engine/Description.h"
#include "kiln/Support/JsonReader.h"
#include "kiln/Support/Status.h"

namespace kiln::runtime {

/// Reads "roles" of the top level.
std::vector<RoleInfo> readRoles(const support::Node &node);

/// Reads "roles" of a program or a state: indexes in `description`, whose roles
/// have been read.
std::vector<std::size_t> readRoleNames(const support::Node &node,
                                       const Description &description);

/// Checks that every role of `roles` runs a program of `description`.
void checkRoles(const support::Node &roles, const Description &description);

/// Refuses a description that needs more than one rank.
Status requireOneRank(const Description &description);

} // namespace kiln::runtime

#endif // KILN_LIB_RUNTIME_ENGINE_ROLES_H
