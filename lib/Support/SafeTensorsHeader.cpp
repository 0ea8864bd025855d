//===- SafeTensorsHeader.cpp - Validation of safetensors headers ----------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The parser converts the JSON events of the header into the tensor table
// without building a document. Conditions that span several events (products of
// dimensions, duplicate names, coverage of the data) are checked after parsing.
//
//===----------------------------------------------------------------------===//

#include "kiln/Support/CheckedMath.h"
#include "kiln/Support/Json.h"
#include "kiln/Support/Messages.h"
#include "kiln/Support/SafeTensors.h"
#include <algorithm>
#include <tuple>

using namespace kiln::support;

namespace {

constexpr uint64_t kMaxDimension = uint64_t{1} << 48;
constexpr std::size_t kMaxWarnings = 8;

/// Returns the reason why `name` is not a valid tensor name, or null. Names
/// with a ".." component are rejected because other tools derive paths from
/// names.
const char *nameFault(std::string_view name, std::size_t maxBytes) {
  if (name.empty())
    return "is empty";
  if (name.size() > maxBytes)
    return "is too long";
  for (unsigned char c : name)
    if (c < 0x20 || c == 0x7f)
      return "contains a control character";
  for (std::size_t begin = 0; begin <= name.size();) {
    std::size_t end = std::min(name.find('/', begin), name.size());
    if (name.substr(begin, end - begin) == "..")
      return "contains a '..' path component";
    begin = end + 1;
  }
  return nullptr;
}

class HeaderReader final : public JsonEvents {
public:
  HeaderReader(SafeTensorsHeader &header, const SafeTensorsLimits &limits)
      : header_(header), limits_(limits) {}

  bool null() override { return other("null"); }
  bool boolean(bool) override { return other("a boolean"); }
  bool integer(int64_t) override { return other("a negative number"); }
  bool real(double) override {
    return other("a number that is not an integer below 2^64");
  }

  bool unsignedInteger(uint64_t value) override {
    if (state_ == State::Shape) {
      if (tensor().shape.size() == limits_.maxRank)
        return failTensor("has more than " + std::to_string(limits_.maxRank) +
                          " dimensions");
      if (value >= kMaxDimension)
        return failTensor("dimension " + std::to_string(value) +
                          " is not below 2^48");
      tensor().shape.push_back(value);
      return true;
    }
    if (state_ == State::Offsets) {
      if (offsets_ == 2)
        return failTensor("'data_offsets' has more than two numbers");
      (offsets_++ == 0 ? tensor().begin : tensor().end) = value;
      return true;
    }
    return other("a number");
  }

  bool string(std::string &value) override {
    if (state_ == State::Type) {
      std::optional<ElementType> type = elementTypeOfFile(value);
      if (!type)
        return failTensor("unknown dtype " + inQuotes(value));
      tensor().type = *type;
      state_ = State::Entry;
      return true;
    }
    if (state_ == State::MetadataValue) {
      metadataPlace_->second = std::move(value);
      state_ = State::Metadata;
      return true;
    }
    return other("a string");
  }

  bool key(std::string &value) override {
    switch (state_) {
    case State::Top:
      return startEntry(value);
    case State::Metadata: {
      auto [place, isNew] = header_.metadata.try_emplace(std::move(value));
      if (!isNew)
        return fail("duplicate key " + inQuotes(place->first) +
                    " in '__metadata__'");
      metadataPlace_ = place;
      state_ = State::MetadataValue;
      return true;
    }
    case State::Entry:
      return entryKey(value);
    default:
      return true; // Inside a skipped value.
    }
  }

  bool startObject() override {
    switch (state_) {
    case State::Start:
      state_ = State::Top;
      return true;
    case State::EntryValue:
      state_ = State::Entry;
      return true;
    case State::MetadataObject:
      state_ = State::Metadata;
      return true;
    case State::Skip:
      ++skipDepth_;
      return true;
    default:
      return other("an object");
    }
  }

  bool endObject() override {
    switch (state_) {
    case State::Entry:
      for (unsigned i = 0; i < 3; ++i)
        if (!(seenKeys_ & 1u << i))
          return failTensor("has no '" + std::string(kKeys[i]) + "'");
      state_ = State::Top;
      return true;
    case State::Metadata:
      state_ = State::Top;
      return true;
    case State::Skip:
      return endSkipped();
    default:
      return true;
    }
  }

