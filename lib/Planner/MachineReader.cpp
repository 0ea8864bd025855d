//===- MachineReader.cpp - Parsing of untrusted machine files ---*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Checks the type and plausible range of every figure and the order of every
// table, and rejects unknown keys, because a misspelt key would silently change
// plans. The first error is reported.
//
//===----------------------------------------------------------------------===//

#include "kiln/Planner/Machine.h"
#include "kiln/Support/Json.h"
#include "kiln/Support/Messages.h"

#include <charconv>
#include <cmath>
#include <set>

using namespace kiln::support;
using namespace kiln;
using nlohmann::json;

namespace {

/// The plausible range of a number in the file.
struct Range {
  double low, high;
};

constexpr std::size_t maxFileBytes = 1 << 20;
constexpr std::size_t maxAxisPoints = 64;
constexpr int64_t maxSize = int64_t(1) << 30;
constexpr int64_t minMemory = int64_t(1) << 20, maxMemory = int64_t(1) << 50;
constexpr Range gemmRates = {1e6, 1e18}, memoryRates = {1e6, 1e16},
                linkRates = {1e3, 1e14}, launchTimes = {1e-9, 0.1},
                latencies = {0, 10}, shares = {1e-3, 2};

std::string numberText(double value) {
  char text[32];
  return {text, std::to_chars(text, text + sizeof text, value).ptr};
}

/// An object of the file. finish() reports keys that were not requested.
class Section {
public:
  Section(const json &object, std::string path, const std::string &source,
          std::optional<std::string> &failure)
      : object(object), path(std::move(path)), source(source),
        failure(failure) {}

  bool has(const char *key) const { return object.contains(key); }

  std::string text(const char *key, std::size_t maxLength);
  std::string choice(const char *key, const std::vector<std::string> &choices);
  int64_t integer(const char *key, int64_t low, int64_t high);
  double real(const char *key, Range range);
  bool boolean(const char *key);
  /// Reads a nonempty array of ascending integers in [1, highest].
  std::vector<int64_t> axis(const char *key, int64_t highest);
  std::vector<double> reals(const char *key, std::size_t count, Range range);
  /// Reads a table with the extents [a][b][c] as a list in row-major order.
  std::vector<double> cube(const char *key, std::size_t a, std::size_t b,
                           std::size_t c, Range range);
  Section section(const char *key);
  const json &raw() const { return object; }

  void finish();
  /// Reports that `key` has the value `found` instead of `expected`.
  void refuse(const std::string &key, const std::string &found,
              const std::string &expected);
  bool failed() const { return failure.has_value(); }

private:
  const json *find(const char *key, const std::string &expected);
  double checked(const json &value, const std::string &key, Range range);

  const json &object;
  std::string path;
  const std::string &source;
  std::optional<std::string> &failure;
  std::set<std::string> asked;
};

} // namespace

static std::string describe(const json &value) {
  switch (value.type()) {
  case json::value_t::object:
    return "an object";
  case json::value_t::array:
    return "an array of " + std::to_string(value.size());
  case json::value_t::string:
    return inQuotes(value.get_ref<const std::string &>(), 40);
  case json::value_t::number_float:
    return numberText(value.get<double>());
  default:
    return value.dump();
  }
}

static std::string between(Range range) {
  return "a number from " + numberText(range.low) + " to " +
         numberText(range.high);
}

void Section::refuse(const std::string &key, const std::string &found,
                     const std::string &expected) {
  if (!failure)
    failure = "machine '" + printable(source) + "': '" + path +
              printable(key, 40) + "' is " + found + ", expected " + expected +
              ": correct it, or measure this machine with kilnc "
              "--measure-machine";
}

const json *Section::find(const char *key, const std::string &expected) {
  asked.insert(key);
  auto found = object.find(key);
  if (found != object.end())
    return &*found;
  refuse(key, "missing", expected);
  return nullptr;
}

std::string Section::text(const char *key, std::size_t maxLength) {
  std::string expected =
      "a text of 1 to " + std::to_string(maxLength) + " printable bytes";
  const json *value = find(key, expected);
  if (!value)
    return "";
  if (value->is_string()) {
    const auto &found = value->get_ref<const std::string &>();
    bool plain = true;
    for (unsigned char c : found)
      plain &= c >= 0x20 && c != 0x7f;
    if (plain && !found.empty() && found.size() <= maxLength)
      return found;
  }
  refuse(key, describe(*value), expected);
  return "";
}

