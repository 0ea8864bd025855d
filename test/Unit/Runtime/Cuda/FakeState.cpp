//===- FakeState.cpp - State of the fake driver ---------------------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "FakeState.h"

namespace kiln::runtime::fakecuda {

State &state() {
  static State instance;
  return instance;
}

static std::map<std::string, Kernel> &kernels() {
  static std::map<std::string, Kernel> instance;
  return instance;
}

void reset(const Settings &settings) {
  state() = State();
  state().settings = settings;
  state().products.resize(settings.gemmTimes.size());
  state().random.seed(settings.seed);
}

void addKernel(const std::string &name, Kernel kernel) {
  kernels()[name] = std::move(kernel);
}

static std::function<std::optional<Kernel>(const std::string &, const void *)> &
kernelFinder() {
  static std::function<std::optional<Kernel>(const std::string &, const void *)>
      instance;
  return instance;
}

void setKernelFinder(std::function<std::optional<Kernel>(
                         const std::string &name, const void *image)>
                         finder) {
  kernelFinder() = std::move(finder);
}

const Kernel *findKernel(const std::string &name) {
  auto found = kernels().find(name);
  if (found != kernels().end())
    return &found->second;
  std::optional<Kernel> kernel;
  if (kernelFinder())
    kernel = kernelFinder()(name, state().loadedImage);
  return kernel ? &(kernels()[name] = std::move(*kernel)) : nullptr;
}

int64_t calls() { return state().calls; }
std::string failedFunction() { return state().failed; }
int64_t callsOf(const std::string &function) {
  return state().callsOf[function];
}
std::vector<std::string> violations() { return state().violations; }
std::vector<int64_t> gemmsByAlgorithm() { return state().products; }
const void *loadedImage() { return state().loadedImage; }
int64_t sharedBytesOfLaunches() { return state().mostShared; }

std::map<std::string, int64_t> live() {
  std::map<std::string, int64_t> counts;
  for (auto &[kind, handles] : state().handles)
    if (!handles.empty())
      counts[kind] = int64_t(handles.size());
  if (!state().allocations.empty())
    counts["device memory"] = int64_t(state().allocations.size());
  if (!state().pinned.empty())
    counts["pinned memory"] = int64_t(state().pinned.size());
  if (state().contexts != 0)
    counts["context"] = state().contexts;
  if (state().capture)
    counts["capture"] = 1;
  if (state().ncclGroups != 0)
    counts["NCCL group"] = state().ncclGroups;
  return counts;
}

int violate(const std::string &text) {
  state().violations.push_back(text);
  return 1;
}

Call::Call(const char *name, bool inCapture) {
  State &now = state();
  int64_t callOf = now.callsOf[name]++, call = now.calls++;
  const std::string &function = now.settings.failingFunction;
  bool fails = function.empty()
                   ? call == now.settings.failingCall
                   : function == name && callOf == now.settings.failingCall;
  if (fails) {
    now.failed = name;
    code_ = now.settings.failingCode;
  } else if (now.sticky != 0) {
    code_ = now.sticky;
  } else if (now.capture && !inCapture) {
    now.capture->broken = true;
    violate(std::string(name) + " is called while a stream is captured");
    code_ = 900;
  }
}

bool exists(const char *kind, void *handle) {
  if (state().handles[kind].count(handle))
    return true;
  violate(std::string("no such ") + kind);
  return false;
}

char *resolve(uint64_t device, int64_t bytes) {
  for (const Allocation &block : state().allocations)
    if (block.begin <= device &&
        device + uint64_t(bytes) <= block.begin + uint64_t(block.bytes))
      return block.memory.get() + (device - block.begin);
  violate(std::to_string(bytes) + " bytes are not device memory");
  return nullptr;
}

char *hostPointer(uint64_t device) { return resolve(device, 0); }

int enqueue(StreamObject *stream, Work work) {
  if (!exists("stream", stream))
    return 400;
  if (stream->capture) {
    std::vector<Node> &nodes = stream->capture->graph.nodes;
    nodes.push_back({std::move(work), stream->tips});
    stream->tips = {nodes.size() - 1};
    return 0;
  }
  stream->queue.push_back({std::move(work)});
  ++stream->queued;
  return 0;
}

} // namespace kiln::runtime::fakecuda
