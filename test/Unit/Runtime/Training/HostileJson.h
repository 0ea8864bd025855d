//===- HostileJson.h - JSON values for tests of parsers ---------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef KILN_TEST_UNIT_RUNTIME_TRAINING_HOSTILEJSON_H
#define KILN_TEST_UNIT_RUNTIME_TRAINING_HOSTILEJSON_H

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

/// Adds the JSON pointers of all values of a document to `list`.
inline void listPointers(const nlohmann::json &json, const std::string &path,
                         std::vector<std::string> &list) {
  list.push_back(path);
  if (json.is_structured())
    for (auto &[key, value] : json.items())
      listPointers(value, path + "/" + key, list);
}

/// Returns values of every type, including the limits of every range.
inline std::vector<nlohmann::json> hostileValues() {
  nlohmann::json nested;
  for (int i = 0; i < 60; ++i)
    nested = nlohmann::json::array({nested});
  return {nullptr,
          true,
          0,
          -1,
          INT64_MIN,
          INT64_MAX,
          UINT64_MAX,
          0.5,
          -1e308,
          1e308,
          5e-324,
          "",
          "\n\x1b[2J",
          std::string(100000, 'x'),
          nlohmann::json::array(),
          nlohmann::json::object(),
          {1, 2, 3},
          {{"a", {{"b", 1}}}},
          nested};
}

#endif // KILN_TEST_UNIT_RUNTIME_TRAINING_HOSTILEJSON_H