std::string Section::choice(const char *key,
                            const std::vector<std::string> &choices) {
  std::string expected;
  for (const std::string &one : choices)
    expected += (expected.empty() ? "'" : " or '") + one + "'";
  const json *value = find(key, expected);
  if (!value)
    return "";
  for (const std::string &one : choices)
    if (*value == one)
      return one;
  refuse(key, describe(*value), expected);
  return "";
}

int64_t Section::integer(const char *key, int64_t low, int64_t high) {
  std::string expected = "a whole number from " + std::to_string(low) + " to " +
                         std::to_string(high);
  const json *value = find(key, expected);
  if (!value)
    return low;
  // Compare an unsigned number as uint64_t, because a number above INT64_MAX
  // would be negative as int64_t.
  if (value->is_number_integer() && !value->is_number_unsigned() &&
      value->get<int64_t>() >= low && value->get<int64_t>() <= high)
    return value->get<int64_t>();
  if (value->is_number_unsigned() && value->get<uint64_t>() >= uint64_t(low) &&
      value->get<uint64_t>() <= uint64_t(high))
    return int64_t(value->get<uint64_t>());
  refuse(key, describe(*value), expected);
  return low;
}

double Section::checked(const json &value, const std::string &key,
                        Range range) {
  if (value.is_number()) {
    auto number = value.get<double>();
    if (number >= range.low && number <= range.high)
      return number;
  }
  refuse(key, describe(value), between(range));
  return range.high;
}

double Section::real(const char *key, Range range) {
  const json *value = find(key, between(range));
  return value ? checked(*value, key, range) : range.high;
}

bool Section::boolean(const char *key) {
  const json *value = find(key, "true or false");
  if (!value)
    return false;
  if (!value->is_boolean()) {
    refuse(key, describe(*value), "true or false");
    return false;
  }
  return value->get<bool>();
}

std::vector<int64_t> Section::axis(const char *key, int64_t highest) {
  std::string expected = "an array of 1 to " + std::to_string(maxAxisPoints) +
                         " rising whole numbers from 1 to " +
                         std::to_string(highest);
  const json *value = find(key, expected);
  if (!value)
    return {1};
  if (!value->is_array() || value->empty() || value->size() > maxAxisPoints) {
    refuse(key, describe(*value), expected);
    return {1};
  }
  std::vector<int64_t> points;
  for (const json &point : *value) {
    bool good =
        point.is_number_unsigned() &&
        point.get<uint64_t>() <= uint64_t(highest) &&
        point.get<uint64_t>() >= 1 &&
        (points.empty() || int64_t(point.get<uint64_t>()) > points.back());
    if (!good) {
      refuse(std::string(key) + "[" + std::to_string(points.size()) + "]",
             describe(point),
             "a whole number from 1 to " + std::to_string(highest) +
                 " that is larger than the preceding entry");
      return {1};
    }
    points.push_back(int64_t(point.get<uint64_t>()));
  }
  return points;
}

std::vector<double> Section::reals(const char *key, std::size_t count,
                                   Range range) {
  return cube(key, 1, 1, count, range);
}

std::vector<double> Section::cube(const char *key, std::size_t a, std::size_t b,
                                  std::size_t c, Range range) {
  std::size_t extents[] = {a, b, c};
  std::vector<double> values;
  std::string expected = "an array of " + std::to_string(a == 1 ? c : a) +
                         " elements, one per point of the axis";
  const json *value = find(key, expected);
  if (!value)
    return {};
  // The value is a cube, given as lists nested three deep. A cube of 1 x 1 x c
  // numbers may also be a list of numbers.
  bool isNested =
      value->is_array() && !value->empty() && (*value)[0].is_array();
  int levels = isNested || a > 1 || b > 1 ? 3 : 1;
  auto read = [&](auto &self, const json &node, int level,
                  const std::string &name) -> void {
    if (failed())
      return;
    if (level == 3) {
      values.push_back(checked(node, name, range));
      return;
    }
    if (!node.is_array() || node.size() != extents[level]) {
      refuse(name, describe(node),
             "an array of " + std::to_string(extents[level]) +
                 " elements, one per point of the axis");
      return;
    }
    for (std::size_t i = 0; i < node.size(); ++i)
      self(self, node[i], level + 1, name + "[" + std::to_string(i) + "]");
  };
  read(read, *value, 3 - levels, key);
  return values;
}

