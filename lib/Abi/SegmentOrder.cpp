//===- SegmentOrder.cpp - Order of the segments of micro-batches ----------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "kiln/Abi/SegmentOrder.h"

#include "kiln/Support/Messages.h"

#include <algorithm>
#include <charconv>
#include <queue>

using namespace kiln::support;

namespace kiln::abi {

static constexpr std::string_view kAlternate = "alternate",
                                  kAllForwardFirst = "all-forward-first",
                                  kOneForwardOneBackward =
                                      "one-forward-one-backward:";

static std::string nameOf(Segment segment, int64_t microbatch) {
  return (segment == Segment::Forward ? "F" : "B") + std::to_string(microbatch);
}

std::string SegmentRun::name() const { return nameOf(segment, microbatch); }

/// Returns the number that `text` contains, or nullopt if `text` is empty or
/// contains anything but decimal digits.
static std::optional<int64_t> parseNumber(std::string_view text) {
  int64_t number = 0;
  auto [end, error] =
      std::from_chars(text.data(), text.data() + text.size(), number);
  if (text.empty() || text.front() == '-' || error != std::errc() ||
      end != text.data() + text.size())
    return std::nullopt;
  return number;
}

Result<SegmentOrder> SegmentOrder::parse(std::string_view text) {
  SegmentOrder order;
  if (text == kAlternate)
    return order;
  if (text == kAllForwardFirst) {
    order.kind_ = Kind::AllForwardFirst;
    return order;
  }
  if (text.substr(0, kOneForwardOneBackward.size()) == kOneForwardOneBackward) {
    std::string_view number = text.substr(kOneForwardOneBackward.size());
    std::optional<int64_t> inFlight = parseNumber(number);
    if (!inFlight || *inFlight < 1)
      return Status::badInput("the order " + inQuotes(text) + " has " +
                              inQuotes(number) +
                              " micro-batches in flight, expected a positive "
                              "number");
    order.kind_ = Kind::OneForwardOneBackward;
    order.inFlight_ = *inFlight;
    return order;
  }
  order.kind_ = Kind::Listed;
  constexpr std::string_view spaces = " ,\t\r\n";
  for (std::size_t begin = text.find_first_not_of(spaces);
       begin != text.npos;) {
    std::size_t end = std::min(text.find_first_of(spaces, begin), text.size());
    std::string_view word = text.substr(begin, end - begin);
    std::optional<int64_t> microbatch = parseNumber(word.substr(1));
    if ((word.front() != 'F' && word.front() != 'B') || !microbatch)
      return Status::badInput(
          "the order has the entry " + inQuotes(word) +
          ", expected only entries such as F0 and B0, or the name of an order: "
          "alternate, all-forward-first or one-forward-one-backward:K");
    if (order.listed_.size() == std::size_t(2 * maxMicrobatches))
      return Status::badInput("the order has more than " +
                              std::to_string(2 * maxMicrobatches) + " entries");
    order.listed_.push_back(
        {word.front() == 'F' ? Segment::Forward : Segment::Backward,
         *microbatch});
    begin = text.find_first_not_of(spaces, end);
  }
  if (order.listed_.empty())
    return Status::badInput("the order is empty, expected a list such as "
                            "F0 B0, or one of alternate, all-forward-first "
                            "and one-forward-one-backward:K");
  return order;
}

std::string SegmentOrder::text() const {
  switch (kind_) {
  case Kind::Alternate:
    return std::string(kAlternate);
  case Kind::AllForwardFirst:
    return std::string(kAllForwardFirst);
  case Kind::OneForwardOneBackward:
    return std::string(kOneForwardOneBackward) + std::to_string(inFlight_);
  case Kind::Listed:
    break;
  }
  std::string text;
  for (const Entry &entry : listed_)
    text += (text.empty() ? "" : " ") + nameOf(entry.segment, entry.microbatch);
  return text;
}

Status SegmentOrder::check(int64_t count) const {
  auto reject = [](const std::string &problem) {
    return Status::badInput("the order " + problem);
  };
  std::string of =
      std::to_string(count) + (count == 1 ? " micro-batch" : " micro-batches");
  if (count < 1 || count > maxMicrobatches)
    return reject("is for " + of +
                  ", expected a number of micro-batches from "
                  "1 to " +
                  std::to_string(maxMicrobatches));
  if (kind_ == Kind::OneForwardOneBackward && inFlight_ > count)
    return reject(inQuotes(text()) + " has " + std::to_string(inFlight_) +
                  " micro-batches in flight, but the step has only " + of);
  if (kind_ != Kind::Listed)
    return Status();
  // ran[s][i] is true if segment s (forward or backward) of micro-batch i has
  // been executed.
  std::vector<bool> ran[2] = {std::vector<bool>(std::size_t(count)),
                              std::vector<bool>(std::size_t(count))};
  for (const Entry &entry : listed_) {
    std::string name = nameOf(entry.segment, entry.microbatch);
    if (entry.microbatch >= count)
      return reject("executes " + name + ", but the step has " + of +
                    ", numbered from 0");
    auto at = std::size_t(entry.microbatch);
    if (ran[std::size_t(entry.segment)][at])
      return reject("executes " + name + " twice");
    if (entry.segment == Segment::Backward &&
        !ran[std::size_t(Segment::Forward)][at])
      return reject("executes " + name + " before " +
                    nameOf(Segment::Forward, entry.microbatch) +
                    "; the backward segment of a micro-batch needs the "
                    "residuals of its forward segment");
    ran[std::size_t(entry.segment)][at] = true;
  }
  for (Segment segment : {Segment::Forward, Segment::Backward})
    for (int64_t i = 0; i < count; ++i)
      if (!ran[std::size_t(segment)][std::size_t(i)])
        return reject("lacks " + nameOf(segment, i) +
                      "; every micro-batch needs an F and a B entry, and the "
                      "step has " +
                      of);
  return Status();
}

std::vector<SegmentOrder::Entry> SegmentOrder::entries(int64_t count) const {
  if (kind_ == Kind::Listed)
    return listed_;
  // The number of forward segments that precede the first backward segment.
  int64_t lead = kind_ == Kind::Alternate         ? 1
                 : kind_ == Kind::AllForwardFirst ? count
                                                  : inFlight_;
  std::vector<Entry> entries;
  entries.reserve(std::size_t(2 * count));
  for (int64_t i = 0; i < lead; ++i)
    entries.push_back({Segment::Forward, i});
  for (int64_t i = 0; i < count; ++i) {
    entries.push_back({Segment::Backward, i});
    if (i + lead < count)
      entries.push_back({Segment::Forward, i + lead});
  }
  return entries;
}

std::vector<SegmentRun> SegmentOrder::runs(int64_t count) const {
  std::vector<SegmentRun> runs;
  std::vector<int64_t> slotOf(static_cast<std::size_t>(count));
  std::priority_queue<int64_t, std::vector<int64_t>, std::greater<>> freed;
  int64_t slots = 0;
  // The index in `runs` of the last execution of the forward and of the
  // backward segment.
  std::size_t last[2] = {0, 0};
  bool ran[2] = {false, false};
  for (const Entry &entry : entries(count)) {
    SegmentRun run;
    run.segment = entry.segment;
    run.microbatch = entry.microbatch;
    int64_t &slot = slotOf[std::size_t(entry.microbatch)];
    if (entry.segment == Segment::Backward) {
      freed.push(slot);
    } else if (freed.empty()) {
      slot = slots++;
    } else {
      slot = freed.top();
      freed.pop();
    }
    run.slot = slot;
    auto segment = std::size_t(entry.segment);
    run.isFirst = !ran[segment];
    ran[segment] = true;
    last[segment] = runs.size();
    runs.push_back(run);
  }
  for (std::size_t index : last)
    runs[index].isLast = true;
  return runs;
}

int64_t SegmentOrder::slots(int64_t count) const {
  if (kind_ == Kind::Alternate)
    return 1;
  if (kind_ == Kind::AllForwardFirst)
    return count;
  if (kind_ == Kind::OneForwardOneBackward)
    return inFlight_;
  int64_t most = 0, now = 0;
  for (const Entry &entry : listed_) {
    now += entry.segment == Segment::Forward ? 1 : -1;
    most = std::max(most, now);
  }
  return most;
}

std::pair<SegmentOrder, int64_t> SegmentOrder::shortened(int64_t count) const {
  SegmentOrder order = *this;
  // Keep four micro-batches: the first, the last, and two between them. More
  // micro-batches only repeat pairs of consecutive executions that already
  // occur with four.
  if (kind_ == Kind::Alternate || kind_ == Kind::AllForwardFirst)
    count = std::min<int64_t>(count, 4);
  if (kind_ == Kind::OneForwardOneBackward) {
    order.inFlight_ = std::min<int64_t>(inFlight_, 4);
    // If the forward segment of some micro-batch follows a backward segment,
    // keep at least one such micro-batch.
    count =
        std::min(count - inFlight_, std::max<int64_t>(order.inFlight_ + 1, 3)) +
        order.inFlight_;
  }
  return {order, count};
}

bool SegmentOrder::hasAscendingBackward(int64_t count) const {
  int64_t next = 0;
  for (const Entry &entry : entries(count))
    if (entry.segment == Segment::Backward && entry.microbatch != next++)
      return false;
  return true;
}

} // namespace kiln::abi
