#include "worker/agent/cluster/agent_options.h"

#include <algorithm>
#include <cstddef>
#include <map>
#include <set>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "common/status_macros.h"
#include "worker/agent/cluster/certificate_keeper.h"

namespace strata::worker {
namespace {

constexpr int kMostDevices = 1024;
constexpr int kMostThreads = 1024;
constexpr int kMostDrainSeconds = 30 * 86400;

absl::Status Number(const std::string& flag, const std::string& text, int most, int* number) {
  if (absl::SimpleAtoi(text, number) && *number >= 1 && *number <= most) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(flag, ": '", text, "' is no number from 1 to ", most));
}

absl::Status Signal(const std::string& text, OnSigterm* on_sigterm) {
  if (text != "handover" && text != "drain") {
    return absl::InvalidArgumentError(
        absl::StrCat("--on-sigterm: '", text, "' is not handover or drain"));
  }
  *on_sigterm = text == "drain" ? OnSigterm::kDrain : OnSigterm::kHandOver;
  return absl::OkStatus();
}

absl::Status Devices(const std::string& text, ClusterAgentOptions* options) {
  if (text == "gpu" || text == "auto") {
    options->choice = text == "gpu" ? DeviceChoice::kGpu : DeviceChoice::kAuto;
    return absl::OkStatus();
  }
  options->choice = DeviceChoice::kCpu;
  if (absl::SimpleAtoi(text, &options->devices) && options->devices >= 1 &&
      options->devices <= kMostDevices) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat("--devices: '", text, "' is no number from 1 to ",
                                                 kMostDevices, ", nor gpu or auto"));
}

absl::Status WhoseProcesses(const std::string& text, RunAs* run_as) {
  if (text != "user" && text != "daemon" && text != "auto") {
    return absl::InvalidArgumentError(
        absl::StrCat("--run-as: '", text, "' is not user, daemon or auto"));
  }
  *run_as = text == "user" ? RunAs::kUser : text == "daemon" ? RunAs::kDaemon : RunAs::kAuto;
  return absl::OkStatus();
}

absl::Status Locality(const std::string& text, std::map<std::string, std::string>* locality) {
  for (const std::string& part : std::vector<std::string>(absl::StrSplit(text, ','))) {
    const std::pair<std::string, std::string> level = absl::StrSplit(part, absl::MaxSplits('=', 1));
    if (level.first.empty() || level.second.empty()) {
      return absl::InvalidArgumentError(
          absl::StrCat("--locality: '", part, "' is not LEVEL=VALUE"));
    }
    if (!locality->insert(level).second) {
      return absl::InvalidArgumentError(
          absl::StrCat("--locality: ", level.first, " is given twice"));
    }
  }
  return absl::OkStatus();
}

// With a value that is not kept as it is.
bool IsOtherFlag(const std::string& flag) {
  const std::set<std::string> flags = {
      "--devices", "--threads-per-device", "--on-sigterm", "--drain-seconds", "--join",
      "--run-as",  "--unit-property",      "--locality"};
  return flags.contains(flag);
}

// The token itself, or what @FILE holds: other users see a process's arguments.
absl::StatusOr<std::string> JoinToken(const std::string& value) {
  if (!absl::StartsWith(value, "@/")) return value;
  const absl::StatusOr<std::string> text = security::ReadPemFile(value.substr(1));
  if (text.ok()) return std::string(absl::StripAsciiWhitespace(*text));
  return absl::InvalidArgumentError(absl::StrCat("--join: ", text.status().message()));
}

absl::Status CheckSecurity(const ClusterAgentOptions& options) {
  const security::TlsFiles& tls = options.tls;
  const bool any = tls.enabled() || !tls.certificate.empty() || !tls.key.empty();
  if (any && (!tls.enabled() || tls.certificate.empty() || tls.key.empty())) {
    return absl::InvalidArgumentError(
        "TLS needs all three: --tls-certificate, --tls-key and --tls-authority");
  }
  if (options.join.empty()) return absl::OkStatus();
  if (any) {
    return absl::InvalidArgumentError(
        "--join: with --tls-certificate there is nothing to join with: leave one of them out");
  }
  if (absl::StartsWith(options.controller, "unix:")) {
    return absl::InvalidArgumentError("--join: for a --controller HOST:PORT only");
  }
  return CheckJoin(options.join);
}

}  // namespace

absl::StatusOr<ClusterAgentOptions> ParseClusterOptions(const std::vector<std::string>& arguments) {
  ClusterAgentOptions options;
  const std::map<std::string, std::string*> texts = {
      {"--controller", &options.controller},
      {"--node", &options.node},
      {"--dir", &options.directory},
      {"--data-devices", &options.data_devices},
      {"--nvml", &options.nvml},
      {"--tls-certificate", &options.tls.certificate},
      {"--tls-key", &options.tls.key},
      {"--tls-authority", &options.tls.authority}};
  for (size_t i = 0; i < arguments.size(); i += 2) {
    const std::string& flag = arguments[i];
    if (flag == "--rejoin") {
      options.rejoin = true;
      --i;
      continue;
    }
    if (!texts.contains(flag) && !IsOtherFlag(flag)) {
      return absl::InvalidArgumentError(absl::StrCat(flag, ": no such flag"));
    }
    if (i + 1 == arguments.size()) {
      return absl::InvalidArgumentError(absl::StrCat(flag, ": its value is missing"));
    }
    const std::string& value = arguments[i + 1];
    if (const auto text = texts.find(flag); text != texts.end()) {
      *text->second = value;
    } else if (flag == "--devices") {
      RETURN_IF_ERROR(Devices(value, &options));
    } else if (flag == "--threads-per-device") {
      RETURN_IF_ERROR(Number(flag, value, kMostThreads, &options.threads_per_device));
    } else if (flag == "--on-sigterm") {
      RETURN_IF_ERROR(Signal(value, &options.on_sigterm));
    } else if (flag == "--drain-seconds") {
      int seconds = 0;
      RETURN_IF_ERROR(Number(flag, value, kMostDrainSeconds, &seconds));
      options.drain_seconds = seconds;
    } else if (flag == "--join") {
      ASSIGN_OR_RETURN(options.join, JoinToken(value));
    } else if (flag == "--run-as") {
      RETURN_IF_ERROR(WhoseProcesses(value, &options.run_as));
    } else if (flag == "--unit-property") {
      if (value.find('=') == std::string::npos) {
        return absl::InvalidArgumentError(
            absl::StrCat("--unit-property: '", value, "' is not NAME=VALUE"));
      }
      options.unit_properties.push_back(value);
    } else {
      RETURN_IF_ERROR(Locality(value, &options.locality));
    }
  }
  for (const char* const flag : {"--controller", "--node", "--dir"}) {
    if (texts.at(flag)->empty()) return absl::InvalidArgumentError(absl::StrCat(flag, ": missing"));
  }
  if (options.controller.find(':') == std::string::npos) {
    return absl::InvalidArgumentError(absl::StrCat("--controller: '", options.controller,
                                                   "' is neither HOST:PORT nor unix:PATH"));
  }
  RETURN_IF_ERROR(CheckSecurity(options));
  return options;
}

}  // namespace strata::worker
