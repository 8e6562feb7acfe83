#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "client/commands/registry.h"
#include "client/doctor/rates.h"
#include "client/exit_codes.h"
#include "client/job_loading.h"
#include "client/machine.h"
#include "client/machine_profile.h"
#include "client/task_runner.h"
#include "client/terminal/table.h"

namespace strata::client {
namespace {

using strata::v1::StandaloneEvent;
using strata::v1::StandaloneRequest;

// What people ask of a machine first.
struct Rates {
  int64_t ranks = 0, threads = 0;
  double flops = 0, memory = 0;  // per second: the best product's; the largest other op's
  double link = 0, latency = 0;  // bytes per second of the largest message; seconds of the smallest
  double lost = 0;               // of compute beside communication, at most
};

Rates RatesOf(const v1::RankProfile& ranks) {
  Rates rates{.ranks = ranks.ranks(), .threads = ranks.threads()};
  double largest = 0;
  for (const v1::OpTime& time : ranks.ops()) {
    rates.flops = std::max(rates.flops, time.flops() / time.seconds());
    if (time.flops() > 0 || time.bytes() <= largest) continue;
    largest = time.bytes();
    rates.memory = time.bytes() / time.seconds();
  }
  int64_t most = 0;
  for (const v1::CommunicationTime& time : ranks.communications()) {
    if (time.op() != "send") continue;
    if (rates.latency == 0) rates.latency = time.seconds();
    if (time.bytes() <= most) continue;
    most = time.bytes();
    rates.link = static_cast<double>(time.bytes()) / time.seconds();
  }
  for (const v1::Interference& each : ranks.interference()) {
    rates.lost = std::max(rates.lost, each.compute_lost());
  }
  return rates;
}

std::string FormatJson(const v1::Profile& profile, const std::string& path) {
  nlohmann::json json = {{"profile", path},
                         {"host", profile.host()},
                         {"cpu", profile.cpu()},
                         {"isa", profile.isa()},
                         {"ranks", nlohmann::json::array()}};
  for (const v1::RankProfile& measured : profile.ranks()) {
    const Rates rates = RatesOf(measured);
    json["ranks"].push_back({{"ranks", rates.ranks},
                             {"threads", rates.threads},
                             {"ops", measured.ops_size()},
                             {"flops_per_second", rates.flops},
                             {"memory_bytes_per_second", rates.memory},
                             {"link_bytes_per_second", rates.link},
                             {"link_latency_seconds", rates.latency},
                             {"compute_lost", rates.lost}});
  }
  json["host_copy_bytes_per_second"] = profile.host_copy_rate();
  json["disks"] = nlohmann::json::array();
  for (const v1::DiskProfile& disk : profile.disks()) {
    nlohmann::json rates = nlohmann::json::array();
    for (const v1::DiskRate& rate : disk.rates()) {
      rates.push_back({{"request_bytes", rate.request_bytes()},
                       {"depth", rate.depth()},
                       {"read_bytes_per_second", rate.read()},
                       {"write_bytes_per_second", rate.write()},
                       {"mixed_bytes_per_second", rate.mixed()}});
    }
    json["disks"].push_back({{"directory", disk.directory()},
                             {"backend", disk.backend()},
                             {"direct", disk.direct()},
                             {"rates", rates}});
  }
  return json.dump(2) + "\n";
}

std::string FormatRates(const v1::Profile& profile) {
  std::vector<std::vector<std::string>> rows;
  for (const v1::RankProfile& measured : profile.ranks()) {
    const Rates rates = RatesOf(measured);
    const bool linked = rates.link > 0;
    rows.push_back(
        {absl::StrCat(rates.ranks), absl::StrCat(rates.threads),
         absl::StrFormat("%.1f GFLOP/s", rates.flops / 1e9),
         absl::StrFormat("%.1f GB/s", rates.memory / 1e9),
         linked ? absl::StrFormat("%.2f GB/s, %.0f us", rates.link / 1e9, rates.latency * 1e6)
                : "-",
         linked ? absl::StrFormat("%.0f %%", 100 * rates.lost) : "-"});
  }
  std::string text =
      FormatTable({"RANKS", "THREADS", "PRODUCTS", "MEMORY", "MESSAGES", "LOST BESIDE THEM"}, rows);
  for (const v1::DiskProfile& disk : profile.disks()) {
    absl::StrAppend(&text, disk.directory(), ": ", DescribeDisk(disk), "\n");
  }
  return text;
}

int Calibrate(const Arguments& arguments, Terminal& terminal) {
  const std::string path = Absolute(ProfilePath(arguments.Text("--profile")));
  const absl::Status usable = CheckPathText("--profile", path);
  if (!usable.ok()) return Fail(usable, terminal);
  StandaloneRequest request;
  request.set_task(StandaloneRequest::TASK_CALIBRATE);
  request.set_ranks(2);
  request.set_threads_per_rank(ThreadsPerRank(2));
  request.set_threads_alone(ThreadsPerRank(1));
  request.set_quick(arguments.Has("--quick"));
  const std::string disk = arguments.Text("--ssd");
  if (!disk.empty()) {
    const absl::Status named = CheckPathText("--ssd", Absolute(disk));
    if (!named.ok()) return Fail(named, terminal);
    request.mutable_profile()->add_disks()->set_directory(Absolute(disk));
  }
  std::optional<v1::Profile> profile;
  const int code = RunTask(request, terminal, [&](const StandaloneEvent& event) {
    if (event.has_profile()) profile = event.profile();
  });
  if (code != kExitDone) return code;
  if (!profile.has_value()) {
    terminal.Error("the measurement ended without a result");
    return kExitFailed;
  }
  const absl::Status saved = SaveProfile(path, *profile);
  if (!saved.ok()) return Fail(saved, terminal);
  terminal.Say(absl::StrCat("written to ", path));
  terminal.Out(arguments.Text("--output") == "json" ? FormatJson(*profile, path)
                                                    : FormatRates(*profile));
  return kExitDone;
}

}  // namespace

Command CalibrateCommand() {
  Command command;
  command.name = "calibrate";
  command.usage = "[--profile F] [--ssd DIR] [--quick]";
  command.summary = "Measure this machine, so that steps can be predicted";
  command.flags = {
      {"--profile", Flag::Kind::kText, "F",
       "write the profile there (default: this user's of this host)"},
      {"--ssd", Flag::Kind::kText, "DIR",
       "measure the disk of this folder as well: 256 MiB of it, 20 seconds"},
      {"--quick", Flag::Kind::kSwitch, "", "a few seconds instead of a minute, and rough"},
  };
  command.outputs = {"table", "json"};
  command.run = Calibrate;
  return command;
}

}  // namespace strata::client