Section Section::section(const char *key) {
  static const json empty = json::object();
  const json *value = find(key, "an object");
  if (value && !value->is_object())
    refuse(key, describe(*value), "an object");
  return {value && value->is_object() ? *value : empty, path + key + ".",
          source, failure};
}

void Section::finish() {
  if (failed())
    return;
  for (const auto &[key, value] : object.items())
    if (!asked.count(key)) {
      std::string known;
      for (const std::string &one : asked)
        known += (known.empty() ? "" : ", ") + one;
      refuse(key, "unknown", "one of the keys " + known);
      return;
    }
}

static MachineOrigin readOrigin(Section file) {
  MachineOrigin origin;
  origin.measured =
      file.choice("how", {"measured", "data-sheet"}) == "measured";
  if (!origin.measured) {
    origin.source = file.text("source", 2000);
  } else {
    origin.date = file.text("date", 10);
    origin.cpu = file.text("cpu", 200);
    origin.blas = file.text("blas", 200);
    origin.threads = file.integer("threads", 1, 1024);
  }
  file.finish();
  return origin;
}

/// Checks that the time of a GEMM does not decrease if an extent increases.
static void checkGemmOrder(const GemmCurve &curve, Section &file) {
  std::size_t extents[] = {curve.m.size(), curve.n.size(), curve.k.size()};
  const std::vector<int64_t> *axes[] = {&curve.m, &curve.n, &curve.k};
  std::size_t strides[] = {extents[1] * extents[2], extents[2], 1};
  for (std::size_t index = 0; index < curve.flops.size(); ++index)
    for (int d = 0; d < 3; ++d) {
      std::size_t at = index / strides[d] % extents[d];
      if (at + 1 == extents[d])
        continue;
      std::size_t next = index + strides[d];
      double growth = double((*axes[d])[at + 1]) / double((*axes[d])[at]);
      if (curve.flops[next] <= curve.flops[index] * growth * (1 + 1e-9))
        continue;
      std::string name = "flop_per_s";
      for (int e = 0; e < 3; ++e)
        name += "[" + std::to_string(next / strides[e] % extents[e]) + "]";
      return file.refuse(name, numberText(curve.flops[next]),
                         "at most " + numberText(growth) + " times the rate " +
                             numberText(curve.flops[index]) +
                             " of the next smaller size, so that a larger "
                             "GEMM does not take less time");
    }
}

/// Checks that a list of rates grows at most as fast as the sizes, so that the
/// time, size / rate, does not decrease if the size increases.
static void checkOrder(const std::vector<int64_t> &axis,
                       const std::vector<double> &values, const char *key,
                       Section &file) {
  for (std::size_t i = 1; i < values.size() && i < axis.size(); ++i) {
    double growth = double(axis[i]) / double(axis[i - 1]);
    if (values[i] > values[i - 1] * growth * (1 + 1e-9))
      return file.refuse(std::string(key) + "[" + std::to_string(i) + "]",
                         numberText(values[i]),
                         "at most " + numberText(growth) +
                             " times the rate " +
                             numberText(values[i - 1]) +
                             " of the next smaller size, so that a larger "
                             "size does not take less time");
  }
}

static GemmCurve readGemm(Section file) {
  GemmCurve curve;
  curve.m = file.axis("m", maxSize);
  curve.n = file.axis("n", maxSize);
  curve.k = file.axis("k", maxSize);
  curve.flops = file.cube("flop_per_s", curve.m.size(), curve.n.size(),
                          curve.k.size(), gemmRates);
  if (!file.failed())
    checkGemmOrder(curve, file);
  file.finish();
  return curve;
}

static BandwidthCurve readBandwidth(Section file) {
  BandwidthCurve curve;
  curve.bytes = file.axis("bytes", maxMemory);
  curve.bytesPerSecond =
      file.reals("bytes_per_s", curve.bytes.size(), memoryRates);
  checkOrder(curve.bytes, curve.bytesPerSecond, "bytes_per_s", file);
  file.finish();
  return curve;
}