  bool startArray() override {
    switch (state_) {
    case State::ShapeArray:
      state_ = State::Shape;
      return true;
    case State::OffsetsArray:
      state_ = State::Offsets;
      return true;
    case State::Skip:
      ++skipDepth_;
      return true;
    default:
      return other("an array");
    }
  }

  bool endArray() override {
    if (state_ == State::Skip)
      return endSkipped();
    if (state_ == State::Offsets && offsets_ != 2)
      return failTensor("'data_offsets' has " + std::to_string(offsets_) +
                        " numbers, expected two");
    state_ = State::Entry;
    return true;
  }

private:
  /// The construct to which the next event belongs.
  enum class State {
    Start,          // the document
    Top,            // a key of the document
    MetadataObject, // the value of __metadata__
    Metadata,       // a key of __metadata__
    MetadataValue,  // the value of a key of __metadata__
    EntryValue,     // the value of a tensor's name
    Entry,          // a key in a tensor's entry
    Type,           // the value of dtype
    ShapeArray,     // the value of shape
    Shape,          // a dimension
    OffsetsArray,   // the value of data_offsets
    Offsets,        // an offset
    Skip,           // the value of an unknown key
  };
  static constexpr const char *kKeys[] = {"dtype", "shape", "data_offsets"};

  TensorInfo &tensor() { return header_.tensors.back(); }

  bool fail(std::string message) {
    error = std::move(message);
    return false;
  }
  bool failTensor(const std::string &message) {
    return fail("tensor " + inQuotes(tensor().name) + ": " + message);
  }

  /// Handles a value that no other handler accepts in the current state.
  /// `found` describes the value. Fails unless the value is skipped.
  bool other(const std::string &found) {
    switch (state_) {
    case State::Skip:
      if (skipDepth_ == 0)
        state_ = State::Entry;
      return true;
    case State::Start:
      return fail("the header is " + found + ", expected an object");
    case State::MetadataObject:
      return fail("'__metadata__' is " + found + ", expected an object");
    case State::MetadataValue:
      return fail("value of " + inQuotes(metadataPlace_->first) +
                  " in '__metadata__' is " + found + ", expected a string");
    case State::EntryValue:
      return failTensor("is " + found + ", expected an object");
    case State::Type:
      return failTensor("'dtype' is " + found + ", expected a string");
    case State::ShapeArray:
      return failTensor("'shape' is " + found + ", expected an array");
    case State::Shape:
      return failTensor("a dimension is " + found + ", expected an integer");
    case State::OffsetsArray:
      return failTensor("'data_offsets' is " + found + ", expected an array");
    case State::Offsets:
      return failTensor("a data offset is " + found + ", expected an integer");
    case State::Top:
    case State::Metadata:
    case State::Entry:
      break; // In these states, the parser reports keys but no values.
    }
    return fail("unexpected " + found);
  }

  bool startEntry(std::string &name) {
    if (name == "__metadata__") {
      if (seenMetadata_)
        return fail("duplicate key '__metadata__'");
      seenMetadata_ = true;
      state_ = State::MetadataObject;
      return true;
    }
    if (header_.tensors.size() == limits_.maxTensors)
      return fail("more than " + std::to_string(limits_.maxTensors) +
                  " tensors");
    if (const char *fault = nameFault(name, limits_.maxNameBytes))
      return fail("tensor name " + inQuotes(name, 60) + " " + fault);
    header_.tensors.emplace_back().name = std::move(name);
    seenKeys_ = 0;
    offsets_ = 0;
    state_ = State::EntryValue;
    return true;
  }

  bool entryKey(const std::string &key) {
    constexpr State next[] = {State::Type, State::ShapeArray,
                              State::OffsetsArray};
    for (unsigned i = 0; i < 3; ++i) {
      if (key != kKeys[i])
        continue;
      if (seenKeys_ & 1u << i)
        return failTensor("duplicate key " + inQuotes(key));
      seenKeys_ |= 1u << i;
      state_ = next[i];
      return true;
    }
    std::string message = "unknown key " + inQuotes(key);
    if (limits_.strict)
      return failTensor(message);
    if (header_.warnings.size() < kMaxWarnings)
      header_.warnings.push_back("tensor " + inQuotes(tensor().name) + ": " +
                                 message + " is ignored");
    skipDepth_ = 0;
    state_ = State::Skip;
    return true;
  }

