//===- QueueReader.cpp - Reads the queues of a description ----------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "QueueReader.h"

#include "kiln/Support/Messages.h"

#include <algorithm>
#include <array>

using namespace kiln::support;

namespace kiln::runtime {

static constexpr std::array<std::pair<const char *, QueueEngine>, 3> engines = {
    {{"device", QueueEngine::Device},
     {"host", QueueEngine::Host},
     {"link", QueueEngine::Link}}};

static const char *engineName(QueueEngine engine) {
  for (auto &[name, value] : engines)
    if (value == engine)
      return name;
  return "unknown";
}

static bool hasGpu(const ProgramFile &file) {
  return file.description.target.kind != TargetKind::Cpu;
}

static QueueEngine readEngine(const Node &node) {
  std::string text = node.text();
  for (auto &[name, value] : engines)
    if (text == name)
      return value;
  node.fail("is " + inQuotes(text) + ", expected device, host or link");
  return QueueEngine::Host;
}

/// Maximum number of queues. The limit keeps the pairwise comparison of queues
/// cheap.
static constexpr std::size_t maxQueues = 64;

void readQueues(const Node &node, ProgramFile &file) {
  std::size_t count = node.size();
  if (count > maxQueues)
    node.fail("has " + std::to_string(count) + " entries, expected at most " +
              std::to_string(maxQueues));
  for (std::size_t i = 0; i < count && !node.failed(); ++i) {
    Node entry = node.element(i), name = entry.at("name");
    Queue queue;
    queue.name = name.text();
    Node engine = entry.at("engine");
    queue.engine = readEngine(engine);
    if (queue.engine == QueueEngine::Device && !hasGpu(file))
      engine.fail("is device, but the target has no GPU");
    for (const Queue &other : file.queues) {
      if (other.name == queue.name)
        name.fail("is " + inQuotes(queue.name) + ", the name of another queue");
      // Several queues may have the engine Link, which executes copies and
      // collectives: the stream on which such a transfer runs depends on its
      // kind (for copies, their direction), and not on its queue.
      if (other.engine == queue.engine && queue.engine != QueueEngine::Link)
        engine.fail(std::string("is ") + engineName(queue.engine) +
                    ", which is already the engine of queue " +
                    inQuotes(other.name) +
                    ", expected at most one queue with this engine");
    }
    file.queues.push_back(std::move(queue));
  }
}

/// Returns the index of the queue whose name `node` contains.
static int64_t readQueue(const Node &node, const ProgramFile &file) {
  std::string name = node.text();
  auto found =
      std::find_if(file.queues.begin(), file.queues.end(),
                   [&](const Queue &queue) { return queue.name == name; });
  if (found != file.queues.end())
    return found - file.queues.begin();
  node.fail("is " + inQuotes(name) + ", expected the name of a queue");
  return 0;
}

/// Returns the engine that must execute a command. Without a GPU, everything
/// except transfers runs on the host. With a GPU, a launch runs where its
/// kernel runs, and any other command runs where its memory is.
static QueueEngine expectedEngine(const Command &command, bool hasGpu) {
  if (startsTransfer(command))
    return QueueEngine::Link;
  if (!hasGpu)
    return QueueEngine::Host;
  if (command.call)
    return isDeviceLaunch(command) ? QueueEngine::Device : QueueEngine::Host;
  std::vector<MemoryAccess> accesses = accessesOf(command);
  bool touchesHostArena = std::any_of(
      accesses.begin(), accesses.end(), [](const MemoryAccess &access) {
        return access.ref.arena == ArenaKind::Host;
      });
  return touchesHostArena ? QueueEngine::Host : QueueEngine::Device;
}

/// Appends the queue whose name `node` contains to `queues`. Fails if `queues`
/// already contains the queue.
static void addQueue(const Node &node, const ProgramFile &file,
                     std::vector<int64_t> &queues) {
  int64_t queue = readQueue(node, file);
  if (!node.failed() &&
      std::find(queues.begin(), queues.end(), queue) != queues.end())
    node.fail("is " + inQuotes(node.text()) + ", which is named twice");
  queues.push_back(queue);
}

static void readHeldQueues(const Node &node, const ProgramFile &file,
                           Command &command) {
  Node queues = node.at("queues");
  std::size_t count = queues.size();
  if (count == 0)
    return queues.fail(
        "is empty, but at least one queue must wait at a copy_wait");
  for (std::size_t i = 0; i < count && !node.failed(); ++i)
    addQueue(queues.element(i), file, command.heldQueues);
}

static void readAfter(const Node &node, const ProgramFile &file,
                      Command &command) {
  for (std::size_t i = 0; i < node.size() && !node.failed(); ++i) {
    Node entry = node.element(i);
    addQueue(entry, file, command.after);
    if (node.failed())
      return;
    const Queue &other = file.queues[std::size_t(command.after.back())];
    if (other.engine == QueueEngine::Link)
      entry.fail("is " + inQuotes(other.name) +
                 ", whose engine is link: to wait for a transfer, use a "
                 "copy_wait");
  }
}

/// Checks that the node of a copy_wait, which no queue executes, has neither
/// 'queue' nor 'after'.
static void refuseQueue(const Node &node) {
  for (const char *key : {"queue", "after"})
    if (std::optional<Node> field = node.find(key))
      return field->fail("is given, but a copy_wait does not run on a queue");
}

void readQueueUse(const Node &node, const ProgramFile &file, Command &command) {
  if (waitsForTransfer(command)) {
    refuseQueue(node);
    return readHeldQueues(node, file, command);
  }
  Node name = node.at("queue");
  command.queue = readQueue(name, file);
  if (node.failed())
    return;
  const Queue &queue = file.queues[std::size_t(command.queue)];
  QueueEngine expected = expectedEngine(command, hasGpu(file));
  if (queue.engine != expected)
    return name.fail("is " + inQuotes(queue.name) + ", whose engine is " +
                     engineName(queue.engine) +
                     ", expected a queue of engine " + engineName(expected));
  if (std::optional<Node> after = node.find("after"))
    readAfter(*after, file, command);
}

void findTransferKinds(const SegmentReader &segments, const Program &program,
                       std::vector<Queue> &queues) {
  for (std::size_t i = 0; i < program.commands.size(); ++i) {
    const Command &command = program.commands[i];
    if (!startsTransfer(command))
      continue;
    Queue &queue = queues[std::size_t(command.queue)];
    TransferKind kind = transferKind(command);
    if (queue.transfers && *queue.transfers != kind)
      return segments.command(i).at("queue").fail(
          "is " + inQuotes(queue.name) + ", which also executes " +
          (kind == TransferKind::Collective
               ? "copies: use one queue for copies and one for collectives"
           : *queue.transfers == TransferKind::Collective
               ? "collectives: use one queue for copies and one for collectives"
               : "copies in the opposite direction: use one queue for each "
                 "direction"));
    queue.transfers = kind;
  }
}

} // namespace kiln::runtime
