//===- PlanPage.cpp - HTML report of a memory plan --------------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The page is self-contained: it contains the charts as SVG, the figures of all
// commands as JSON, and one script, which shows the figures of the command at
// the pointer position. All names are escaped, because they are read from model
// files.
//
//===----------------------------------------------------------------------===//

#include "kiln/Report/PlanReport.h"

#include "PlanCharts.h"
#include "PlanFigures.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/raw_ostream.h"

#include <algorithm>

using namespace kiln;
using namespace kiln::report;
using llvm::formatv;
using llvm::StringRef;
using llvm::json::Array;

static constexpr size_t kPoints = 800, kLargest = 20;
/// Maximum number of forward and backward segments in the chart of their order.
static constexpr size_t kSegments = 64;

static const char *const kStyle = R"css(
:root { --back: #fff; --text: #1c1e21; --soft: #5b6167; --line: #dfe2e5; --card: #f6f7f8; }
@media (prefers-color-scheme: dark) {
  :root { --back: #16181a; --text: #e6e6e6; --soft: #9aa0a6; --line: #33373b; --card: #202326; }
}
body { font: 15px/1.45 system-ui, sans-serif; color: var(--text); background: var(--back); max-width: 1040px; margin: 28px auto; padding: 0 20px; }
h1 { font-size: 24px; margin: 0 0 4px; }
h2 { font-size: 17px; margin: 34px 0 8px; }
p { margin: 6px 0; color: var(--soft); }
code { font: 13px ui-monospace, monospace; overflow-wrap: anywhere; }
.cards { display: grid; grid-template-columns: repeat(auto-fit, minmax(155px, 1fr)); gap: 10px; margin: 20px 0; }
.card { background: var(--card); border-radius: 8px; padding: 10px 12px; }
.card b { display: block; font-size: 21px; font-weight: 600; }
.card span { color: var(--soft); font-size: 13px; }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; }
th { text-align: left; font-weight: 600; color: var(--soft); font-size: 13px; }
th, td { padding: 4px 12px 4px 0; border-bottom: 1px solid var(--line); vertical-align: top; }
td.n, th.n { text-align: right; white-space: nowrap; }
td.name { overflow-wrap: anywhere; }
i.key { display: inline-block; width: 11px; height: 11px; border-radius: 2px; margin-right: 6px; }
.keys { font-size: 13px; color: var(--soft); display: flex; flex-wrap: wrap; gap: 4px 18px; }
#at { min-height: 1.5em; font-size: 13px; }
#timeline { margin-top: 12px; }
svg { width: 100%; height: auto; display: block; }
svg text { font: 11px system-ui, sans-serif; fill: var(--soft); }
svg text.mark { fill: var(--text); }
svg .grid, svg .tick { stroke: var(--line); }
svg .arena { stroke: var(--text); stroke-width: 1; }
svg .budget { stroke: #c4342d; stroke-dasharray: 6 4; }
svg .peak { stroke: var(--text); stroke-dasharray: 2 3; }
svg .cursor { stroke: #c4342d; visibility: hidden; }
svg .forward { fill: #4c8bd6; }
svg .backward { fill: #e08a3c; }
svg .flight { fill: var(--line); }
svg rect.high { stroke: var(--back); stroke-width: 0.5; }
)css";

/// Shows the figures of the command at the pointer position.
static const char *const kScript = R"js(
const moments = JSON.parse(document.getElementById("moments").textContent);
const svg = document.querySelector("#timeline svg"), cursor = document.getElementById("cursor"), at = document.getElementById("at");
const size = n => n >= 2 ** 30 ? (n / 2 ** 30).toFixed(2) + " GiB" : n >= 2 ** 20 ? (n / 2 ** 20).toFixed(2) + " MiB" : n >= 1024 ? (n / 1024).toFixed(2) + " KiB" : n + " B";
svg.addEventListener("mousemove", event => {
  const box = svg.getBoundingClientRect(), x = (event.clientX - box.left) / box.width * 1000;
  const [left, right] = moments.span, index = Math.floor((x - left) / (right - left) * moments.rows.length);
  const row = moments.rows[index];
  if (!row) return;
  cursor.setAttribute("x1", x); cursor.setAttribute("x2", x); cursor.style.visibility = "visible";
  const parts = moments.classes.map((name, i) => [name, row[2 + i]]).filter(part => part[1]).map(part => part[0] + " " + size(part[1]));
  at.textContent = "command " + row[0] + (row[1] ? " '" + row[1] + "'" : "") + ": " + size(row.slice(2).reduce((a, b) => a + b)) + " = " + parts.join(" + ");
});
)js";

/// Returns JSON that is safe inside a script element, without any '<'.
static std::string inlineJson(llvm::json::Value value) {
  std::string text = formatv("{0}", value), safe;
  for (char c : text)
    safe += c == '<' ? "\\u003c" : std::string(1, c);
  return safe;
}

static std::string momentsJson(const PlanFigures &plan,
                               const std::vector<Moment> &points) {
  Array rows, classes;
  for (const BufferClass &known : bufferClasses)
    classes.push_back(known.key);
  for (const Moment &moment : points) {
    Array row{moment.command, plan.commandName(moment.command)};
    for (int64_t bytes : moment.byClass)
      row.push_back(bytes);
    rows.push_back(std::move(row));
  }
  return inlineJson(
      llvm::json::Object{{"span", Array{timelineLeft, timelineRight}},
                         {"classes", std::move(classes)},
                         {"rows", std::move(rows)}});
}

static void writeCard(StringRef figure, StringRef meaning,
                      llvm::raw_ostream &os) {
  os << "<div class=\"card\"><b>" << escapeHtml(figure) << "</b><span>"
     << escapeHtml(meaning) << "</span></div>\n";
}

static void writeHead(const PlanFigures &plan, const ReportTitle &title,
                      llvm::raw_ostream &os) {
  std::string heading = escapeHtml("Memory plan of " + title.model);
  os << "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta "
        "charset=\"utf-8\">\n<meta name=\"viewport\" "
        "content=\"width=device-width\">\n<title>"
     << heading << "</title>\n<style>" << kStyle
     << "</style>\n</head>\n<body>\n"
     << "<h1>" << heading << "</h1>\n<p>kiln " << escapeHtml(title.version)
     << "; <code>" << escapeHtml(title.commandLine) << "</code></p>\n"
     << "<div class=\"cards\">\n";
  writeCard(bytesText(plan.arena),
            "arena: " + withCommas(plan.arena) + " bytes", os);
  if (plan.budget > 0)
    writeCard(bytesText(plan.budget),
              "budget; " + bytesText(plan.budget - plan.arena) + " left", os);
  writeCard(timeText(plan.stepMs), "predicted step", os);
  auto gap = PlanFigures::percentAbove(plan.stepMs, plan.boundMs);
  if (gap && plan.budget > 0)
    writeCard(percentText(std::max(*gap, 0.0)), "above the lower bound", os);
  if (auto time = PlanFigures::percentAbove(plan.stepMs, plan.unplannedMs))
    writeCard(percentText(*time),
              "time; keeping everything: " + timeText(plan.unplannedMs), os);
  if (auto memory = PlanFigures::percentAbove(double(plan.arena),
                                              double(plan.unplannedPeak)))
    writeCard(percentText(*memory),
              "memory; keeping everything: " + bytesText(plan.unplannedPeak),
              os);
  const HostFigures &host = plan.hostFigures;
  if (host.arena > 0)
    writeCard(bytesText(host.arena),
              "on the host: " + withCommas(host.arena) + " bytes", os);
  if (host.copiedOut > 0)
    writeCard(bytesText(host.copiedOut), "copied to the host in a step", os);
  if (host.copiedIn > 0)
    writeCard(bytesText(host.copiedIn), "copied back in a step", os);
  os << "</div>\n";
}

static std::string keyOf(size_t slotClass) {
  return formatv("<i class=\"key\" style=\"background:{0}\"></i>{1}",
                 bufferClasses[slotClass].color, bufferClasses[slotClass].key);
}

static void writeClass(StringRef name, int64_t bytes, StringRef together,
                       llvm::raw_ostream &os) {
  os << "<tr><td>" << name << "</td><td class=\"n\">" << bytesText(bytes)
     << "</td><td class=\"n\">" << withCommas(bytes) << "</td><td class=\"n\">"
     << together << "</td></tr>\n";
}

static void writeKeys(const std::array<int64_t, kClasses> &atPeak,
                      const std::array<int64_t, kClasses> &declared,
                      llvm::raw_ostream &os) {
  os << "<div class=\"keys\">";
  for (size_t i = 0; i < kClasses; ++i)
    if (declared[i] || atPeak[i])
      os << "<span>" << keyOf(i) << "</span>";
  os << "</div>\n";
}

static void writeTimeline(const PlanFigures &plan, llvm::raw_ostream &os) {
  std::vector<Moment> moments = plan.timeline();
  Timeline timeline;
  timeline.label = "live bytes over the commands of a step";
  timeline.points = downsample(moments, kPoints);
  timeline.arena = plan.arena;
  timeline.budget = plan.budget;
  timeline.peakCommand = plan.peakCommand;
  timeline.hasCursor = true;
  os << "<h2>Memory over a step</h2>\n";
  writeKeys(plan.atPeak, plan.declared, os);
  os << "<div id=\"timeline\">" << timelineChart(plan, timeline)
     << "</div>\n<p id=\"at\">Live bytes at each of the " << plan.commands
     << " commands of @" << escapeHtml(plan.program);
  if (timeline.points.size() < moments.size())
    os << ", shown as the maximum of about every "
       << (moments.size() + timeline.points.size() - 1) /
              timeline.points.size();
  os << ". The dotted line is the peak; move the pointer over the chart for "
        "figures.</p>\n"
     << "<script type=\"application/json\" id=\"moments\">"
     << momentsJson(plan, timeline.points) << "</script>\n";
}

static void writeCopies(const PlanFigures &plan, llvm::raw_ostream &os) {
  if (std::string copies = copiesText(plan); !copies.empty())
    os << "A step copies " << escapeHtml(copies)
       << ". Copies overlap the commands, which wait only for copies that "
          "are not complete in time. ";
  if (std::string ranks = ranksText(plan); !ranks.empty())
    os << "Ranks: " << escapeHtml(ranks) << ". ";
}

/// Writes the order of the forward and backward segments of micro-batches, if
/// there are any.
static void writeOrder(const PlanFigures &plan, llvm::raw_ostream &os) {
  size_t total = plan.segmentRuns.size();
  if (total == 0)
    return;
  os << "<h2>Order of micro-batches</h2>\n"
     << orderChart(plan.segmentRuns, kSegments) << "<p>" << plan.microbatches
     << " micro-batches, each with a forward segment F and a backward segment "
        "B, in the order <code>"
     << escapeHtml(StringRef(plan.order).take_front(200))
     << (plan.order.size() > 200 ? "..." : "") << "</code>. At most "
     << plan.ringSlots
     << " are in flight, and each occupies a slot of the rings that store "
        "residuals. ";
  if (total > kSegments)
    os << "The chart shows the first " << kSegments << " of " << total
       << " segments.";
  os << "</p>\n";
}

/// Writes the host arena, if there is one.
static void writeHost(const PlanFigures &plan, llvm::raw_ostream &os) {
  const HostFigures &host = plan.hostFigures;
  if (host.arena <= 0)
    return;
  Timeline timeline;
  timeline.label = "bytes on the host over the commands of a step";
  timeline.points = downsample(plan.hostTimeline(), kPoints);
  timeline.arena = host.arena;
  timeline.budget = host.budget;
  timeline.peakCommand = host.peakCommand;
  os << "<h2>Host memory over a step</h2>\n";
  writeKeys(host.atPeak, host.declared, os);
  os << timelineChart(plan, timeline);
  os << "<table>\n<tr><th>class</th><th class=\"n\">at its peak</th><th "
        "class=\"n\">bytes at its peak</th><th class=\"n\">sum of all "
        "buffers</th></tr>\n";
  for (size_t i = 0; i < kClasses; ++i)
    if (host.declared[i])
      writeClass(keyOf(i), host.atPeak[i], bytesText(host.declared[i]), os);
  writeClass("unused: gaps and alignment", host.unused(), "", os);
  writeClass("<b>arena</b>", host.arena, "", os);
  os << "</table>\n";
  // Describe the copies here only if there is no budget. If there is a budget,
  // the section on time describes them.
  if (plan.budget <= 0) {
    os << "<p>";
    writeCopies(plan, os);
    os << "</p>\n";
  }
}

static void writeClasses(const PlanFigures &plan, llvm::raw_ostream &os) {
  os << "<h2>By class</h2>\n<table>\n<tr><th>class</th><th class=\"n\">at the "
        "peak</th><th class=\"n\">bytes at the peak</th><th class=\"n\">sum "
        "of all buffers</th></tr>\n";
  for (size_t i = 0; i < kClasses; ++i)
    if (plan.declared[i] || plan.atPeak[i])
      writeClass(keyOf(i), plan.atPeak[i], bytesText(plan.declared[i]), os);
  writeClass("unused: gaps and alignment", plan.unused(), "", os);
  writeClass("<b>arena</b>", plan.arena, "", os);
  os << "</table>\n<p>Buffers share the arena over time, so the sum of their "
        "sizes may exceed its size.</p>\n";
}

static void writePeak(const PlanFigures &plan, llvm::raw_ostream &os) {
  os << "<h2>The peak</h2>\n<p>Command " << plan.peakCommand << " of "
     << plan.commands << " in @" << escapeHtml(plan.program);
  if (StringRef name = plan.commandName(plan.peakCommand); !name.empty())
    os << ", <code>" << escapeHtml(name) << "</code>";
  os << ". In addition to " << bytesText(plan.states)
     << " of states, these are the largest live buffers:</p>\n<table>\n"
        "<tr><th>buffer</th><th>class</th><th class=\"n\">size</th><th "
        "class=\"n\">bytes</th><th "
        "class=\"n\">commands</th><th>why</th></tr>\n";
  for (const PlanBuffer *buffer : plan.largestAtPeak(kLargest, false))
    os << "<tr><td class=\"name\">" << escapeHtml(buffer->name) << "</td><td>"
       << keyOf(buffer->slotClass) << "</td><td class=\"n\">"
       << bytesText(buffer->bytes) << "</td><td class=\"n\">"
       << withCommas(buffer->bytes) << "</td><td class=\"n\">" << buffer->first
       << " to " << buffer->last << "</td><td>" << escapeHtml(buffer->why)
       << "</td></tr>\n";
  os << "</table>\n";
}

static void writeEncodings(const PlanFigures &plan, llvm::raw_ostream &os) {
  if (plan.encodings.empty())
    return;
  os << "<table>\n<tr><th>encoding</th><th></th><th>of</th></tr>\n";
  for (const EncodingGroup &group : plan.encodings)
    os << "<tr><td>" << escapeHtml(group.as) << "</td><td>"
       << (group.lossy ? "lossy" : "exact") << "</td><td>" << group.text()
       << "</td></tr>\n";
  os << "</table>\n";
}

static void writeChoices(const PlanFigures &plan, llvm::raw_ostream &os) {
  os << "<h2>Choices</h2>\n";
  if (plan.choices.empty()) {
    os << "<p>No budget was given: every value that the backward pass reads is "
          "kept, unless --recompute or --offload specify otherwise.</p>\n";
  } else {
    bool offloads = llvm::any_of(plan.choices, [](const ChoiceGroup &group) {
      return !group.offloads.empty();
    });
    os << "<table>\n<tr><th>layers</th><th>choice</th><th>kept</th>"
       << (offloads ? "<th>on the host</th>" : "")
       << "<th class=\"n\">saved</th><th class=\"n\">recompute time</th>"
          "</tr>\n";
    for (const ChoiceGroup &group : plan.choices) {
      os << "<tr><td>" << escapeHtml(group.layers) << "</td><td>"
         << escapeHtml(group.text()) << "</td><td>"
         << (group.keepsEverything()
                 ? "everything"
                 : escapeHtml(llvm::join(group.keeps, ", ")));
      if (offloads)
        os << "</td><td>" << escapeHtml(llvm::join(group.offloads, ", "));
      os << "</td><td class=\"n\">"
         << bytesText(group.repeatedBytes + group.offloadedBytes)
         << "</td><td class=\"n\">" << timeText(group.repeatedMs)
         << "</td></tr>\n";
    }
    os << "</table>\n<p>";
    if (std::string reason = reasonText(plan); !reason.empty())
      os << "Why: " << escapeHtml(reason) << ". ";
    os << "Repeated values are recomputed in the backward pass from kept "
          "values, with the same bits. The column saved is the size of the "
          "tensors of one micro-batch that are not kept on the device; the "
          "column recompute time is the sum of single op times in a "
          "step.</p>\n";
  }
  writeEncodings(plan, os);
  if (plan.budget <= 0)
    return;
  os << "<h2>Time and bound</h2>\n<p>" << timeText(plan.stepMs)
     << " predicted, " << escapeHtml(boundText(plan)) << ". ";
  if (std::string price = priceText(plan); !price.empty())
    os << "That is, " << escapeHtml(price) << ". ";
  writeCopies(plan, os);
  os << "Times are predictions for the machine description that was "
        "planned for. The lower bound holds for every schedule of these "
        "stages within this memory.</p>\n";
}

static void writeArena(const PlanFigures &plan, llvm::raw_ostream &os) {
  size_t drawn = 0, total = 0;
  std::string chart = arenaChart(plan, drawn, total);
  os << "<h2>The arena above the states</h2>\n"
     << chart << "<p>Each rectangle is a buffer: its offset against the "
     << "live range in commands. ";
  if (drawn < total)
    os << drawn << " of " << total
       << " buffers are drawn; the others are too small.";
  os << "</p>\n";
}

std::string kiln::planPage(const llvm::json::Object &object,
                           const ReportTitle &title) {
  PlanFigures plan(object);
  std::string text;
  llvm::raw_string_ostream os(text);
  writeHead(plan, title, os);
  writeTimeline(plan, os);
  writeOrder(plan, os);
  writeHost(plan, os);
  writeChoices(plan, os);
  writeClasses(plan, os);
  writePeak(plan, os);
  writeArena(plan, os);
  os << "<script>" << kScript << "</script>\n</body>\n</html>\n";
  return text;
}
