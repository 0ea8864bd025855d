//===- PlanSummary.cpp - Text report of a memory plan -----------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "kiln/Report/PlanReport.h"

#include "PlanCharts.h"
#include "PlanFigures.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/raw_ostream.h"

using namespace kiln;
using namespace kiln::report;
using llvm::formatv;
using llvm::StringRef;

static constexpr size_t kLargest = 10;
/// Maximum number of forward and backward segments in the table of their order.
static constexpr size_t kMostSegments = 16;

/// Writes a table of the bytes of each class of buffers, with a column for the
/// host if there is a host arena.
static void writeClasses(const PlanFigures &plan, llvm::raw_ostream &os) {
  bool hasHost = plan.hostFigures.arena > 0;
  auto row = [&](StringRef name, StringRef atPeak, StringRef inTotal,
                 StringRef onHost) {
    os << formatv("  {0,-16}{1,14}", name, atPeak);
    if (!inTotal.empty() || hasHost)
      os << formatv("{0,14}", inTotal);
    if (hasHost)
      os << formatv("{0,16}", onHost);
    os << "\n";
  };
  row("class", "at the peak", "in total", "on the host");
  for (size_t i = 0; i < kClasses; ++i)
    if (plan.atPeak[i] || plan.declared[i] || plan.hostFigures.declared[i])
      row(bufferClasses[i].key, bytesText(plan.atPeak[i]),
          bytesText(plan.declared[i]), bytesText(plan.hostFigures.atPeak[i]));
  row("unused", bytesText(plan.unused()), "",
      bytesText(plan.hostFigures.unused()));
  row("arena", bytesText(plan.arena), "", bytesText(plan.hostFigures.arena));
}

/// Writes a table of where the states are, if some are on the host.
static void writeResidency(const PlanFigures &plan, llvm::raw_ostream &os) {
  if (plan.hostFigures.states == 0)
    return;
  struct Row {
    int64_t count = 0, bytes = 0;
  };
  enum Place { Device, UpdatedOnHost, Host };
  std::array<std::array<Row, 3>, kClasses> rows{};
  auto count = [&](const PlanBuffer &buffer, Place place) {
    if (!buffer.isState || buffer.bytes == 0)
      return;
    ++rows[buffer.slotClass][place].count;
    rows[buffer.slotClass][place].bytes += buffer.bytes;
  };
  for (const PlanBuffer &buffer : plan.buffers)
    count(buffer, Device);
  for (const PlanBuffer &buffer : plan.hostFigures.buffers)
    count(buffer, buffer.isUpdatedOnHost ? UpdatedOnHost : Host);
  os << formatv("\n  {0,-16}{1,20}{2,24}{3,20}\n", "states", "on the device",
                "updated on the host", "copied from it");
  auto text = [](const Row &row) {
    return row.count == 0
               ? std::string("-")
               : formatv("{0} ({1})", bytesText(row.bytes), row.count).str();
  };
  for (size_t i = 0; i < kClasses; ++i)
    if (llvm::any_of(rows[i], [](const Row &row) { return row.count > 0; }))
      os << formatv("  {0,-16}{1,20}{2,24}{3,20}\n", bufferClasses[i].key,
                    text(rows[i][Device]), text(rows[i][UpdatedOnHost]),
                    text(rows[i][Host]));
}

static void writePeak(const PlanFigures &plan, llvm::raw_ostream &os) {
  if (plan.commands <= 0)
    return;
  os << "peak: command " << plan.peakCommand << " of " << plan.commands
     << " in @" << plan.program;
  if (StringRef name = plan.commandName(plan.peakCommand); !name.empty())
    os << ", '" << name << "'";
  os << ", in addition to " << bytesText(plan.states) << " of states\n";
  os << formatv("  {0,-40}{1,-14}{2,12}  {3}\n", "largest live buffers",
                "class", "bytes", "lives");
  for (const PlanBuffer *buffer : plan.largestAtPeak(kLargest, false))
    os << formatv("  {0,-40}{1,-14}{2,12}  {3}-{4}\n", buffer->name,
                  bufferClasses[buffer->slotClass].key,
                  bytesText(buffer->bytes), buffer->first, buffer->last);
}

static void writeEncodings(const PlanFigures &plan, llvm::raw_ostream &os) {
  bool isAnyLossy = llvm::any_of(
      plan.encodings, [](const EncodingGroup &group) { return group.lossy; });
  if (!plan.encodings.empty())
    os << "\nencodings\n";
  for (const EncodingGroup &group : plan.encodings)
    os << formatv("  {0,-16}{1,-7}{2}\n", group.as,
                  group.lossy ? "lossy" : "exact", group.text());
  if (!plan.lossy.empty() && !isAnyLossy)
    os << "\nlossy: " << plan.lossy
       << " saves nothing for this plan: the values that it can encode use no "
          "memory\n";
}

std::string kiln::planSummary(const llvm::json::Object &object) {
  PlanFigures plan(object);
  std::string text;
  llvm::raw_string_ostream os(text);
  os << "arena: " << bytesText(plan.arena) << " (" << withCommas(plan.arena)
     << " bytes)";
  if (plan.budget > 0)
    os << ", budget " << bytesText(plan.budget) << " ("
       << withCommas(plan.budget) << " bytes)";
  if (plan.hostFigures.arena > 0) {
    os << "\nhost: " << bytesText(plan.hostFigures.arena) << " ("
       << withCommas(plan.hostFigures.arena) << " bytes)";
    if (plan.hostFigures.budget > 0)
      os << ", budget " << bytesText(plan.hostFigures.budget) << " ("
         << withCommas(plan.hostFigures.budget) << " bytes)";
  }
  os << "\nstep: " << timeText(plan.stepMs) << " predicted";
  if (std::string bound = boundText(plan); !bound.empty())
    os << ", " << bound;
  if (std::string price = priceText(plan); !price.empty())
    os << "\n" << price;
  if (std::string copies = copiesText(plan); !copies.empty())
    os << "\ncopies in a step: " << copies;
  if (std::string ranks = ranksText(plan); !ranks.empty())
    os << "\nranks: " << ranks;
  if (!plan.segmentRuns.empty()) {
    if (!plan.hasAscendingBackward)
      os << "\nsums over micro-batches are rounded differently than with "
            "--order=alternate, because their order differs";
    os << "\nmicro-batches: " << plan.microbatches << ", at most "
       << plan.ringSlots << " in flight";
    if (plan.ringSlots > 1)
      os << "; F and B are forward and backward segments\n"
         << StringRef(orderTable(plan.segmentRuns, kMostSegments)).rtrim();
  }
  os << "\n\n";
  writeClasses(plan, os);
  writeResidency(plan, os);
  os << "\n";
  writePeak(plan, os);
  if (!plan.choices.empty()) {
    std::string reason = reasonText(plan);
    os << "\nchoices" << (reason.empty() ? "" : ": ") << reason << "\n";
  }
  // The names of layers are padded to 15 characters. Longer names are not cut.
  for (const ChoiceGroup &group : plan.choices)
    os << formatv("  {0,-15} {1}\n", group.layers, group.text());
  writeEncodings(plan, os);
  return text;
}
