//===- PlanCharts.cpp - Charts of memory plans ------------------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "PlanCharts.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/raw_ostream.h"

#include <algorithm>
#include <cmath>

using namespace kiln::report;
using llvm::formatv;
using llvm::StringRef;

std::string kiln::report::escapeHtml(StringRef text) {
  std::string escaped;
  for (char c : text)
    switch (c) {
    case '<':
      escaped += "&lt;";
      break;
    case '>':
      escaped += "&gt;";
      break;
    case '&':
      escaped += "&amp;";
      break;
    case '"':
      escaped += "&quot;";
      break;
    case '\'':
      escaped += "&#39;";
      break;
    default:
      escaped += c;
    }
  return escaped;
}

std::vector<Moment> kiln::report::downsample(const std::vector<Moment> &moments,
                                             size_t points) {
  if (moments.size() <= points)
    return moments;
  std::vector<Moment> kept;
  for (size_t i = 0; i < points; ++i) {
    auto begin = moments.begin() + i * moments.size() / points,
         end = moments.begin() + (i + 1) * moments.size() / points;
    kept.push_back(
        *std::max_element(begin, end, [](const Moment &a, const Moment &b) {
          return a.total < b.total;
        }));
  }
  return kept;
}

namespace {

/// A chart of bytes over commands, with its axes.
class Frame {
public:
  static constexpr double kWidth = 1000, kHeight = 340, kLeft = timelineLeft,
                          kRight = timelineRight, kTop = 22, kBottom = 312;

  Frame(int64_t commands, int64_t low, int64_t high)
      : commands(std::max<int64_t>(commands, 1)), low(low),
        high(std::max(high, low + 1)) {}

  double x(double command) const {
    return kLeft + (kRight - kLeft) * command / double(commands);
  }
  double y(int64_t bytes) const {
    return kBottom -
           (kBottom - kTop) * double(bytes - low) / double(high - low);
  }
  void open(StringRef label, llvm::raw_ostream &os) const;
  void drawAxes(llvm::raw_ostream &os) const;
  void drawLine(int64_t bytes, StringRef style, StringRef label,
                llvm::raw_ostream &os) const;

private:
  int64_t commands, low, high;
};

} // namespace

void Frame::open(StringRef label, llvm::raw_ostream &os) const {
  os << formatv("<svg viewBox=\"0 0 {0} {1}\" role=\"img\" "
                "aria-label=\"{2}\">\n",
                int(kWidth), int(kHeight), escapeHtml(label));
}

/// Returns the smallest tick distance, 1, 2 or 5 times a power of ten (or a
/// power of two for bytes), that gives at most about `ticks` ticks.
static int64_t tickStep(int64_t range, int ticks, bool isBytes) {
  int64_t step = 1;
  while (step < range / ticks) {
    if (isBytes) {
      step *= 2;
      continue;
    }
    for (int64_t next : {2 * step, 5 * step, 10 * step})
      if (next >= range / ticks || next == 10 * step) {
        step = next;
        break;
      }
  }
  return step;
}

/// Formats the bytes of a tick without the digits ".00".
static std::string tickText(int64_t bytes) {
  std::string text = bytes ? bytesText(bytes) : "0";
  if (size_t digits = text.find(".00"); digits != std::string::npos)
    text.erase(digits, 3);
  return text;
}

void Frame::drawAxes(llvm::raw_ostream &os) const {
  int64_t step = tickStep(high - low, 6, true);
  for (int64_t at = (low + step - 1) / step * step; at <= high; at += step)
    os << formatv("<line class=\"grid\" x1=\"{0:f1}\" x2=\"{1:f1}\" "
                  "y1=\"{2:f1}\" y2=\"{2:f1}\"/><text x=\"{3:f1}\" "
                  "y=\"{4:f1}\" text-anchor=\"end\">{5}</text>\n",
                  kLeft, kRight, y(at), kLeft - 6, y(at) + 4, tickText(at));
  step = tickStep(commands, 10, false);
  for (int64_t at = 0; at <= commands; at += step)
    os << formatv("<line class=\"tick\" x1=\"{0:f1}\" x2=\"{0:f1}\" "
                  "y1=\"{1:f1}\" y2=\"{2:f1}\"/><text x=\"{0:f1}\" "
                  "y=\"{3:f1}\" text-anchor=\"middle\">{4}</text>\n",
                  x(double(at)), kBottom, kBottom + 4, kBottom + 18, at);
}

void Frame::drawLine(int64_t bytes, StringRef style, StringRef label,
                     llvm::raw_ostream &os) const {
  os << formatv("<line class=\"{0}\" x1=\"{1:f1}\" x2=\"{2:f1}\" "
                "y1=\"{3:f1}\" y2=\"{3:f1}\"/><text class=\"mark\" "
                "x=\"{2:f1}\" y=\"{4:f1}\" text-anchor=\"end\">{5}</text>\n",
                style, kLeft, kRight, y(bytes), y(bytes) - 4,
                escapeHtml(label));
}

