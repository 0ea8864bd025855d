//===- StorageTypeTest.cpp - Tests of the type in config.json -------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "kiln/Import/HuggingFace.h"

#include <gtest/gtest.h>

using namespace kiln;

namespace {

TEST(StorageType, ReplacesTheValueAlone) {
  EXPECT_EQ(withStorageType(R"({"dtype": "bfloat16"})", "float32"),
            R"({"dtype": "float32"})");
  EXPECT_EQ(withStorageType("{\n  \"a\" :1e-05,\t\"torch_dtype\" : "
                            "\"float16\" ,\r\n  \"z\":[ ]}\n",
                            "float64"),
            "{\n  \"a\" :1e-05,\t\"torch_dtype\" : \"float64\" ,\r\n  "
            "\"z\":[ ]}\n");
  EXPECT_EQ(withStorageType(R"({"torch_dtype":"a","x":1,"dtype":null})", "t"),
            R"({"torch_dtype":"t","x":1,"dtype":"t"})");
}

TEST(StorageType, OnlyAtTheTop) {
  const char *text = R"( {"x": {"dtype": "bfloat16", "y": [{"dtype": 1}, "}"]},
    "s\"dtype\"": "\\", "dtype": "bfloat16", "list": ["dtype", "bfloat16"],
    "n": -1.5E+3, "t": true} )";
  std::string expected = text;
  std::size_t at = expected.find(R"("dtype": "bfloat16", "list")");
  expected.replace(at + 9, 10, "\"float32\"");
  EXPECT_EQ(withStorageType(text, "float32"), expected);
}

TEST(StorageType, EscapedKey) {
  EXPECT_EQ(withStorageType(R"({"dt\u0079pe": {"a": [1, 2]}, "b": 2})", "t"),
            R"({"dt\u0079pe": "t", "b": 2})");
}

TEST(StorageType, NothingToReplace) {
  for (const char *text :
       {"{}", " { } ", R"({"a": "dtype", "b": {"dtype": "x"}})", "[1]", "3", "",
        "not JSON", R"({"dtype": )", R"({"dtype": "a"} x)"})
    EXPECT_EQ(withStorageType(text, "float32"), text);
}

} // namespace
