//===- TileEpilogue.cpp - Emulated vendor epilogues of GEMM tiles ---------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "TileEpilogue.h"

#include "NarrowRows.h"
#include "kiln/Abi/TanhGelu.h"

#include <cstring>

using namespace kiln::abi;

namespace kiln::runtime {

float readElement(const char *begin, ElementType type, int64_t index) {
  float value;
  if (isNarrowFloat(type))
    widenRows(type, begin + 2 * index, 1, 1, 1, &value, 1);
  else
    std::memcpy(&value, begin + 4 * index, sizeof(value));
  return value;
}

void writeElement(char *begin, ElementType type, int64_t index, float value) {
  if (isNarrowFloat(type))
    narrowRows(type, &value, 1, 1, 1, begin + 2 * index, 1);
  else
    std::memcpy(begin + 4 * index, &value, sizeof(value));
}

TileEpilogue TileEpilogue::at(int64_t row, int64_t column) const {
  TileEpilogue moved = *this;
  int64_t bytes = bytesOf(type);
  if (bias)
    moved.bias += bytes * column;
  if (aux)
    moved.aux += bytes * (row * auxLd + column);
  return moved;
}

void finishTile(const TileEpilogue &epilogue, int64_t rows, int64_t columns,
                char *sums, int64_t ld) {
  GemmEpilogue kind = epilogue.kind;
  if (kind == GemmEpilogue::None || writesBias(kind))
    return;
  for (int64_t row = 0; row < rows; ++row)
    for (int64_t column = 0; column < columns; ++column) {
      int64_t place = row * ld + column, beside = row * epilogue.auxLd + column;
      float sum = readElement(sums, ElementType::F32, place);
      if (kind == GemmEpilogue::GeluGrad) {
        float u = readElement(epilogue.aux, epilogue.type, beside);
        sum *= float(tanhGeluDerivative(double(u)));
      } else {
        sum += readElement(epilogue.bias, epilogue.type, column);
      }
      if (writesAux(kind))
        writeElement(epilogue.aux, epilogue.type, beside, sum);
      if (kind == GemmEpilogue::GeluBias || writesAux(kind))
        sum = float(tanhGelu(double(sum)));
      writeElement(sums, ElementType::F32, place, sum);
    }
}

} // namespace kiln::runtime
