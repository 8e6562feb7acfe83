#include "controller/simulator/failures.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "controller/simulator/latencies.h"

namespace strata::simulator {
namespace {

int CountOf(const std::vector<Cause>& causes) {
  int count = 0;
  for (const Cause& cause : causes) count += cause.count;
  return count;
}

const char* MeaningOf(Effect effect) {
  switch (effect) {
    case Effect::kProcessDies:
      return "a trainer ends, its agent says so at once; restarted in place";
    case Effect::kDeviceDies:
      return "the same, and the node leaves for repair with all that runs on it";
    case Effect::kPowerLoss:
      return "the node is gone without a word; peers miss it, or its lease runs out";
    case Effect::kHang:
      return "a rank stops moving; its agent's verdict ends it";
    case Effect::kUnreachable:
      return "the node lives but nobody reaches it; its trainers end as orphans";
    case Effect::kSwitch:
      return "the same for all nodes below its innermost shared switch (at most 64)";
    case Effect::kMaintenance:
      return "drained with notice, taken away, brought back";
  }
  return "";
}

}  // namespace

const char* NameOf(Effect effect) {
  switch (effect) {
    case Effect::kProcessDies:
      return "process dies";
    case Effect::kDeviceDies:
      return "device dies";
    case Effect::kPowerLoss:
      return "power loss";
    case Effect::kHang:
      return "hang";
    case Effect::kUnreachable:
      return "unreachable";
    case Effect::kSwitch:
      return "switch";
    case Effect::kMaintenance:
      return "maintenance";
  }
  return "";
}

const std::vector<Cause>& PublishedCauses() {
  static const auto& causes = *new std::vector<Cause>{
      {"faulty GPU", 148, Effect::kDeviceDies, 8},
      {"GPU HBM3 memory", 72, Effect::kDeviceDies, 1},
      {"software bug", 54, Effect::kProcessDies, 0},
      {"network switch/cable", 35, Effect::kSwitch, 2},
      {"host maintenance", 32, Effect::kMaintenance, 2},
      {"GPU SRAM memory", 19, Effect::kDeviceDies, 1},
      {"GPU system processor", 17, Effect::kHang, 1},
      {"NIC", 7, Effect::kUnreachable, 4},
      {"NCCL watchdog timeout", 7, Effect::kHang, 0},
      {"silent data corruption", 6, Effect::kDeviceDies, 24},
      {"GPU thermal interface", 6, Effect::kDeviceDies, 2},
      {"SSD", 3, Effect::kDeviceDies, 8},
      {"power supply", 3, Effect::kPowerLoss, 8},
      {"server chassis", 2, Effect::kPowerLoss, 24},
      {"I/O expansion board", 2, Effect::kPowerLoss, 24},
      {"dependency", 2, Effect::kProcessDies, 0},
      {"CPU", 2, Effect::kPowerLoss, 24},
      {"system memory", 2, Effect::kPowerLoss, 8},
  };
  return causes;
}

double RatePerNodeSecond(const std::vector<Cause>& causes, double scale) {
  return scale * CountOf(causes) / (kPublishedDays * kDaySeconds * kPublishedNodes);
}

int DrawCause(const std::vector<Cause>& causes, common::Random& random) {
  int64_t left = random.Below(CountOf(causes));
  int cause = 0;
  while (left >= causes[cause].count) left -= causes[cause++].count;
  return cause;
}

std::string ExplainFailures() {
  const std::vector<Cause>& causes = PublishedCauses();
  std::string text = absl::StrFormat(
      "Failures: a Poisson process on every node that is up, %.2f per 1,000 node-days (Llama 3 "
      "405B:\n"
      "%d in %.0f days on %.0f nodes). Counts are published; effects and repairs are "
      "assumptions.\n\n"
      "%-24s %5s  %-13s %s\n",
      RatePerNodeSecond(causes, 1) * kDaySeconds * 1000, CountOf(causes), kPublishedDays,
      kPublishedNodes, "CAUSE", "COUNT", "EFFECT", "REPAIR (MEAN)");
  for (const Cause& cause : causes) {
    absl::StrAppendFormat(
        &text, "%-24s %5d  %-13s %s\n", cause.name, cause.count, NameOf(cause.effect),
        cause.repair_hours > 0 ? absl::StrFormat("%g h", cause.repair_hours) : "none");
  }
  absl::StrAppend(&text, "\n");
  for (const Effect effect :
       {Effect::kProcessDies, Effect::kDeviceDies, Effect::kPowerLoss, Effect::kHang,
        Effect::kUnreachable, Effect::kSwitch, Effect::kMaintenance}) {
    absl::StrAppendFormat(&text, "%-13s %s\n", NameOf(effect), MeaningOf(effect));
  }
  absl::StrAppend(&text, "\n", ExplainLatencies());
  return text;
}

}  // namespace strata::simulator
