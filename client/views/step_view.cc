#include "client/views/step_view.h"

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "client/terminal/table.h"
#include "common/units.h"
#include "protocol/path_stalls.h"
#include "protocol/step_record.h"

namespace strata::client {
namespace {

std::string SecondsText(double seconds) {
  return seconds > 0 ? absl::StrFormat("%.4g s", seconds) : "-";
}

double Rate(int64_t bytes, double seconds) {
  return seconds > 0 ? static_cast<double>(bytes) / seconds : 0;
}

std::string RateText(double rate) {
  return rate > 0 ? absl::StrCat(common::FormatBytes(rate), "/s") : "-";
}

std::string Size(int64_t bytes) { return common::FormatBytes(static_cast<double>(bytes)); }

std::string Indented(const std::string& table) {
  return absl::StrCat("  ", absl::StrJoin(absl::StrSplit(table, '\n', absl::SkipEmpty()), "\n  "),
                      "\n");
}

std::string DescribeTransfers(const v1::StepRecord& record) {
  if (record.transfers().empty()) return "";
  std::vector<std::vector<std::string>> rows;
  for (const v1::Transfer& transfer : record.transfers()) {
    rows.push_back({transfer.stream(), Size(transfer.bytes()), Size(transfer.total_bytes()),
                    RateText(Rate(transfer.bytes(), transfer.seconds())),
                    SecondsText(transfer.seconds()), SecondsText(transfer.stall_seconds())});
  }
  return Indented(FormatTable({"TRANSFER", "BYTES", "TOTAL", "RATE", "BUSY", "STALL"}, rows));
}

std::string DescribePaths(const v1::TierMemory& tier,
                          const std::vector<protocol::PathStall>& stalls) {
  if (tier.paths().empty()) return "";
  std::vector<std::vector<std::string>> rows;
  for (int p = 0; p < tier.paths_size(); ++p) {
    const v1::PathTraffic& path = tier.paths(p);
    const auto add = [&](const char* direction, int64_t bytes, int64_t total, double seconds,
                         double stall) {
      rows.push_back(
          {path.path(), direction, Size(bytes), Size(total), RateText(Rate(bytes, seconds)),
           SecondsText(seconds), SecondsText(stall),
           absl::StrFormat("%.3g (most %d)", path.mean_queue_depth(), path.most_queue_depth())});
    };
    add("read", path.read_bytes(), path.total_read_bytes(), path.read_seconds(), stalls[p].read);
    add("write", path.written_bytes(), path.total_written_bytes(), path.write_seconds(),
        stalls[p].write);
  }
  const double gib = static_cast<double>(tier.read_bytes() + tier.written_bytes()) / common::kGiB;
  return absl::StrCat(
      Indented(FormatTable(
          {"SSD PATH", "", "BYTES", "TOTAL", "RATE", "BUSY", "STALL", "QUEUE DEPTH"}, rows)),
      "  writes are ",
      tier.write_rate() > 0 ? absl::StrCat("spread to ", RateText(tier.write_rate())) : "not paced",
      "; busiest 100 ms: ", Size(tier.busiest_read_bytes()), " read, ",
      Size(tier.busiest_written_bytes()), " written",
      gib > 0 ? absl::StrFormat("; %.3g processor seconds per GiB", tier.processor_seconds() / gib)
              : "",
      "\n");
}

std::string DescribePages(const v1::TierMemory& tier) {
  if (!tier.has_locked_bytes()) return "";
  std::string text = absl::StrCat("  ", tier.tier(), " arena of ", Size(tier.arena_bytes()), ": ",
                                  Size(tier.locked_bytes()), " locked, ", Size(tier.huge_bytes()),
                                  " on huge pages");
  if (tier.has_misplaced_bytes()) {
    absl::StrAppend(&text, ", ", Size(tier.misplaced_bytes()), " on another NUMA node");
  }
  return absl::StrCat(text, tier.lacks().empty() ? "" : " — ", tier.lacks(), "\n");
}

Json PurposesJson(const v1::StepRecord& record) {
  Json purposes = Json::object();
  for (const v1::PurposeSeconds& purpose : record.purposes()) {
    purposes[purpose.purpose()] = {{"compute", purpose.compute_seconds()},
                                   {"exposed", purpose.exposed_seconds()},
                                   {"background", purpose.background_seconds()}};
  }
  return purposes;
}

}  // namespace

Json StepJson(const v1::StepRecord& record) {
  // The rest as in the metrics file.
  Json whole = Json::parse(protocol::StepLine(record, ""));
  return {
      {"step", record.step()},
      {"seconds", record.seconds()},
      {"purposes", PurposesJson(record)},
      {"memory", std::move(whole["memory"])},
      {"transfers", record.transfers().empty() ? Json::object() : std::move(whole["transfers"])}};
}

std::string DescribeStep(const v1::StepRecord& record) {
  double compute = 0, exposed = 0;
  std::vector<std::vector<std::string>> rows;
  for (const v1::PurposeSeconds& purpose : record.purposes()) {
    compute += purpose.compute_seconds();
    exposed += purpose.exposed_seconds();
    rows.push_back({purpose.purpose(), SecondsText(purpose.compute_seconds()),
                    SecondsText(purpose.exposed_seconds()),
                    SecondsText(purpose.background_seconds())});
  }
  std::string memory;
  for (const v1::TierMemory& tier : record.memory()) {
    absl::StrAppend(&memory, DescribePages(tier),
                    DescribePaths(tier, protocol::StallsByPath(record, tier)));
  }
  return absl::StrCat(
      absl::StrFormat("Step %d:  %s, of which rank 0 computed %s and waited %s\n", record.step(),
                      SecondsText(record.seconds()), SecondsText(compute), SecondsText(exposed)),
      Indented(FormatTable({"PURPOSE", "COMPUTE", "EXPOSED", "BACKGROUND"}, rows)),
      DescribeTransfers(record), memory);
}

}  // namespace strata::client
