#include "client/views/node_view.h"

#include <map>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "client/terminal/table.h"
#include "client/views/job_view.h"

namespace strata::client {

Json ToJson(const v1::Node& node) {
  Json jobs = Json::array();
  for (const std::string& job : node.jobs()) jobs.push_back(PlainName(job));
  Json locality = Json::object();
  for (const auto& [level, value] :
       std::map<std::string, std::string>(node.locality().begin(), node.locality().end())) {
    locality[level] = value;
  }
  Json json = {{"name", PlainName(node.name())},
               {"state", v1::NodeState_Name(node.state())},
               {"device", node.device()},
               {"devices", node.devices()},
               {"free", node.free()},
               {"jobs", jobs},
               {"locality", locality},
               {"address", node.address()},
               {"incarnation", absl::StrCat(absl::Hex(node.incarnation(), absl::kZeroPad16))}};
  if (node.has_last_heartbeat_time()) {
    json["last_heartbeat_time"] = TimeText(node.last_heartbeat_time());
  }
  return json;
}

std::string NodeTable(const std::vector<v1::Node>& nodes, double wall_seconds) {
  std::vector<std::vector<std::string>> rows;
  for (const v1::Node& node : nodes) {
    std::vector<std::string> jobs;
    for (const std::string& job : node.jobs()) jobs.push_back(PlainName(job));
    const double silence = wall_seconds - static_cast<double>(node.last_heartbeat_time().seconds());
    rows.push_back({PlainName(node.name()), v1::NodeState_Name(node.state()), node.device(),
                    absl::StrCat(node.devices()), absl::StrCat(node.free()),
                    jobs.empty() ? "-" : absl::StrJoin(jobs, ","),
                    node.has_last_heartbeat_time() ? absl::StrCat(AgeText(silence), " ago") : "-"});
  }
  return FormatTable({"NAME", "STATE", "DEVICE", "DEVICES", "FREE", "JOBS", "HEARD"}, rows);
}

}  // namespace strata::client
