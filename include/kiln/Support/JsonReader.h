//===- JsonReader.h - Typed access to JSON with paths -----------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Reading a JSON document into structs, where the first thing that is missing
// or of the wrong type becomes one message with its path, such as
// "programs.train.commands[12].args[3]". A Node knows its parent, so that paths
// are only spelled out when something is wrong. After a failure every read
// returns a harmless value; the caller looks at the failure once, at the end.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_SUPPORT_JSONREADER_H
#define KILN_SUPPORT_JSONREADER_H

#include "kiln/Support/Status.h"

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>

namespace kiln::support {

/// The first failure of a whole reading.
class ReadFailure {
public:
  /// A message reads "SOURCE: 'PATH' PROBLEM; ADVICE".
  ReadFailure(ExitCode code, std::string source, std::string advice)
      : code_(code), source_(std::move(source)), advice_(std::move(advice)) {}

  void set(std::string path, const std::string &problem);
  bool failed() const { return failed_; }
  Status status() const;

private:
  ExitCode code_;
  std::string source_;
  std::string advice_;
  bool failed_ = false;
  std::string message_;
};

/// A value in the document. Must not outlive its parent node.
class Node {
public:
  Node(const nlohmann::json &root, ReadFailure &failure)
      : value_(&root), failure_(&failure) {}

  /// Member `key` of an object; its absence is a failure.
  Node at(const char *key) const;
  /// Member `key`, or nothing when it is absent or null.
  std::optional<Node> find(const char *key) const;
  /// Element of an array; `index` < size().
  Node element(std::size_t index) const;
  /// Number of elements; a failure unless this is an array.
  std::size_t size() const;

  /// Any integer, or one of at least `minimum`.
  int64_t integer(int64_t minimum = INT64_MIN) const;
  double real() const;
  bool boolean() const;
  std::string text() const;

  const nlohmann::json &json() const { return *value_; }
  std::string path() const;
  void fail(const std::string &problem) const {
    failure_->set(path(), problem);
  }
  bool failed() const { return failure_->failed(); }

private:
  Node(const nlohmann::json &value, const Node *parent, const char *key,
       std::size_t index)
      : value_(&value), failure_(parent->failure_), parent_(parent), key_(key),
        index_(index) {}
  const nlohmann::json *value_;
  ReadFailure *failure_;
  const Node *parent_ = nullptr;
  const char *key_ = nullptr; ///< Null: an array element.
  std::size_t index_ = 0;
};

} // namespace kiln::support

#endif // KILN_SUPPORT_JSONREADER_H
