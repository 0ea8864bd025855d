//===- FakeDriver.cpp - Fake CUDA driver without a GPU --------------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "FakeState.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>

using namespace kiln::runtime::fakecuda;

namespace kiln::runtime::fakecuda {
const Kernel *findKernel(const std::string &name);
} // namespace kiln::runtime::fakecuda

#define BEGIN(...)                                                             \
  Call call(__func__, ##__VA_ARGS__);                                          \
  if (call.code() != 0)                                                        \
  return call.code()

/// Begins a function that destroys an object. Such a function releases the
/// object even if it reports a failure.
#define DESTROY(...) Call call(__func__, ##__VA_ARGS__)

extern "C" {

//===----------------------------------------------------------------------===//
// Driver, devices, context
//===----------------------------------------------------------------------===//

int cuGetErrorName(int code, const char **name) {
  if (code == 700)
    *name = "CUDA_ERROR_ILLEGAL_ADDRESS";
  else if (code == 2)
    *name = "CUDA_ERROR_OUT_OF_MEMORY";
  else if (code == 222)
    *name = "CUDA_ERROR_UNSUPPORTED_PTX_VERSION";
  else if (code == 100)
    *name = "CUDA_ERROR_NO_DEVICE";
  else
    return 1;
  return 0;
}

int cuGetErrorString(int code, const char **text) {
  if (code != 700)
    return 1;
  *text = "an illegal memory access was encountered";
  return 0;
}

int cuInit(unsigned) {
  BEGIN();
  return state().settings.initCode;
}

int cuDriverGetVersion(int *version) {
  BEGIN();
  *version = state().settings.driverVersion;
  return 0;
}

int cuDeviceGetCount(int *count) {
  BEGIN();
  *count = state().settings.devices;
  return 0;
}

int cuDeviceGet(int *device, int index) {
  BEGIN();
  if (index < 0 || index >= state().settings.devices)
    return 101;
  *device = index;
  return 0;
}

int cuDeviceGetUuid_v2(char *id, int device) {
  BEGIN();
  std::memset(id, 0, 16);
  id[0] = char(state().settings.firstDevice + device);
  return 0;
}

int cuDeviceGetName(char *name, int bytes, int) {
  BEGIN();
  std::strncpy(name, state().settings.deviceName.c_str(), std::size_t(bytes));
  return 0;
}

int cuDeviceGetAttribute(int *value, int attribute, int) {
  BEGIN();
  if (attribute != 75 && attribute != 76)
    return violate("unknown device attribute");
  *value = attribute == 75 ? state().settings.major : state().settings.minor;
  return 0;
}

int cuDevicePrimaryCtxRetain(void **context, int) {
  BEGIN();
  ++state().contexts;
  *context = &state();
  return 0;
}

int cuDevicePrimaryCtxRelease_v2(int) {
  DESTROY();
  if (--state().contexts < 0)
    return violate("a context is released that is not retained");
  return call.code();
}

int cuCtxSetCurrent(void *context) {
  BEGIN();
  state().isCurrent = context == &state();
  return state().isCurrent ? 0 : violate("no such context");
}

int cuCtxSynchronize() {
  BEGIN(/*inCapture=*/false);
  drain(nullptr);
  return state().sticky;
}

//===----------------------------------------------------------------------===//
// Modules
//===----------------------------------------------------------------------===//

int cuModuleLoadDataEx(void **module, const void *image, unsigned count,
                       int *options, void **values) {
  BEGIN(/*inCapture=*/false);
  if (!state().isCurrent)
    return violate("no context is current");
  auto refused = state().settings.refusedImages.find(image);
  if (refused != state().settings.refusedImages.end()) {
    for (unsigned i = 0; i < count; ++i)
      if (options[i] == 5)
        std::strcpy(static_cast<char *>(values[i]), "ptxas says\nno");
    return refused->second;
  }
  if (state().settings.onlyPtx && std::memcmp(image, "\177ELF", 4) == 0)
    return 209;
  state().loadedImage = image;
  *module = create("module", new ModuleObject);
  return 0;
}

int cuModuleUnload(void *module) {
  DESTROY(/*inCapture=*/false);
  return destroy("module", static_cast<ModuleObject *>(module)) ? call.code()
                                                                : 400;
}

int cuModuleGetFunction(void **function, void *module, const char *name) {
  BEGIN();
  if (!exists("module", module))
    return 400;
  const Kernel *kernel = findKernel(name);
  if (!kernel)
    return 500;
  auto &functions = static_cast<ModuleObject *>(module)->functions;
  functions.push_back(std::make_unique<FunctionObject>());
  functions.back()->name = name;
  functions.back()->kernel = kernel;
  *function = functions.back().get();
  return 0;
}

int cuFuncSetAttribute(void *function, int attribute, int value) {
  BEGIN();
  constexpr int mostDynamicShared = 8;
  if (attribute != mostDynamicShared || value < 0)
    return violate("unsupported function attribute");
  if (value > state().settings.mostSharedBytes)
    return 1;
  static_cast<FunctionObject *>(function)->mostShared = unsigned(value);
  return 0;
}

//===----------------------------------------------------------------------===//
// Memory
//===----------------------------------------------------------------------===//

static int64_t freeBytes() {
  int64_t free = state().settings.totalBytes - state().settings.bytesOfOthers;
  constexpr int64_t granularity = int64_t(2) << 20;
  for (const Allocation &block : state().allocations)
    free -= (block.bytes + granularity - 1) / granularity * granularity;
  return free;
}

int cuMemGetInfo_v2(std::size_t *free, std::size_t *total) {
  BEGIN();
  *free = std::size_t(freeBytes());
  *total = std::size_t(state().settings.totalBytes);
  return 0;
}

int cuMemAlloc_v2(uint64_t *pointer, std::size_t bytes) {
  BEGIN(/*inCapture=*/false);
  if (bytes == 0)
    return violate("no bytes are allocated");
  if (int64_t(bytes) > freeBytes())
    return 2;
  std::size_t whole = (bytes + allocationAlignment - 1) / allocationAlignment *
                      allocationAlignment;
  Allocation block;
  block.memory.reset(
      static_cast<char *>(std::aligned_alloc(allocationAlignment, whole)));
  if (!block.memory)
    return 2;
  block.begin = state().nextAddress;
  block.bytes = int64_t(bytes);
  std::memset(block.memory.get(), 0xff, bytes); // NaN.
  *pointer = block.begin;
  state().nextAddress += (bytes + 4096) / 4096 * 4096;
  state().allocations.push_back(std::move(block));
  return 0;
}

int cuMemFree_v2(uint64_t pointer) {
  DESTROY(/*inCapture=*/false);
  drain(nullptr);
  auto &blocks = state().allocations;
  auto found =
      std::find_if(blocks.begin(), blocks.end(), [&](const Allocation &block) {
        return block.begin == pointer;
      });
  if (found == blocks.end())
    return violate("the freed pointer is not device memory");
  blocks.erase(found);
  return call.code();
}

int cuMemHostAlloc(void **pointer, std::size_t bytes, unsigned) {
  BEGIN(/*inCapture=*/false);
  if (bytes == 0)
    return violate("no bytes are allocated");
  auto memory = std::make_unique<char[]>(bytes);
  std::memset(memory.get(), 0xff, bytes);
  *pointer = memory.get();
  state().pinned[*pointer] = {std::move(memory), bytes};
  return 0;
}

int cuMemFreeHost(void *pointer) {
  DESTROY(/*inCapture=*/false);
  if (state().pinned.erase(pointer) == 0)
    return violate("the freed pointer is not pinned memory");
  return call.code();
}

static int copyNow(char *to, const char *from, std::size_t bytes) {
  if (!to || !from)
    return 1;
  std::memmove(to, from, bytes);
  return 0;
}

static int queueCopy(char *to, const char *from, std::size_t bytes,
                     void *stream) {
  if (!to || !from)
    return 1;
  return enqueue(static_cast<StreamObject *>(stream),
                 [=] { return copyNow(to, from, bytes); });
}

/// Returns true if a range is pinned, so that copies can be asynchronous.
static bool isPinned(const void *pointer, std::size_t bytes) {
  auto place = reinterpret_cast<uintptr_t>(pointer);
  for (auto &[begin, block] : state().pinned)
    if (auto first = reinterpret_cast<uintptr_t>(begin);
        first <= place && place + bytes <= first + block.bytes)
      return true;
  if (state().capture)
    violate("a captured copy uses memory that is not pinned");
  return false;
}

int cuMemcpyHtoDAsync_v2(uint64_t to, const void *from, std::size_t bytes,
                         void *stream) {
  BEGIN();
  char *place = resolve(to, int64_t(bytes));
  const auto *source = static_cast<const char *>(from);
  if (!place || isPinned(from, bytes))
    return queueCopy(place, source, bytes, stream);
  // Memory that is not pinned is read before the call returns.
  std::vector<char> copy(source, source + bytes);
  return enqueue(static_cast<StreamObject *>(stream),
                 [=] { return copyNow(place, copy.data(), bytes); });
}

int cuMemcpyDtoHAsync_v2(void *to, uint64_t from, std::size_t bytes,
                         void *stream) {
  BEGIN();
  const char *source = resolve(from, int64_t(bytes));
  if (source && !isPinned(to, bytes)) {
    // Memory that is not pinned is written before the call returns.
    drain(static_cast<StreamObject *>(stream));
    return copyNow(static_cast<char *>(to), source, bytes);
  }
  return queueCopy(static_cast<char *>(to), source, bytes, stream);
}

int cuMemcpyDtoDAsync_v2(uint64_t to, uint64_t from, std::size_t bytes,
                         void *stream) {
  BEGIN();
  return queueCopy(resolve(to, int64_t(bytes)), resolve(from, int64_t(bytes)),
                   bytes, stream);
}

int cuMemsetD8Async(uint64_t to, unsigned char value, std::size_t bytes,
                    void *stream) {
  BEGIN();
  char *place = resolve(to, int64_t(bytes));
  if (!place)
    return 1;
  return enqueue(static_cast<StreamObject *>(stream), [=] {
    std::memset(place, value, bytes);
    return 0;
  });
}

//===----------------------------------------------------------------------===//
// Streams and events
//===----------------------------------------------------------------------===//

int cuStreamCreate(void **stream, unsigned flags) {
  BEGIN();
  if (flags != 1)
    return violate("the stream is not a non-blocking one");
  *stream = create("stream", new StreamObject);
  return 0;
}

int cuStreamDestroy_v2(void *handle) {
  DESTROY();
  if (!exists("stream", handle))
    return 400;
  auto *stream = static_cast<StreamObject *>(handle);
  drain(stream);
  destroy("stream", stream);
  return call.code();
}

int cuStreamSynchronize(void *stream) {
  BEGIN(/*inCapture=*/false);
  if (!exists("stream", stream))
    return 400;
  drain(static_cast<StreamObject *>(stream));
  return state().sticky;
}

int cuStreamQuery(void *stream) {
  BEGIN(/*inCapture=*/false);
  if (!exists("stream", stream))
    return 400;
  bool isDone = drain(static_cast<StreamObject *>(stream), /*waits=*/false);
  return state().sticky != 0 ? state().sticky : isDone ? 0 : 600;
}

int cuStreamWaitEvent(void *handle, void *eventHandle, unsigned) {
  BEGIN();
  if (!exists("stream", handle) || !exists("event", eventHandle))
    return 400;
  auto *stream = static_cast<StreamObject *>(handle);
  const auto *event = static_cast<EventObject *>(eventHandle);
  if (!event->stream)
    return violate("a stream waits for an event that was never recorded");
  if (event->capture) {
    if (event->capture != state().capture.get())
      return violate("a stream waits for an event of another capture");
    if (!stream->capture) {
      stream->capture = event->capture;
      stream->tips = event->nodes;
    } else {
      stream->tips.insert(stream->tips.end(), event->nodes.begin(),
                          event->nodes.end());
    }
    return 0;
  }
  if (stream->capture)
    return violate("a captured stream waits for an event that is not captured");
  stream->queue.push_back({nullptr, event->stream, event->position});
  ++stream->queued;
  return 0;
}

int cuEventCreate(void **event, unsigned flags) {
  BEGIN();
  auto *object = create("event", new EventObject);
  object->flags = flags;
  *event = object;
  return 0;
}

int cuEventDestroy_v2(void *event) {
  DESTROY();
  return destroy("event", static_cast<EventObject *>(event)) ? call.code()
                                                             : 400;
}

int cuEventRecord(void *eventHandle, void *handle) {
  BEGIN();
  if (!exists("stream", handle) || !exists("event", eventHandle))
    return 400;
  auto *stream = static_cast<StreamObject *>(handle);
  auto *event = static_cast<EventObject *>(eventHandle);
  event->stream = stream;
  event->capture = stream->capture;
  if (stream->capture) {
    event->nodes = stream->tips;
    return 0;
  }
  event->time = std::make_shared<double>(-1);
  enqueue(stream, [time = event->time] {
    *time = ++state().clock;
    return 0;
  });
  event->position = stream->queued;
  return 0;
}

int cuEventElapsedTime(float *milliseconds, void *from, void *to) {
  BEGIN();
  if (!exists("event", from) || !exists("event", to))
    return 400;
  auto *begin = static_cast<EventObject *>(from);
  auto *end = static_cast<EventObject *>(to);
  if ((begin->flags | end->flags) & 2)
    return violate("the elapsed time of an event without timing is queried");
  if (!begin->time || *begin->time < 0 || !end->time || *end->time < 0)
    return 600;
  *milliseconds = float(*end->time - *begin->time);
  return 0;
}

//===----------------------------------------------------------------------===//
// Launches
//===----------------------------------------------------------------------===//

static int runKernel(const FunctionObject &function, const Launch &launch) {
  State &now = state();
  if (now.launches[function.name]++ == now.settings.faultyLaunch &&
      function.name == now.settings.faultyKernel)
    return 700;
  // If the kernel fails, run() can set now.sticky, the error of later calls.
  function.kernel->run(launch);
  return now.sticky;
}

int cuLaunchKernel(void *handle, unsigned x, unsigned y, unsigned z,
                   unsigned threads, unsigned threadsY, unsigned threadsZ,
                   unsigned shared, void *stream, void **parameters,
                   void **extra) {
  BEGIN();
  if (x == 0 || y == 0 || y > 65535 || z != 1 || threads == 0 ||
      threads > 1024 || threadsY != 1 || threadsZ != 1 || extra)
    return violate("invalid grid or block size of a launch");
  const auto *function = static_cast<FunctionObject *>(handle);
  if (shared > function->mostShared)
    return violate("a launch exceeds the limit of dynamic shared memory");
  state().mostShared = std::max(state().mostShared, int64_t(shared));
  const Kernel &kernel = *function->kernel;
  if (y != 1 && kernel.tableWords == 0)
    return violate(
        "a second grid dimension for a kernel without an argument table");
  std::vector<uint64_t> values;
  for (std::size_t i = 0; i < kernel.parameters; ++i) {
    const auto *words = static_cast<const uint64_t *>(parameters[i]);
    std::size_t count = i == 0 && kernel.tableWords ? kernel.tableWords : 1;
    values.insert(values.end(), words, words + count);
  }
  return enqueue(static_cast<StreamObject *>(stream), [=] {
    return runKernel(*function, {x, threads, values.data(), y, shared});
  });
}

int cuLaunchHostFunc(void *stream, void (*function)(void *), void *data) {
  BEGIN();
  return enqueue(static_cast<StreamObject *>(stream), [=] {
    int64_t before = calls();
    function(data);
    return calls() == before ? 0 : violate("a host function calls the driver");
  });
}

//===----------------------------------------------------------------------===//
// Graphs
//===----------------------------------------------------------------------===//

int cuStreamBeginCapture_v2(void *handle, int mode) {
  BEGIN(/*inCapture=*/false);
  if (!exists("stream", handle))
    return 400;
  if (mode != 1)
    return violate("the capture mode is not thread-local");
  auto *stream = static_cast<StreamObject *>(handle);
  state().capture = std::make_unique<Capture>();
  state().capture->origin = stream;
  stream->capture = state().capture.get();
  stream->tips.clear();
  return 0;
}

/// Returns true if every captured node of a stream is one of the nodes `tips`
/// or precedes one of them.
static bool isJoined(const GraphObject &graph, const StreamObject &stream,
                     const std::vector<std::size_t> &tips) {
  std::set<std::size_t> before(tips.begin(), tips.end());
  for (std::size_t i = graph.nodes.size(); i-- > 0;)
    if (before.count(i))
      before.insert(graph.nodes[i].after.begin(), graph.nodes[i].after.end());
  return std::all_of(stream.tips.begin(), stream.tips.end(),
                     [&](std::size_t tip) { return before.count(tip) > 0; });
}

int cuStreamEndCapture(void *handle, void **graph) {
  DESTROY();
  if (!exists("stream", handle))
    return 400;
  auto *origin = static_cast<StreamObject *>(handle);
  std::unique_ptr<Capture> capture = std::move(state().capture);
  if (!capture || capture->origin != origin)
    return violate("the stream is not being captured");
  bool joined = true;
  for (void *other : state().handles["stream"]) {
    auto *stream = static_cast<StreamObject *>(other);
    if (stream->capture && !isJoined(capture->graph, *stream, origin->tips))
      joined = false;
    stream->capture = nullptr;
  }
  if (call.code() != 0)
    return call.code();
  if (capture->broken)
    return 901;
  if (!joined)
    return 904;
  *graph = create("graph", new GraphObject(std::move(capture->graph)));
  return 0;
}

int cuGraphDestroy(void *graph) {
  DESTROY();
  return destroy("graph", static_cast<GraphObject *>(graph)) ? call.code()
                                                             : 400;
}

int cuGraphInstantiateWithFlags(void **executable, void *graph,
                                unsigned long long) {
  BEGIN();
  if (!exists("graph", graph))
    return 400;
  *executable = create("executable graph",
                       new GraphObject(*static_cast<GraphObject *>(graph)));
  return 0;
}

int cuGraphExecDestroy(void *executable) {
  DESTROY();
  drain(nullptr);
  return destroy("executable graph", static_cast<GraphObject *>(executable))
             ? call.code()
             : 400;
}

int cuGraphUpload(void *executable, void *) {
  BEGIN();
  return exists("executable graph", executable) ? 0 : 400;
}

int cuGraphLaunch(void *executable, void *stream) {
  BEGIN();
  if (!exists("executable graph", executable))
    return 400;
  auto *graph = static_cast<GraphObject *>(executable);
  auto done = std::make_shared<std::vector<bool>>(graph->nodes.size());
  return enqueue(static_cast<StreamObject *>(stream),
                 [graph, done] { return runGraph(graph->nodes, *done); });
}

} // extern "C"
