#include "client/views/explanation_view.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "client/views/job_view.h"
#include "client/views/mesh_view.h"

namespace strata::client {
namespace {

MeshView MeshOf(const v1::ExplainJobResponse& explained) {
  MeshView mesh;
  for (const auto& dimension : explained.mesh()) {
    mesh.dimensions.push_back({dimension.name(), std::max<int64_t>(1, dimension.degree())});
  }
  for (const auto& rank : explained.ranks()) {
    if (rank.coordinates_size() != explained.mesh_size()) continue;  // of an unsound server
    mesh.ranks.push_back({rank.rank(),
                          PlainName(rank.node()),
                          rank.device(),
                          {rank.coordinates().begin(), rank.coordinates().end()}});
  }
  return mesh;
}

}  // namespace

Json ExplanationJson(const std::string& name, const v1::ExplainJobResponse& explained) {
  Json blockers = Json::array();
  for (const v1::ExplainJobResponse::Blocker& blocker : explained.blockers()) {
    blockers.push_back(
        {{"code", blocker.code()}, {"subject", blocker.subject()}, {"text", blocker.text()}});
  }
  Json lines = Json::array();
  for (const std::string& line : explained.lines()) lines.push_back(line);
  Json json = {{"name", PlainName(name)},
               {"state", v1::Job::State_Name(explained.state())},
               {"lines", std::move(lines)},
               {"blockers", std::move(blockers)},
               {"queue_position", explained.queue_position()},
               {"devices_wanted", explained.devices_wanted()},
               {"devices_free", explained.devices_free()}};
  if (explained.has_expected_start_time()) {
    json["expected_start_time"] = TimeText(explained.expected_start_time());
  }
  if (explained.has_layout()) {
    const v1::RankLayout& layout = explained.layout();
    Json order = Json::array(), spares = Json::array();
    for (const std::string& dimension : layout.order()) order.push_back(dimension);
    for (const std::string& spare : layout.spares()) spares.push_back(PlainName(spare));
    json["layout"] = {{"order", std::move(order)},
                      {"data", layout.data()},
                      {"spares", std::move(spares)},
                      {"why", layout.why()}};
  }
  if (explained.mesh_size() > 0) json["mesh"] = ToJson(MeshOf(explained));
  return json;
}

std::string ExplanationText(const v1::ExplainJobResponse& explained) {
  std::string text;
  for (const std::string& line : explained.lines()) absl::StrAppend(&text, line, "\n");
  const std::string mesh = MeshText(MeshOf(explained));
  return mesh.empty() ? text : absl::StrCat(text, "\n", mesh);
}

}  // namespace strata::client
