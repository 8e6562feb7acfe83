// strata simulate: a cluster on virtual time.
#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "client/commands/map_file.h"
#include "client/commands/registry.h"
#include "client/exit_codes.h"
#include "client/text_file.h"
#include "client/views/simulation_view.h"
#include "common/random.h"
#include "common/status_macros.h"
#include "controller/simulator/simulator.h"
#include "controller/simulator/streams.h"
#include "controller/simulator/trace_file.h"
#include "spec/policy_file.h"
#include "spec/prescan.h"
#include "spec/problems.h"

namespace strata::client {
namespace {

constexpr int kMostRealDevices = 1024;   // nodes up to which each device is a rank of its own
constexpr int kMostFragmentNodes = 256;  // and up to which every checkpoint's messages are sent
constexpr int64_t kDefaultNodes = 64;
constexpr size_t kMostBytes = size_t{64} << 20;  // of a file
constexpr char kWholeCluster[] = "cluster";      // the level whose one group is everything

absl::StatusOr<topology::Description> ClusterOf(const Arguments& arguments, int devices) {
  if (arguments.Has("--topology")) {
    ASSIGN_OR_RETURN(const topology::Cluster map,
                     ReadMapFile(arguments.Text("--topology"), arguments));
    return map.ToDescription();
  }
  return simulator::RegularCluster(
      {.nodes = static_cast<int>(arguments.Count("--nodes").value_or(kDefaultNodes)),
       .devices = devices});
}

absl::StatusOr<std::vector<simulator::SimJob>> JobsOf(const Arguments& arguments,
                                                      const simulator::Options& options) {
  const topology::Node& first = options.cluster.nodes.front();
  const double interval = arguments.Number("--checkpoint-interval").value_or(300);
  const double stall = arguments.Number("--checkpoint-stall").value_or(2);
  const auto nodes = static_cast<int>(options.cluster.nodes.size());
  if (arguments.Has("--trace")) {
    const std::string path = arguments.Text("--trace");
    ASSIGN_OR_RETURN(const std::string text, ReadTextFile(path, kMostBytes, "trace"));
    return simulator::ReadTrace(path, text,
                                {.devices = first.devices,
                                 .device = first.kind,
                                 .checkpoint_interval = interval,
                                 .checkpoint_stall = stall});
  }
  if (const auto size = arguments.Count("--job-nodes"); size.has_value()) {
    if (*size > nodes) {
      return absl::ResourceExhaustedError(
          absl::StrCat("--job-nodes ", *size, ": the cluster has ", nodes, " nodes"));
    }
    simulator::SimJob job =
        simulator::BigJob(static_cast<int>(*size), first.devices, options.days, interval, stall);
    job.device = first.kind;
    return std::vector<simulator::SimJob>{job};
  }
  common::Random random(options.seed, simulator::kWorkload);
  return simulator::RandomJobs({.nodes = nodes,
                                .devices = first.devices,
                                .most_tensor = first.devices,
                                .device = first.kind,
                                .days = options.days,
                                .load = arguments.Number("--load").value_or(0.8),
                                .mean_hours = arguments.Number("--mean-hours").value_or(6),
                                .checkpoint_interval = interval,
                                .checkpoint_stall = stall},
                               random);
}

// A level of the cluster, or all of it.
absl::Status CheckLevel(const std::string& flag, const std::string& level,
                        const topology::Description& cluster) {
  if (level == kWholeCluster) return absl::OkStatus();
  for (const std::string& known : cluster.levels) {
    if (known == level) return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat(flag, ": the cluster has no level ", level, " — its levels are ",
                   absl::StrJoin(cluster.levels, ", "), ", and ", kWholeCluster, " is all of it"));
}

absl::StatusOr<v1::Policy> PolicyOf(const Arguments& arguments,
                                    const topology::Description& cluster) {
  if (!arguments.Has("--policy")) return v1::Policy();
  const std::string path = arguments.Text("--policy");
  ASSIGN_OR_RETURN(const std::string text, ReadTextFile(path, spec::kMostBytes, "policy file"));
  spec::Problems problems(path);
  const spec::PolicyFile file = spec::ReadPolicy(text, problems);
  RETURN_IF_ERROR(problems.ToStatus());
  if (file.policy.scheduling().has_buffer()) {
    RETURN_IF_ERROR(CheckLevel(path, file.policy.scheduling().buffer().level(), cluster));
  }
  return file.policy;
}

absl::StatusOr<simulator::Options> OptionsOf(const Arguments& arguments, std::string& notice) {
  const int64_t nodes = arguments.Count("--nodes").value_or(kDefaultNodes);
  const bool whole = nodes > kMostRealDevices && !arguments.Has("--topology");
  const auto devices = static_cast<int>(arguments.Count("--devices").value_or(whole ? 1 : 8));
  simulator::Options options;
  ASSIGN_OR_RETURN(options.cluster, ClusterOf(arguments, devices));
  if (options.cluster.nodes.empty()) {
    return absl::InvalidArgumentError("--topology: the cluster has no nodes");
  }
  options.days = arguments.Number("--days").value_or(1);
  options.seed = static_cast<uint64_t>(arguments.Count("--seed").value_or(1));
  options.failure_rate =
      arguments.Has("--no-failures") ? 0 : arguments.Number("--failure-rate").value_or(1);
  options.controller_ends_per_day = arguments.Number("--controller-restarts").value_or(0);
  options.latencies.start = arguments.Number("--start-seconds").value_or(options.latencies.start);
  options.latencies.load = arguments.Number("--load-seconds").value_or(options.latencies.load);
  options.all_fragments = options.cluster.nodes.size() <= kMostFragmentNodes;
  ASSIGN_OR_RETURN(options.jobs, JobsOf(arguments, options));
  ASSIGN_OR_RETURN(options.policy, PolicyOf(arguments, options.cluster));
  if (whole && !arguments.Has("--devices")) {
    notice = "one rank per node stands for its eight devices (--devices 8: one per device)";
  }
  if (!options.all_fragments) {
    absl::StrAppend(&notice, notice.empty() ? "" : "; ",
                    "of a checkpoint's messages only the request to commit is simulated");
  }
  return options;
}

// One simulation; `of`: which one, for people.
simulator::Report RunWith(const simulator::Options& options, const std::string& of,
                          Terminal& terminal) {
  simulator::Report report = simulator::Simulate(options, [&](double done) {
    terminal.Transient(absl::StrFormat("%s%.1f of %g days", of, done * options.days, options.days));
  });
  if (!report.violation.empty()) {
    terminal.Error(absl::StrCat(of, "seed ", options.seed, ", event ", report.violation_event, ": ",
                                report.violation, "\nagain: the same command with --seed ",
                                options.seed));
  }
  return report;
}

// "0,1,2%": sizes of the buffer, as in a policy file.
absl::StatusOr<std::vector<v1::BufferPolicy>> BuffersOf(const Arguments& arguments,
                                                        const topology::Description& cluster) {
  const bool zones = CheckLevel("", "zone", cluster).ok();
  const std::string level = arguments.Text("--buffer-level", zones ? "zone" : kWholeCluster);
  RETURN_IF_ERROR(CheckLevel("--buffer-level", level, cluster));
  std::vector<v1::BufferPolicy> buffers;
  for (const absl::string_view size : absl::StrSplit(arguments.Text("--buffer"), ',')) {
    spec::Problems problems("--buffer");
    const spec::PolicyFile read = spec::ReadPolicy(
        absl::StrCat("scheduling: {buffer: {level: cluster, nodes: ", size, "}}"), problems);
    if (!problems.empty()) {
      return absl::InvalidArgumentError(
          absl::StrCat("--buffer: ", size, " is no size — give sizes such as 0,2,5%"));
    }
    buffers.push_back(read.policy.scheduling().buffer());
    buffers.back().set_level(level);
  }
  return buffers;
}

int RunBuffers(simulator::Options options, const Arguments& arguments, Terminal& terminal) {
  const auto buffers = BuffersOf(arguments, options.cluster);
  if (!buffers.ok()) return Fail(buffers.status(), terminal);
  std::vector<BufferOutcome> outcomes;
  for (const v1::BufferPolicy& buffer : *buffers) {
    *options.policy.mutable_scheduling()->mutable_buffer() = buffer;
    const std::string size = buffer.has_fraction()
                                 ? absl::StrFormat("%.12g%%", 100 * buffer.fraction())
                                 : absl::StrCat(buffer.nodes());
    outcomes.push_back({size, RunWith(options, absl::StrCat("buffer ", size, ": "), terminal)});
  }
  const std::string output = arguments.Text("--output", "table");
  const std::string& level = buffers->front().level();
  terminal.Out(output == "table" ? BuffersText(outcomes, level)
                                 : ToText(BuffersJson(outcomes, level), output));
  const bool sound = std::all_of(outcomes.begin(), outcomes.end(), [](const BufferOutcome& of) {
    return of.report.violation.empty();
  });
  return sound ? kExitDone : kExitFailed;
}

int RunOne(const Arguments& arguments, Terminal& terminal) {
  std::string notice;
  const absl::StatusOr<simulator::Options> options = OptionsOf(arguments, notice);
  if (!options.ok()) return Fail(options.status(), terminal);
  if (!notice.empty()) terminal.Say(notice);
  if (arguments.Has("--buffer")) return RunBuffers(*options, arguments, terminal);
  const simulator::Report report = RunWith(*options, "", terminal);
  const std::string output = arguments.Text("--output", "table");
  terminal.Out(output == "table" ? SimulationText(report) : ToText(ToJson(report), output));
  return report.violation.empty() ? kExitDone : kExitFailed;
}

// Small clusters in great trouble, seed by seed.
int RunSeeds(const Arguments& arguments, Terminal& terminal) {
  const int64_t first = arguments.Count("--seed").value_or(1);
  const int64_t count = *arguments.Count("--seeds");
  int64_t failed = 0, events = 0, restarts = 0, preemptions = 0;
  for (int64_t seed = first; seed < first + count; ++seed) {
    const simulator::Report report =
        simulator::Simulate(simulator::TroubledCluster(static_cast<uint64_t>(seed)));
    events += report.events;
    preemptions += report.preemptions;
    for (const auto& [cause, times] : report.restarts_by_told_cause) restarts += times;
    terminal.Transient(absl::StrFormat("%d of %d seeds", seed - first + 1, count));
    if (report.violation.empty()) continue;
    ++failed;
    terminal.Error(absl::StrCat("seed ", seed, ", event ", report.violation_event, ": ",
                                report.violation, "\nagain: strata simulate --seeds 1 --seed ",
                                seed));
  }
  const Json json = {{"seeds", count},
                     {"violations", failed},
                     {"events", events},
                     {"restarts", restarts},
                     {"preemptions", preemptions}};
  const std::string output = arguments.Text("--output", "table");
  terminal.Out(output == "table"
                   ? absl::StrFormat("%d seeds, %d events, %d restarts after failures, %d "
                                     "preemptions and drains: %d violations\n",
                                     count, events, restarts, preemptions, failed)
                   : ToText(json, output));
  return failed == 0 ? kExitDone : kExitFailed;
}

// A flag that --seeds would not heed, or nothing.
std::string IgnoredBySeeds(const Arguments& arguments) {
  if (!arguments.Has("--seeds")) return "";
  for (const Flag& flag : SimulateCommand().flags) {
    if (flag.name != "--seeds" && flag.name != "--seed" && arguments.Has(flag.name)) {
      return flag.name;
    }
  }
  return "";
}

int Simulate(const Arguments& arguments, Terminal& terminal) {
  if (arguments.Has("--explain")) {
    terminal.Out(simulator::ExplainFailures());
    return kExitDone;
  }
  std::vector<std::string> sources;
  for (const char* flag : {"--trace", "--job-nodes", "--seeds"}) {
    if (arguments.Has(flag)) sources.emplace_back(flag);
  }
  if (sources.size() > 1) {
    terminal.Error(absl::StrCat(absl::StrJoin(sources, " and "), ": give one of them"));
    return kExitUsage;
  }
  if (arguments.Has("--topology") && arguments.Has("--nodes")) {
    terminal.Error("--topology: the file says the nodes; leave out --nodes");
    return kExitUsage;
  }
  for (const char* flag : {"--format", "--device", "--label"}) {
    if (!arguments.Has(flag) || arguments.Has("--topology")) continue;
    terminal.Error(absl::StrCat(flag, ": is about the file of --topology; give that too"));
    return kExitUsage;
  }
  if (arguments.Has("--buffer-level") && !arguments.Has("--buffer")) {
    terminal.Error("--buffer-level: says where the buffers of --buffer are; give that too");
    return kExitUsage;
  }
  if (const std::string flag = IgnoredBySeeds(arguments); !flag.empty()) {
    terminal.Error(
        absl::StrCat("--seeds: makes clusters, jobs and failures by itself; leave out ", flag));
    return kExitUsage;
  }
  return arguments.Has("--seeds") ? RunSeeds(arguments, terminal) : RunOne(arguments, terminal);
}

}  // namespace

Command SimulateCommand() {
  using Kind = Flag::Kind;
  constexpr double kMost = 1e9;
  Command command;
  command.name = "simulate";
  command.usage = "[--nodes N|--topology F] [--days D] [--job-nodes N|--trace F.csv|--seeds K]";
  command.summary = "Run the controller and its scheduler on virtual time, with jobs and failures";
  command.outputs = {"table", "json", "yaml"};
  command.flags = {
      {"--nodes", Kind::kCount, "N", "of a regular cluster (default: 64)", "", 1, 100'000},
      {"--topology", Kind::kText, "F", "the cluster's map instead"},
      {"--days", Kind::kNumber, "D", "of virtual time (default: 1)", "", 0.001, 10'000},
      {"--seed", Kind::kCount, "S", "of all chance (default: 1)", "", 0, kMost},
      {"--seeds", Kind::kCount, "K", "K small clusters in great trouble, from --seed on", "", 1,
       kMost},
      {"--job-nodes", Kind::kCount, "N", "one job on so many nodes", "", 1, 100'000},
      {"--trace", Kind::kText, "F.csv", "the jobs, one a line (default: random ones)"},
      {"--load", Kind::kNumber, "L", "of random jobs: device time asked for (default: 0.8)", "",
       0.01, 10},
      {"--mean-hours", Kind::kNumber, "H", "of random jobs (default: 6)", "", 0.01, 10'000},
      {"--failure-rate", Kind::kNumber, "X", "times Llama 3's (default: 1)", "", 0, 1e6},
      {"--no-failures", Kind::kSwitch, "", "nothing breaks"},
      {"--controller-restarts", Kind::kNumber, "N", "a day (default: 0)", "", 0, 10'000},
      {"--checkpoint-interval", Kind::kNumber, "S", "seconds of work (default: 300)", "", 0.1,
       kMost},
      {"--checkpoint-stall", Kind::kNumber, "S", "that each costs (default: 2)", "", 0, kMost},
      {"--start-seconds", Kind::kNumber, "S", "until ranks are started (default: 15)", "", 0.1,
       3600},
      {"--load-seconds", Kind::kNumber, "S", "and have loaded (default: 45)", "", 0.1, 86'400},
      {"--policy", Kind::kText, "F.yaml",
       "projects, queues and scheduling, as strata apply reads them"},
      {"--buffer", Kind::kText, "0,1,2%",
       "once for each of these numbers (or shares) of nodes held back per group, compared"},
      {"--buffer-level", Kind::kText, "L", "whose groups these are (default: zone, else cluster)"},
      {"--explain", Kind::kSwitch, "", "what fails, how often and how it is repaired"}};
  const std::vector<Flag> map = MapFileFlags(
      "per node (default: 8; above 1,024 nodes 1); of a map, where it says nothing about them");
  command.flags.insert(command.flags.begin() + 2, map.begin(), map.end());
  command.run = Simulate;
  return command;
}

}  // namespace strata::client
