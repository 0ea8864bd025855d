//===- GemmTiles.cpp - The tiles of a gemm command ------------------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "GemmTiles.h"

#include "AmxGemm.h"
#include "Avx512Gemm.h"
#include "LowPrecisionGemm.h"
#include "TileEpilogue.h"
#include "kiln/Abi/GemmWorkspace.h"

using namespace kiln::abi;

namespace kiln::runtime {

GemmTile gemmTile(const Command &command, int64_t index) {
  int64_t tiles = command.gridM * command.gridN;
  int64_t row = index % tiles / command.gridN;
  int64_t column = index % command.gridN;
  return {index / tiles, tileBegin(command.m, command.gridM, row),
          tileBegin(command.m, command.gridM, row + 1),
          tileBegin(command.n, command.gridN, column),
          tileBegin(command.n, command.gridN, column + 1)};
}

int64_t tileScratchBytes(const Command &command) {
  GemmShape shape = {command.m,         command.n,     command.k,
                     command.batch,     command.gridM, command.gridN,
                     command.gemmKernel};
  int64_t bytes =
      abi::tileScratchBytes(shape, command.type, command.resultType);
  return (bytes + 63) / 64 * 64;
}

void computeTile(const Command &command, const GemmTile &tile,
                 const GemmPlaces &places, bool accumulate, char *scratch) {
  int64_t elementBytes = bytesOf(command.type);
  int64_t resultBytes = bytesOf(command.resultType);
  const GemmOperand &a = command.a, &b = command.b, &c = command.c;
  GemmCall call;
  call.type = command.type;
  call.transA = a.trans;
  call.transB = b.trans;
  call.m = tile.rowEnd - tile.rowBegin;
  call.n = tile.columnEnd - tile.columnBegin;
  call.k = command.k;
  call.lda = a.ld;
  call.ldb = b.ld;
  call.ldc = c.ld;
  call.a = places.a + elementBytes * (tile.product * a.batchStride +
                                      tile.rowBegin * (a.trans ? 1 : a.ld));
  call.b = places.b + elementBytes * (tile.product * b.batchStride +
                                      tile.columnBegin * (b.trans ? b.ld : 1));
  call.c = places.c + resultBytes * (tile.product * c.batchStride +
                                     tile.rowBegin * c.ld + tile.columnBegin);
  call.accumulate = accumulate;
  TileEpilogue epilogue{command.library, command.resultType, places.bias,
                        places.aux, command.n};
  epilogue = epilogue.at(tile.rowBegin, tile.columnBegin);
  bool isNarrow = isNarrowFloat(command.resultType);
  if (command.gemmKernel == GemmKernel::Avx512)
    avx512Gemm(call, command.resultType, scratch);
  else if (command.gemmKernel == GemmKernel::Amx)
    amxGemm(call, command.resultType, scratch);
  else if (isNarrowFloat(command.type))
    lowPrecisionGemm(call, command.resultType, scratch,
                     isNarrow ? epilogue : TileEpilogue());
  else
    gemm(call);
  if (!isNarrow)
    finishTile(epilogue, call.m, call.n, call.c, call.ldc);
}

void computeBiasGrad(const Command &command, const GemmPlaces &places) {
  bool ofA = command.library == GemmEpilogue::BiasGradA;
  const GemmOperand &operand = ofA ? command.a : command.b;
  const char *begin = ofA ? places.a : places.b;
  // `step` is the stride between consecutive terms of one sum, and `next` the
  // stride between the first terms of consecutive sums. One of them is 1, and
  // the other is the leading dimension.
  bool inRow = ofA != operand.trans;
  int64_t step = inRow ? 1 : operand.ld, next = inRow ? operand.ld : 1;
  int64_t length = biasLength(command.library, command.m, command.n);
  for (int64_t i = 0; i < length; ++i) {
    double sum = 0;
    for (int64_t l = 0; l < command.k; ++l)
      sum += readElement(begin, command.type, i * next + l * step);
    writeElement(places.bias, command.resultType, i, float(sum));
  }
}

} // namespace kiln::runtime
