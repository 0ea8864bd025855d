//===- ToyOffload.cpp - The toy model with a host arena -------------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ToyOffload.h"

#include "PlaceQueues.h"

#include <cstdlib>
#include <map>

namespace kiln::runtime::toy {

using Json = nlohmann::json;

constexpr int64_t tableBytes = offloadedTableBytes;
// Offsets of the states. In the device arena, U.device has the offset that U
// has in the toy without offloading.
constexpr int64_t deviceU = tableBytes;
constexpr int64_t hostU = 0, hostMomentE = tableBytes,
                  hostMomentU = 2 * tableBytes;
constexpr int64_t hostStateBytes = 3 * tableBytes;
// Offsets and sizes of the buffers on the host.
constexpr int64_t partHiddenBytes = offloadedHiddenBytes / microbatches;
constexpr int64_t hostHidden = hostStateBytes;

Json &findSlot(Json &program, const std::string &name) {
  for (Json &slot : program["slots"])
    if (slot["name"] == name)
      return slot;
  std::abort();
}

size_t findCommand(const Json &program, const std::string &op,
                   const std::string &name) {
  Json copy = program;
  std::vector<Json *> commands = allCommands(copy);
  for (size_t i = 0; i < commands.size(); ++i)
    if ((*commands[i])["op"] == op && commands[i]->value("name", "") == name)
      return i;
  std::abort();
}

static Json device(int64_t offset) { return Json::array({offset, 0}); }
static Json host(int64_t offset) { return Json::array({offset, 0, "host"}); }

static Json start(const char *name, Json from, Json to, int64_t bytes,
                  Json token) {
  return {{"op", "copy_start"}, {"name", name},   {"from", from},
          {"to", to},           {"bytes", bytes}, {"token", token}};
}

static Json wait(const char *name, Json token) {
  return {{"op", "copy_wait"}, {"name", name}, {"token", token}};
}

/// Adds offloading to the training program. `hiddenBack` and `momentE` are the
/// offsets of two more slots in the device arena, and `hostGradient` is the
/// offset of the gradient of U in the host arena.
static void offloadTrain(Json &train, int64_t hiddenBack, int64_t momentE,
                         int64_t hostGradient) {
  int64_t slots = train["order"][1]["slots"];
  Json hidden = device(findSlot(train, "hidden")["offset"]);
  Json hiddenOnHost = host(hostHidden), tokenOfHidden = 0;
  if (slots > 1) {
    hidden.push_back(findSlot(train, "hidden")["ring"]);
    hiddenOnHost.insert(hiddenOnHost.begin() + 2, partHiddenBytes);
    tokenOfHidden = {0, 1};
  }
  Json gradU = device(findSlot(train, "grad_U")["offset"]);
  std::vector<Json> old; // The commands without offloading.
  for (const Json *command : allCommands(train))
    old.push_back(*command);
  Json gradientOfU = old[5], updateE = old[9], updateU = old[10];
  gradientOfU["a"]["ref"] = device(hiddenBack);
  updateE["args"][2] = device(momentE);
  updateU["args"][0] = host(hostU);
  updateU["args"][1] = host(hostGradient);
  updateU["args"][2] = host(hostMomentU);
  segmentOf(train, "forward")
      .push_back(start("hidden", hidden, hiddenOnHost, partHiddenBytes,
                       tokenOfHidden));
  segmentOf(train, "backward") = {
      old[3],
      old[4],
      wait("hidden", tokenOfHidden),
      start("hidden_back", hiddenOnHost, device(hiddenBack), partHiddenBytes,
            slots),
      old[6],
      wait("hidden_back", slots),
      gradientOfU,
      old[7],
  };
  segmentOf(train, "end") = {
      start("grad_U", gradU, host(hostGradient), tableBytes, slots + 1),
      start("moment_E", host(hostMomentE), device(momentE), tableBytes,
            slots + 2),
      old[8],
      wait("grad_U", slots + 1),
      wait("moment_E", slots + 2),
      updateE,
      updateU,
      start("moment_E_back", device(momentE), host(hostMomentE), tableBytes,
            slots + 3),
      start("mirror", host(hostU), device(deviceU), tableBytes, slots + 4),
      wait("moment_E_back", slots + 3),
      wait("mirror", slots + 4),
  };
  // Command indexes: 0 fill; forward: 1 gather, 2 logits, 3 start hidden;
  // backward: 4 loss, 5 sum, 6 wait hidden, 7 start hidden_back, 8 d hidden,
  // 9 wait hidden_back, 10 d U, 11 scatter; end: 12 start grad_U, 13 start
  // moment_E, 14 norm, 15 wait grad_U, 16 wait moment_E, 17 update E, 18 update
  // U, 19 start moment_E_back, 20 start mirror, 21 wait moment_E_back, 22 wait
  // mirror.
  const std::map<std::string, std::pair<int, int>> lives = {
      {"tokens", {0, 11}},        {"targets", {0, 11}}, {"rng", {0, 0}},
      {"loss_scale", {0, 11}},    {"lr", {0, 18}},      {"clip", {0, 18}},
      {"step", {0, 18}},          {"loss", {5, 23}},    {"grad_norm", {14, 23}},
      {"probabilities", {0, 11}}, {"hidden", {1, 6}},   {"row_loss", {4, 5}},
      {"logits", {2, 10}},        {"grad_E", {0, 17}},  {"grad_U", {10, 15}},
      {"grad_hidden", {8, 11}}};
  for (auto &[name, life] : lives) {
    Json &slot = findSlot(train, name);
    slot["first"] = life.first;
    slot["last"] = life.second;
  }
  auto slot = [&](const char *name, const char *slotClass, int64_t offset,
                  int64_t bytes, int first, int last, bool onHost) -> Json & {
    Json json = {{"name", name},   {"class", slotClass}, {"offset", offset},
                 {"bytes", bytes}, {"alignment", 64},    {"first", first},
                 {"last", last},   {"why", "test"}};
    if (onHost)
      json["arena"] = "host";
    train["slots"].push_back(std::move(json));
    return train["slots"].back();
  };
  slot("hidden_back", "activation", hiddenBack, partHiddenBytes, 7, 10, false);
  slot("moment_E", "optimizer", momentE, tableBytes, 13, 21, false);
  Json &hostSlot = slot("host_hidden", "activation", hostHidden,
                        partHiddenBytes, 3, 9, true);
  if (slots > 1)
    hostSlot["ring"] = partHiddenBytes;
  slot("host_grad_U", "gradient", hostGradient, tableBytes, 12, 18, true);
}

Json offload(Json description) {
  Json &arena = description["arena"];
  int64_t hiddenBack = (arena["bytes"].get<int64_t>() + 63) / 64 * 64;
  int64_t momentE = hiddenBack + partHiddenBytes;
  Json &train = description["programs"]["train"];
  int64_t slots = train["order"][1]["slots"];
  int64_t hostGradient = hostHidden + slots * partHiddenBytes;
  arena["bytes"] = momentE + tableBytes;
  arena["host_bytes"] = hostGradient + tableBytes;
  arena["host_state_bytes"] = hostStateBytes;
  Json &states = description["states"]; // E, U, E.m, U.m
  Json mirror = states[1];
  auto toHost = [&](size_t index, int64_t offset) {
    states[index]["arena"] = "host";
    states[index]["offset"] = offset;
  };
  toHost(1, hostU);
  toHost(2, hostMomentE);
  toHost(3, hostMomentU);
  mirror["name"] = "U.device";
  mirror["role"] = "mirror";
  mirror["of"] = "U";
  mirror.erase("init");
  states.push_back(mirror);
  offloadTrain(train, hiddenBack, momentE, hostGradient);
  return withQueues(std::move(description));
}

} // namespace kiln::runtime::toy
