//===- ShortForm.cpp - Short form of descriptions -------------------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ShortForm.h"

namespace kiln::runtime::toy {

using Json = nlohmann::json;

Json inFull(Json description) {
  const Json role = "main", roles = Json::array({role});
  auto add = [](Json &object, const char *key, const Json &value) {
    if (!object.contains(key))
      object[key] = value;
  };
  add(description, "roles", Json::array({{{"name", role}, {"ranks", 1}}}));
  for (Json &state : description["states"]) {
    add(state, "global_shape", state["shape"]);
    add(state, "shard", Json(state["shape"].size(), 0));
    add(state, "roles", roles);
  }
  for (auto &[name, program] : description["programs"].items()) {
    add(program, "roles", roles);
    if (!program.contains("commands"))
      continue;
    program["segments"] =
        Json::array({{{"name", "step"}, {"commands", program["commands"]}}});
    program["order"] = {"step"};
    program.erase("commands");
  }
  return description;
}

Json &commandsOf(Json &program) { return program["segments"][0]["commands"]; }

const Json &commandsOf(const Json &program) {
  return program["segments"][0]["commands"];
}

} // namespace kiln::runtime::toy
