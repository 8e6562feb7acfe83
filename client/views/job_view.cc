#include "client/views/job_view.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "client/terminal/table.h"
#include "client/views/description.h"
#include "client/views/step_view.h"
#include "common/units.h"
#include "spec/job_file.h"
#include "spec/scalars.h"
#include "spec/yaml_tree.h"

namespace strata::client {
namespace {

using google::protobuf::Timestamp;

constexpr size_t kMostReason = 60;  // characters of a reason in a table

double SecondsOf(const Timestamp& time) {
  return static_cast<double>(time.seconds()) + 1e-9 * time.nanos();
}

std::string Ago(bool known, const Timestamp& time, double wall_seconds) {
  return known ? AgeText(wall_seconds - SecondsOf(time)) : "-";
}

std::map<std::string, std::string> SortedLabels(const v1::Job& job) {
  return {job.spec().labels().begin(), job.spec().labels().end()};
}

std::string Shortened(const std::string& text) {
  const std::string line = text.substr(0, text.find('\n'));
  if (line.size() <= kMostReason) return line;
  size_t cut = kMostReason - 3;
  while (cut > 0 && (static_cast<unsigned char>(line[cut]) & 0xc0) == 0x80) --cut;  // of UTF-8
  return line.substr(0, cut) + "...";
}

Json Events(const v1::Job& job) {
  Json events = Json::array();
  for (const v1::JobEvent& event : job.events()) events.push_back(client::ToJson(event));
  return events;
}

Json Labels(const v1::Job& job) {
  Json labels = Json::object();
  for (const auto& [key, value] : SortedLabels(job)) labels[key] = value;
  return labels;
}

std::string LabelsText(const v1::Job& job) {
  return absl::StrJoin(SortedLabels(job), ",", absl::PairFormatter("="));
}

double SecondsOf(const google::protobuf::Duration& duration) {
  return static_cast<double>(duration.seconds()) + 1e-9 * duration.nanos();
}

std::string DurationOrEmpty(bool known, const google::protobuf::Duration& duration) {
  return known ? spec::DurationText(absl::Seconds(std::round(SecondsOf(duration)))) : "";
}

Json Memory(const v1::Job& job) {
  Json tiers = Json::object();
  for (const v1::TierMemory& tier : job.predicted_memory()) {
    Json& told = tiers[tier.tier()];
    told = {{"predicted_bytes", tier.predicted_bytes()}};
    for (const v1::ArenaSlots& slots : tier.slots()) {
      told["slots"].push_back({{"class", slots.slot_class()},
                               {"name", slots.name()},
                               {"count", slots.count()},
                               {"bytes", slots.bytes()}});
    }
  }
  return tiers;
}

// The pool that a tier's arena is cut into.
void AddSlots(const v1::TierMemory& tier, Description& text) {
  for (const v1::ArenaSlots& slots : tier.slots()) {
    text.Add("Slots", absl::StrCat(tier.tier(), "  ", slots.count(), " × ", slots.bytes(), " B  ",
                                   slots.slot_class(), "  ", slots.name()));
  }
}

// What spec::WriteJob wrote, as JSON.
Json ToJson(const spec::YamlNode& node) {
  switch (node.kind) {
    case spec::YamlNode::Kind::kNull:
      return nullptr;
    case spec::YamlNode::Kind::kSequence: {
      Json list = Json::array();
      for (const auto& child : node.children) list.push_back(ToJson(*child.node));
      return list;
    }
    case spec::YamlNode::Kind::kMapping: {
      Json object = Json::object();
      for (const auto& child : node.children) object[child.key] = ToJson(*child.node);
      return object;
    }
    case spec::YamlNode::Kind::kScalar:
      break;
  }
  if (node.quoted) return node.text;
  if (const auto count = spec::ParseCount(node.text); count.ok()) return *count;
  if (const auto number = spec::ParseNumber(node.text); number.ok()) return *number;
  if (const auto flag = spec::ParseFlag(node.text); flag.ok()) return *flag;
  return node.text;
}

std::string OrDefault(const std::string& name) { return name.empty() ? "default" : name; }

// "nodes/n0" and "users/ann" are said as they are; the controller itself is nobody to tell of.
std::string PlainActor(const std::string& actor) { return actor == "controller" ? "-" : actor; }

std::string EventText(const v1::JobEvent& event) {
  const std::string reason = event.reason().substr(0, event.reason().find('\n'));
  return event.lost_steps() > 0 ? absl::StrCat(reason, "  (", event.lost_steps(), " steps again)")
                                : reason;
}

// When its record goes by itself; empty: not before it is asked for.
std::string DeletionText(const v1::Job& job) {
  if (job.has_expire_time()) return absl::StrCat("at ", TimeText(job.expire_time()));
  if (!job.has_ttl_after_finished()) return "";
  return absl::StrCat(DurationOrEmpty(true, job.ttl_after_finished()), " after its end (--ttl)");
}

std::string StepText(const v1::Job& job) {
  return job.target_step() > 0 ? absl::StrCat(job.step(), "/", job.target_step())
                               : absl::StrCat(job.step());
}

}  // namespace

std::string PlainName(absl::string_view name) {
  const size_t slash = name.find('/');
  return std::string(slash == absl::string_view::npos ? name : name.substr(slash + 1));
}

bool IsTerminal(v1::Job::State state) {
  return state == v1::Job::SUCCEEDED || state == v1::Job::FAILED || state == v1::Job::CANCELLED;
}

std::string PlacementText(const v1::Job& job) {
  std::vector<std::pair<std::string, std::vector<int>>> nodes;
  for (const v1::RankPlace& place : job.placement()) {
    const std::string node = PlainName(place.node());
    auto at = std::find_if(nodes.begin(), nodes.end(), [&](auto& n) { return n.first == node; });
    if (at == nodes.end()) at = nodes.insert(at, {node, {}});
    at->second.push_back(place.rank());
  }
  std::vector<std::string> parts;
  for (auto& [node, ranks] : nodes) {
    std::sort(ranks.begin(), ranks.end());
    const bool whole = ranks.back() - ranks.front() + 1 == static_cast<int>(ranks.size());
    const std::string list = ranks.size() == 1 ? absl::StrCat("rank ", ranks[0])
                             : whole ? absl::StrCat("ranks ", ranks.front(), "-", ranks.back())
                                     : absl::StrCat("ranks ", absl::StrJoin(ranks, ","));
    parts.push_back(absl::StrCat(node, " (", list, ")"));
  }
  return absl::StrJoin(parts, ", ");
}

std::string JobStateText(const v1::Job& job) {
  return absl::StrCat(v1::Job::State_Name(job.state()), job.suspended() ? ",SUSPENDED" : "");
}

Json ToJson(const v1::JobEvent& event) {
  return {{"time", TimeText(event.time())}, {"type", event.type()},
          {"epoch", event.epoch()},         {"attempt", event.attempt()},
          {"step", event.step()},           {"cause", event.cause()},
          {"reason", event.reason()},       {"lost_steps", event.lost_steps()},
          {"actor", event.actor()},         {"detail", event.detail()}};
}

Json ToJson(const v1::Job& job) {
  Json ranks = Json::array();
  for (const v1::RankPlace& place : job.placement()) {
    ranks.push_back(
        {{"rank", place.rank()}, {"node", PlainName(place.node())}, {"device", place.device()}});
  }
  Json json = {{"name", PlainName(job.name())},
               {"state", v1::Job::State_Name(job.state())},
               {"epoch", job.epoch()},
               {"attempt", job.attempt()},
               {"step", job.step()},
               {"target_step", job.target_step()},
               {"checkpoint_step", job.checkpoint().step()},
               {"checkpoint", job.checkpoint().path()},
               {"directory", job.directory()},
               {"reason", job.reason()},
               {"project", OrDefault(job.spec().project())},
               {"queue", OrDefault(job.spec().resources().queue())},
               {"priority", job.spec().resources().priority()},
               {"ranks", ranks},
               {"parameters", job.parameters()},
               {"predicted_memory", Memory(job)},
               {"restarts_without_progress", job.restarts_without_progress()},
               {"cancel_requested", job.cancel_requested()},
               {"suspended", job.suspended()},
               {"labels", Labels(job)},
               {"uid", job.uid()},
               {"owner", job.owner()},
               {"run_seconds", SecondsOf(job.run_time())},
               {"etag", job.etag()},
               {"resource_version", job.resource_version()}};
  if (job.has_create_time()) json["create_time"] = TimeText(job.create_time());
  if (job.has_start_time()) json["start_time"] = TimeText(job.start_time());
  if (job.has_end_time()) json["end_time"] = TimeText(job.end_time());
  if (job.has_ttl_after_finished()) {
    json["ttl_after_finished_seconds"] = SecondsOf(job.ttl_after_finished());
  }
  if (job.has_expire_time()) json["expire_time"] = TimeText(job.expire_time());
  json["events"] = Events(job);
  return json;
}

Json ToJson(const v1::JobSpec& job) {
  spec::Problems problems("spec");
  const auto tree = spec::ParseYaml(spec::WriteJob(job), problems);
  return tree != nullptr && problems.empty() ? ToJson(*tree) : Json();
}

Json ToJsonWithSpec(const v1::Job& job) {
  Json json = ToJson(job);
  if (Json spec = ToJson(job.spec()); !spec.is_null()) json["spec"] = std::move(spec);
  return json;
}

std::string JobTable(const std::vector<v1::Job>& jobs, double wall_seconds, bool labels) {
  std::vector<std::string> head = {"NAME",    "STATE", "STEP", "CHECKPOINT",
                                   "ATTEMPT", "RANKS", "AGE",  "REASON"};
  if (labels) head.push_back("LABELS");
  std::vector<std::vector<std::string>> rows;
  for (const v1::Job& job : jobs) {
    std::vector<std::string>& row = rows.emplace_back();
    row = {PlainName(job.name()),
           JobStateText(job),
           StepText(job),
           job.has_checkpoint() ? absl::StrCat(job.checkpoint().step()) : "-",
           absl::StrCat(job.attempt()),
           absl::StrCat(job.spec().resources().ranks()),
           Ago(job.has_create_time(), job.create_time(), wall_seconds),
           Shortened(job.reason())};
    if (labels) row.push_back(LabelsText(job));
  }
  return FormatTable(head, rows);
}

std::string EventTable(const std::vector<v1::JobEvent>& events, double wall_seconds) {
  std::vector<std::vector<std::string>> rows;
  for (const v1::JobEvent& event : events) {
    rows.push_back({Ago(true, event.time(), wall_seconds), event.type(),
                    absl::StrCat(event.attempt()), absl::StrCat(event.step()),
                    PlainActor(event.actor()), event.cause().empty() ? "-" : event.cause(),
                    EventText(event)});
  }
  return FormatTable({"AGE", "TYPE", "ATTEMPT", "STEP", "ACTOR", "CAUSE", "WHAT"}, rows);
}

std::string DescribeJob(const v1::Job& job, const std::optional<v1::StepRecord>& last_step,
                        const std::vector<v1::JobEvent>& events, double wall_seconds) {
  Description text;
  text.Add("Name", PlainName(job.name()));
  text.Add("State", JobStateText(job));
  text.Add("Reason", job.reason());
  text.Add("Step", StepText(job));
  text.Add("Attempt", absl::StrCat(job.attempt(), " (epoch ", job.epoch(), ")"));
  text.Add("Checkpoint", job.has_checkpoint() ? absl::StrCat("step ", job.checkpoint().step(), "  ",
                                                             job.checkpoint().path())
                                              : "none yet");
  text.Add("Project", OrDefault(job.spec().project()));
  text.Add("Queue", absl::StrCat(OrDefault(job.spec().resources().queue()), ", priority ",
                                 job.spec().resources().priority()));
  text.Add("Owner", job.owner());
  text.Add("Labels", LabelsText(job));
  text.Add("Run time", DurationOrEmpty(job.has_run_time(), job.run_time()));
  text.Add("Time limit", DurationOrEmpty(job.spec().has_time_limit(), job.spec().time_limit()));
  text.Add("Placement", PlacementText(job));
  if (job.parameters() > 0) {
    text.Add("Parameters", common::FormatDecimal(static_cast<double>(job.parameters()), ""));
  }
  for (const v1::TierMemory& tier : job.predicted_memory()) {
    text.Add("Memory",
             absl::StrCat(tier.tier(), " ",
                          common::FormatBytes(static_cast<double>(tier.predicted_bytes())),
                          " per rank, predicted"));
    if (job.spec().has_memory()) AddSlots(tier, text);
  }
  text.Add("Directory", job.directory());
  const auto when = [&](bool known, const Timestamp& time) {
    return known ? absl::StrCat(TimeText(time), "  (", Ago(known, time, wall_seconds), " ago)")
                 : "";
  };
  text.Add("Created", when(job.has_create_time(), job.create_time()));
  text.Add("First step", when(job.has_start_time(), job.start_time()));
  text.Add("Ended", when(job.has_end_time(), job.end_time()));
  text.Add("Deleted", DeletionText(job));
  text.Add("Uid", job.uid());
  std::string result = text.Take();
  if (last_step.has_value()) absl::StrAppend(&result, DescribeStep(*last_step));
  if (!events.empty()) absl::StrAppend(&result, "Events:\n");
  for (const v1::JobEvent& event : events) {
    absl::StrAppend(&result, "  ", TimeText(event.time()), "  ", event.type(), "  attempt ",
                    event.attempt(), "  step ", event.step(), "  ", EventText(event), "\n");
    for (const auto line : absl::StrSplit(event.detail(), '\n', absl::SkipEmpty())) {
      absl::StrAppend(&result, "      ", line, "\n");
    }
  }
  return absl::StrCat(
      result, "Spec:\n  ",
      absl::StrJoin(absl::StrSplit(spec::WriteJob(job.spec()), '\n', absl::SkipEmpty()), "\n  "),
      "\n");
}

}  // namespace strata::client
