//===- PlanFigures.cpp - Figures of a memory plan ---------------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "PlanFigures.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FormatVariadic.h"

#include <algorithm>
#include <cmath>

using namespace kiln::report;
using llvm::formatv;
using llvm::StringRef;
using llvm::json::Array;
using llvm::json::Object;

const std::array<BufferClass, kClasses> kiln::report::bufferClasses = {{
    {"parameters", "parameter", "#4e79a7"},
    {"optimizer", "optimizer", "#76a5cf"},
    {"constant", "constant", "#b7c7d6"},
    {"materialized", "materialized", "#3f8f96"},
    {"gradients", "gradient", "#e8833a"},
    {"activations", "activation", "#59a14f"},
    {"workspace", "workspace", "#b07aa1"},
    {"communication", "communication", "#d4a72c"},
    {"input", "input", "#9c755f"},
    {"output", "output", "#8a8a8a"},
    {"other", "other", "#c9c9c9"},
}};

static int64_t number(const Object &object, StringRef key) {
  return object.getInteger(key).value_or(0);
}

static double real(const Object &object, StringRef key) {
  double value = object.getNumber(key).value_or(0);
  return std::isfinite(value) ? value : 0;
}

static size_t classIndex(llvm::function_ref<bool(const BufferClass &)> isIt) {
  const auto *found = llvm::find_if(bufferClasses, isIt);
  return std::min<size_t>(found - bufferClasses.begin(), kClasses - 1);
}

static PlanBuffer readBuffer(const Object &object, int64_t states) {
  PlanBuffer buffer;
  buffer.name = object.getString("name").value_or("");
  buffer.why = object.getString("why").value_or("");
  buffer.bytes = number(object, "bytes");
  buffer.offset = number(object, "offset");
  buffer.first = number(object, "first");
  buffer.last = number(object, "last");
  buffer.isState = buffer.offset < states;
  buffer.isUpdatedOnHost = object.getString("residency") == "updated_on_host";
  StringRef slotClass = object.getString("class").value_or("");
  buffer.slotClass = classIndex(
      [&](const BufferClass &known) { return known.slotClass == slotClass; });
  return buffer;
}

/// Adds the names of a layer's stages without the layer prefix: 'h.3.mlp.c_fc'
/// becomes 'mlp.c_fc'.
static void addNames(const Array *names, StringRef layer,
                     std::vector<std::string> &to) {
  for (const llvm::json::Value &value : names ? *names : Array()) {
    StringRef name = value.getAsString().value_or("");
    if (!layer.empty() && name.consume_front(layer))
      name.consume_front(".");
    if (!name.empty() && !llvm::is_contained(to, name))
      to.push_back(name.str());
  }
}

/// Groups the stages of each layer, then merges equal consecutive groups.
static std::vector<ChoiceGroup> groupChoices(const Array *stages) {
  std::vector<ChoiceGroup> layers;
  StringRef previous;
  for (const llvm::json::Value &value : stages ? *stages : Array()) {
    const Object *stage = value.getAsObject();
    if (!stage)
      continue;
    StringRef layer = stage->getString("layer").value_or("");
    if (layers.empty() || layer.empty() || layer != previous) {
      layers.emplace_back();
      layers.back().layers =
          layer.empty() ? "stage " + std::to_string(number(*stage, "stage"))
                        : layer.str();
    }
    previous = layer;
    ChoiceGroup &group = layers.back();
    addNames(stage->getArray("repeats"), layer, group.repeats);
    addNames(stage->getArray("keeps"), layer, group.keeps);
    addNames(stage->getArray("offloads"), layer, group.offloads);
    group.repeatedBytes += number(*stage, "repeated_bytes");
    group.offloadedBytes += number(*stage, "offloaded_bytes");
    group.repeatedMs += real(*stage, "repeated_ms");
    group.forwardRuns =
        std::max(group.forwardRuns, number(*stage, "forward_runs"));
    group.dropsInput |= !stage->getBoolean("keeps_input").value_or(true);
  }
  // If some results of an op are recomputed and others kept, the op is in both
  // lists.
  for (ChoiceGroup &group : layers)
    for (std::string &name : group.repeats)
      if (auto both = llvm::find(group.keeps, name); both != group.keeps.end())
        name = *both = "part of " + name;

  auto alike = [](const ChoiceGroup &a, const ChoiceGroup &b) {
    bool keepAll = a.keepsEverything() && b.keepsEverything();
    return a.repeats == b.repeats && (keepAll || a.keeps == b.keeps) &&
           a.offloads == b.offloads && a.forwardRuns == b.forwardRuns &&
           a.dropsInput == b.dropsInput;
  };
  std::vector<ChoiceGroup> groups;
  for (size_t i = 0; i < layers.size();) {
    size_t end = i + 1;
    while (end < layers.size() && alike(layers[i], layers[end]))
      ++end;
    ChoiceGroup &group = groups.emplace_back(layers[i]);
    if (end > i + 1)
      group.layers +=
          (end == i + 2 ? " and " : " to ") + layers[end - 1].layers;
    while (++i < end) {
      group.repeatedBytes += layers[i].repeatedBytes;
      group.offloadedBytes += layers[i].offloadedBytes;
      group.repeatedMs += layers[i].repeatedMs;
    }
  }
  return groups;
}