  bool endSkipped() {
    if (--skipDepth_ == 0)
      state_ = State::Entry;
    return true;
  }

  SafeTensorsHeader &header_;
  const SafeTensorsLimits &limits_;
  State state_ = State::Start;
  unsigned seenKeys_ = 0;
  unsigned offsets_ = 0;
  unsigned skipDepth_ = 0;
  bool seenMetadata_ = false;
  std::map<std::string, std::string>::iterator metadataPlace_;
};

/// Checks a single tensor. Returns the error, or "" if there is none.
std::string checkTensor(TensorInfo &tensor, uint64_t dataBytes) {
  std::optional<int64_t> elements = checkedElements(tensor.shape);
  if (!elements)
    return "number of elements of shape " + shapeText(tensor.shape) +
           " overflows";
  std::optional<uint64_t> bits =
      checkedMul<uint64_t>(*elements, bitsOf(tensor.type));
  if (!bits)
    return "size of shape " + shapeText(tensor.shape) + " overflows";
  if (*bits % 8 != 0)
    return std::to_string(*elements) + " elements of " +
           std::string(infoOf(tensor.type).fileName) +
           " do not fill whole bytes";
  if (tensor.begin > tensor.end)
    return "data begins at " + std::to_string(tensor.begin) +
           ", after its end at " + std::to_string(tensor.end);
  if (tensor.end > dataBytes)
    return "data ends at " + std::to_string(tensor.end) +
           ", beyond the end of the file, which has " +
           std::to_string(dataBytes) + " bytes of data";
  if (tensor.end - tensor.begin != *bits / 8)
    return "has " + std::to_string(tensor.end - tensor.begin) +
           " bytes of data, expected " + std::to_string(*bits / 8) + " for " +
           std::string(infoOf(tensor.type).fileName) + " " +
           shapeText(tensor.shape);
  tensor.elements = *elements;
  return "";
}

} // namespace

Result<SafeTensorsHeader>
kiln::support::parseSafeTensorsHeader(std::string_view json, uint64_t dataBytes,
                                      const std::string &source,
                                      const SafeTensorsLimits &limits) {
  SafeTensorsHeader header;
  HeaderReader reader(header, limits);
  JsonLimits jsonLimits;
  jsonLimits.maxBytes = limits.maxHeaderBytes;
  jsonLimits.maxDepth = 8;
  if (Status status = walkJson(json, source, reader, jsonLimits); !status.ok())
    return status;

  auto fail = [&](const TensorInfo &tensor, const std::string &message) {
    return Status::badInput(source + ": tensor " + inQuotes(tensor.name) +
                            ": " + message);
  };
  std::vector<TensorInfo> &tensors = header.tensors;
  for (TensorInfo &tensor : tensors)
    if (std::string fault = checkTensor(tensor, dataBytes); !fault.empty())
      return fail(tensor, fault);

  std::sort(
      tensors.begin(), tensors.end(),
      [](const TensorInfo &a, const TensorInfo &b) { return a.name < b.name; });
  for (std::size_t i = 1; i < tensors.size(); ++i)
    if (tensors[i].name == tensors[i - 1].name)
      return fail(tensors[i], "appears twice");

  std::sort(tensors.begin(), tensors.end(),
            [](const TensorInfo &a, const TensorInfo &b) {
              return std::tie(a.begin, a.end, a.name) <
                     std::tie(b.begin, b.end, b.name);
            });
  uint64_t position = 0;
  for (const TensorInfo &tensor : tensors) {
    if (tensor.begin > position)
      return fail(tensor, "data begins at " + std::to_string(tensor.begin) +
                              ", expected " + std::to_string(position) +
                              ", since the bytes between belong to no tensor");
    if (tensor.begin < position)
      return fail(tensor, "data begins at " + std::to_string(tensor.begin) +
                              ", before the data of another tensor ends at " +
                              std::to_string(position));
    position = tensor.end;
  }
  if (position != dataBytes)
    return Status::badInput(source + ": " +
                            std::to_string(dataBytes - position) +
                            " bytes after the last tensor belong to no tensor");
  return header;
}
