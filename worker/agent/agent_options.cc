#include "worker/agent/agent_options.h"

#include <algorithm>
#include <cstddef>
#include <thread>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "common/status_macros.h"

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

}  // namespace

absl::StatusOr<ClusterAgentOptions> ParseClusterOptions(const std::vector<std::string>& arguments) {
  ClusterAgentOptions options;
  options.threads_per_device = 0;
  for (size_t i = 0; i < arguments.size(); i += 2) {
    const std::string& flag = arguments[i];
    if (flag == "--rejoin") {
      options.rejoin = true;
      --i;
      continue;
    }
    if (i + 1 == arguments.size()) {
      return absl::InvalidArgumentError(absl::StrCat(flag, ": its value is missing"));
    }
    const std::string& value = arguments[i + 1];
    if (flag == "--controller") {
      options.controller = value;
    } else if (flag == "--node") {
      options.node = value;
    } else if (flag == "--dir") {
      options.directory = value;
    } else if (flag == "--devices") {
      RETURN_IF_ERROR(Number(flag, value, kMostDevices, &options.devices));
    } else if (flag == "--threads-per-device") {
      RETURN_IF_ERROR(Number(flag, value, kMostThreads, &options.threads_per_device));
    } else if (flag == "--on-sigterm") {
      RETURN_IF_ERROR(Signal(value, &options.on_sigterm));
    } else if (flag == "--drain-seconds") {
      int seconds = 0;
      RETURN_IF_ERROR(Number(flag, value, kMostDrainSeconds, &seconds));
      options.drain_seconds = seconds;
    } else if (flag == "--tls-certificate") {
      options.tls.certificate = value;
    } else if (flag == "--tls-key") {
      options.tls.key = value;
    } else if (flag == "--tls-authority") {
      options.tls.authority = value;
    } else if (flag == "--data-devices") {
      options.data_devices = value;
    } else if (flag == "--locality") {
      RETURN_IF_ERROR(Locality(value, &options.locality));
    } else {
      return absl::InvalidArgumentError(absl::StrCat(flag, ": unknown"));
    }
  }
  const std::pair<const char*, const std::string*> required[] = {
      {"--controller", &options.controller},
      {"--node", &options.node},
      {"--dir", &options.directory}};
  for (const auto& [flag, value] : required) {
    if (value->empty()) return absl::InvalidArgumentError(absl::StrCat(flag, ": missing"));
  }
  if (options.controller.find(':') == std::string::npos) {
    return absl::InvalidArgumentError(absl::StrCat("--controller: '", options.controller,
                                                   "' is neither HOST:PORT nor unix:PATH"));
  }
  const bool any_tls =
      options.tls.enabled() || !options.tls.certificate.empty() || !options.tls.key.empty();
  const bool all_tls =
      options.tls.enabled() && !options.tls.certificate.empty() && !options.tls.key.empty();
  if (any_tls && !all_tls) {
    return absl::InvalidArgumentError(
        "TLS needs all three: --tls-certificate, --tls-key and --tls-authority");
  }
  if (options.threads_per_device == 0) {
    const int processors = static_cast<int>(std::thread::hardware_concurrency());
    options.threads_per_device = std::clamp(processors / options.devices, 1, kMostThreads);
  }
  return options;
}

}  // namespace strata::worker
