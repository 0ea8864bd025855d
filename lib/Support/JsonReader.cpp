//===- JsonReader.cpp - Typed access to JSON with paths -------------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "kiln/Support/JsonReader.h"

#include "kiln/Support/Messages.h"

#include <cmath>

namespace kiln::support {

static const nlohmann::json nullValue;

void ReadFailure::set(std::string path, const std::string &problem) {
  if (failed_)
    return;
  failed_ = true;
  message_ = source_ + ": '" + path + "' " + problem + "; " + advice_;
}

Status ReadFailure::status() const {
  return failed_ ? Status(code_, message_) : Status();
}

std::string Node::path() const {
  if (!parent_)
    return "";
  std::string path = parent_->path();
  if (!key_)
    return path + "[" + std::to_string(index_) + "]";
  return path.empty() ? key_ : path + "." + key_;
}

Node Node::at(const char *key) const {
  if (value_->is_object()) {
    auto found = value_->find(key);
    if (found != value_->end())
      return Node(*found, this, key, 0);
  }
  Node missing(nullValue, this, key, 0);
  missing.fail(value_->is_object()
                   ? "is missing"
                   : "is missing, because its parent is not an object");
  return missing;
}

std::optional<Node> Node::find(const char *key) const {
  if (!value_->is_object())
    return std::nullopt;
  auto found = value_->find(key);
  if (found == value_->end() || found->is_null())
    return std::nullopt;
  return Node(*found, this, key, 0);
}

Node Node::element(std::size_t index) const {
  return Node((*value_)[index], this, nullptr, index);
}

std::size_t Node::size() const {
  if (value_->is_array())
    return value_->size();
  fail(std::string("must be an array, got ") + value_->type_name());
  return 0;
}

int64_t Node::integer(int64_t minimum) const {
  bool fits = value_->is_number_integer() &&
              !(value_->is_number_unsigned() &&
                value_->get<uint64_t>() > uint64_t(INT64_MAX));
  if (!fits) {
    fail(std::string("must be a 64-bit integer, got ") + value_->type_name());
    return 0;
  }
  auto result = value_->get<int64_t>();
  if (result < minimum) {
    fail("is " + std::to_string(result) + ", expected at least " +
         std::to_string(minimum));
    return 0;
  }
  return result;
}

double Node::real() const {
  if (!value_->is_number()) {
    fail(std::string("must be a number, got ") + value_->type_name());
    return 0.0;
  }
  return value_->get<double>();
}

bool Node::boolean() const {
  if (!value_->is_boolean()) {
    fail(std::string("must be a boolean, got ") + value_->type_name());
    return false;
  }
  return value_->get<bool>();
}

std::string Node::text() const {
  if (!value_->is_string()) {
    fail(std::string("must be a string, got ") + value_->type_name());
    return "";
  }
  return value_->get<std::string>();
}

} // namespace kiln::support
