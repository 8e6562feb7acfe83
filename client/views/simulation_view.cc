#include "client/views/simulation_view.h"

#include <algorithm>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "client/terminal/table.h"

namespace strata::client {
namespace {

constexpr double kDaySeconds = 86400;
constexpr size_t kMostJobs = 12;  // listed for people, the largest

Json ToJson(const simulator::Waits& waits) {
  return {{"jobs", waits.jobs},
          {"mean_seconds", waits.mean},
          {"p50_seconds", waits.p50},
          {"p99_seconds", waits.p99},
          {"longest_seconds", waits.longest}};
}

Json ToJson(const simulator::JobReport& job) {
  return {{"name", job.name},
          {"state", job.state},
          {"nodes", job.nodes},
          {"ranks", job.ranks},
          {"interruptions", job.interruptions},
          {"planned_moves", job.planned},
          {"life_seconds", job.life_seconds},
          {"planned_seconds", job.planned_seconds},
          {"productive_seconds", job.productive_seconds},
          {"ettr", job.ettr},
          {"ettr_without_planned", job.ettr_unplanned},
          {"ettr_formula", job.ettr_formula}};
}

std::string Percent(double part) { return absl::StrFormat("%.2f %%", 100 * part); }

std::string WaitsTable(const simulator::Report& report) {
  std::vector<std::vector<std::string>> rows;
  const auto add = [&](const std::string& name, const simulator::Waits& waits) {
    rows.push_back({name, absl::StrCat(waits.jobs), AgeText(waits.mean), AgeText(waits.p50),
                    AgeText(waits.p99), AgeText(waits.longest)});
  };
  for (const auto& [priority, waits] : report.waits) add(absl::StrCat(priority), waits);
  if (report.waits.size() > 1) add("all", report.all_waits);
  return FormatTable({"PRIORITY", "STARTED", "WAIT (MEAN)", "P50", "P99", "LONGEST"}, rows);
}

std::string CausesTable(const simulator::Report& report) {
  std::vector<std::vector<std::string>> rows;
  for (const simulator::CauseReport& cause : report.causes) {
    if (cause.happened == 0) continue;
    rows.push_back({cause.name, absl::StrCat(cause.happened), absl::StrCat(cause.interrupted),
                    cause.interrupted > 0 ? AgeText(cause.pause_seconds) : "-"});
  }
  return FormatTable({"CAUSE", "HAPPENED", "RESTARTS", "PAUSE (MEAN)"}, rows);
}

std::string JobsTable(const simulator::Report& report) {
  std::vector<const simulator::JobReport*> jobs;
  for (const simulator::JobReport& job : report.jobs) jobs.push_back(&job);
  std::stable_sort(jobs.begin(), jobs.end(),
                   [](const auto* a, const auto* b) { return a->nodes > b->nodes; });
  std::vector<std::vector<std::string>> rows;
  for (size_t i = 0; i < std::min(kMostJobs, jobs.size()); ++i) {
    const simulator::JobReport& job = *jobs[i];
    rows.push_back({job.name, job.state, absl::StrCat(job.nodes), absl::StrCat(job.interruptions),
                    absl::StrCat(job.planned), Percent(job.ettr), Percent(job.ettr_unplanned),
                    Percent(job.ettr_formula)});
  }
  std::string text = FormatTable(
      {"JOB", "STATE", "NODES", "FAILURES", "MOVES", "ETTR", "WITHOUT MOVES", "FORMULA"}, rows);
  if (jobs.size() > kMostJobs) {
    absl::StrAppend(&text, "and ", jobs.size() - kMostJobs, " smaller ones (-o json has all)\n");
  }
  return text;
}

}  // namespace

Json BuffersJson(const std::vector<BufferOutcome>& outcomes, const std::string& level) {
  Json list = Json::array();
  for (const BufferOutcome& outcome : outcomes) {
    Json report = ToJson(outcome.report);
    report.erase("jobs");
    list.push_back({{"nodes", outcome.size}, {"report", std::move(report)}});
  }
  return {{"level", level}, {"buffers", std::move(list)}};
}

std::string BuffersText(const std::vector<BufferOutcome>& outcomes, const std::string& level) {
  std::vector<std::vector<std::string>> rows;
  for (const auto& [size, report] : outcomes) {
    rows.push_back({size, Percent(report.utilisation), Percent(report.allocation),
                    Percent(report.ettr), absl::StrCat(report.node_waits.jobs),
                    absl::StrFormat("%.1f s", report.node_waits.mean),
                    absl::StrFormat("%.1f s", report.node_waits.p99),
                    absl::StrFormat("%.1f s", report.node_waits.longest),
                    AgeText(report.all_waits.mean), absl::StrCat(report.preemptions)});
  }
  return absl::StrCat(
      "nodes held back of every group of level ", level, ", one simulation each:\n",
      FormatTable({"BUFFER", "TRAINING", "HELD", "ETTR", "RESTARTS", "WAIT FOR NODES (MEAN)", "P99",
                   "LONGEST", "WAIT IN QUEUE (MEAN)", "PREEMPTIONS"},
                  rows));
}

Json ToJson(const simulator::Report& report) {
  Json json = {{"virtual_seconds", report.virtual_seconds},
               {"nodes", report.nodes},
               {"devices", report.devices},
               {"utilisation", report.utilisation},
               {"allocation", report.allocation},
               {"jobs_submitted", report.submitted},
               {"jobs_refused", report.refused},
               {"jobs_started", report.started},
               {"jobs_succeeded", report.succeeded},
               {"jobs_failed", report.failed},
               {"jobs_cancelled", report.cancelled}};
  Json& waits = json["waits"] = Json::object();
  for (const auto& [priority, of] : report.waits) waits[absl::StrCat(priority)] = ToJson(of);
  waits["all"] = ToJson(report.all_waits);
  waits["nodes"] = ToJson(report.node_waits);
  Json& causes = json["causes"] = Json::array();
  for (const simulator::CauseReport& cause : report.causes) {
    causes.push_back({{"name", cause.name},
                      {"happened", cause.happened},
                      {"restarts", cause.interrupted},
                      {"pause_seconds", cause.pause_seconds}});
  }
  json["restarts_as_told"] = report.restarts_by_told_cause;
  json["preemptions"] = report.preemptions;
  json["replaced_nodes"] = report.replaced_nodes;
  json["kept_places"] = report.kept_places;
  json["moved_places"] = report.moved_places;
  json["controller_restarts"] = report.controller_ends;
  json["lost_seconds"] = report.lost_seconds;
  json["pause_seconds"] = report.pause_seconds;
  json["failures_per_node_day"] = report.rate_per_node_day;
  json["ettr"] = report.ettr;
  json["ettr_without_planned"] = report.ettr_unplanned;
  json["ettr_formula"] = report.ettr_formula;
  Json& jobs = json["jobs"] = Json::array();
  for (const simulator::JobReport& job : report.jobs) jobs.push_back(ToJson(job));
  json["events"] = report.events;
  json["inputs"] = report.inputs;
  json["messages"] = report.messages;
  json["commits"] = report.commits;
  json["writes"] = report.writes;
  json["written_bytes"] = report.written_bytes;
  json["ticks"] = report.ticks;
  json["full_checks"] = report.full_checks;
  json["violation"] = report.violation;
  json["violation_event"] = report.violation_event;
  return json;
}

std::string SimulationText(const simulator::Report& report) {
  std::string text = absl::StrFormat(
      "%d nodes, %d devices, %.1f days; %d jobs submitted, %d started, %d finished, %d failed, "
      "%d cancelled\n",
      report.nodes, report.devices, report.virtual_seconds / kDaySeconds, report.submitted,
      report.started, report.succeeded, report.failed, report.cancelled);
  if (report.refused > 0) {
    absl::StrAppendFormat(&text, "%d refused; the first: %s\n", report.refused,
                          report.first_refusal);
  }
  absl::StrAppendFormat(
      &text,
      "devices train %s of the time and are held %s\n%d preemptions and drains; restarts: %d "
      "ranks kept their places, %d moved; %d nodes stepped in for others\n\n",
      Percent(report.utilisation), Percent(report.allocation), report.preemptions,
      report.kept_places, report.moved_places, report.replaced_nodes);
  absl::StrAppend(&text, WaitsTable(report), "\n", CausesTable(report), "\n", JobsTable(report),
                  "\n");
  absl::StrAppendFormat(
      &text,
      "ETTR %s; without orderly moves %s; formula %s (λ = nodes × %.3g per day, u0 = %.1f s)\n"
      "%d events, %d inputs to the controller, %d messages from it, %d commits of %d records\n",
      Percent(report.ettr), Percent(report.ettr_unplanned), Percent(report.ettr_formula),
      report.rate_per_node_day, report.pause_seconds, report.events, report.inputs, report.messages,
      report.commits, report.writes);
  return text;
}

}  // namespace strata::client
