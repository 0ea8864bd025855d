//===- MachineWriter.cpp - Writing of machine files -------------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Numbers are written with enough digits to read back the same value, so that a
// file and its hash survive a round trip.
//
//===----------------------------------------------------------------------===//

#include "kiln/Planner/Machine.h"
#include "kiln/Support/Json.h"
#include "kiln/Support/OutputFile.h"

#include "llvm/Support/xxhash.h"

#include <charconv>
#include <cstdio>

using namespace kiln::support;
using namespace kiln;

static std::string number(double value) {
  char text[32];
  return {text, std::to_chars(text, text + sizeof text, value).ptr};
}

static std::string number(int64_t value) { return std::to_string(value); }

template <typename Iterator>
static std::string listOf(Iterator begin, Iterator end) {
  std::string text = "[";
  for (Iterator it = begin; it != end; ++it)
    text += (it == begin ? "" : ", ") + number(*it);
  return text + "]";
}

template <typename Values> static std::string list(const Values &values) {
  return listOf(values.begin(), values.end());
}

static std::string printCurve(const GemmCurve &curve) {
  std::string text =
      "{\n      \"m\": " + list(curve.m) + ",\n      \"n\": " + list(curve.n) +
      ",\n      \"k\": " + list(curve.k) + ",\n      \"flop_per_s\": [";
  auto row = curve.flops.begin();
  for (std::size_t i = 0; i < curve.m.size(); ++i) {
    text += i ? ",\n        [" : "\n        [";
    for (std::size_t j = 0; j < curve.n.size(); ++j) {
      text += (j ? ",\n         " : "") + listOf(row, row + curve.k.size());
      row += curve.k.size();
    }
    text += "]";
  }
  return text + "\n      ]\n    }";
}

static std::string printOrigin(const MachineOrigin &origin) {
  if (!origin.measured)
    return "{\n    \"how\": \"data-sheet\",\n    \"source\": " +
           jsonQuoted(origin.source) + "\n  }";
  return "{\n    \"how\": \"measured\",\n    \"date\": " +
         jsonQuoted(origin.date) + ",\n    \"cpu\": " + jsonQuoted(origin.cpu) +
         ",\n    \"blas\": " + jsonQuoted(origin.blas) +
         ",\n    \"threads\": " + number(origin.threads) + "\n  }";
}

std::string kiln::printMachine(const Machine &machine) {
  std::string text = "{\n  \"format\": \"kiln-machine\",\n  \"version\": 1";
  auto add = [&](const char *key, const std::string &value) {
    text += ",\n  \"" + std::string(key) + "\": " + value;
  };
  add("name", jsonQuoted(machine.name));
  add("kind", machine.kind == MachineKind::Cpu ? "\"cpu\"" : "\"gpu\"");
  add("origin", printOrigin(machine.origin));
  add("device_bytes", number(machine.deviceBytes));
  add("host_bytes", number(machine.hostBytes));
  add("launch_s", number(machine.launchSeconds));
  add("vector_flop_per_s", number(machine.vectorFlops));
  std::string gemm;
  for (const auto &[type, curve] : machine.gemm)
    gemm += (gemm.empty() ? "{\n    \"" : ",\n    \"") +
            std::string(infoOf(type).precision) + "\": " + printCurve(curve);
  add("gemm", gemm + "\n  }");
  add("bandwidth", "{\n    \"bytes\": " + list(machine.bandwidth.bytes) +
                       ",\n    \"bytes_per_s\": " +
                       list(machine.bandwidth.bytesPerSecond) + "\n  }");
  add("attention",
      "{\n    \"sequence\": " + list(machine.attention.sequence) +
          ",\n    \"forward\": " + list(machine.attention.forward) +
          ",\n    \"backward\": " + list(machine.attention.backward) + "\n  }");
  add("link",
      "{\n    \"to_host_bytes_per_s\": " + number(machine.link.toHost) +
          ",\n    \"to_device_bytes_per_s\": " + number(machine.link.toDevice) +
          ",\n    \"latency_s\": " + number(machine.link.latency) +
          ",\n    \"duplex\": " + (machine.link.duplex ? "true" : "false") +
          "\n  }");
  if (machine.network)
    add("network",
        "{\n    \"bytes_per_s\": " + number(machine.network->bytesPerSecond) +
            ",\n    \"latency_s\": " + number(machine.network->latency) +
            "\n  }");
  if (machine.host)
    add("host",
        "{\n    \"bytes_per_s\": " + number(machine.host->bytesPerSecond) +
            ",\n    \"vector_flop_per_s\": " +
            number(machine.host->vectorFlops) + "\n  }");
  return text + "\n}\n";
}

Status kiln::writeMachine(const Machine &machine, const std::string &path) {
  return writeFile(path, printMachine(machine));
}

std::string Machine::hash() const {
  char text[17];
  std::snprintf(
      text, sizeof text, "%016llx",
      static_cast<unsigned long long>(llvm::xxh3_64bits(printMachine(*this))));
  return text;
}
