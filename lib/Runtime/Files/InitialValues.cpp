//===- InitialValues.cpp - Initial values of states -----------------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Each state has a Philox stream of its own. Elements 2k and 2k+1 of the state
// are computed from block k of the stream. The 128 bits of a block give two
// uniform numbers, or, by the Box-Muller transform, two normal numbers.
//
//===----------------------------------------------------------------------===//

#include "kiln/Runtime/Files/InitialValues.h"
#include "kiln/Support/CheckedMath.h"
#include "kiln/Support/Dynamic8.h"
#include "kiln/Support/ElementConversion.h"
#include "kiln/Support/Hash.h"
#include "kiln/Support/Messages.h"
#include "kiln/Support/Nf4.h"
#include "kiln/Support/Rng.h"
#include <cassert>
#include <cmath>
#include <cstring>

using namespace kiln::runtime;
using namespace kiln::support;
using namespace kiln;

namespace {

/// Computes the elements of a state one at a time. Caches the last Philox
/// block, because two adjacent elements share a block.
class Elements {
public:
  Elements(const InitialValue &init, const std::vector<int64_t> &shape,
           uint64_t key)
      : init_(init), key_(key) {
    if (!init.zeroRow)
      return;
    int64_t rowElements = *checkedElements(shape) / shape.front();
    zeroBegin_ = *init.zeroRow * rowElements;
    zeroEnd_ = zeroBegin_ + rowElements;
  }

  double at(int64_t element) {
    if (element >= zeroBegin_ && element < zeroEnd_)
      return 0.0;
    switch (init_.kind) {
    case InitialValue::Kind::Constant:
      return init_.value;
    case InitialValue::Kind::Uniform:
      draw(element / 2);
      return init_.low +
             (init_.high - init_.low) * (element % 2 ? second_ : first_);
    case InitialValue::Kind::Normal:
      draw(element / 2);
      return init_.mean + init_.stddev * (element % 2 ? second_ : first_);
    case InitialValue::Kind::RopeCos:
    case InitialValue::Kind::RopeSin: {
      int64_t width = init_.inverseFrequencies.size();
      double angle =
          double(element / width) * init_.inverseFrequencies[element % width];
      return init_.scale * (init_.kind == InitialValue::Kind::RopeCos
                                ? std::cos(angle)
                                : std::sin(angle));
    }
    case InitialValue::Kind::Nf4Table: {
      const auto &scales = dynamicValues(DynamicMap::Signed);
      int64_t count = scales.size();
      return element < count ? scales[element] : nf4Values[element - count];
    }
    }
    return 0.0;
  }

private:
  void draw(int64_t block) {
    if (block == block_)
      return;
    block_ = block;
    std::array<uint32_t, 4> words = philox4x32(uint64_t(block), key_);
    first_ = uniformFromBits(words[0], words[1]);
    second_ = uniformFromBits(words[2], words[3]);
    if (init_.kind == InitialValue::Kind::Normal) {
      constexpr double twoPi = 6.283185307179586476925;
      double radius = std::sqrt(-2.0 * std::log(1.0 - first_)); // Never log(0).
      double angle = twoPi * second_;
      first_ = radius * std::cos(angle);
      second_ = radius * std::sin(angle);
    }
  }

  const InitialValue &init_;
  uint64_t key_;
  int64_t zeroBegin_ = 0, zeroEnd_ = 0;
  int64_t block_ = -1;
  double first_ = 0.0, second_ = 0.0;
};

Status readNumber(const nlohmann::json &init, const char *key, double &value,
                  const std::string &where) {
  auto it = init.find(key);
  if (it == init.end() || !it->is_number())
    return Status::badInput(where + ": init needs a number '" +
                            std::string(key) + "'");
  value = it->get<double>();
  if (!std::isfinite(value))
    return Status::badInput(where + ": init '" + std::string(key) +
                            "' is not finite");
  return Status();
}

} // namespace

