#include "client/views/fit_beside_view.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "client/terminal/table.h"
#include "common/units.h"

namespace strata::client {
namespace {

using planner::ByteClass;

std::string SizeText(int64_t bytes) { return common::FormatBytes(static_cast<double>(bytes)); }

const char* WordOf(planner::Quantity quantity) {
  switch (quantity) {
    case planner::Quantity::kSequence:
      return "seq";
    case planner::Quantity::kMicroBatch:
      return "micro-batch";
    case planner::Quantity::kLayers:
      return "layers";
    case planner::Quantity::kDevices:
      return "devices";
  }
  return "";
}

const char* TitleOf(planner::Quantity quantity) {
  switch (quantity) {
    case planner::Quantity::kSequence:
      return "Longest sequence";
    case planner::Quantity::kMicroBatch:
      return "Largest micro-batch";
    case planner::Quantity::kLayers:
      return "Most layers";
    case planner::Quantity::kDevices:
      return "Fewest devices";
  }
  return "";
}

}  // namespace

std::string LargestText(planner::Quantity quantity, const planner::Largest& largest) {
  if (!largest.found) {
    return absl::StrCat("\n", TitleOf(quantity), ": none fits — even with ", largest.value, ", ",
                        largest.bound, "\n");
  }
  const bool fewest = quantity == planner::Quantity::kDevices;
  const bool many = fewest || quantity == planner::Quantity::kLayers;
  return absl::StrCat("\n", TitleOf(quantity), " that ", many ? "fit: " : "fits: ", largest.value,
                      " (", largest.fit.verdict.ToText(), ").\nOne ", fewest ? "less" : "step more",
                      " does not: ", largest.bound, "\n");
}

Json LargestJson(planner::Quantity quantity, const planner::Largest& largest) {
  return {{"of", WordOf(quantity)},
          {"value", largest.found ? Json(largest.value) : Json()},
          {"step", largest.step},
          {"bound", largest.bound}};
}

std::string AgainstText(const Against& against) {
  const planner::ZeroInfinityOptions& options = against.options;
  std::vector<std::vector<std::string>> rows;
  for (const planner::HostItem& item : against.items) {
    rows.push_back(
        {item.what, item.formula, SizeText(item.exact_bytes), SizeText(item.reserved_bytes)});
  }
  const int64_t theirs = planner::ReservedBytes(against.items);
  rows.push_back({"all", "", "", SizeText(theirs)});
  std::vector<std::vector<std::string>> own;
  for (int c = 0; c < planner::kByteClassCount; ++c) {
    const auto klass = static_cast<ByteClass>(c);
    if (against.host.of(klass) != 0) own.push_back({Name(klass), SizeText(against.host.of(klass))});
  }
  own.push_back({"all", SizeText(against.host.arena_bytes)});
  const double part = static_cast<double>(against.host.arena_bytes) / static_cast<double>(theirs);
  return absl::StrFormat(
      "\nHost memory of a rank with everything on SSD.\nDeepSpeed ZeRO-Infinity, at edaa722 of "
      "2026-08-22, %s, gradients of %d B, sizes %s: N = %s, W = %d, S = %s (largest sub-group), E "
      "= "
      "%s (largest tensor)\n%s\nStrata, from its program:\n%s\nStrata holds %.1f %% of it; neither "
      "counts the process itself.\n",
      options.fp16 ? "fp16" : "bf16", options.gradient_bytes,
      options.pinned_by_torch ? "pinned by torch (powers of two)" : "exact",
      common::FormatDecimal(static_cast<double>(against.model.parameters), ""), options.ranks,
      common::FormatDecimal(static_cast<double>(against.model.largest_sub_group), ""),
      common::FormatDecimal(static_cast<double>(against.model.largest_tensor), ""),
      FormatTable({"ITEM", "FORMULA", "ASKED FOR", "RESERVED"}, rows),
      FormatTable({"CLASS", "BYTES"}, own), 100 * part);
}

Json AgainstJson(const Against& against) {
  Json items = Json::array();
  for (const planner::HostItem& item : against.items) {
    items.push_back({{"what", item.what},
                     {"formula", item.formula},
                     {"bytes", item.exact_bytes},
                     {"reserved_bytes", item.reserved_bytes}});
  }
  return {{"name", "zero-infinity"},
          {"version", "DeepSpeed edaa722 (2026-08-22)"},
          {"precision", against.options.fp16 ? "fp16" : "bf16"},
          {"pinned", against.options.pinned_by_torch ? "powers of two" : "exact"},
          {"items", std::move(items)},
          {"reserved_bytes", planner::ReservedBytes(against.items)},
          {"strata_bytes", against.host.arena_bytes}};
}

}  // namespace strata::client