std::string kiln::report::timelineChart(const PlanFigures &plan,
                                        const Timeline &timeline) {
  const std::vector<Moment> &points = timeline.points;
  std::string text;
  llvm::raw_string_ostream os(text);
  Frame frame(plan.commands, 0,
              std::max(timeline.arena, timeline.budget) / 20 * 21);
  frame.open(timeline.label, os);
  frame.drawAxes(os);
  // Draw one area per class, from the highest class to the lowest. The height
  // of an area is the number of bytes of its class and all lower classes. Each
  // area is drawn over the previous area, so that only the bytes of one class
  // of the previous area remain visible.
  for (size_t top = kClasses; top-- > 0;) {
    bool isEmpty = llvm::all_of(
        points, [&](const Moment &moment) { return !moment.byClass[top]; });
    if (isEmpty)
      continue;
    os << formatv("<path fill=\"{0}\" d=\"M{1:f1} {2:f1}",
                  bufferClasses[top].color, frame.x(0), frame.y(0));
    std::string level;
    for (size_t i = 0; i < points.size(); ++i) {
      int64_t sum = 0;
      for (size_t c = 0; c <= top; ++c)
        sum += points[i].byClass[c];
      std::string next = formatv("{0:f1}", frame.y(sum));
      if (next == level)
        continue;
      double at = double(i) * double(plan.commands) / double(points.size());
      os << formatv("H{0:f1}V{1}", frame.x(at), next);
      level = std::move(next);
    }
    os << formatv("H{0:f1}V{1:f1}Z\"><title>{2}</title></path>\n",
                  frame.x(double(plan.commands)), frame.y(0),
                  bufferClasses[top].key);
  }
  frame.drawLine(timeline.arena, "arena", "arena " + bytesText(timeline.arena),
                 os);
  if (timeline.budget > timeline.arena + timeline.arena / 25)
    frame.drawLine(timeline.budget, "budget",
                   "budget " + bytesText(timeline.budget), os);
  double peak = frame.x(double(timeline.peakCommand) + 0.5);
  bool isLeft = peak < (Frame::kLeft + Frame::kRight) / 2;
  os << formatv("<text class=\"mark\" x=\"{0:f1}\" y=\"{1:f1}\" "
                "text-anchor=\"{2}\">peak: command {3} {4}</text>\n",
                peak + (isLeft ? 5 : -5), Frame::kTop - 10,
                isLeft ? "start" : "end", timeline.peakCommand,
                escapeHtml(plan.commandName(timeline.peakCommand)));
  os << formatv("<line class=\"peak\" x1=\"{0:f1}\" x2=\"{0:f1}\" "
                "y1=\"{1:f1}\" y2=\"{2:f1}\"/>\n",
                peak, Frame::kTop, Frame::kBottom);
  if (timeline.hasCursor)
    os << formatv("<line id=\"cursor\" class=\"cursor\" x1=\"0\" x2=\"0\" "
                  "y1=\"{0:f1}\" y2=\"{1:f1}\"/>\n",
                  Frame::kTop, Frame::kBottom);
  os << "</svg>\n";
  return text;
}

std::string kiln::report::arenaChart(const PlanFigures &plan, size_t &drawn,
                                     size_t &total) {
  std::string text;
  llvm::raw_string_ostream os(text);
  Frame frame(plan.commands, plan.states, plan.arena);
  frame.open("offsets of buffers over the commands of a step", os);
  frame.drawAxes(os);
  drawn = total = 0;
  for (const PlanBuffer &buffer : plan.buffers) {
    if (buffer.isState)
      continue;
    ++total;
    double top = frame.y(buffer.offset + buffer.bytes),
           height = frame.y(buffer.offset) - top;
    if (!(height >= 0.3))
      continue;
    ++drawn;
    double left = frame.x(double(buffer.first)),
           right = frame.x(double(buffer.last + 1));
    os << "<rect" << (height >= 3 ? " class=\"high\"" : "")
       << formatv(" x=\"{0:f1}\" y=\"{1:f1}\" width=\"{2:f1}\" "
                  "height=\"{3:f1}\" fill=\"{4}\"><title>{5}\n{6}, {7}, "
                  "commands {8} to {9}</title></rect>\n",
                  left, top, std::max(right - left, 0.5), height,
                  bufferClasses[buffer.slotClass].color,
                  escapeHtml(buffer.name), bufferClasses[buffer.slotClass].key,
                  bytesText(buffer.bytes), buffer.first, buffer.last);
  }
  os << formatv("<line class=\"peak\" x1=\"{0:f1}\" x2=\"{0:f1}\" "
                "y1=\"{1:f1}\" y2=\"{2:f1}\"/>\n</svg>\n",
                frame.x(double(plan.peakCommand) + 0.5), Frame::kTop,
                Frame::kBottom);
  return text;
}