Result<InitialValue>
kiln::runtime::parseInitialValue(const nlohmann::json &init,
                                 const std::string &where) {
  if (!init.is_object())
    return Status::badInput(where + ": init is not an object");
  auto kind = init.find("kind");
  if (kind == init.end() || !kind->is_string())
    return Status::badInput(where + ": init needs a string 'kind'");
  const std::string &name = kind->get_ref<const std::string &>();

  InitialValue result;
  auto numbers =
      [&](std::initializer_list<std::pair<const char *, double *>> fields)
      -> Result<InitialValue> {
    for (auto [key, place] : fields)
      if (Status status = readNumber(init, key, *place, where); !status.ok())
        return status;
    return result;
  };
  if (name == "constant") {
    result.kind = InitialValue::Kind::Constant;
    return numbers({{"value", &result.value}});
  }
  if (name == "normal") {
    result.kind = InitialValue::Kind::Normal;
    if (auto row = init.find("zero_row"); row != init.end()) {
      if (!row->is_number_integer() || row->get<int64_t>() < 0)
        return Status::badInput(where + ": 'zero_row' of init is " +
                                inQuotes(row->dump()) +
                                ", expected an integer from 0");
      result.zeroRow = row->get<int64_t>();
    }
    return numbers({{"mean", &result.mean}, {"stddev", &result.stddev}});
  }
  if (name == "uniform") {
    result.kind = InitialValue::Kind::Uniform;
    return numbers({{"low", &result.low}, {"high", &result.high}});
  }
  if (name == "nf4_table") {
    result.kind = InitialValue::Kind::Nf4Table;
    return result;
  }
  if (name != "rope_cos" && name != "rope_sin")
    return Status::badInput(where + ": unknown kind of init " + inQuotes(name));

  result.kind = name == "rope_cos" ? InitialValue::Kind::RopeCos
                                   : InitialValue::Kind::RopeSin;
  auto frequencies = init.find("inv_freq");
  if (frequencies == init.end() || !frequencies->is_array() ||
      frequencies->empty())
    return Status::badInput(where +
                            ": init needs a non-empty array 'inv_freq'");
  for (const nlohmann::json &frequency : *frequencies) {
    if (!frequency.is_number() || !std::isfinite(frequency.get<double>()))
      return Status::badInput(where + ": an element of init 'inv_freq' is not "
                                      "a finite number");
    result.inverseFrequencies.push_back(frequency.get<double>());
  }
  return numbers({{"scale", &result.scale}});
}

/// Returns true if `value` is an integer in the range of the signed integer
/// type.
static bool fitsInteger(ElementType type, double value) {
  double limit = std::ldexp(1.0, int(bitsOf(type)) - 1);
  return value >= -limit && value < limit && value == std::trunc(value);
}

/// Stores `count` copies of the low `width` bytes of `value`, in little-endian
/// order.
static void fillIntegers(int64_t value, int64_t width, int64_t count,
                         char *destination) {
  for (int64_t i = 0; i < count; ++i)
    for (int64_t byte = 0; byte < width; ++byte)
      destination[i * width + byte] = char(value >> (8 * byte));
}

Status kiln::runtime::fillInitialValue(const InitialValue &init, uint64_t seed,
                                       std::string_view stateName,
                                       const std::vector<int64_t> &shape,
                                       ElementType type, int64_t begin,
                                       int64_t end, void *destination) {
  std::string where = "state " + inQuotes(stateName);
  std::optional<int64_t> elements = checkedElements(shape);
  if (!elements || begin < 0 || begin > end || end > *elements)
    return Status::error(where + ": elements [" + std::to_string(begin) + ", " +
                         std::to_string(end) +
                         ") are not within a tensor of shape " +
                         shapeText(shape));
  bool isRope = init.kind == InitialValue::Kind::RopeCos ||
                init.kind == InitialValue::Kind::RopeSin;
  if (isRope && (shape.size() != 2 ||
                 shape[1] != int64_t(init.inverseFrequencies.size())))
    return Status::error(
        where + ": shape " + shapeText(shape) +
        " is invalid, expected a matrix with one column for each of " +
        std::to_string(init.inverseFrequencies.size()) + " rotary frequencies");
  if (init.kind == InitialValue::Kind::Nf4Table &&
      *elements !=
          int64_t(dynamicValues(DynamicMap::Signed).size() + nf4Values.size()))
    return Status::error(where + ": shape " + shapeText(shape) +
                         " is invalid, expected 272 elements: the 16 values "
                         "of NF4 and the 256 values of its scale codes");
  if (init.zeroRow &&
      (shape.empty() || *init.zeroRow < 0 || *init.zeroRow >= shape.front()))
    return Status::error(where + ": shape " + shapeText(shape) +
                         " has no row " + std::to_string(*init.zeroRow) +
                         ", which the initial values set to zero");
  if (init.kind == InitialValue::Kind::Constant && init.value == 0.0 &&
      !std::signbit(init.value) && bitsOf(type) % 8 == 0) {
    std::memset(destination, 0, bytesOf(type, end - begin));
    return Status();
  }
  if (infoOf(type).kind == ElementKind::Signed &&
      init.kind == InitialValue::Kind::Constant &&
      fitsInteger(type, init.value)) {
    fillIntegers(int64_t(init.value), bytesOf(type), end - begin,
                 static_cast<char *>(destination));
    return Status();
  }
  if (!isConvertible(ElementType::F64, type))
    return Status::error(where + ": initial values cannot be converted to " +
                         std::string(infoOf(type).fileName));

  Elements values(init, shape, keyedHash(stateName, seed));
  auto *out = static_cast<char *>(destination);
  uint64_t bytes = bytesOf(type);
  double chunk[512];
  while (begin < end) {
    int64_t count = std::min<int64_t>(end - begin, std::size(chunk));
    for (int64_t i = 0; i < count; ++i)
      chunk[i] = values.at(begin + i);
    convertElements(ElementType::F64, chunk, type, out, count);
    out += count * bytes;
    begin += count;
  }
  return Status();
}
