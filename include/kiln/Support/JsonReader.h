//===- JsonReader.h - Typed access to JSON with paths -----------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Reads a JSON document into structs. The first missing member or type mismatch
// is reported in one message that contains its path, such as
// "programs.train.commands[12].args[3]". A Node refers to its parent, so that
// the path can be built when a failure occurs. After a failure, every read
// returns a default value; the caller checks for a failure once, at the end.
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

/// Stores the first failure that occurs while a document is read.
class ReadFailure {
public:
  /// Messages have the form "SOURCE: 'PATH' PROBLEM; ADVICE".
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

/// A value in the document. A node must not outlive its parent node.
class Node {
public:
  Node(const nlohmann::json &root, ReadFailure &failure)
      : value_(&root), failure_(&failure) {}

  /// Returns member `key` of an object. Fails if the object has no such member.
  Node at(const char *key) const;
  /// Returns member `key`, or nullopt if it is absent or null.
  std::optional<Node> find(const char *key) const;
  /// Returns an element of an array; `index` < size().
  Node element(std::size_t index) const;
  /// Returns the number of elements. Fails if the value is not an array.
  std::size_t size() const;

  /// Returns the value of an integer. Fails if the value is less than
  /// `minimum`.
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
  /// Key of this node in its parent object; null for an array element and for
  /// the root.
  const char *key_ = nullptr;
  std::size_t index_ = 0;
};

} // namespace kiln::support

#endif // KILN_SUPPORT_JSONREADER_H
