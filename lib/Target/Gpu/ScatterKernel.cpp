//===- ScatterKernel.cpp - Adds rows to the rows of a table ---------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
//   scatter(tokens, dy, table):            // block b owns rows b, b + G, ...
//     for (chunk : tokens) {               // 2048 tokens; G = gridDim.x
//       found = tokens of own rows;        // prefix sum over the threads
//       if (list overflows || last chunk)
//         flush(list);
//       append(list, found);               // in token order
//     }
//   flush(list):
//     sort the positions by row;           // one thread per row
//     for (row, columns : own rows) {      // a few columns per thread
//       sum = first flush && imm[0] == 0 ? 0 : table[row][columns];
//       for (position : positions of row)  // in token order
//         sum += dy[position][columns];
//       table[row][columns] = sum;
//     }
//
// Launch: G = ceil(vocabulary / rowsPerBlock) blocks of 256 threads, with
// rowsPerBlock = min(64, ceil(vocabulary / 1024)).
// Shared: 25120 bytes: the list, the sorted positions and the counters.
// Bytes: dy is read once and the table is written once, plus one read and write
// of a row per further flush. The blocks together read the tokens G times, from
// the L2 cache.
//
// Frequent tokens have adjacent numbers, so interleaving the rows distributes
// them over the blocks. Equal tokens are added in token order without atomics,
// and only one block writes a row. The first flush also writes rows without
// tokens, which must become zero. Sums stay in the table between flushes, so
// the table has the type of the sums, whatever the type of dy.
//
//===----------------------------------------------------------------------===//

#include "VectorizedAccess.h"

#include "llvm/ADT/Sequence.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;

namespace kiln::gpu {

namespace {

constexpr int64_t kThreads = 256;
constexpr int64_t kWarps = kThreads / kWarp;
constexpr int64_t kTokensPerThread = 8;
/// Tokens per chunk. The list of tokens has the same capacity, since all tokens
/// of a chunk may have to be listed.
constexpr int64_t kChunk = kThreads * kTokensPerThread;
/// Maximum rows per block. To sort the list by row, each row has one thread,
/// which collects the positions of its row.
constexpr int64_t kMaxRows = 64;
/// Number of blocks that keeps a GPU busy.
constexpr int64_t kEnoughBlocks = 1024;
/// Rows of dy that a thread loads before it adds any of them.
constexpr int64_t kReadAhead = 8;

class ScatterEmitter {
public:
  ScatterEmitter(mlir::gpu::GPUModuleOp kernels, StringRef name,
                 const ScatterShape &shape, Alignments alignments);
  FailureOr<KernelLaunch> emit();

private:
  /// The tokens of a chunk that this thread reads. `isListed` is true for the
  /// tokens to be listed, whose table rows this block owns. `rows` are the
  /// indices of the tokens' table rows among the rows of the block. `total` is
  /// the number of all tokens of the chunk to be listed, and `place` is the
  /// number of those that precede the tokens of this thread.
  struct Found {
    SmallVector<Value> isListed, rows; // i1 and i32.
    Value place, total;                // i32.
  };
  Found readChunk(Value first);
  void list(const Found &found, Value first, Value listed);
  void flush(Value listed, Value isFirst);
  void sortList(Value listed);
  void addRow(Value row, Value isFresh);
  Value sumOfPositions(Value begin, Value end, Value column, Value sum);

  Value i32Constant(int64_t x) { return k.constantI(x, k.i32()); }
  Value wide(Value x) { return arith::ExtUIOp::create(k.b, k.i64(), x); }
  Value narrow(Value x) { return arith::TruncIOp::create(k.b, k.i32(), x); }
  Value get(Value array, Value i) {
    return k.load(k.element(array, k.i32(), wide(i)), k.i32());
  }
  void set(Value array, Value i, Value x) {
    k.store(x, k.element(array, k.i32(), wide(i)));
  }

