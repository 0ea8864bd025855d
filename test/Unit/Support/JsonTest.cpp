//===- JsonTest.cpp - Tests of the parser for untrusted JSON --------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Checks that valid documents keep their values and types, and that invalid
// documents cause a one-line error with the byte offset.
//
//===----------------------------------------------------------------------===//

#include "kiln/Support/Json.h"
#include "TestFiles.h"

using namespace kiln::support;
using namespace kiln;

namespace {

void expectRejected(std::string_view text, std::string_view fragment,
                    JsonLimits limits = {}) {
  Result<nlohmann::json> json = parseJson(text, "test.json", limits);
  ASSERT_FALSE(json.ok()) << text.substr(0, 100);
  expectBadInput(json.status(), fragment);
  expectBadInput(json.status(), "test.json: ");
}

TEST(Json, KeepsValuesAndTypes) {
  Result<nlohmann::json> json = parseJson(
      R"( {"a": [1, -2, 3.5, true, null, "x\u00e9"], "b": {"c": []}, "u": 18446744073709551615} )",
      "test.json");
  ASSERT_TRUE(json.ok()) << json.status().message();
  EXPECT_TRUE((*json)["a"][0].is_number_unsigned());
  EXPECT_EQ((*json)["a"][1], -2);
  EXPECT_TRUE((*json)["a"][2].is_number_float());
  EXPECT_EQ((*json)["a"][5], "x\xc3\xa9");
  EXPECT_TRUE((*json)["b"]["c"].empty());
  EXPECT_EQ((*json)["u"].get<uint64_t>(), UINT64_MAX);
  EXPECT_TRUE(parseJson("3", "t").ok());
  EXPECT_TRUE(parseJson("\"s\"", "t").ok());
}

TEST(Json, RejectsWithPosition) {
  expectRejected("", "at byte 0");
  expectRejected("{\"a\": 1,}", "at byte 8");
  expectRejected("[1 2]", "at byte 4"); // The byte after the number 2.
  expectRejected("{\"a\": NaN}", "at byte");
  expectRejected("// comment\n{}", "at byte 0");
  expectRejected("{} x", "at byte 3");
  expectRejected("[1e999]", "number overflow");
  expectRejected(std::string_view("{}\0{}", 5), "zero byte");
  expectRejected("\xEF\xBB\xBF{}", "byte-order mark");
  expectRejected("[\"\xff\"]", "invalid JSON at byte 2");
  expectRejected("[\"\xc0\xaf\"]", "ill-formed UTF-8");
  expectRejected("[\"\\ud800\"]", "surrogate");
  expectRejected("[\"a\nb\"]", "control character");
}

TEST(Json, RejectsDuplicateKeys) {
  expectRejected(R"({"a": 1, "b": {"x": 1, "x": 2}})",
                 "at byte 25: duplicate key 'x'");
  expectRejected(R"({"a": 1, "\u0061": 2})", "duplicate key 'a'");
  EXPECT_TRUE(parseJson(R"({"a": {"a": 1}, "b": {"a": 1}})", "t").ok());
}

TEST(Json, LimitsDepthAndSize) {
  JsonLimits limits;
  limits.maxDepth = 3;
  EXPECT_TRUE(parseJson("[[[]]]", "t", limits).ok());
  expectRejected("[[[[]]]]", "at byte 3: nesting is deeper than 3", limits);
  expectRejected(std::string(1'000'000, '['), "nesting is deeper than 64");
  std::string objects;
  for (int i = 0; i < 100'000; ++i)
    objects += "{\"a\":";
  expectRejected(objects, "nesting is deeper than 64");
  limits.maxBytes = 10;
  expectRejected("[1, 2, 3, 4]", "larger than the limit of 10", limits);
}

TEST(Json, MessagesStayShortAndPrintable) {
  std::string text = "{\"" + std::string(100'000, 'k') + "\x1b[2J";
  Result<nlohmann::json> json = parseJson(text, "t");
  ASSERT_FALSE(json.ok());
  EXPECT_LT(json.status().message().size(), 600u);
  EXPECT_EQ(json.status().message().find('\x1b'), std::string::npos);
}

TEST(Json, ReadsFiles) {
  TestDirectory directory;
  EXPECT_TRUE(readJsonFile(directory.put("a.json", "{\"a\": 1}")).ok());
  expectBadInput(readJsonFile(directory / "none.json").status(),
                 "No such file");
}

TEST(Json, Quotes) {
  EXPECT_EQ(jsonQuoted("a\"b\\c\n\x01"), "\"a\\\"b\\\\c\\n\\u0001\"");
  EXPECT_EQ(jsonQuoted("\xff"), "\"\xEF\xBF\xBD\"");
}

} // namespace
