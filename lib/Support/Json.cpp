//===- Json.cpp - Parser for untrusted JSON -------------------------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file uses the SAX interface of nlohmann::json, which does not recurse.
// The handler returns false from parse_error, so the parser throws no
// exception.
//
//===----------------------------------------------------------------------===//

#include "kiln/Support/Json.h"
#include "kiln/Support/InputFile.h"
#include "kiln/Support/Messages.h"
#include <iterator>
#include <vector>

using namespace kiln::support;
using nlohmann::json;

namespace {

/// Iterates over the text and records the position of the parser, because SAX
/// events have no position.
class CountingIterator {
public:
  using iterator_category = std::input_iterator_tag;
  using value_type = char;
  using difference_type = std::ptrdiff_t;
  using pointer = const char *;
  using reference = const char &;

  CountingIterator(const char *next, std::size_t *consumed)
      : next_(next), consumed_(consumed) {}
  reference operator*() const { return *next_; }
  CountingIterator &operator++() {
    ++next_;
    ++*consumed_;
    return *this;
  }
  CountingIterator operator++(int) {
    CountingIterator old = *this;
    ++*this;
    return old;
  }
  bool operator==(const CountingIterator &other) const {
    return next_ == other.next_;
  }
  bool operator!=(const CountingIterator &other) const {
    return next_ != other.next_;
  }

private:
  const char *next_;
  std::size_t *consumed_;
};

/// SAX handler that forwards events to JsonEvents and checks the depth limit.
class Handler {
public:
  Handler(JsonEvents &events, int maxDepth)
      : events_(events), maxDepth_(maxDepth) {}

  bool null() { return events_.null(); }
  bool boolean(bool value) { return events_.boolean(value); }
  bool number_integer(int64_t value) { return events_.integer(value); }
  bool number_unsigned(uint64_t value) {
    return events_.unsignedInteger(value);
  }
  bool number_float(double value, const std::string &) {
    return events_.real(value);
  }
  bool string(std::string &value) { return events_.string(value); }
  bool binary(json::binary_t &) { return false; }
  bool key(std::string &value) { return events_.key(value); }
  bool start_object(std::size_t) { return enter() && events_.startObject(); }
  bool end_object() { return --depth_, events_.endObject(); }
  bool start_array(std::size_t) { return enter() && events_.startArray(); }
  bool end_array() { return --depth_, events_.endArray(); }
  bool parse_error(std::size_t, const std::string &,
                   const json::exception &error) {
    syntaxError = error.what();
    return false;
  }

  std::string syntaxError;

private:
  bool enter() {
    if (++depth_ <= maxDepth_)
      return true;
    events_.error =
        "nesting is deeper than " + std::to_string(maxDepth_) + " levels";
    return false;
  }

  JsonEvents &events_;
  int maxDepth_;
  int depth_ = 0;
};

/// Removes the exception number from "[json.exception.parse_error.101] parse
/// error at line 1, column 2: syntax error ...".
std::string cleanSyntaxError(std::string_view what) {
  std::size_t bracket = what.find("] ");
  if (bracket != std::string_view::npos)
    what.remove_prefix(bracket + 2);
  std::string_view prefix = "parse error at ";
  if (what.substr(0, prefix.size()) == prefix)
    what.remove_prefix(prefix.size());
  return printable(what, 240);
}

/// Builds the document. The open containers form a path from the root, and only
/// the innermost one grows, so pointers to the others stay valid.
class DocumentBuilder final : public JsonEvents {
public:
  bool null() override { return add(nullptr); }
  bool boolean(bool value) override { return add(value); }
  bool integer(int64_t value) override { return add(value); }
  bool unsignedInteger(uint64_t value) override { return add(value); }
  bool real(double value) override { return add(value); }
  bool string(std::string &value) override { return add(std::move(value)); }
  bool key(std::string &value) override {
    auto [place, isNew] = open_.back()->get_ref<json::object_t &>().try_emplace(
        std::move(value), nullptr);
    member_ = &place->second;
    if (!isNew)
      error = "duplicate key " + inQuotes(place->first);
    return isNew;
  }
  bool startObject() override { return open(json::object()); }
  bool startArray() override { return open(json::array()); }
  bool endObject() override { return close(); }
  bool endArray() override { return close(); }

  json root;

private:
  json *place(json value) {
    if (open_.empty()) {
      root = std::move(value);
      return &root;
    }
    if (open_.back()->is_object()) {
      *member_ = std::move(value);
      return member_;
    }
    auto &array = open_.back()->get_ref<json::array_t &>();
    array.push_back(std::move(value));
    return &array.back();
  }
  bool add(json value) { return place(std::move(value)), true; }
  bool open(json value) {
    open_.push_back(place(std::move(value)));
    return true;
  }
  bool close() { return open_.pop_back(), true; }

  std::vector<json *> open_;
  json *member_ = nullptr;
};

} // namespace

Status kiln::support::walkJson(std::string_view text, const std::string &source,
                               JsonEvents &events, const JsonLimits &limits) {
  if (text.size() > limits.maxBytes)
    return Status::badInput(source + ": JSON text of " +
                            std::to_string(text.size()) +
                            " bytes is larger than the limit of " +
                            std::to_string(limits.maxBytes));
  if (text.substr(0, 3) == "\xEF\xBB\xBF")
    return Status::badInput(source + ": JSON text starts with a byte-order "
                                     "mark; save it as plain UTF-8");
  // The parser would treat a zero byte as the end of the text.
  if (std::size_t at = text.find('\0'); at != std::string_view::npos)
    return Status::badInput(source + ": invalid JSON at byte " +
                            std::to_string(at) + ": zero byte");

  std::size_t consumed = 0;
  Handler handler(events, limits.maxDepth);
  if (json::sax_parse(CountingIterator(text.data(), &consumed),
                      CountingIterator(text.data() + text.size(), &consumed),
                      &handler))
    return Status();
  std::string at = std::to_string(consumed == 0 ? 0 : consumed - 1);
  return Status::badInput(source + ": invalid JSON at byte " + at + ": " +
                          (events.error.empty()
                               ? cleanSyntaxError(handler.syntaxError)
                               : events.error));
}

Result<json> kiln::support::parseJson(std::string_view text,
                                      const std::string &source,
                                      const JsonLimits &limits) {
  DocumentBuilder builder;
  if (Status status = walkJson(text, source, builder, limits); !status.ok())
    return status;
  return std::move(builder.root);
}

Result<json> kiln::support::readJsonFile(const std::string &path,
                                         const JsonLimits &limits) {
  Result<std::string> text = readSmallFile(path, limits.maxBytes);
  if (!text.ok())
    return text.status();
  return parseJson(*text, path, limits);
}

std::string kiln::support::jsonQuoted(std::string_view text) {
  return json(text).dump(-1, ' ', false, json::error_handler_t::replace);
}
