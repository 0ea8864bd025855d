//===- BucketKernel.cpp - Encoding of elements in a few bits --------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
//   encode(x, codes):
//     group = blockIdx.x * 256 + threadIdx.x;        // 8 elements
//     for (i = 0; i < 8; ++i)
//       word |= (number of borders < x[8 * group + i]) << (bits * i);
//     codes[group] = word;                           // `bits` bytes
//   decode(codes, dy, dx):
//     group = blockIdx.x * 256 + threadIdx.x;
//     word = codes[group];
//     for (i = 0; i < 8; ++i) {
//       level = levels[(word >> (bits * i)) & (2^bits - 1)];
//       dx[8 * group + i] = level == 0 ? 0 : level * dy[8 * group + i];
//     }
//
// Launch: one group of 8 elements per thread, 256 threads per block, no shared
// memory; units = ceil(elements / 8).
// Bytes: every element is read or written once, and every code once.
//
// 8 codes of `bits` bits fill whole bytes, so no two threads write the same
// byte. The last group may have fewer than 8 elements.
//
// A warp processes 32 groups, and each of its accesses covers whole sectors:
// - If 8 elements take two accesses, the thread in lane l accesses the elements
//   4*l to 4*l + 3 of the warp and then the elements 128 + 4*l to 131 + 4*l, so
//   that each access is contiguous over the warp. Two adjacent threads then
//   hold the halves of two groups. They exchange one half each, so that the
//   even thread has the first group and the odd thread the second group.
// - If `bits` is not a power of two, the warp accesses its codes as words of 32
//   or 64 bits, one per thread. Threads extract their groups from two words, or
//   assemble a word from two or three groups, by shuffles.
//
// Groups after the last full warp, and groups at unaligned addresses, are each
// accessed by one thread.
//
// Borders increase, so a binary search finds the bits of a code, starting with
// the highest. A tree of selects over the bits found so far selects the border
// for the next comparison.
//
//===----------------------------------------------------------------------===//

#include "VectorizedAccess.h"

#include "llvm/ADT/Sequence.h"
#include "llvm/Support/MathExtras.h"

#include <numeric>

using namespace mlir;

namespace kiln::gpu {

namespace {

constexpr int64_t kGroup = 8;
constexpr int64_t kThreads = 256;

class BucketKernel {
public:
  BucketKernel(mlir::gpu::GPUModuleOp kernels, StringRef name,
               const BucketShape &shape, unsigned numArgs, int64_t bits,
               Alignments alignments)
      : k(kernels, name, numArgs, /*numImmediates=*/0, kThreads), shape(shape),
        bits(bits), alignments(alignments) {}

  /// The eight elements of a thread, and the group whose codes the thread
  /// accesses.
  struct Place {
    Value first;            ///< Index of the first element.
    Value group;            ///< Index of the group.
    int64_t count = kGroup; ///< Number of elements.
    /// 0 if the eight elements are contiguous. Otherwise, the first four and
    /// the last four are each contiguous, and this is the distance between the
    /// starts of the two halves, in elements.
    int64_t apart = 0;
    /// Index of the first group of the warp if the warp accesses its codes as
    /// words, otherwise null.
    Value warpGroup;
  };

  /// Calls `body` with the Place of the thread. `elements` lists the arguments
  /// that contain elements, and `codes` is the argument that contains codes.
  FailureOr<KernelLaunch> run(ArrayRef<unsigned> elements, unsigned codes,
                              function_ref<void(const Place &)> body);

  /// Loads the codes of the thread's elements as 64 bits. Bits after the last
  /// code are undefined.
  Value loadWord(unsigned arg, const Place &place);
  void storeWord(Value word, unsigned arg, const Place &place);
  /// Load and store elements, in the type of the arithmetic.
  SmallVector<Value> loadGroup(unsigned arg, const Place &place);
  void storeGroup(ArrayRef<Value> group, unsigned arg, const Place &place);

  /// Selects the entry of `table` at the index whose bits are `indexBits` (i1),
  /// lowest bit first.
  Value select(ArrayRef<Value> indexBits, ArrayRef<double> table);

  Type computedType() const { return fullPrecision(shape.elementType); }

