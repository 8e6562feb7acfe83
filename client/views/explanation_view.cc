#include "client/views/explanation_view.h"

#include <utility>

#include "client/views/job_view.h"

namespace strata::client {

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
  return json;
}

}  // namespace strata::client
