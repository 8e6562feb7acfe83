#include "client/views/node_view.h"

#include <map>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "client/terminal/table.h"
#include "client/views/description.h"
#include "client/views/job_view.h"
#include "common/units.h"

namespace strata::client {

namespace {

std::string JobsText(const v1::Node& node, const char* separator) {
  std::vector<std::string> jobs;
  for (const std::string& job : node.jobs()) jobs.push_back(PlainName(job));
  return absl::StrJoin(jobs, separator);
}

std::string HeardText(const v1::Node& node, double wall_seconds) {
  if (!node.has_last_heartbeat_time()) return "";
  const double silence = wall_seconds - static_cast<double>(node.last_heartbeat_time().seconds());
  return absl::StrCat(AgeText(silence), " ago");
}

// Empty: not known.
std::string MemoryText(const v1::Node& node) {
  const auto text = [](int64_t bytes) { return common::FormatBytes(static_cast<double>(bytes)); };
  std::vector<std::string> parts;
  if (node.device_memory_bytes() > 0) {
    parts.push_back(absl::StrCat(text(node.device_memory_bytes()), " of a device"));
  }
  if (node.host_memory_bytes() > 0) {
    parts.push_back(absl::StrCat(text(node.host_memory_bytes()), " of the host for its ranks"));
  }
  return absl::StrJoin(parts, ", ");
}

std::string OrDash(const std::string& text) { return text.empty() ? "-" : text; }

}  // namespace

Json ToJson(const v1::Node& node) {
  Json jobs = Json::array();
  for (const std::string& job : node.jobs()) jobs.push_back(PlainName(job));
  Json locality = Json::object();
  for (const auto& [level, value] :
       std::map<std::string, std::string>(node.locality().begin(), node.locality().end())) {
    locality[level] = value;
  }
  Json json = {{"name", PlainName(node.name())},
               {"state", v1::Node::State_Name(node.state())},
               {"device", node.device()},
               {"devices", node.devices()},
               {"free", node.free()},
               {"jobs", jobs},
               {"locality", locality},
               {"version", node.version()},
               {"build", node.build()},
               {"etag", node.etag()},
               {"address", node.address()},
               {"incarnation", absl::StrCat(absl::Hex(node.incarnation(), absl::kZeroPad16))}};
  const auto known = [](int64_t bytes) { return bytes > 0 ? Json(bytes) : Json(nullptr); };
  json["host_memory_bytes"] = known(node.host_memory_bytes());
  json["device_memory_bytes"] = known(node.device_memory_bytes());
  json["leaving"] = node.leaving();
  json["drained"] = node.drained();
  if (node.drained()) json["drain_reason"] = node.drain_reason();
  json["buffer"] = node.buffer();
  json["quarantined"] = node.quarantined();
  if (node.quarantined()) json["quarantine_reason"] = node.quarantine_reason();
  Json unhealthy = Json::object();
  for (const auto& [device, why] : node.unhealthy_devices()) unhealthy[absl::StrCat(device)] = why;
  json["unhealthy_devices"] = unhealthy;
  if (node.has_last_heartbeat_time()) {
    json["last_heartbeat_time"] = TimeText(node.last_heartbeat_time());
  }
  return json;
}

std::string NodeTable(const std::vector<v1::Node>& nodes, double wall_seconds) {
  std::vector<std::vector<std::string>> rows;
  for (const v1::Node& node : nodes) {
    rows.push_back({PlainName(node.name()), NodeStateText(node), node.device(),
                    absl::StrCat(node.devices()), absl::StrCat(node.free()),
                    OrDash(JobsText(node, ",")), OrDash(HeardText(node, wall_seconds))});
  }
  return FormatTable({"NAME", "STATE", "DEVICE", "DEVICES", "FREE", "JOBS", "HEARD"}, rows);
}

std::string NodeStateText(const v1::Node& node) {
  return absl::StrCat(v1::Node::State_Name(node.state()), node.drained() ? ",DRAINED" : "",
                      node.leaving() ? ",LEAVING" : "", node.quarantined() ? ",QUARANTINED" : "",
                      node.buffer() ? ",BUFFER" : "");
}

std::string DescribeNode(const v1::Node& node, double wall_seconds) {
  std::vector<std::string> locality;
  for (const auto& [level, value] :
       std::map<std::string, std::string>(node.locality().begin(), node.locality().end())) {
    locality.push_back(absl::StrCat(level, " ", value));
  }
  const std::string name = PlainName(node.name());
  Description text;
  text.Add("Name", name);
  text.Add("State", NodeStateText(node));
  if (node.drained() || node.quarantined()) {
    text.Add("New ranks", absl::StrCat("none, until strata resume ", name));
  }
  text.Add("Drained", node.drain_reason());
  if (node.leaving()) text.Add("Leaving", "its agent ends when it holds nothing any more");
  text.Add("Quarantined", node.quarantine_reason());
  text.Add("Devices", absl::StrCat(node.devices(), " ", node.device(), ", ", node.free(),
                                   node.free() == 1 ? " takes" : " take", " a new rank"));
  for (const auto& [device, why] : std::map<int32_t, std::string>(node.unhealthy_devices().begin(),
                                                                  node.unhealthy_devices().end())) {
    text.Add("Unhealthy", absl::StrCat("device ", device, ": ", why));
  }
  text.Add("Memory", MemoryText(node));
  text.Add("Jobs", node.jobs().empty() ? "none" : JobsText(node, ", "));
  text.Add("Locality", absl::StrJoin(locality, ", "));
  text.Add("Heard", node.has_last_heartbeat_time() ? HeardText(node, wall_seconds)
                                                   : "not since the controller was started");
  text.Add("Version", node.build().empty()
                          ? node.version()
                          : absl::StrCat(node.version(), ", trainer build ", node.build()));
  text.Add("Address", node.address());
  text.Add("Incarnation", absl::StrCat(absl::Hex(node.incarnation(), absl::kZeroPad16)));
  return text.Take();
}

}  // namespace strata::client
