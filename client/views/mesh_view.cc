#include "client/views/mesh_view.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "client/terminal/table.h"

namespace strata::client {
namespace {

using Groups = std::vector<std::vector<int64_t>>;

// The first so many of one dimension, by their first rank.
Groups GroupsOf(const MeshView& mesh, size_t dimension, size_t most) {
  int64_t stride = 1;
  for (size_t d = 0; d < dimension; ++d) stride *= mesh.dimensions[d].degree;
  const int64_t degree = mesh.dimensions[dimension].degree;
  Groups groups;
  for (int64_t first = 0; first < mesh.size() && groups.size() < most; ++first) {
    if (first / stride % degree != 0) continue;
    std::vector<int64_t>& group = groups.emplace_back();
    for (int64_t i = 0; i < degree; ++i) group.push_back(first + i * stride);
  }
  return groups;
}

// -1: there is no such dimension.
int IndexOf(const MeshView& mesh, const char* name) {
  for (size_t d = 0; d < mesh.dimensions.size(); ++d) {
    if (mesh.dimensions[d].name == name) return static_cast<int>(d);
  }
  return -1;
}

std::string GroupsText(const MeshView& mesh, size_t dimension) {
  constexpr int64_t kMostGroups = 8;
  constexpr size_t kMostMembers = 16;
  std::vector<std::string> parts;
  for (std::vector<int64_t>& group : GroupsOf(mesh, dimension, kMostGroups)) {
    const bool more = group.size() > kMostMembers;
    if (more) group.resize(kMostMembers);
    parts.push_back(absl::StrCat(absl::StrJoin(group, ","), more ? ",…" : ""));
  }
  const int64_t groups = mesh.size() / mesh.dimensions[dimension].degree;
  if (groups > kMostGroups) parts.push_back(absl::StrCat("… ", groups - kMostGroups, " more"));
  return absl::StrJoin(parts, "  ");
}

}  // namespace

int64_t MeshView::size() const {
  int64_t product = 1;
  for (const Dimension& dimension : dimensions) product *= dimension.degree;
  return product;
}

Json RanksJson(const MeshView& mesh) {
  const int shard = IndexOf(mesh, "shard"), replicate = IndexOf(mesh, "replicate");
  Json ranks = Json::array();
  for (const MeshView::Rank& rank : mesh.ranks) {
    Json told = {{"rank", rank.rank}, {"node", rank.node}, {"device", rank.device}};
    for (size_t d = 0; d < mesh.dimensions.size(); ++d) {
      told[mesh.dimensions[d].name] = rank.coordinates[d];
    }
    if (shard >= 0 && replicate >= 0) {
      told["data"] =
          rank.coordinates[replicate] * mesh.dimensions[shard].degree + rank.coordinates[shard];
    }
    ranks.push_back(std::move(told));
  }
  return ranks;
}

Json ToJson(const MeshView& mesh) {
  const bool all = static_cast<int64_t>(mesh.ranks.size()) == mesh.size();
  Json dimensions = Json::array();
  for (size_t d = 0; d < mesh.dimensions.size(); ++d) {
    Json told = {{"name", mesh.dimensions[d].name}, {"degree", mesh.dimensions[d].degree}};
    if (all) told["groups"] = GroupsOf(mesh, d, mesh.ranks.size());
    dimensions.push_back(std::move(told));
  }
  return {{"dimensions", std::move(dimensions)}, {"ranks", RanksJson(mesh)}};
}

std::string MeshText(const MeshView& mesh) {
  constexpr size_t kMostRows = 64;
  if (mesh.size() == 1 || mesh.ranks.empty()) return "";
  std::vector<size_t> told;
  std::vector<std::string> heading = {"RANK", "NODE", "DEVICE"};
  std::vector<std::vector<std::string>> groups, rows;
  for (size_t d = 0; d < mesh.dimensions.size(); ++d) {
    const MeshView::Dimension& dimension = mesh.dimensions[d];
    if (dimension.degree == 1) continue;
    told.push_back(d);
    heading.push_back(absl::AsciiStrToUpper(dimension.name));
    groups.push_back({dimension.name, absl::StrCat(dimension.degree), GroupsText(mesh, d)});
  }
  for (const MeshView::Rank& rank : mesh.ranks) {
    if (rows.size() == kMostRows) break;
    std::vector<std::string>& row = rows.emplace_back();
    row = {absl::StrCat(rank.rank), rank.node, absl::StrCat(rank.device)};
    for (const size_t d : told) row.push_back(absl::StrCat(rank.coordinates[d]));
  }
  std::string text = absl::StrCat(FormatTable({"DIMENSION", "DEGREE", "GROUPS OF RANKS"}, groups),
                                  "\n", FormatTable(heading, rows));
  const int64_t more = mesh.size() - static_cast<int64_t>(rows.size());
  if (more > 0) absl::StrAppend(&text, "… ", more, " more ranks\n");
  return text;
}

}  // namespace strata::client
