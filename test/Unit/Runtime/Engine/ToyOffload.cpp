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
constexpr int64_t hostHidden = hostStateBytes,
                  hostGradient = hostHidden + partHiddenBytes;
constexpr int64_t hostBytes = hostGradient + tableBytes;

Json &findSlot(Json &program, const std::string &name) {
  for (Json &slot : program["slots"])
    if (slot["name"] == name)
      return slot;
  std::abort();
}

size_t findCommand(const Json &program, const std::string &op,
                   const std::string &name) {
  const Json &commands = commandsOf(program);
  for (size_t i = 0; i < commands.size(); ++i)
    if (commands[i]["op"] == op && commands[i].value("name", "") == name)
      return i;
  std::abort();
}

static Json device(int64_t offset) { return Json::array({offset, 0}); }
static Json host(int64_t offset) { return Json::array({offset, 0, "host"}); }

static Json start(const char *name, Json from, Json to, int64_t bytes,
                  int64_t token) {
  return {{"op", "copy_start"}, {"name", name},   {"from", from},
          {"to", to},           {"bytes", bytes}, {"token", token}};
}

static Json wait(const char *name, int64_t token) {
  return {{"op", "copy_wait"}, {"name", name}, {"token", token}};
}

static void offloadTrain(Json &train, int64_t hiddenBack, int64_t momentE) {
  auto place = [&](const char *name) {
    return findSlot(train, name)["offset"].get<int64_t>();
  };
  int64_t hidden = place("hidden"), gradU = place("grad_U");
  // Command indexes: 0 fill, 1 loop, 2 gather, 3 logits, 4 loss, 5 sum, 6 d U,
  // 7 d hidden, 8 scatter, 9 end, 10 norm, 11 update E, 12 update U.
  const Json old = commandsOf(train);
  Json gradientOfU = old[6], updateE = old[11], updateU = old[12];
  gradientOfU["a"]["ref"] = device(hiddenBack);
  updateE["args"][2] = device(momentE);
  updateU["args"][0] = host(hostU);
  updateU["args"][1] = host(hostGradient);
  updateU["args"][2] = host(hostMomentU);
  commandsOf(train) = {
      old[0],
      old[1],
      old[2],
      old[3],
      start("hidden", device(hidden), host(hostHidden), partHiddenBytes, 0),
      old[4],
      old[5],
      wait("hidden", 0),
      start("hidden_back", host(hostHidden), device(hiddenBack),
            partHiddenBytes, 1),
      old[7],
      wait("hidden_back", 1),
      gradientOfU,
      old[8],
      old[9],
      start("grad_U", device(gradU), host(hostGradient), tableBytes, 2),
      start("moment_E", host(hostMomentE), device(momentE), tableBytes, 3),
      old[10],
      wait("grad_U", 2),
      wait("moment_E", 3),
      updateE,
      updateU,
      start("moment_E_back", device(momentE), host(hostMomentE), tableBytes, 4),
      start("mirror", host(hostU), device(deviceU), tableBytes, 5),
      wait("moment_E_back", 4),
      wait("mirror", 5),
  };
  const std::map<std::string, std::pair<int, int>> lives = {
      {"tokens", {0, 13}},        {"targets", {0, 13}}, {"rng", {0, 0}},
      {"loss_scale", {0, 13}},    {"lr", {0, 20}},      {"clip", {0, 20}},
      {"step", {0, 20}},          {"loss", {2, 25}},    {"grad_norm", {16, 25}},
      {"probabilities", {0, 13}}, {"hidden", {2, 7}},   {"row_loss", {5, 6}},
      {"logits", {3, 11}},        {"grad_E", {0, 19}},  {"grad_U", {11, 17}},
      {"grad_hidden", {9, 12}}};
  for (auto &[name, life] : lives) {
    Json &slot = findSlot(train, name);
    slot["first"] = life.first;
    slot["last"] = life.second;
  }
  auto slot = [&](const char *name, const char *slotClass, int64_t offset,
                  int64_t bytes, int first, int last, bool onHost) {
    Json json = {{"name", name},   {"class", slotClass}, {"offset", offset},
                 {"bytes", bytes}, {"alignment", 64},    {"first", first},
                 {"last", last},   {"why", "test"}};
    if (onHost)
      json["arena"] = "host";
    train["slots"].push_back(std::move(json));
  };
  slot("hidden_back", "activation", hiddenBack, partHiddenBytes, 8, 11, false);
  slot("moment_E", "optimizer", momentE, tableBytes, 15, 23, false);
  slot("host_hidden", "activation", hostHidden, partHiddenBytes, 4, 10, true);
  slot("host_grad_U", "gradient", hostGradient, tableBytes, 14, 20, true);
}

Json offload(Json description) {
  Json &arena = description["arena"];
  int64_t hiddenBack = (arena["bytes"].get<int64_t>() + 63) / 64 * 64;
  int64_t momentE = hiddenBack + partHiddenBytes;
  arena["bytes"] = momentE + tableBytes;
  arena["host_bytes"] = hostBytes;
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
  offloadTrain(description["programs"]["train"], hiddenBack, momentE);
  return withQueues(std::move(description));
}

} // namespace kiln::runtime::toy
