//===- FakeQueues.cpp - Execution of queued work of the fake driver -------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "FakeState.h"

#include <algorithm>
#include <unistd.h>

namespace kiln::runtime::fakecuda {

static bool isReady(const StreamObject &stream) {
  if (stream.queue.empty())
    return false;
  const QueueEntry &head = stream.queue.front();
  return head.work || !state().handles["stream"].count(head.stream) ||
         head.stream->done >= head.position;
}

/// Executes the first entry of a stream. Returns false if the entry waits for
/// another process.
static bool runEntry(StreamObject &stream) {
  // After a fault, work is removed without being executed.
  if (const Work &work = stream.queue.front().work;
      work && state().sticky == 0) {
    int code = work();
    if (code == pending)
      return false;
    state().sticky = code;
  }
  stream.queue.pop_front();
  ++stream.done;
  return true;
}

bool drain(StreamObject *wanted, bool waits) {
  auto isDone = [&] {
    if (wanted)
      return wanted->queue.empty();
    for (void *stream : state().handles["stream"])
      if (!static_cast<StreamObject *>(stream)->queue.empty())
        return false;
    return true;
  };
  // The streams whose first entries wait for another process.
  std::set<StreamObject *> waiting;
  while (!isDone()) {
    std::vector<StreamObject *> ready;
    for (void *handle : state().handles["stream"])
      if (auto *stream = static_cast<StreamObject *>(handle);
          isReady(*stream) && !waiting.count(stream))
        ready.push_back(stream);
    if (ready.empty() && waiting.empty()) {
      violate("a stream waits forever");
      return true;
    }
    if (ready.empty()) {
      if (!waits)
        return false;
      ::usleep(50);
      waiting.clear();
      continue;
    }
    StreamObject *next = ready[state().random() % ready.size()];
    if (runEntry(*next))
      waiting.clear();
    else
      waiting.insert(next);
  }
  return true;
}

int runGraph(const std::vector<Node> &nodes, std::vector<bool> &done) {
  std::set<std::size_t> waiting;
  for (;;) {
    std::vector<std::size_t> ready;
    for (std::size_t i = 0; i < nodes.size(); ++i)
      if (!done[i] && !waiting.count(i) &&
          std::all_of(nodes[i].after.begin(), nodes[i].after.end(),
                      [&](std::size_t j) { return done[j]; }))
        ready.push_back(i);
    if (ready.empty())
      return waiting.empty() ? 0 : pending;
    std::size_t next = ready[state().random() % ready.size()];
    int code = nodes[next].work();
    if (code == pending) {
      waiting.insert(next);
      continue;
    }
    if (code != 0)
      return code;
    done[next] = true;
    waiting.clear();
  }
}

} // namespace kiln::runtime::fakecuda
