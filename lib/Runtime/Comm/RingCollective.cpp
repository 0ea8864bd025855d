//===- RingCollective.cpp - Collectives on a ring of ranks ----------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "RingCollective.h"

#include "SumElements.h"

#include <algorithm>
#include <cstring>

using namespace kiln::support;

namespace kiln::runtime {

RingPart ringPart(int64_t count, int ranks, int part) {
  int64_t size = count / ranks, larger = count % ranks;
  return {size * part + std::min<int64_t>(part, larger),
          size + (part < larger ? 1 : 0)};
}

/// For an all-reduce, returns the number of elements of all whole tensors. For
/// the other collectives, returns the number of elements of all shards of one
/// rank, including padding.
static int64_t numberedElements(const CollectiveJob &job) {
  return job.spanCount == 0 ? 0 : job.spans[job.spanCount - 1].end;
}

/// Returns the number of elements, without padding, of the part with the index
/// `part` % `ranks`.
static int64_t elementsOfPart(const CollectiveJob &job, int ranks, int part) {
  part %= ranks;
  if (job.collective == Collective::AllReduce)
    return ringPart(numberedElements(job), ranks, part).count;
  int64_t elements = 0;
  for (std::size_t i = 0; i < job.spanCount; ++i)
    elements += shardElements(job.spans[i], part);
  return elements;
}

int64_t ringSentBytes(const CollectiveJob &job, int ranks, int rank) {
  if (ranks == 1)
    return 0;
  int64_t all = 0;
  for (std::size_t i = 0; i < job.spanCount; ++i)
    all += job.spans[i].count;
  auto part = [&](int index) { return elementsOfPart(job, ranks, index); };
  int64_t sent = 0;
  switch (job.collective) {
  case Collective::AllReduce:
    sent = 2 * all - part(rank + 1) - part(rank + 2);
    break;
  case Collective::ReduceScatter:
    sent = all - part(rank);
    break;
  case Collective::AllGather:
    sent = all - part(rank + 1);
    break;
  }
  return sent * bytesOf(job.type);
}

/// Returns the scratch bytes that one fragment (the data of one message) needs
/// in a sum of tensors with `bytes` bytes in total.
static int64_t scratchPitch(int64_t bytes, int ranks) {
  constexpr int64_t line = 64, largestElement = 8;
  int64_t part = bytes / ranks + largestElement;
  return std::min(RingCollective::fragmentBytes,
                  (part + line - 1) / line * line);
}

int64_t RingCollective::scratchBytes(int64_t bytes, int ranks) {
  return ranks == 1 || bytes == 0 ? 0 : window * scratchPitch(bytes, ranks);
}

int RingCollective::partIndex(Side side, int round) const {
  int first = rank_ - (job_.collective == Collective::ReduceScatter ? 1 : 0);
  int part = (first - round - (side == Side::Receive ? 1 : 0)) % size_;
  return part < 0 ? part + size_ : part;
}

RingPart RingCollective::partOf(Side side, int round) const {
  int part = partIndex(side, round);
  return isSharded() ? RingPart{part * count_, count_}
                     : ringPart(count_, size_, part);
}

void RingCollective::skipEmpty(Side side, Cursor &cursor) const {
  for (RingPart part = partOf(side, cursor.round);;) {
    if (cursor.element == part.begin + part.count) {
      if (++cursor.round == rounds_)
        return;
      part = partOf(side, cursor.round);
      cursor.element = part.begin;
      continue;
    }
    Fragment fragment = fragmentOf(side, cursor);
    if (fragment.count > 0)
      return;
    cursor.element = fragment.next;
  }
}

RingCollective::Cursor RingCollective::firstOf(Side side) const {
  Cursor cursor;
  cursor.element = partOf(side, 0).begin;
  skipEmpty(side, cursor);
  return cursor;
}

void RingCollective::moveOn(Side side, Cursor &cursor) const {
  cursor.element += fragmentOf(side, cursor).count;
  ++cursor.index;
  skipEmpty(side, cursor);
}

RingCollective::Fragment
RingCollective::fragmentOf(Side side, const Cursor &cursor) const {
  RingPart part = partOf(side, cursor.round);
  // The number of the first element of the first span.
  int64_t origin = isSharded() ? part.begin : 0;
  const CollectiveSpan *spans = job_.spans;
  const CollectiveSpan *span =
      std::upper_bound(spans, spans + job_.spanCount, cursor.element - origin,
                       [](int64_t element, const CollectiveSpan &span) {
                         return element < span.end;
                       });
  int64_t element =
      cursor.element - origin - (span == spans ? 0 : span[-1].end);
  Fragment fragment;
  fragment.next = std::min(part.begin + part.count, origin + span->end);
  int64_t count = fragment.next - cursor.element;
  if (isSharded()) {
    int part = partIndex(side, cursor.round);
    count = std::min(count, shardElements(*span, part) - element);
    fragment.shard = span->shard + element * elementBytes_;
    element += shardBegin(*span, part);
  }
  // The whole tensor does not contain padding. The address of padding in the
  // whole tensor therefore stays null.
  if (count > 0)
    fragment.whole = span->whole + element * elementBytes_;
  fragment.count = std::min(fragmentElements_, count);
  return fragment;
}

void RingCollective::begin(const CollectiveJob &job, char *scratch, int tag,
                           const Transport &transport) {
  job_ = job;
  scratch_ = scratch;
  count_ = numberedElements(job);
  elementBytes_ = bytesOf(job.type);
  fragmentElements_ = fragmentBytes / elementBytes_;
  MeshGroup group = groupOf(job, transport.size());
  rank_ = int(group.indexOf(transport.rank()));
  size_ = int(group.size);
  previous_ = int(group.rankAt((rank_ + size_ - 1) % size_));
  next_ = int(group.rankAt((rank_ + 1) % size_));
  scratchPitch_ =
      scratchPitch(count_ * elementBytes_ * (isSharded() ? size_ : 1), size_);
  rounds_ = (isSharded() ? 1 : 2) * (size_ - 1);
  tag_ = tag;
  posted_ = done_ = firstOf(Side::Receive);
  sending_ = sent_ = firstOf(Side::Send);
  if (job.collective == Collective::ReduceScatter)
    clearPadding(job, rank_);
}

Status RingCollective::postReceives(Transport &transport, bool &advanced) {
  while (posted_.round < rounds_ && posted_.index - done_.index < window) {
    Fragment fragment = fragmentOf(Side::Receive, posted_);
    // In the second half of an all-reduce, a received fragment overwrites the
    // fragment that this rank sent size_ - 1 rounds earlier. That send must
    // have completed.
    Cursor overwritten = {posted_.round - (size_ - 1), posted_.element};
    if (overwritten.round >= 0 && !overwritten.isBefore(sent_))
      break;
    char *place = isAdded(posted_) ? scratchOf(posted_) : fragment.whole;
    Status status =
        transport.receive(previous_, place, fragment.count * elementBytes_,
                          tag_, receives_[std::size_t(posted_.index % window)]);
    if (!status.ok())
      return status;
    moveOn(Side::Receive, posted_);
    advanced = true;
  }
  return Status();
}

void RingCollective::add(const Cursor &cursor) {
  Fragment fragment = fragmentOf(Side::Receive, cursor);
  char *sum = fragment.whole;
  if (isSharded() && cursor.round == rounds_ - 1) {
    sum = fragment.shard;
    std::memcpy(sum, fragment.whole,
                std::size_t(fragment.count * elementBytes_));
  }
  addElements(job_.type, scratchOf(cursor), sum, fragment.count);
}

Status RingCollective::finishReceives(Transport &transport, bool &advanced) {
  while (done_.index < posted_.index) {
    Result<bool> arrived =
        transport.test(receives_[std::size_t(done_.index % window)]);
    if (!arrived.ok())
      return arrived.status();
    if (!*arrived)
      break;
    if (isAdded(done_))
      add(done_);
    moveOn(Side::Receive, done_);
    advanced = true;
  }
  return Status();
}

Status RingCollective::postSends(Transport &transport, bool &advanced) {
  while (sending_.round < rounds_ && sending_.index - sent_.index < window) {
    // In all rounds except the first, this rank sends the fragment that it
    // received in the previous round. That receive must have completed.
    Cursor source = {sending_.round - 1, sending_.element};
    if (sending_.round > 0 && !source.isBefore(done_))
      break;
    Fragment fragment = fragmentOf(Side::Send, sending_);
    bool isOwnShard = !isReduction() && sending_.round == 0;
    int64_t bytes = fragment.count * elementBytes_;
    Status status = transport.send(
        next_, isOwnShard ? fragment.shard : fragment.whole, bytes, tag_,
        isReduction() ? TrafficKind::Sum : TrafficKind::Gather,
        sends_[std::size_t(sending_.index % window)]);
    if (!status.ok())
      return status;
    if (isOwnShard)
      std::memcpy(fragment.whole, fragment.shard, std::size_t(bytes));
    moveOn(Side::Send, sending_);
    advanced = true;
  }
  return Status();
}

Status RingCollective::finishSends(Transport &transport, bool &advanced) {
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

Status RingCollective::advance(Transport &transport, bool &advanced) {
  // Receives are posted first, so that messages find their receives and need no
  // buffer of the transport.
  for (Status (RingCollective::*act)(Transport &, bool &) :
       {&RingCollective::postReceives, &RingCollective::postSends,
        &RingCollective::finishReceives, &RingCollective::finishSends})
    if (Status status = (this->*act)(transport, advanced); !status.ok())
      return status;
  return Status();
}

} // namespace kiln::runtime