  GpuBuilder k;

private:
  /// Calls `body` for each access to the codes of a group, with the address and
  /// the type of the access, and with the index of the first accessed bit in
  /// the word.
  void forCodes(
      unsigned arg, const Place &place,
      function_ref<void(Value address, IntegerType type, int64_t bit)> body);
  /// Calls `body` for each access to the elements, with the address of the
  /// access and the index of the first accessed element.
  void forElements(unsigned arg, const Place &place,
                   function_ref<void(Value address, int64_t first)> body);
  int64_t groupWidth(unsigned arg, int64_t count) {
    return accessWidth(shape.elementType, alignments[arg], {kGroup, count});
  }

  int64_t widthAt(unsigned arg, const Place &place) {
    return place.apart ? kGroup / 2 : groupWidth(arg, place.count);
  }

  // The words in which a warp accesses its codes.
  int64_t groupBits() const { return kGroup * bits; }
  /// Bits per word. A thread accesses at most one word.
  int64_t wordBits() const { return bits <= 4 ? 32 : 64; }
  int64_t words() const { return kWarp * groupBits() / wordBits(); }
  Value lane() { return k.bitAnd(k.thread(), k.i64Constant(kWarp - 1)); }
  Value isOdd() {
    return k.equal(k.bitAnd(k.thread(), k.i64Constant(1)), k.i64Constant(1));
  }
  Value shift(Value word, Value by, bool isLeft);
  /// Returns `word` of lane `from` (i64).
  Value fetch(Value word, Value from);
  Value wordAddress(unsigned arg, const Place &place);
  /// laneOf() returns the lane that accesses the codes of group `group` of the
  /// warp. groupOf() returns the group whose codes `lane` accesses.
  Value laneOf(Value group, const Place &place);
  Value groupOf(Value lane, const Place &place);
  Value loadShared(unsigned arg, const Place &place);
  void storeShared(Value word, unsigned arg, const Place &place);
  /// Exchanges half of `word` with the adjacent thread. If `word` contains the
  /// codes of the thread's elements, which belong to two groups, returns the
  /// codes of one group. If `word` contains the codes of one group, returns the
  /// codes of the thread's elements.
  Value exchangeHalves(Value word);