std::string ChoiceGroup::text() const {
  std::string text;
  if (!repeats.empty())
    text = keeps.empty()
               ? "repeat everything"
               : "repeat " + llvm::join(repeats, ", ") + "; keep the rest";
  else
    text = keeps.empty() ? "nothing to keep" : "keep everything";
  if (!offloads.empty())
    text += "; on the host: " + llvm::join(offloads, ", ");
  if (dropsInput)
    text += "; compute the input again";
  if (forwardRuns > 1)
    text += "; forward runs " + std::to_string(forwardRuns) + " times";
  return text;
}

static std::vector<EncodingGroup> groupEncodings(const Array *values) {
  std::vector<EncodingGroup> groups;
  for (const llvm::json::Value &value : values ? *values : Array()) {
    const Object *object = value.getAsObject();
    if (!object)
      continue;
    StringRef as = object->getString("as").value_or("");
    auto group = llvm::find_if(
        groups, [&](const EncodingGroup &known) { return known.as == as; });
    if (group == groups.end()) {
      groups.emplace_back();
      group = std::prev(groups.end());
      group->as = as.str();
      group->lossy = object->getString("tag").value_or("") == "lossy";
    }
    ++group->values;
    group->bytes += number(*object, "bytes");
    group->encodedBytes += number(*object, "encoded_bytes");
  }
  return groups;
}

std::string EncodingGroup::text() const {
  return formatv("{0} value{1} of {2} kept as {3}", values,
                 values == 1 ? "" : "s", bytesText(bytes),
                 bytesText(encodedBytes));
}

/// Adds `sums`, the bytes of each buffer class, to `to`. The bytes of unknown
/// classes are added to those of the last class.
static void readSums(const Object *sums, std::array<int64_t, kClasses> &to) {
  for (const auto &entry : sums ? *sums : Object()) {
    StringRef key = entry.first;
    to[classIndex([&](const BufferClass &known) {
      return known.key == key;
    })] += entry.second.getAsInteger().value_or(0);
  }
}

PlanFigures::PlanFigures(const Object &plan)
    : arena(number(plan, "predicted_peak_bytes")),
      states(number(plan, "state_bytes")),
      microbatches(number(plan, "microbatches")),
      budget(number(plan, "budget_bytes")),
      unplannedPeak(number(plan, "unplanned_peak_bytes")),
      stepMs(real(plan, "predicted_step_ms")),
      boundMs(real(plan, "lower_bound_ms")),
      unplannedMs(real(plan, "unplanned_step_ms")),
      choices(groupChoices(plan.getArray("choices"))),
      lossy(plan.getString("lossy").value_or("").str()),
      encodings(groupEncodings(plan.getArray("compressed"))),
      commandNames(plan.getArray("command_names")) {
  readSums(plan.getObject("by_class"), atPeak);
  readSums(plan.getObject("declared"), declared);
  const Object *programs = plan.getObject("programs");
  program = plan.getString("program").value_or("").str();
  if (const Object *worst = programs ? programs->getObject(program) : nullptr) {
    commands = number(*worst, "commands");
    peakCommand = number(*worst, "peak_command");
  }
  hostFigures.arena = number(plan, "host_arena_bytes");
  hostFigures.states = number(plan, "host_state_bytes");
  hostFigures.budget = number(plan, "host_budget_bytes");
  hostFigures.copiedOut = number(plan, "copied_out_bytes_per_step");
  hostFigures.copiedIn = number(plan, "copied_in_bytes_per_step");
  if (const Object *link = plan.getObject("link")) {
    hostFigures.outRate = real(*link, "out_bytes_per_second");
    hostFigures.inRate = real(*link, "in_bytes_per_second");
  }
  rankBytes.reduced = number(plan, "all_reduced_bytes_per_step");
  rankBytes.scattered = number(plan, "reduce_scattered_bytes_per_step");
  rankBytes.gathered = number(plan, "all_gathered_bytes_per_step");
  rankBytes.averaged = number(plan, "all_reduced_bytes_per_sync");
  syncMs = real(plan, "predicted_sync_ms");
  syncEvery = std::max<int64_t>(number(plan, "sync_every"), 1);
  mesh = plan.getString("mesh").value_or("").str();
  isSequenceParallel = plan.getBoolean("sequence_parallel").value_or(false);
  if (const Object *segments = plan.getObject("segments"))
    readSegments(*segments);
  if (const Array *list = plan.getArray("buffers"))
    for (const llvm::json::Value &value : *list)
      if (const Object *object = value.getAsObject()) {
        bool onHost = object->getString("arena").value_or("") == "host";
        PlanBuffer buffer =
            readBuffer(*object, onHost ? hostFigures.states : states);
        // A buffer with a ring has one instance per micro-batch in flight.
        // Count all instances as live while any micro-batch is in flight.
        if (int64_t ring = number(*object, "ring")) {
          buffer.bytes += ring * (ringSlots - 1);
          std::tie(buffer.first, buffer.last) = inFlight;
        }
        (onHost ? hostFigures.buffers : buffers).push_back(std::move(buffer));
      }
  sumHost();
}

