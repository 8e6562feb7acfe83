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

// Of ranks, or of a device.
template <typename Measured>
Rates RatesOfOps(const Measured& measured) {
  Rates rates;
  double largest = 0;
  for (const v1::OpTime& time : measured.ops()) {
    rates.flops = std::max(rates.flops, time.flops() / time.seconds());
    if (time.flops() > 0 || time.bytes() <= largest) continue;
    largest = time.bytes();
    rates.memory = time.bytes() / time.seconds();
  }
  int64_t most = 0;
  for (const v1::CommunicationTime& time : measured.communications()) {
    if (time.op() != "send") continue;
    if (rates.latency == 0) rates.latency = time.seconds();
    if (time.bytes() <= most) continue;
    most = time.bytes();
    rates.link = static_cast<double>(time.bytes()) / time.seconds();
  }
  return rates;
}

Rates RatesOf(const v1::RankProfile& ranks) {
  Rates rates = RatesOfOps(ranks);
  rates.ranks = ranks.ranks();
  rates.threads = ranks.threads();
  for (const v1::Interference& each : ranks.interference()) {
    rates.lost = std::max(rates.lost, each.compute_lost());
  }
  return rates;
}

// Bytes per second of the largest copy.
double RateOf(const google::protobuf::RepeatedPtrField<v1::CopyTime>& copies) {
  if (copies.empty()) return 0;
  return static_cast<double>(copies.rbegin()->bytes()) / copies.rbegin()->seconds();
}

nlohmann::json JsonOf(const v1::DeviceProfile& device) {
  const Rates rates = RatesOfOps(device);
  nlohmann::json json = {{"name", device.name()},
                         {"kind", device.kind()},
                         {"standin", device.standin()},
                         {"remark", device.remark()},
                         {"ops", device.ops_size()},
                         {"action_seconds", device.action_seconds()},
                         {"flops_per_second", rates.flops},
                         {"memory_bytes_per_second", rates.memory},
                         {"to_device_bytes_per_second", RateOf(device.to_device())},
                         {"from_device_bytes_per_second", RateOf(device.from_device())},
                         {"both_ways_bytes_per_second", 2 * RateOf(device.both_ways())},
                         {"link_bytes_per_second", nullptr},
                         {"link_latency_seconds", nullptr}};
  if (rates.link > 0) {
    json["link_bytes_per_second"] = rates.link;
    json["link_latency_seconds"] = rates.latency;
  }
  return json;
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
  json["devices"] = nlohmann::json::array();
  for (const v1::DeviceProfile& device : profile.devices()) {
    json["devices"].push_back(JsonOf(device));
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

std::string LinkText(const Rates& rates) {
  if (rates.link == 0) return "-";
  return absl::StrFormat("%.2f GB/s, %.0f us", rates.link / 1e9, rates.latency * 1e6);
}

std::string RanksTable(const v1::Profile& profile) {
  std::vector<std::vector<std::string>> rows;
  for (const v1::RankProfile& measured : profile.ranks()) {
    const Rates rates = RatesOf(measured);
    rows.push_back({absl::StrCat(rates.ranks), absl::StrCat(rates.threads),
                    absl::StrFormat("%.1f GFLOP/s", rates.flops / 1e9),
                    absl::StrFormat("%.1f GB/s", rates.memory / 1e9), LinkText(rates),
                    rates.link > 0 ? absl::StrFormat("%.0f %%", 100 * rates.lost) : "-"});
  }
  return FormatTable({"RANKS", "THREADS", "PRODUCTS", "MEMORY", "MESSAGES", "LOST BESIDE THEM"},
                     rows);
}

std::string DevicesTable(const v1::Profile& profile) {
  std::vector<std::vector<std::string>> rows;
  bool standin = false;
  for (const v1::DeviceProfile& device : profile.devices()) {
    const Rates rates = RatesOfOps(device);
    standin |= device.standin();
    rows.push_back({device.name(), absl::StrFormat("%.1f TFLOP/s", rates.flops / 1e12),
                    absl::StrFormat("%.0f GB/s", rates.memory / 1e9),
                    absl::StrFormat("%.1f GB/s", RateOf(device.to_device()) / 1e9),
                    absl::StrFormat("%.1f GB/s", RateOf(device.from_device()) / 1e9),
                    absl::StrFormat("%.1f GB/s", 2 * RateOf(device.both_ways()) / 1e9),
                    LinkText(rates)});
  }
  std::string text = FormatTable(
      {"DEVICE", "PRODUCTS", "MEMORY", "FROM HOST", "TO HOST", "BOTH WAYS", "BETWEEN TWO"}, rows);
  if (standin) text += "Of the stand-in of CUDA: its times mean nothing, and answer for no GPU.\n";
  return text;
}

std::string FormatRates(const v1::Profile& profile) {
  std::string text;
  if (profile.ranks_size() > 0) text += RanksTable(profile);
  if (profile.devices_size() > 0) text += DevicesTable(profile);
  for (const v1::DiskProfile& disk : profile.disks()) {
    absl::StrAppend(&text, disk.directory(), ": ", DescribeDisk(disk), "\n");
  }
  return text;
}

// Of the processors, that others use: more disturbs. An idle machine's own services stay below.
constexpr double kBusy = 0.05;

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
  if (const std::string device = arguments.Text("--device", "cpu"); device != "cpu") {
    request.mutable_job()->mutable_resources()->set_device(device);
  }
  const std::string disk = arguments.Text("--ssd");
  if (!disk.empty()) {
    const absl::Status named = CheckPathText("--ssd", Absolute(disk));
    if (!named.ok()) return Fail(named, terminal);
    request.mutable_profile()->add_disks()->set_directory(Absolute(disk));
  }
  std::optional<v1::Profile> profile;
  const OtherProcesses others;
  const int code = RunTask(request, terminal, [&](const StandaloneEvent& event) {
    if (event.has_profile()) profile = event.profile();
  });
  if (code != kExitDone) return code;
  if (!profile.has_value()) {
    terminal.Error("the measurement ended without a result");
    return kExitFailed;
  }
  const absl::Status saved = AddToProfile(path, *profile);
  if (!saved.ok()) return Fail(saved, terminal);
  terminal.Say(absl::StrCat("written to ", path));
  if (const double processors = others.Processors(); processors > kBusy * UsableCores()) {
    terminal.Say(absl::StrFormat(
        "while it measured, other processes used %.1f of %d processors: the times are theirs too — "
        "measure again on a machine with nothing else to do",
        processors, UsableCores()));
  }
  terminal.Out(arguments.Text("--output") == "json" ? FormatJson(*profile, path)
                                                    : FormatRates(*profile));
  return kExitDone;
}

}  // namespace

Command CalibrateCommand() {
  Command command;
  command.name = "calibrate";
  command.usage = "[--device gpu] [--profile F] [--ssd DIR] [--quick]";
  command.summary = "Measure this machine, so that steps can be predicted";
  Flag device{"--device", Flag::Kind::kWord, "DEVICE", "that is measured (default: cpu)"};
  device.words = {"cpu", "gpu"};
  command.flags = {
      device,
      {"--profile", Flag::Kind::kText, "F",
       "write the profile there, beside what it has of other devices (default: this user's of this "
       "host)"},
      {"--ssd", Flag::Kind::kText, "DIR",
       "measure the disk of this folder as well: 256 MiB of it, 20 seconds"},
      {"--quick", Flag::Kind::kSwitch, "", "a few seconds instead of a minute, and rough"},
  };
  command.outputs = {"table", "json"};
  command.run = Calibrate;
  return command;
}

}  // namespace strata::client