static AttentionCurve readAttention(Section file) {
  AttentionCurve curve;
  curve.sequence = file.axis("sequence", maxSize);
  curve.forward = file.reals("forward", curve.sequence.size(), shares);
  curve.backward = file.reals("backward", curve.sequence.size(), shares);
  checkOrder(curve.sequence, curve.forward, "forward", file);
  checkOrder(curve.sequence, curve.backward, "backward", file);
  file.finish();
  return curve;
}

static MachineLink readLink(Section file) {
  MachineLink link;
  link.toHost = file.real("to_host_bytes_per_s", linkRates);
  link.toDevice = file.real("to_device_bytes_per_s", linkRates);
  link.latency = file.real("latency_s", latencies);
  link.duplex = file.boolean("duplex");
  file.finish();
  return link;
}

static MachineNetwork readNetwork(Section file) {
  MachineNetwork network;
  network.bytesPerSecond = file.real("bytes_per_s", linkRates);
  network.latency = file.real("latency_s", latencies);
  file.finish();
  return network;
}

static MachineHost readHost(Section file) {
  MachineHost host;
  host.bytesPerSecond = file.real("bytes_per_s", memoryRates);
  host.vectorFlops = file.real("vector_flop_per_s", gemmRates);
  file.finish();
  return host;
}

static Machine readMachine(Section file) {
  Machine machine;
  file.choice("format", {"kiln-machine"});
  file.integer("version", 1, 1);
  if (file.failed())
    return machine;
  machine.name = file.text("name", 100);
  machine.kind = file.choice("kind", {"cpu", "gpu"}) == "gpu"
                     ? MachineKind::Gpu
                     : MachineKind::Cpu;
  machine.origin = readOrigin(file.section("origin"));
  machine.deviceBytes = file.integer("device_bytes", minMemory, maxMemory);
  machine.hostBytes = file.integer("host_bytes", minMemory, maxMemory);
  machine.launchSeconds = file.real("launch_s", launchTimes);
  machine.vectorFlops = file.real("vector_flop_per_s", gemmRates);
  Section gemm = file.section("gemm");
  for (ElementType type : {ElementType::F64, ElementType::F32,
                           ElementType::BF16, ElementType::F16}) {
    const std::string name(infoOf(type).precision);
    bool needed = type == ElementType::F64 || type == ElementType::F32;
    if (needed || gemm.has(name.c_str()))
      machine.gemm[type] = readGemm(gemm.section(name.c_str()));
  }
  gemm.finish();
  machine.bandwidth = readBandwidth(file.section("bandwidth"));
  machine.attention = readAttention(file.section("attention"));
  machine.link = readLink(file.section("link"));
  if (file.has("network"))
    machine.network = readNetwork(file.section("network"));
  if (machine.kind == MachineKind::Gpu)
    machine.host = readHost(file.section("host"));
  file.finish();
  return machine;
}

Result<Machine> kiln::parseMachine(const std::string &text,
                                   const std::string &source) {
  JsonLimits limits;
  limits.maxBytes = maxFileBytes;
  limits.maxDepth = 16;
  Result<json> document = parseJson(text, source, limits);
  if (!document.ok())
    return document.status();
  if (!document->is_object())
    return Status::badInput("machine '" + printable(source) + "' is " +
                            describe(*document) +
                            ", expected an object, as in the files that kilnc "
                            "--measure-machine writes");
  std::optional<std::string> failure;
  Machine machine = readMachine(Section(*document, "", source, failure));
  if (failure)
    return Status::badInput(*failure);
  return machine;
}

Result<double> kiln::parseLinkSpeed(const std::string &text,
                                    const std::string &flag) {
  static const std::pair<const char *, double> units[] = {
      {"B/s", 1},      {"KB/s", 1e3},      {"MB/s", 1e6},        {"GB/s", 1e9},
      {"KiB/s", 1024}, {"MiB/s", 1048576}, {"GiB/s", 1073741824}};
  double number = 0;
  auto [end, error] =
      std::from_chars(text.data(), text.data() + text.size(), number);
  std::string unit(end, text.data() + text.size() - end);
  for (auto [name, bytes] : units)
    if (error == std::errc() && unit == name &&
        number * bytes >= linkRates.low && number * bytes <= linkRates.high)
      return number * bytes;
  return Status(ExitCode::Usage,
                flag + " is " + inQuotes(text, 40) +
                    ", expected a rate from 1KB/s to 100000GB/s such as "
                    "120MB/s (units B, KB, MB, GB, KiB, MiB, GiB per second)");
}
