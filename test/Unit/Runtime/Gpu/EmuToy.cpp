//===- EmuToy.cpp - Toy model for the emulated GPU ------------------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "EmuToy.h"

#include "PlaceQueues.h"
#include "kiln/Abi/EmulatedKernel.h"
#include "kiln/Runtime/Engine/CommandEngine.h"
#include "kiln/Runtime/Gpu/EmuEngine.h"

#include <cstdlib>
#include <set>
#include <utility>

namespace kiln::runtime::toy {

using Json = nlohmann::json;

// The immediates of a device kernel: the number of arguments; the bytes and the
// access kind of each argument; the index of the CPU kernel's scratch argument,
// or -1; the immediates of the CPU kernel.
enum Access { Reads = 1, Writes = 2, Updates = 3 };

template <std::size_t index>
static void deviceKernel(char *const *args, const int64_t *immediates,
                         int64_t units) {
  if (kiln_emu_thread_id() != 0)
    return;
  int64_t count = *immediates++;
  for (int64_t i = 0; i < count; ++i) {
    if (immediates[2 * i] > 0 && immediates[2 * i + 1] & Reads)
      kiln_emu_global_access(args[i], immediates[2 * i], 0);
    if (immediates[2 * i] > 0 && immediates[2 * i + 1] & Writes)
      kiln_emu_global_access(args[i], immediates[2 * i], 1);
  }
  immediates += 2 * count;
  int64_t scratch = *immediates++;
  auto kernel = reinterpret_cast<KernelFunction>(
      const_cast<void *>(kernelTable()[index]));
  kernel(args, immediates, 0, units, scratch < 0 ? nullptr : args[scratch]);
}

template <std::size_t... indexes>
static const void *const *makeTable(std::index_sequence<indexes...>) {
  static const void *const table[] = {
      reinterpret_cast<const void *>(deviceKernel<indexes>)...,
      kernelTable()[indexes]...};
  return table;
}

Result<std::unique_ptr<Engine>> makeEmuEngine(const Json &description) {
  return createEmuEngine(
      description.dump(),
      makeTable(std::make_index_sequence<std::size_t(kernelCount)>()),
      emuKernelCount);
}

static bool onHost(const Json &place) {
  return place.is_array() ? place.back() == "host" : place.contains("arena");
}

/// Returns the number of bytes from an argument's address to the end of its
/// slot or state. If the argument has a stride, returns at most the bytes of
/// one micro-batch.
static int64_t extentOf(const Json &description, const Json &program,
                        int64_t command, const Json &ref) {
  int64_t offset = ref[0], stride = ref[1];
  auto end = [&](const Json &buffer) -> int64_t {
    int64_t begin = buffer["offset"], bytes = buffer["bytes"];
    bool holds = begin <= offset && offset < begin + bytes;
    return onHost(buffer) == onHost(ref) && holds ? begin + bytes : -1;
  };
  for (const Json &state : description["states"])
    if (end(state) >= 0)
      return end(state) - offset;
  for (const Json &slot : program["slots"])
    if (end(slot) >= 0 && slot["first"] <= command && command <= slot["last"])
      return stride != 0 ? std::min(std::abs(stride), end(slot) - offset)
                         : end(slot) - offset;
  std::abort();
}

/// Returns true if a toy kernel updates an argument in place; see
/// ToyProgram.cpp.
static bool updates(int64_t kernel, int64_t argument) {
  static const std::set<std::pair<int64_t, int64_t>> places = {
      {1, 0}, {3, 2}, {5, 0}, {5, 2}};
  return places.count({kernel, argument}) > 0;
}

static Json emulatedLaunch(Json launch, const Json &description,
                           const Json &program, int64_t command) {
  Json &args = launch["args"];
  int64_t scratch = -1;
  if (launch.contains("scratch") && !launch["scratch"].is_null()) {
    scratch = int64_t(args.size());
    args.push_back({launch["scratch"][0], 0});
    launch["writes"].push_back(scratch);
  }
  launch["scratch"] = nullptr;
  Json extents = Json::array();
  for (const Json &ref : args)
    extents.push_back(extentOf(description, program, command, ref));
  launch["extents"] = extents;
  int64_t kernel = launch["kernel"];
  if (onHost(args[0])) {
    launch["kernel"] = kernel + kernelCount;
    return launch;
  }
  launch["threads"] = 32;
  launch["shared"] = 0;
  launch["grain"] = launch["units"];
  Json immediates = Json::array({{args.size(), 0}});
  for (std::size_t i = 0; i < args.size(); ++i) {
    bool written = false;
    for (const Json &index : launch["writes"])
      written |= index == i;
    immediates.push_back({extents[i], 0});
    immediates.push_back({!written                      ? Reads
                          : updates(kernel, int64_t(i)) ? Updates
                                                        : Writes,
                          0});
  }
  immediates.push_back({scratch, 0});
  for (const Json &immediate : launch["imm"])
    immediates.push_back(immediate);
  launch["imm"] = immediates;
  return launch;
}

static Json emulatedProgram(const Json &description, Json program) {
  std::vector<Json *> commands = allCommands(program);
  for (std::size_t i = 0; i < commands.size(); ++i)
    if ((*commands[i])["op"] == "launch")
      *commands[i] =
          emulatedLaunch(*commands[i], description, program, int64_t(i));
  return program;
}

Json emulated(Json description) {
  Json programs;
  for (auto &[name, program] : description["programs"].items())
    programs[name] = emulatedProgram(description, program);
  description["programs"] = programs;
  description["target"]["kind"] = "cuda-emu";
  description["options"]["target"] = "cuda-emu";
  return withQueues(std::move(description));
}

} // namespace kiln::runtime::toy