  const BucketShape &shape;
  int64_t bits;
  Alignments alignments;
};

} // namespace

FailureOr<KernelLaunch>
BucketKernel::run(ArrayRef<unsigned> elements, unsigned codes,
                  function_ref<void(const Place &)> body) {
  int64_t width = kGroup;
  for (unsigned arg : elements)
    width = std::min(width, groupWidth(arg, kGroup));
  bool sharesWords =
      !llvm::isPowerOf2_64(bits) && alignments[codes] % (wordBits() / 8) == 0;
  int64_t whole = shape.elements / kGroup, rest = shape.elements % kGroup;
  // The number of groups that emitWarp() processes.
  int64_t inWarps = 0;
  if (2 * width >= kGroup && (width < kGroup || sharesWords))
    inWarps = whole / kWarp * kWarp;

  Value group = k.add(k.mul(k.block(), k.i64Constant(kThreads)), k.thread());
  auto elementOf = [&](Value group) {
    return k.mul(group, k.i64Constant(kGroup));
  };
  auto emitWarp = [&] {
    Place place;
    Value warp = k.sub(group, lane());
    if (sharesWords)
      place.warpGroup = warp;
    if (width < kGroup) {
      place.apart = kWarp * width;
      place.first = k.add(elementOf(warp), k.mul(lane(), k.i64Constant(width)));
    } else {
      place.first = elementOf(group);
    }
    place.group = k.add(warp, groupOf(lane(), place));
    body(place);
  };
  auto emitOwn = [&](Value group, int64_t count) {
    Place place;
    place.first = elementOf(group);
    place.group = group;
    place.count = count;
    body(place);
  };
  if (inWarps > 0)
    k.ifThen(k.less(group, k.i64Constant(inWarps)), emitWarp);
  if (whole > inWarps) {
    Value isOwn = k.less(group, k.i64Constant(whole));
    if (inWarps > 0)
      isOwn = k.bitAnd(isOwn, k.less(k.i64Constant(inWarps - 1), group));
    k.ifThen(isOwn, [&] { emitOwn(group, kGroup); });
  }
  if (rest)
    k.ifThen(k.equal(group, k.i64Constant(whole)),
             [&] { emitOwn(k.i64Constant(whole), rest); });
  if (failed(k.finish()))
    return failure();
  return KernelLaunch{whole + (rest ? 1 : 0), kThreads, kThreads, 0};
}

//===----------------------------------------------------------------------===//
// Codes
//===----------------------------------------------------------------------===//

void BucketKernel::forCodes(
    unsigned arg, const Place &place,
    function_ref<void(Value address, IntegerType type, int64_t bit)> body) {
  Type byte = k.b.getI8Type();
  int64_t bytes = llvm::divideCeil(bits * place.count, 8);
  int64_t width = accessWidth(byte, alignments[arg], {bits, bytes});
  Value codes =
      k.element(k.arg(arg), byte, k.mul(place.group, k.i64Constant(bits)));
  for (int64_t i = 0; i < bytes; i += width)
    body(k.element(codes, byte, i), k.b.getIntegerType(8 * width), 8 * i);
}

/// Shifts `word`; the result is 0 if `by` (i64) is 64 or more.
Value BucketKernel::shift(Value word, Value by, bool isLeft) {
  Value amount = k.bitAnd(by, k.i64Constant(63));
  Value shifted = isLeft ? Value(arith::ShLIOp::create(k.b, word, amount))
                         : Value(arith::ShRUIOp::create(k.b, word, amount));
  return k.select(k.less(by, k.i64Constant(64)), shifted, k.i64Constant(0));
}

Value BucketKernel::fetch(Value word, Value from) {
  Value lane = arith::TruncIOp::create(
      k.b, k.i32(), k.bitAnd(from, k.i64Constant(kWarp - 1)));
  if (wordBits() == 64 || groupBits() > 32)
    return k.shuffleIdx(word, lane);
  Value low = arith::TruncIOp::create(k.b, k.i32(), word);
  return arith::ExtUIOp::create(k.b, k.i64(), k.shuffleIdx(low, lane));
}

Value BucketKernel::wordAddress(unsigned arg, const Place &place) {
  Type byte = k.b.getI8Type();
  Value codes =
      k.element(k.arg(arg), byte, k.mul(place.warpGroup, k.i64Constant(bits)));
  return k.element(codes, k.b.getIntegerType(wordBits()), lane());
}

Value BucketKernel::laneOf(Value group, const Place &place) {
  if (!place.apart)
    return group;
  Value number = k.bitAnd(group, k.i64Constant(kWarp / 2 - 1));
  Value half = k.shiftRight(group, llvm::Log2_64(kWarp / 2));
  return k.add(k.shiftLeft(number, 1), half);
}

Value BucketKernel::groupOf(Value lane, const Place &place) {
  if (!place.apart)
    return lane;
  Value half = k.bitAnd(lane, k.i64Constant(1));
  return k.add(k.shiftRight(lane, 1), k.mul(half, k.i64Constant(kWarp / 2)));
}

/// Loads the codes of a group, which are in one or two words.
Value BucketKernel::loadShared(unsigned arg, const Place &place) {
  Type type = k.b.getIntegerType(wordBits());
  Value word = loadWideIf(k, k.less(lane(), k.i64Constant(words())),
                          wordAddress(arg, place), type, 1);
  if (type != k.i64())
    word = arith::ExtUIOp::create(k.b, k.i64(), word);
  Value bit =
      k.mul(k.sub(place.group, place.warpGroup), k.i64Constant(groupBits()));
  Value number = k.shiftRight(bit, llvm::Log2_64(wordBits()));
  Value begin = k.bitAnd(bit, k.i64Constant(wordBits() - 1));
  Value low = fetch(word, number);
  Value high = fetch(word, k.add(number, k.i64Constant(1)));
  return k.bitOr(
      shift(low, begin, /*isLeft=*/false),
      shift(high, k.sub(k.i64Constant(wordBits()), begin), /*isLeft=*/true));
}

/// Lane j assembles and stores word j. The word starts in group
/// j * wordBits / groupBits and may end in a later group.
void BucketKernel::storeShared(Value word, unsigned arg, const Place &place) {
  Value bit = k.mul(lane(), k.i64Constant(wordBits()));
  Value size = k.i64Constant(groupBits());
  Value group = k.divUnsigned(bit, size), begin = k.remUnsigned(bit, size);
  // The maximum number of groups that a word overlaps. A word starts at a
  // multiple of `step` within a group, so at most groupBits() - step bits of
  // the first group precede the word.
  int64_t step = std::gcd(groupBits(), wordBits());
  int64_t groups =
      llvm::divideCeil(groupBits() - step + wordBits(), groupBits());
  Value result;
  for (int64_t i : llvm::seq(groups)) {
    Value part = fetch(word, laneOf(k.add(group, k.i64Constant(i)), place));
    part = i == 0 ? shift(part, begin, /*isLeft=*/false)
                  : shift(part, k.sub(k.i64Constant(i * groupBits()), begin),
                          /*isLeft=*/true);
    result = result ? k.bitOr(result, part) : part;
  }
  Type type = k.b.getIntegerType(wordBits());
  if (type != k.i64())
    result = arith::TruncIOp::create(k.b, type, result);
  k.ifThen(k.less(lane(), k.i64Constant(words())),
           [&] { k.store(result, wordAddress(arg, place)); });
}

Value BucketKernel::exchangeHalves(Value word) {
  int64_t half = groupBits() / 2;
  Value mask = k.i64Constant((int64_t(1) << half) - 1);
  Value low = k.bitAnd(word, mask),
        high = k.bitAnd(k.shiftRight(word, half), mask);
  Value given = k.select(isOdd(), low, high);
  Value got = k.shuffleXor(arith::TruncIOp::create(k.b, k.i32(), given), 1);
  got = arith::ExtUIOp::create(k.b, k.i64(), got);
  return k.bitOr(k.select(isOdd(), got, low),
                 k.shiftLeft(k.select(isOdd(), high, got), half));
}

Value BucketKernel::loadWord(unsigned arg, const Place &place) {
  Value word = k.i64Constant(0);
  if (place.warpGroup)
    word = loadShared(arg, place);
  else
    forCodes(arg, place, [&](Value address, IntegerType type, int64_t bit) {
      Value part = k.load(address, type);
      if (type != k.i64())
        part = arith::ExtUIOp::create(k.b, k.i64(), part);
      word = k.bitOr(word, k.shiftLeft(part, bit));
    });
  return place.apart ? exchangeHalves(word) : word;
}

void BucketKernel::storeWord(Value word, unsigned arg, const Place &place) {
  if (place.apart)
    word = exchangeHalves(word);
  if (place.warpGroup)
    return storeShared(word, arg, place);
  forCodes(arg, place, [&](Value address, IntegerType type, int64_t bit) {
    Value part = k.shiftRight(word, bit);
    if (type != k.i64())
      part = arith::TruncIOp::create(k.b, type, part);
    k.store(part, address);
  });
}

//===----------------------------------------------------------------------===//
// Elements
//===----------------------------------------------------------------------===//

void BucketKernel::forElements(
    unsigned arg, const Place &place,
    function_ref<void(Value address, int64_t first)> body) {
  Type type = shape.elementType;
  int64_t width = widthAt(arg, place);
  Value address = k.element(k.arg(arg), type, place.first);
  for (int64_t i = 0; i < place.count; i += width)
    body(k.element(address, type, place.apart ? i / width * place.apart : i),
         i);
}

SmallVector<Value> BucketKernel::loadGroup(unsigned arg, const Place &place) {
  Type type = shape.elementType;
  int64_t width = widthAt(arg, place);
  SmallVector<Value> group;
  forElements(arg, place, [&](Value address, int64_t) {
    Value x = k.widen(loadWide(k, address, type, width));
    for (int64_t j : llvm::seq(width))
      group.push_back(wideElement(k, x, j));
  });
  return group;
}

void BucketKernel::storeGroup(ArrayRef<Value> group, unsigned arg,
                              const Place &place) {
  Type type = shape.elementType;
  int64_t width = widthAt(arg, place);
  forElements(arg, place, [&](Value address, int64_t first) {
    storeWide(k, k.roundTo(wideOf(k, group.slice(first, width)), type),
              address);
  });
}

Value BucketKernel::select(ArrayRef<Value> indexBits, ArrayRef<double> table) {
  if (table.size() == 1)
    return k.constantF(table.front(), computedType());
  size_t half = table.size() / 2;
  Value low = select(indexBits.drop_back(), table.take_front(half));
  Value high = select(indexBits.drop_back(), table.drop_front(half));
  return k.select(indexBits.back(), high, low);
}

FailureOr<KernelLaunch> emitBucketEncode(mlir::gpu::GPUModuleOp kernels,
                                         StringRef name,
                                         const BucketEncodeShape &shape,
                                         Alignments alignments) {
  int64_t bits = llvm::Log2_64(shape.table.size() + 1);
  BucketKernel kernel(kernels, name, shape, /*numArgs=*/2, bits, alignments);
  GpuBuilder &k = kernel.k;
  return kernel.run({0}, 1, [&](const BucketKernel::Place &place) {
    Value word = k.i64Constant(0);
    for (auto [i, x] : llvm::enumerate(kernel.loadGroup(0, place))) {
      SmallVector<Value> found; // Bits of the code, lowest first.
      for (int64_t bit = bits - 1; bit >= 0; --bit) {
        // `middles` has one border for each value of the bits above `bit`. The
        // bit is set if x is above the border for the bits found so far.
        SmallVector<double> middles;
        for (int64_t high = 0; high < int64_t(1) << (bits - 1 - bit); ++high)
          middles.push_back(shape.table[(((high << 1) | 1) << bit) - 1]);
        found.insert(found.begin(), k.less(kernel.select(found, middles), x));
      }
      for (auto [bit, isSet] : llvm::enumerate(found)) {
        Value one = arith::ExtUIOp::create(k.b, k.i64(), isSet);
        word = k.bitOr(word, k.shiftLeft(one, bits * i + bit));
      }
    }
    kernel.storeWord(word, 1, place);
  });
}

FailureOr<KernelLaunch> emitBucketDecode(mlir::gpu::GPUModuleOp kernels,
                                         StringRef name,
                                         const BucketDecodeShape &shape,
                                         Alignments alignments) {
  int64_t bits = llvm::Log2_64(shape.table.size());
  BucketKernel kernel(kernels, name, shape, /*numArgs=*/3, bits, alignments);
  GpuBuilder &k = kernel.k;
  return kernel.run({1, 2}, 0, [&](const BucketKernel::Place &place) {
    Value word = kernel.loadWord(0, place);
    Value none = k.i64Constant(0), zero = k.constantF(0, kernel.computedType());
    SmallVector<Value> group = kernel.loadGroup(1, place);
    for (auto [i, x] : llvm::enumerate(group)) {
      SmallVector<Value> indexBits;
      for (int64_t bit : llvm::seq(bits)) {
        uint64_t mask = uint64_t(1) << (bits * i + bit);
        Value only = k.bitAnd(word, k.i64Constant(int64_t(mask)));
        indexBits.push_back(
            arith::CmpIOp::create(k.b, arith::CmpIPredicate::ne, only, none));
      }
      Value level = kernel.select(indexBits, shape.table);
      x = k.select(k.equal(level, zero), zero, k.mul(level, x));
    }
    kernel.storeGroup(group, 2, place);
  });
}

void addBucketKernel(KernelEmitters &emitters) {
  emitters.add<BucketEncodeOp>([](mlir::gpu::GPUModuleOp kernels,
                                  rt::KernelOp kernel, Alignments alignments) {
    return emitBucketEncode(kernels, kernel.getSymName(),
                            readBucketEncode(SingleOp(kernel)), alignments);
  });
  emitters.add<BucketDecodeOp>([](mlir::gpu::GPUModuleOp kernels,
                                  rt::KernelOp kernel, Alignments alignments) {
    return emitBucketDecode(kernels, kernel.getSymName(),
                            readBucketDecode(SingleOp(kernel)), alignments);
  });
}

} // namespace kiln::gpu
