//===- FakeState.h - State of the fake driver -------------------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef KILN_TEST_UNIT_RUNTIME_CUDA_FAKESTATE_H
#define KILN_TEST_UNIT_RUNTIME_CUDA_FAKESTATE_H

#include "FakeCuda.h"

#include <cstdlib>
#include <deque>
#include <memory>
#include <random>
#include <set>

namespace kiln::runtime::fakecuda {

/// Queued work. Returns an error code, which becomes the sticky error of the
/// context, or `pending` if it waits for another process and must be called
/// again.
using Work = std::function<int()>;
inline constexpr int pending = -1;

struct Node {
  Work work;
  std::vector<std::size_t> after;
};

struct GraphObject {
  std::vector<Node> nodes;
};

struct StreamObject;

struct Capture {
  StreamObject *origin = nullptr;
  GraphObject graph;
  bool broken = false;
};

struct QueueEntry {
  /// The work to execute. An entry without work waits until `stream` has
  /// completed `position` entries.
  Work work;
  StreamObject *stream = nullptr;
  int64_t position = 0;
};

struct StreamObject {
  std::deque<QueueEntry> queue;
  int64_t queued = 0, done = 0;
  Capture *capture = nullptr;
  std::vector<std::size_t> tips; ///< Predecessors of the next captured node.
};

struct EventObject {
  unsigned flags = 0;
  /// The stream that last recorded the event; null if none has recorded it.
  StreamObject *stream = nullptr;
  int64_t position = 0;
  std::shared_ptr<double> time;
  Capture *capture = nullptr;
  std::vector<std::size_t> nodes;
};

struct FunctionObject {
  std::string name;
  const Kernel *kernel = nullptr;
  unsigned mostShared = 48 * 1024; ///< Limit of dynamic shared memory.
};

struct ModuleObject {
  std::vector<std::unique_ptr<FunctionObject>> functions;
};

/// The alignment of device memory, as drivers allocate it.
inline constexpr std::size_t allocationAlignment = 256;

struct Allocation {
  struct Free {
    void operator()(char *memory) const { std::free(memory); }
  };
  std::unique_ptr<char, Free> memory;
  uint64_t begin;
  int64_t bytes;
};

struct Pinned {
  std::unique_ptr<char[]> memory;
  std::size_t bytes = 0;
};

struct State {
  Settings settings;
  std::mt19937_64 random;
  int64_t calls = 0;
  std::map<std::string, int64_t> callsOf;
  std::string failed;
  int sticky = 0;
  int contexts = 0;
  bool isCurrent = false;
  double clock = 0;
  std::vector<std::string> violations;
  std::map<std::string, std::set<void *>> handles; ///< Live handles by kind.
  std::vector<Allocation> allocations;
  std::map<void *, Pinned> pinned;
  std::unique_ptr<Capture> capture;
  std::map<std::string, int64_t> launches; ///< Launches by kernel.
  std::vector<int64_t> products;           ///< Matmuls by algorithm.
  const void *loadedImage = nullptr;
  int ncclGroups = 0;     ///< The groups that were started and not ended.
  int64_t mostShared = 0; ///< Maximum dynamic shared memory.
  /// Address of the next allocation, which the host cannot dereference.
  uint64_t nextAddress = uint64_t(0x7fcd) << 48;
};

State &state();

int violate(const std::string &text);

/// Every function that can fail creates a Call first.
class Call {
public:
  /// `inCapture` is true if the function is allowed while a stream is captured.
  explicit Call(const char *name, bool inCapture = true);
  /// Returns the code that the function must return immediately, or 0.
  int code() const { return code_; }

private:
  int code_ = 0;
};

template <typename T> T *create(const char *kind, T *object) {
  state().handles[kind].insert(object);
  return object;
}
/// Returns true if a handle exists; otherwise records a violation.
bool exists(const char *kind, void *handle);
template <typename T> bool destroy(const char *kind, T *handle) {
  if (!exists(kind, handle))
    return false;
  state().handles[kind].erase(handle);
  delete handle;
  return true;
}

/// Returns the host memory of a device range. If no allocation contains the
/// range, records a violation and returns null.
char *resolve(uint64_t device, int64_t bytes);

/// Executes work until the queue of `wanted` is empty, or all queues if
/// `wanted` is null. If `waits` is false, returns false instead of waiting for
/// another process.
bool drain(StreamObject *wanted, bool waits = true);

/// Executes the nodes that are not done. Returns `pending` if all nodes that
/// could be executed wait for another process.
int runGraph(const std::vector<Node> &nodes, std::vector<bool> &done);

/// Adds work to a stream, or to the graph into which the stream is captured.
int enqueue(StreamObject *stream, Work work);

} // namespace kiln::runtime::fakecuda

#endif // KILN_TEST_UNIT_RUNTIME_CUDA_FAKESTATE_H
