#include <numeric>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "spec/scalars.h"
#include "topology/import/topology_file.h"

namespace strata::topology {
namespace {

// A text that YAML reads as it is, or the same in quotes.
std::string Scalar(absl::string_view text) {
  bool plain = !text.empty() && absl::ascii_isalpha(text[0]);
  for (const char c : text) {
    plain = plain && (absl::ascii_isalnum(c) || c == '_' || c == '-' || c == '.' || c == '/');
  }
  if (plain && absl::AsciiStrToLower(text) != "null") return std::string(text);
  std::string quoted = "\"";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      absl::StrAppend(&quoted, "\\", absl::string_view(&c, 1));
    } else if (byte < 0x20 || byte == 0x7f) {
      absl::StrAppendFormat(&quoted, "\\x%02x", byte);
    } else {
      quoted.push_back(c);
    }
  }
  return quoted + "\"";
}

void ScalarTo(std::string* out, const std::string& text) { absl::StrAppend(out, Scalar(text)); }

std::string LinkText(const Link& link) {
  std::string text =
      absl::StrCat("{bytes_per_second: ", spec::ShortestNumber(link.bytes_per_second),
                   ", latency_seconds: ", spec::ShortestNumber(link.latency_seconds));
  if (link.oversubscription != 1) {
    absl::StrAppend(&text, ", oversubscription: ", spec::ShortestNumber(link.oversubscription));
  }
  return text + "}";
}

std::string FreeText(const Node& node) {
  std::vector<int> first(node.free.size());
  std::iota(first.begin(), first.end(), 0);
  if (node.free != first) return absl::StrCat("[", absl::StrJoin(node.free, ", "), "]");
  return absl::StrCat(node.free.size());
}

}  // namespace

std::string WriteTopologyFile(const Description& description) {
  std::string text =
      absl::StrCat("levels: [", absl::StrJoin(description.levels, ", ", ScalarTo), "]\n");
  if (!description.domain_level.empty()) {
    absl::StrAppend(&text, "domain_level: ", Scalar(description.domain_level), "\n");
  }
  if (!description.pipeline_level.empty()) {
    absl::StrAppend(&text, "pipeline_level: ", Scalar(description.pipeline_level), "\n");
  }
  if (!description.links.empty()) absl::StrAppend(&text, "links:\n");
  for (const auto& [level, link] : description.links) {
    absl::StrAppend(&text, "  ", Scalar(level), ": ", LinkText(link), "\n");
  }
  absl::StrAppend(&text, description.nodes.empty() ? "nodes: []\n" : "nodes:\n");
  for (const Node& node : description.nodes) {
    absl::StrAppend(&text, "  - {name: ", Scalar(node.name));
    const char* separator = ", at: {";
    for (size_t i = 0; i < node.at.size(); ++i) {
      if (node.at[i].empty()) continue;
      absl::StrAppend(&text, separator, Scalar(description.levels[i]), ": ", Scalar(node.at[i]));
      separator = ", ";
    }
    if (separator[2] == '\0') absl::StrAppend(&text, "}");
    absl::StrAppend(&text, ", device: ", Scalar(node.kind), ", devices: ", node.devices);
    if (static_cast<int>(node.free.size()) != node.devices) {
      absl::StrAppend(&text, ", free: ", FreeText(node));
    }
    absl::StrAppend(&text, node.healthy ? "}\n" : ", healthy: false}\n");
  }
  return text;
}

}  // namespace strata::topology
