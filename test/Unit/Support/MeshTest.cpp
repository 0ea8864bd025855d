//===- MeshTest.cpp - Axes of the ranks of a job --------------------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "kiln/Support/Mesh.h"

#include <gtest/gtest.h>

using namespace kiln::support;
using namespace kiln;

namespace {

/// Returns the text of the mesh, or the message of the error.
std::string parsed(std::string_view text) {
  Result<Mesh> mesh = parseMesh(text);
  if (mesh.ok())
    return mesh->text();
  EXPECT_EQ(mesh.status().code(), ExitCode::Usage);
  return mesh.status().message();
}

TEST(MeshTest, AxesHaveOneOrder) {
  EXPECT_EQ(parsed(""), "");
  EXPECT_EQ(parsed("dp=2"), "dp=2");
  EXPECT_EQ(parsed("tp=3"), "tp=3");
  EXPECT_EQ(parsed("dp=2,tp=4"), "dp=2,tp=4");
  EXPECT_EQ(parsed("tp=4,dp=2"), "dp=2,tp=4");
  EXPECT_EQ(parsed("tp=1,dp=2"), "dp=2");
  EXPECT_EQ(parsed("tp=1,dp=1"), "");
  EXPECT_EQ(parsed("dp=256,tp=256"), "dp=256,tp=256");
}

TEST(MeshTest, ErrorsContinueTheText) {
  EXPECT_EQ(parsed("x=2"), "has the unknown axis 'x', expected dp=N or tp=N");
  EXPECT_EQ(parsed("dp=2,"), "dp=2");
  EXPECT_EQ(parsed("dp=2,,tp=2"),
            "has the unknown axis '', expected dp=N or tp=N");
  EXPECT_EQ(parsed("tp=2,dp=2,tp=2"), "has the axis 'tp' twice");
  EXPECT_EQ(parsed("tp=1,tp=1"), "has the axis 'tp' twice");
  for (const char *size : {"", "0", "-1", "2x", "65537", "1e1", " 2"})
    EXPECT_EQ(parsed("tp=" + std::string(size)),
              "has '" + std::string(size) +
                  "' ranks on the axis 'tp', expected a number from 1 to "
                  "65536");
  EXPECT_EQ(parsed("dp"),
            "has '' ranks on the axis 'dp', expected a number from 1 to 65536");
  EXPECT_EQ(parsed("dp=512,tp=256"),
            "has 131072 ranks, expected at most 65536");
  EXPECT_EQ(parsed("dp=65536,tp=65536"),
            "has 4294967296 ranks, expected at most 65536");
}

TEST(MeshTest, TheLastAxisVariesFastest) {
  Mesh mesh = *parseMesh("dp=2,tp=3");
  EXPECT_EQ(mesh.size(), 6);
  EXPECT_EQ(mesh.sizeOf("dp"), 2);
  EXPECT_EQ(mesh.sizeOf("tp"), 3);
  EXPECT_EQ(mesh.sizeOf("pp"), 1);
  for (int64_t rank = 0; rank < 6; ++rank) {
    EXPECT_EQ(mesh.indexOn("dp", rank), rank / 3);
    EXPECT_EQ(mesh.indexOn("tp", rank), rank % 3);
    EXPECT_EQ(mesh.indexOn("pp", rank), 0);
    MeshGroup data = mesh.groupOf("dp", rank), part = mesh.groupOf("tp", rank);
    EXPECT_EQ(data.first, rank % 3);
    EXPECT_EQ(data.stride, 3);
    EXPECT_EQ(data.size, 2);
    EXPECT_EQ(part.first, rank / 3 * 3);
    EXPECT_EQ(part.stride, 1);
    EXPECT_EQ(part.size, 3);
    EXPECT_EQ(data.rankAt(data.indexOf(rank)), rank);
    EXPECT_EQ(part.rankAt(part.indexOf(rank)), rank);
    EXPECT_EQ(mesh.groupOf("pp", rank).first, rank);
    EXPECT_EQ(mesh.groupOf("pp", rank).size, 1);
    EXPECT_EQ(mesh.firstWith({}, rank), 0);
    EXPECT_EQ(mesh.firstWith({"dp"}, rank), rank / 3 * 3);
    EXPECT_EQ(mesh.firstWith({"tp"}, rank), rank % 3);
    EXPECT_EQ(mesh.firstWith({"tp", "dp"}, rank), rank);
  }
}

TEST(MeshTest, AMeshMayHaveAnyAxes) {
  Mesh mesh;
  mesh.axes = {{"a", 2}, {"b", 1}, {"c", 3}, {"d", 2}};
  EXPECT_EQ(mesh.size(), 12);
  EXPECT_EQ(mesh.indexOn("a", 7), 1);
  EXPECT_EQ(mesh.indexOn("b", 7), 0);
  EXPECT_EQ(mesh.indexOn("c", 9), 1);
  EXPECT_EQ(mesh.indexOn("d", 9), 1);
  EXPECT_EQ(mesh.groupOf("c", 9).first, 7);
  EXPECT_EQ(mesh.groupOf("c", 9).stride, 2);
  EXPECT_EQ(mesh.firstWith({"a", "d"}, 11), 7);
}

} // namespace
