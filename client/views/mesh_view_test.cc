#include "client/views/mesh_view.h"

#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace strata::client {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

// Every rank on a node of its own.
MeshView MeshWith(std::vector<MeshView::Dimension> dimensions, int64_t told) {
  MeshView mesh{.dimensions = std::move(dimensions)};
  for (int64_t r = 0; r < told; ++r) {
    MeshView::Rank& rank = mesh.ranks.emplace_back();
    rank.rank = r;
    rank.node = "n" + std::to_string(r);
    int64_t rest = r;
    for (const MeshView::Dimension& dimension : mesh.dimensions) {
      rank.coordinates.push_back(rest % dimension.degree);
      rest /= dimension.degree;
    }
  }
  return mesh;
}

TEST(MeshViewTest, GroupsAreThoseOfTheOrder) {
  const Json json =
      ToJson(MeshWith({{"shard", 2}, {"tensor", 1}, {"pipeline", 2}, {"replicate", 2}}, 8));
  const Json& dimensions = json["dimensions"];
  EXPECT_EQ(dimensions[0]["groups"], Json::parse("[[0,1],[2,3],[4,5],[6,7]]"));
  EXPECT_EQ(dimensions[1]["groups"].size(), 8);
  EXPECT_EQ(dimensions[2]["groups"], Json::parse("[[0,2],[1,3],[4,6],[5,7]]"));
  EXPECT_EQ(dimensions[3]["degree"], 2);
  EXPECT_EQ(dimensions[3]["groups"], Json::parse("[[0,4],[1,5],[2,6],[3,7]]"));
  EXPECT_EQ(json["ranks"][7]["node"], "n7");
  EXPECT_EQ(json["ranks"][7]["pipeline"], 1);
  EXPECT_EQ(json["ranks"][7]["data"], 3);  // replicate 1, shard 1
  EXPECT_EQ(json["ranks"][2]["data"], 0);
}

TEST(MeshViewTest, ForPeopleNamesWhatHasSeveralRanks) {
  const std::string text = MeshText(MeshWith({{"tensor", 2}, {"context", 1}, {"data", 2}}, 4));
  EXPECT_EQ(text,
            "DIMENSION  DEGREE  GROUPS OF RANKS\n"
            "tensor     2       0,1  2,3\n"
            "data       2       0,2  1,3\n"
            "\n"
            "RANK  NODE  DEVICE  TENSOR  DATA\n"
            "0     n0    0       0       0\n"
            "1     n1    0       1       0\n"
            "2     n2    0       0       1\n"
            "3     n3    0       1       1\n");
  EXPECT_EQ(MeshText(MeshWith({{"tensor", 1}, {"data", 1}}, 1)), "");
  EXPECT_EQ(MeshText({}), "");
}

TEST(MeshViewTest, OfALargeJobTheFirstRanksAreTold) {
  const MeshView mesh = MeshWith({{"tensor", 8}, {"pipeline", 16}, {"data", 128}}, 1024);
  const std::string text = MeshText(mesh);
  EXPECT_THAT(text, HasSubstr("\n63  "));
  EXPECT_THAT(text, Not(HasSubstr("\n64  ")));
  EXPECT_THAT(text, HasSubstr("… 16320 more ranks\n"));
  EXPECT_THAT(text, HasSubstr("  … 2040 more\n"));
  EXPECT_LT(text.size(), 8192);
  const Json json = ToJson(mesh);
  EXPECT_EQ(json["ranks"].size(), 1024);
  EXPECT_FALSE(json["dimensions"][0].contains("groups"));
}

}  // namespace
}  // namespace strata::client