void PlanFigures::readSegments(const Object &segments) {
  order = segments.getString("order").value_or("").str();
  ringSlots = std::max<int64_t>(number(segments, "ring_slots"), 1);
  int64_t count = number(segments, "count");
  auto parsed = abi::SegmentOrder::parse(order);
  if (parsed.ok() && parsed->check(count).ok()) {
    segmentRuns = parsed->runs(count);
    hasAscendingBackward = parsed->hasAscendingBackward(count);
  }
  auto entry = [&](StringRef key, size_t index) -> int64_t {
    const Array *range = segments.getArray(key);
    return range && index < range->size()
               ? (*range)[index].getAsInteger().value_or(0)
               : 0;
  };
  inFlight = {entry("forward", 0), entry("backward", 1)};
}

/// Computes the figures of the host arena from its buffers, because the plan
/// contains only the size of this arena.
void PlanFigures::sumHost() {
  std::vector<Moment> moments = hostTimeline();
  auto most = std::max_element(
      moments.begin(), moments.end(),
      [](const Moment &a, const Moment &b) { return a.total < b.total; });
  if (most != moments.end())
    hostFigures.peakCommand = most->command;
  for (const PlanBuffer &buffer : hostFigures.buffers) {
    hostFigures.declared[buffer.slotClass] += buffer.bytes;
    if (buffer.isState || buffer.livesAt(hostFigures.peakCommand))
      hostFigures.atPeak[buffer.slotClass] += buffer.bytes;
  }
}

StringRef PlanFigures::commandName(int64_t command) const {
  if (!commandNames || command < 0 ||
      command >= static_cast<int64_t>(commandNames->size()))
    return "";
  return (*commandNames)[command].getAsString().value_or("");
}

std::vector<const PlanBuffer *>
PlanFigures::largestAtPeak(size_t count, bool withStates) const {
  std::vector<const PlanBuffer *> largest;
  for (const PlanBuffer &buffer : buffers)
    if (buffer.livesAt(peakCommand) && (withStates || !buffer.isState))
      largest.push_back(&buffer);
  llvm::sort(largest, [](const PlanBuffer *a, const PlanBuffer *b) {
    return std::pair(-a->bytes, a) < std::pair(-b->bytes, b);
  });
  if (largest.size() > count)
    largest.resize(count);
  return largest;
}

std::vector<Moment>
PlanFigures::follow(const std::vector<PlanBuffer> &followed) const {
  std::vector<Moment> moments(std::max<int64_t>(commands, 0));
  if (moments.empty())
    return moments;
  int64_t end = commands - 1;
  std::vector<std::array<int64_t, kClasses>> change(commands + 1);
  for (const PlanBuffer &buffer : followed) {
    int64_t first = buffer.isState ? 0 : buffer.first,
            last = buffer.isState ? end : buffer.last;
    if (first < 0 || first > end || last < first)
      continue;
    change[first][buffer.slotClass] += buffer.size();
    change[std::min(last, end) + 1][buffer.slotClass] -= buffer.size();
  }
  std::array<int64_t, kClasses> live{};
  for (int64_t i = 0; i < commands; ++i) {
    moments[i].command = i;
    for (size_t c = 0; c < kClasses; ++c)
      moments[i].total += live[c] += change[i][c];
    moments[i].byClass = live;
  }
  return moments;
}

static int64_t unusedOf(int64_t arena,
                        const std::array<int64_t, kClasses> &used) {
  for (int64_t bytes : used)
    arena -= bytes;
  return arena;
}

int64_t PlanFigures::unused() const { return unusedOf(arena, atPeak); }

int64_t HostFigures::unused() const { return unusedOf(arena, atPeak); }

