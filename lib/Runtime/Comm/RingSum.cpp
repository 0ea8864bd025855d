//===- RingSum.cpp - All-reduce on a ring of ranks ------------------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "RingSum.h"

#include "SumElements.h"

#include <algorithm>

using namespace kiln::support;

namespace kiln::runtime {

RingPart ringPart(int64_t count, int ranks, int part) {
  int64_t size = count / ranks, larger = count % ranks;
  return {size * part + std::min<int64_t>(part, larger),
          size + (part < larger ? 1 : 0)};
}

int64_t ringSentBytes(int64_t count, int64_t elementBytes, int ranks,
                      int rank) {
  if (ranks == 1)
    return 0;
  return elementBytes *
         (2 * count - ringPart(count, ranks, (rank + 1) % ranks).count -
          ringPart(count, ranks, (rank + 2) % ranks).count);
}

/// Returns the scratch bytes of one fragment of an array of `bytes` bytes.
static int64_t scratchPitch(int64_t bytes, int ranks) {
  constexpr int64_t line = 64, largestElement = 8;
  int64_t part = bytes / ranks + largestElement;
  return std::min(RingSum::fragmentBytes, (part + line - 1) / line * line);
}

int64_t RingSum::scratchBytes(int64_t bytes, int ranks) {
  return ranks == 1 || bytes == 0 ? 0 : window * scratchPitch(bytes, ranks);
}

RingPart RingSum::partOf(Side side, int round) const {
  int part = (rank_ - round - (side == Side::Receive ? 1 : 0)) % size_;
  return ringPart(count_, size_, part < 0 ? part + size_ : part);
}

void RingSum::skipEmpty(Side side, Cursor &cursor) const {
  for (RingPart part = partOf(side, cursor.round);
       cursor.element == part.begin + part.count;) {
    if (++cursor.round == rounds_)
      return;
    part = partOf(side, cursor.round);
    cursor.element = part.begin;
  }
}

RingSum::Cursor RingSum::firstOf(Side side) const {
  Cursor cursor;
  if (rounds_ == 0)
    return cursor;
  cursor.element = partOf(side, 0).begin;
  skipEmpty(side, cursor);
  return cursor;
}

void RingSum::moveOn(Side side, Cursor &cursor) const {
  cursor.element += fragmentOf(side, cursor).count;
  ++cursor.index;
  skipEmpty(side, cursor);
}

RingSum::Fragment RingSum::fragmentOf(Side side, const Cursor &cursor) const {
  const SumSpan *span = std::upper_bound(
      spans_, spans_ + spanCount_, cursor.element,
      [](int64_t element, const SumSpan &span) { return element < span.end; });
  int64_t begin = span == spans_ ? 0 : span[-1].end;
  RingPart part = partOf(side, cursor.round);
  int64_t end = std::min(part.begin + part.count, span->end);
  return {span->data + (cursor.element - begin) * elementBytes_,
          std::min(fragmentElements_, end - cursor.element)};
}

void RingSum::begin(const SumJob &job, char *scratch, int tag,
                    const Transport &transport) {
  spans_ = job.spans;
  spanCount_ = job.spanCount;
  scratch_ = scratch;
  type_ = job.type;
  count_ = spanCount_ == 0 ? 0 : spans_[spanCount_ - 1].end;
  elementBytes_ = bytesOf(type_);
  fragmentElements_ = fragmentBytes / elementBytes_;
  rank_ = transport.rank();
  size_ = transport.size();
  scratchPitch_ = scratchPitch(count_ * elementBytes_, size_);
  rounds_ = 2 * (size_ - 1);
  tag_ = tag;
  posted_ = done_ = firstOf(Side::Receive);
  sending_ = sent_ = firstOf(Side::Send);
}

Status RingSum::postReceives(Transport &transport, bool &advanced) {
  while (posted_.round < rounds_ && posted_.index - done_.index < window) {
    Fragment fragment = fragmentOf(Side::Receive, posted_);
    char *place = scratchOf(posted_);
    int firstGather = size_ - 1;
    if (posted_.round >= firstGather) {
      // The fragment overwrites one that was sent in this earlier round, and
      // which must have been sent completely.
      Cursor overwritten = {posted_.round - firstGather, posted_.element};
      if (!overwritten.isBefore(sent_))
        break;
      place = fragment.data;
    }
    Status status = transport.receive(
        (rank_ + size_ - 1) % size_, place, fragment.count * elementBytes_,
        tag_, receives_[std::size_t(posted_.index % window)]);
    if (!status.ok())
      return status;
    moveOn(Side::Receive, posted_);
    advanced = true;
  }
  return Status();
}

Status RingSum::finishReceives(Transport &transport, bool &advanced) {
  while (done_.index < posted_.index) {
    Result<bool> arrived =
        transport.test(receives_[std::size_t(done_.index % window)]);
    if (!arrived.ok())
      return arrived.status();
    if (!*arrived)
      break;
    if (done_.round < size_ - 1) {
      Fragment fragment = fragmentOf(Side::Receive, done_);
      addElements(type_, scratchOf(done_), fragment.data, fragment.count);
    }
    moveOn(Side::Receive, done_);
    advanced = true;
  }
  return Status();
}

Status RingSum::postSends(Transport &transport, bool &advanced) {
  while (sending_.round < rounds_ && sending_.index - sent_.index < window) {
    // In all rounds except the first, the fragment is the one that was received
    // in the previous round.
    Cursor source = {sending_.round - 1, sending_.element};
    if (sending_.round > 0 && !source.isBefore(done_))
      break;
    Fragment fragment = fragmentOf(Side::Send, sending_);
    Status status = transport.send(
        (rank_ + 1) % size_, fragment.data, fragment.count * elementBytes_,
        tag_, TrafficKind::Sum, sends_[std::size_t(sending_.index % window)]);
    if (!status.ok())
      return status;
    moveOn(Side::Send, sending_);
    advanced = true;
  }
  return Status();
}

Status RingSum::finishSends(Transport &transport, bool &advanced) {
  while (sent_.index < sending_.index) {
    Result<bool> gone =
        transport.test(sends_[std::size_t(sent_.index % window)]);
    if (!gone.ok())
      return gone.status();
    if (!*gone)
      break;
    moveOn(Side::Send, sent_);
    advanced = true;
  }
  return Status();
}

Status RingSum::advance(Transport &transport, bool &advanced) {
  // Receives are posted first, so that messages find their receives and need no
  // buffer of the transport.
  for (Status (RingSum::*act)(Transport &, bool &) :
       {&RingSum::postReceives, &RingSum::postSends, &RingSum::finishReceives,
        &RingSum::finishSends})
    if (Status status = (this->*act)(transport, advanced); !status.ok())
      return status;
  return Status();
}

} // namespace kiln::runtime