  const ScatterShape &shape;
  Type type; ///< Type of the table and of the sums.
  int64_t rowsPerBlock, blocks;
  int64_t tokenWidth, width;
  GpuBuilder k;
  Value thread; // i32.
  // Shared memory, all i32.
  Value positions, rows; ///< The list of tokens: their positions and rows.
  Value sorted;          ///< Positions sorted by row.
  Value counts, starts;  ///< Range of every row in `sorted`.
  Value warpSums;
};

} // namespace

ScatterEmitter::ScatterEmitter(mlir::gpu::GPUModuleOp kernels, StringRef name,
                               const ScatterShape &shape, Alignments alignments)
    : shape(shape), type(shape.elementType),
      rowsPerBlock(std::min<int64_t>(
          llvm::divideCeil(shape.vocabulary, kEnoughBlocks), kMaxRows)),
      blocks(llvm::divideCeil(shape.vocabulary, rowsPerBlock)),
      k(kernels, name, /*numArgs=*/3, /*numImmediates=*/1, kThreads) {
  tokenWidth = accessWidth(k.i32(), alignments[0], {shape.tokens}, 4);
  width = accessWidth(type, alignments[2], {shape.cols});
  width = accessWidth(shape.dyType, alignments[1], {shape.cols, shape.dyStride},
                      width);
  thread = narrow(k.thread());
  for (Value *array : {&positions, &rows, &sorted})
    *array = k.shared(k.i32(), kChunk);
  for (Value *array : {&counts, &starts})
    *array = k.shared(k.i32(), kMaxRows);
  warpSums = k.shared(k.i32(), kWarps);
}

FailureOr<KernelLaunch> ScatterEmitter::emit() {
  Value isTrue = k.constantI(1, k.i1()), isFalse = k.constantI(0, k.i1());
  // One more chunk, without tokens, flushes the rest of the list.
  int64_t last = llvm::alignTo(shape.tokens, kChunk);
  k.loop(k.i64Constant(0), k.i64Constant(last + 1), kChunk,
         ValueRange{i32Constant(0), isTrue},
         [&](Value first, ValueRange carried) {
           Value listed = carried[0], isFirst = carried[1];
           Found found = readChunk(first);
           Value needed = k.add(listed, found.total);
           Value flushes = k.bitOr(k.less(i32Constant(kChunk), needed),
                                   k.equal(first, k.i64Constant(last)));
           k.ifThen(flushes, [&] { flush(listed, isFirst); });
           listed = k.select(flushes, i32Constant(0), listed);
           isFirst = k.select(flushes, isFalse, isFirst);
           list(found, first, listed);
           k.barrier();
           return SmallVector<Value>{k.add(listed, found.total), isFirst};
         });
  if (failed(k.finish()))
    return failure();
  return KernelLaunch{blocks, 1, kThreads, k.sharedBytes()};
}

ScatterEmitter::Found ScatterEmitter::readChunk(Value first) {
  Found found;
  Value mine = k.add(first, k.mul(k.thread(), k.i64Constant(kTokensPerThread)));
  Value block = narrow(k.block()), grid = i32Constant(blocks);
  Value count = i32Constant(0);
  for (int64_t i = 0; i < kTokensPerThread; i += tokenWidth) {
    Value position = k.add(mine, k.i64Constant(i));
    Value exists = k.less(position, k.i64Constant(shape.tokens));
    Value tokens = loadWideIf(k, exists, k.element(k.arg(0), k.i32(), position),
                              k.i32(), tokenWidth);
    for (int64_t j : llvm::seq(tokenWidth)) {
      Value token = wideElement(k, tokens, j);
      Value owner = k.remUnsigned(token, grid);
      Value isListed = k.bitAnd(exists, k.equal(owner, block));
      if (shape.paddingIndex) {
        Value isPadding = k.equal(token, i32Constant(*shape.paddingIndex));
        isListed =
            k.bitAnd(isListed, k.bitXor(isPadding, k.constantI(1, k.i1())));
      }
      found.isListed.push_back(isListed);
      found.rows.push_back(k.divUnsigned(token, grid));
      count = k.add(count, arith::ExtUIOp::create(k.b, k.i32(), isListed));
    }
  }

  // Prefix sum over the lanes, then over the warps.
  Value lane = k.bitAnd(thread, i32Constant(kWarp - 1));
  Value warp = k.shiftRight(thread, llvm::Log2_64(kWarp));
  Value upTo = count;
  for (int64_t distance = 1; distance < kWarp; distance *= 2) {
    Value from =
        k.bitAnd(k.sub(lane, i32Constant(distance)), i32Constant(kWarp - 1));
    Value other = k.shuffleIdx(upTo, from);
    Value isBefore = k.less(lane, i32Constant(distance));
    upTo = k.add(upTo, k.select(isBefore, i32Constant(0), other));
  }
  k.ifThen(k.equal(lane, i32Constant(kWarp - 1)),
           [&] { set(warpSums, warp, upTo); });
  k.barrier();
  found.place = k.sub(upTo, count);
  found.total = i32Constant(0);
  for (int64_t w : llvm::seq(kWarps)) {
    Value sum = get(warpSums, i32Constant(w));
    Value isBefore = k.less(i32Constant(w), warp);
    found.place = k.add(found.place, k.select(isBefore, sum, i32Constant(0)));
    found.total = k.add(found.total, sum);
  }
  return found;
}

void ScatterEmitter::list(const Found &found, Value first, Value listed) {
  Value place = k.add(listed, found.place);
  Value mine =
      k.add(narrow(first), k.mul(thread, i32Constant(kTokensPerThread)));
  for (int64_t i : llvm::seq(kTokensPerThread)) {
    Value isListed = found.isListed[i];
    k.ifThen(isListed, [&] {
      set(positions, place, k.add(mine, i32Constant(i)));
      set(rows, place, found.rows[i]);
    });
    place = k.add(place, arith::ExtUIOp::create(k.b, k.i32(), isListed));
  }
}

void ScatterEmitter::sortList(Value listed) {
  Value low = k.i64Constant(0), high = wide(listed);
  Value hasRow = k.less(thread, i32Constant(rowsPerBlock));
  Value zero = i32Constant(0);
  auto isMine = [&](Value i) {
    return k.equal(k.load(k.element(rows, k.i32(), i), k.i32()), thread);
  };
  k.ifThen(hasRow, [&] {
    Value count = k.loop(low, high, 1, ValueRange{zero},
                         [&](Value i, ValueRange carried) {
                           Value one =
                               arith::ExtUIOp::create(k.b, k.i32(), isMine(i));
                           return SmallVector<Value>{k.add(carried[0], one)};
                         })
                      .front();
    set(counts, thread, count);
  });
  k.barrier();
  k.ifThen(hasRow, [&] {
    Value start = k.loop(low, k.thread(), 1, ValueRange{zero},
                         [&](Value row, ValueRange carried) {
                           return SmallVector<Value>{
                               k.add(carried[0], get(counts, narrow(row)))};
                         })
                      .front();
    set(starts, thread, start);
    k.loop(low, high, 1, ValueRange{start}, [&](Value i, ValueRange carried) {
      Value place = carried[0], mine = isMine(i);
      k.ifThen(mine, [&] {
        set(sorted, place, k.load(k.element(positions, k.i32(), i), k.i32()));
      });
      Value one = arith::ExtUIOp::create(k.b, k.i32(), mine);
      return SmallVector<Value>{k.add(place, one)};
    });
  });
  k.barrier();
}

void ScatterEmitter::flush(Value listed, Value isFirst) {
  sortList(listed);
  Value isFresh = k.bitAnd(isFirst, k.equal(k.immediate(0), k.i64Constant(0)));
  // If rows are short, the block processes several rows at once.
  int64_t rowThreads = std::min<int64_t>(
      llvm::PowerOf2Ceil(llvm::divideCeil(shape.cols, width)), kThreads);
  Value firstRow = k.divUnsigned(k.thread(), k.i64Constant(rowThreads));
  Value firstColumn =
      k.mul(k.remUnsigned(k.thread(), k.i64Constant(rowThreads)),
            k.i64Constant(width));
  k.loop(firstRow, k.i64Constant(rowsPerBlock), kThreads / rowThreads,
         [&](Value row) {
           Value start = get(starts, narrow(row));
           Value count = get(counts, narrow(row));
           Value tableRow = k.add(k.mul(row, k.i64Constant(blocks)), k.block());
           Value isWritten =
               k.bitAnd(k.bitOr(isFresh, k.less(i32Constant(0), count)),
                        k.less(tableRow, k.i64Constant(shape.vocabulary)));
           Value begin = wide(start), end = wide(k.add(start, count));
           Value to = k.element(k.arg(2), type,
                                k.mul(tableRow, k.i64Constant(shape.cols)));
           k.ifThen(isWritten, [&] {
             k.loop(firstColumn, k.i64Constant(shape.cols), rowThreads * width,
                    [&](Value column) {
                      Value place = k.element(to, type, column);
                      Value isKept = k.bitXor(isFresh, k.constantI(1, k.i1()));
                      Value sum = loadWideIf(k, isKept, place, type, width);
                      sum = sumOfPositions(begin, end, column, sum);
                      storeWide(k, sum, place);
                    });
           });
         });
}

Value ScatterEmitter::sumOfPositions(Value begin, Value end, Value column,
                                     Value sum) {
  Value count = k.sub(end, begin);
  Value whole = k.add(begin, k.bitAnd(count, k.i64Constant(-kReadAhead)));
  auto addFrom = [&](Value low, Value high, int64_t step, Value sum) {
    return k
        .loop(low, high, step, ValueRange{sum},
              [&](Value i, ValueRange carried) {
                SmallVector<Value> terms;
                for (int64_t j : llvm::seq(step)) {
                  Value place =
                      k.element(k.element(sorted, k.i32(), i), k.i32(), j);
                  Value position = wide(k.load(place, k.i32()));
                  Value offset = k.add(
                      k.mul(position, k.i64Constant(shape.dyStride)), column);
                  Value term = k.element(k.arg(1), shape.dyType, offset);
                  terms.push_back(
                      k.widen(loadWide(k, term, shape.dyType, width)));
                }
                Value next = carried[0];
                for (Value term : terms)
                  next = k.add(next, term);
                return SmallVector<Value>{next};
              })
        .front();
  };
  sum = addFrom(begin, whole, kReadAhead, sum);
  return addFrom(whole, end, 1, sum);
}

FailureOr<KernelLaunch> emitScatter(mlir::gpu::GPUModuleOp kernels,
                                    StringRef name, const ScatterShape &shape,
                                    Alignments alignments) {
  return ScatterEmitter(kernels, name, shape, alignments).emit();
}

void addScatterKernel(KernelEmitters &emitters) {
  emitters.add<EmbeddingGradOp>([](mlir::gpu::GPUModuleOp kernels,
                                   rt::KernelOp kernel, Alignments alignments) {
    return emitScatter(kernels, kernel.getSymName(),
                       readScatter(SingleOp(kernel)), alignments);
  });
}

} // namespace kiln::gpu