std::optional<double> PlanFigures::percentAbove(double a, double b) {
  if (!(a > 0) || !(b > 0))
    return std::nullopt;
  return 100 * (a / b - 1);
}

std::string kiln::report::bytesText(int64_t bytes) {
  static constexpr std::pair<const char *, int> units[] = {
      {"GiB", 30}, {"MiB", 20}, {"KiB", 10}};
  for (auto [name, shift] : units)
    if (bytes >= int64_t(1) << shift)
      return formatv("{0:f2} {1}", std::ldexp(double(bytes), -shift), name);
  return std::to_string(bytes) + " B";
}

std::string kiln::report::withCommas(int64_t number) {
  return formatv("{0:N}", number);
}

std::string kiln::report::timeText(double milliseconds) {
  if (milliseconds >= 1000)
    return formatv("{0:f2} s", milliseconds / 1000);
  return formatv("{0:f2} ms", milliseconds);
}

std::string kiln::report::rateText(double bytesPerSecond) {
  static constexpr std::pair<const char *, double> units[] = {
      {"GB/s", 1e9}, {"MB/s", 1e6}, {"KB/s", 1e3}};
  for (auto [name, unit] : units)
    if (bytesPerSecond >= unit)
      return formatv("{0:f2} {1}", bytesPerSecond / unit, name);
  return formatv("{0:f2} B/s", bytesPerSecond);
}

std::string kiln::report::percentText(double percent) {
  return formatv("{0}{1:f1} %", percent >= 0.05 ? "+" : "",
                 std::abs(percent) < 0.05 ? 0.0 : percent);
}

std::string kiln::report::boundText(const PlanFigures &plan) {
  auto gap = PlanFigures::percentAbove(plan.stepMs, plan.boundMs);
  if (!gap || plan.budget <= 0)
    return "";
  if (*gap < 0.005)
    return "at the estimated lower bound";
  return formatv("{0:f2} % above the estimated lower bound of {1}", *gap,
                 timeText(plan.boundMs));
}

/// Formats a difference such as "8.5 % more time".
static std::string changeText(double percent, StringRef of) {
  if (std::abs(percent) < 0.05)
    return ("the same " + of).str();
  return formatv("{0:f1} % {1} {2}", std::abs(percent),
                 percent > 0 ? "more" : "less", of);
}

std::string kiln::report::priceText(const PlanFigures &plan) {
  auto time = PlanFigures::percentAbove(plan.stepMs, plan.unplannedMs);
  auto memory =
      PlanFigures::percentAbove(double(plan.arena), double(plan.unplannedPeak));
  if (!time || !memory)
    return "";
  return "against keeping everything (" + timeText(plan.unplannedMs) + ", " +
         bytesText(plan.unplannedPeak) + "): " + changeText(*time, "time") +
         ", " + changeText(*memory, "memory");
}

std::string kiln::report::copiesText(const PlanFigures &plan) {
  const HostFigures &host = plan.hostFigures;
  if (host.copiedOut <= 0 && host.copiedIn <= 0)
    return "";
  auto direction = [](int64_t bytes, StringRef where, double rate) {
    std::string text = bytesText(bytes) + where.str();
    if (bytes > 0 && rate > 0)
      text += " (" + timeText(1e3 * double(bytes) / rate) + " at " +
              rateText(rate) + ")";
    return text;
  };
  return direction(host.copiedOut, " to the host", host.outRate) + ", " +
         direction(host.copiedIn, " back", host.inRate);
}

std::string kiln::report::ranksText(const PlanFigures &plan) {
  if (plan.mesh.empty())
    return "";
  std::string text;
  for (auto [bytes, what] :
       {std::pair(plan.rankBytes.reduced, " summed over ranks"),
        std::pair(plan.rankBytes.scattered, " summed into shards"),
        std::pair(plan.rankBytes.gathered, " gathered from shards")})
    if (bytes > 0)
      text += ", " + bytesText(bytes) + what;
  text += " in a step";
  if (plan.syncEvery > 1)
    text += ", " + bytesText(plan.rankBytes.averaged) + " averaged every " +
            std::to_string(plan.syncEvery) + " steps (" +
            timeText(plan.syncMs) + " predicted)";
  return plan.mesh + (plan.isSequenceParallel ? " with divided tokens" : "") +
         text;
}

std::string kiln::report::reasonText(const PlanFigures &plan) {
  if (plan.budget <= 0 || plan.unplannedPeak <= 0)
    return "";
  std::string needs = "keeping everything needs " +
                      bytesText(plan.unplannedPeak) + ", which is ";
  if (plan.unplannedPeak <= plan.budget)
    return needs + "within the budget";
  return needs + bytesText(plan.unplannedPeak - plan.budget) +
         " above the budget";
}
