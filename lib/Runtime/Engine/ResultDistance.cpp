//===- ResultDistance.cpp - Difference of two results ---------------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ResultDistance.h"
#include "kiln/Support/ElementConversion.h"

#include <algorithm>
#include <cfloat>
#include <cstring>
#include <limits>

namespace kiln::runtime {

/// The factor 8 of the bound 8 sqrt(L) eps |x|; see ResultDistance.h.
static constexpr double roundings = 8;

namespace {

/// Accumulates the sums of squares of elements and of differences of elements.
class Squares {
public:
  explicit Squares(ElementType type)
      : type_(type), smallest_(flushedBelow(type)) {}

  void add(const char *own, const char *other) {
    double a = read(own), b = read(other);
    // Elements with equal bits do not differ, even if they are NaNs.
    if (std::memcmp(own, other, bytes()) != 0)
      difference_ += (a - b) * (a - b);
    size_ += b * b;
  }
  void add(const char *element) {
    double value = read(element);
    size_ += value * value;
  }
  double difference() const { return std::sqrt(difference_); }
  double size() const { return std::sqrt(size_); }
  std::size_t bytes() const { return bytesOf(type_); }

private:
  double read(const char *element) const {
    double value;
    convertElements(type_, element, ElementType::F64, &value, 1);
    return std::fabs(value) < smallest_ ? 0 : value;
  }

  ElementType type_;
  double smallest_;
  double difference_ = 0, size_ = 0;
};

} // namespace

/// Returns the allowed error of a result. `norm` is the norm of the result.
/// `sums` is the norm that the result would have without cancellation, or 0 if
/// it is not known.
static double allowedError(ElementType type, double longestSum, double norm,
                           double sums) {
  double eps = infoOf(type).spacingAtOne,
         single = infoOf(ElementType::F32).spacingAtOne;
  double ofSums = roundings * std::sqrt(longestSum) * std::min(eps, single);
  return ofSums * std::max(norm, sums) + (eps > single ? eps * norm : 0);
}

ResultDistance tensorDistance(ElementType type, const char *before,
                              const char *own, const char *other, int64_t bytes,
                              double longestSum) {
  Squares squares(type);
  auto width = int64_t(squares.bytes()), whole = bytes / width * width;
  auto isUnchanged = [&](const char *result, int64_t i) {
    return std::memcmp(result + i, before + i, std::size_t(width)) == 0;
  };
  for (int64_t i = 0; i < whole; i += width)
    if (!isUnchanged(own, i) || !isUnchanged(other, i))
      squares.add(own + i, other + i);
  ResultDistance distance;
  distance.same = std::memcmp(own, other, std::size_t(bytes)) == 0;
  distance.error = squares.difference();
  distance.allowed = allowedError(type, longestSum, squares.size(), 0);
  if (std::memcmp(own + whole, other + whole, std::size_t(bytes - whole)) != 0)
    distance.error = INFINITY;
  return distance;
}

ResultDistance rawDistance(const char *own, const char *other, int64_t bytes) {
  ResultDistance distance;
  distance.raw = true;
  distance.same = std::memcmp(own, other, std::size_t(bytes)) == 0;
  distance.error = distance.same ? 0 : INFINITY;
  return distance;
}

/// Calls visit(offset) with the byte offset of every element, for all matrices
/// of the batch.
template <typename Visitor>
static void forEachElement(const GemmOperand &operand, int64_t batch,
                           int64_t rows, int64_t columns, int64_t width,
                           Visitor &&visit) {
  for (int64_t entry = 0; entry < batch; ++entry)
    for (int64_t row = 0; row < rows; ++row)
      for (int64_t column = 0; column < columns; ++column)
        visit((entry * operand.batchStride + row * operand.ld + column) *
              width);
}

static double normOf(const GemmOperand &operand, const Command &command,
                     const abi::SegmentRun &run, const Arenas &arenas,
                     int64_t rows, int64_t columns) {
  if (operand.trans)
    std::swap(rows, columns);
  Squares squares(command.type);
  const char *begin = arenas.at(operand.ref.at(run));
  forEachElement(operand, command.batch, rows, columns,
                 int64_t(squares.bytes()),
                 [&](int64_t offset) { squares.add(begin + offset); });
  return squares.size();
}

ResultDistance gemmDistance(const Command &command, const abi::SegmentRun &run,
                            const Arenas &arenas, const Slot &slot,
                            const char *other) {
  const char *own = arenas.at(slot.at(run));
  int64_t begin = command.c.ref.at(run).offset - slot.at(run).offset;
  Squares squares(command.resultType);
  auto width = int64_t(squares.bytes());
  bool same = true;
  forEachElement(command.c, command.batch, command.m, command.n, width,
                 [&](int64_t offset) {
                   const char *a = own + begin + offset,
                              *b = other + begin + offset;
                   squares.add(a, b);
                   same &= std::memcmp(a, b, std::size_t(width)) == 0;
                 });
  double inner = double(std::max<int64_t>(command.k, 1));
  double terms = normOf(command.a, command, run, arenas, command.m, command.k) *
                 normOf(command.b, command, run, arenas, command.k, command.n) /
                 std::sqrt(inner);
  ResultDistance distance;
  distance.same = same;
  distance.error = squares.difference();
  distance.allowed =
      allowedError(command.resultType, inner, squares.size(), terms);
  return distance;
}

} // namespace kiln::runtime
