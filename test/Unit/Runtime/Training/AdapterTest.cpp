//===- AdapterTest.cpp - Tests of the files of adapters -------------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Adapter.h"

#include "HostileJson.h"

#include <functional>
#include <gtest/gtest.h>

using namespace kiln::runtime;
using namespace kiln::support;
using Json = nlohmann::json;

namespace {

/// Replaces each value of a document in turn by each of hostileValues(). Checks
/// that `parse` accepts the result, or returns an error of one printable line.
void checkMutations(const Json &good,
                    const std::function<Status(const Json &)> &parse) {
  ASSERT_TRUE(parse(good).ok());
  std::vector<std::string> pointers;
  listPointers(good, "", pointers);
  int refused = 0;
  for (const std::string &pointer : pointers)
    for (const Json &value : hostileValues()) {
      Json json = good;
      json[Json::json_pointer(pointer)] = value;
      Status status = parse(json);
      refused += !status.ok();
      for (char c : status.message())
        ASSERT_TRUE(c >= 0x20 && c < 0x7f) << status.message();
      EXPECT_LT(status.message().size(), 1000u);
    }
  EXPECT_GT(refused, 20);
}

TEST(AdapterTest, ReadsTheReferenceThatItWrites) {
  BaseReference base{"/models/base", std::string(32, 'a'), "BF16"};
  auto read = parseBase(baseJson(base), "checkpoint 'c'");
  ASSERT_TRUE(read.ok()) << read.status().message();
  EXPECT_EQ(read->path, base.path);
  EXPECT_EQ(read->hash, base.hash);
  EXPECT_EQ(read->storage, base.storage);
  auto initial = parseBase(baseJson({"", "", "F32"}), "checkpoint 'c'");
  ASSERT_TRUE(initial.ok());
  EXPECT_TRUE(initial->path.empty());
}

TEST(AdapterTest, ReportsOtherWeights) {
  BaseReference base{"/models/base", std::string(32, 'a'), "BF16"};
  EXPECT_TRUE(checkBase(base, "/other", base.hash, "checkpoint 'c'").ok());
  Status other =
      checkBase(base, "/other", std::string(32, 'b'), "checkpoint 'c'");
  EXPECT_EQ(other.code(), ExitCode::BadInput);
  EXPECT_EQ(other.message(),
            "checkpoint 'c' was trained on base weights with hash " +
                base.hash + ", but those in '/other' have hash " +
                std::string(32, 'b') +
                ": name the directory of the original weights with --base=DIR");
}

TEST(AdapterTest, HostileReferencesAreErrors) {
  checkMutations(baseJson({"/models/base", std::string(32, 'a'), "BF16"}),
                 [](const Json &json) {
                   return parseBase(json, "checkpoint 'c'").status();
                 });
}

TEST(AdapterTest, HostileConfigurationsAreErrors) {
  LoraConfig config;
  config.targets = {"c_attn", "c_proj"};
  checkMutations(Json::parse(adapterConfig(config, "/models/base", true)),
                 [](const Json &json) {
                   return parseAdapterConfig(json.dump(), "'f'").status();
                 });
}

} // namespace
