#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "topology/device_kind.h"
#include "topology/import/fabric.h"

namespace strata::topology {
namespace {

using Json = nlohmann::json;

constexpr char kGpus[] = "nvidia.com/gpu";

// The member, or null where there is none.
const Json& Member(const Json& value, const char* key) {
  static const Json& nothing = *new Json();
  const auto at = value.is_object() ? value.find(key) : value.end();
  return value.is_object() && at != value.end() ? *at : nothing;
}

std::string TextOf(const Json& value) { return value.is_string() ? value.get<std::string>() : ""; }

bool IsHealthy(const Json& node) {
  const Json& spec = Member(node, "spec");
  if (Member(spec, "unschedulable") == true) return false;
  for (const Json& taint : Member(spec, "taints")) {
    const std::string effect = TextOf(Member(taint, "effect"));
    // The taint that keeps other work off GPU nodes is no illness.
    if (TextOf(Member(taint, "key")) == kGpus || effect == "PreferNoSchedule") continue;
    return false;
  }
  for (const Json& condition : Member(Member(node, "status"), "conditions")) {
    if (TextOf(Member(condition, "type")) != "Ready") continue;
    return TextOf(Member(condition, "status")) == "True";
  }
  return false;  // nothing is known of it
}

// `otherwise`: where the node says nothing about them.
absl::StatusOr<int> DevicesOf(const Json& node, int otherwise) {
  const Json& text = Member(Member(Member(node, "status"), "allocatable"), kGpus);
  if (text.is_null()) return otherwise;
  int devices = -1;
  const std::string digits = text.is_string() ? text.get<std::string>() : text.dump();
  if (!absl::SimpleAtoi(digits, &devices) || devices < 0 || devices > kMostDevices) {
    return absl::InvalidArgumentError(absl::StrCat("status.allocatable[", kGpus, "]: must be 0 to ",
                                                   kMostDevices, ", not ", digits.substr(0, 40)));
  }
  return devices;
}

// Where a text stops being JSON.
struct ErrorFinder : nlohmann::json_sax<Json> {
  size_t at = 0;

  bool null() override { return true; }
  bool boolean(bool) override { return true; }
  bool number_integer(number_integer_t) override { return true; }
  bool number_unsigned(number_unsigned_t) override { return true; }
  bool number_float(number_float_t, const string_t&) override { return true; }
  bool string(string_t&) override { return true; }
  bool binary(binary_t&) override { return true; }
  bool start_object(size_t) override { return true; }
  bool key(string_t&) override { return true; }
  bool end_object() override { return true; }
  bool start_array(size_t) override { return true; }
  bool end_array() override { return true; }
  bool parse_error(size_t position, const std::string&, const Json::exception&) override {
    at = position == 0 ? 0 : position - 1;
    return false;
  }
};

// "LINE:COLUMN" of the first byte that is no JSON.
std::string PlaceOfError(absl::string_view text) {
  ErrorFinder finder;
  Json::sax_parse(text.begin(), text.end(), &finder);
  const absl::string_view before = text.substr(0, std::min(finder.at, text.size()));
  const size_t line_start = before.rfind('\n') + 1;  // 0 where there is none
  return absl::StrCat(1 + std::count(before.begin(), before.end(), '\n'), ":",
                      1 + before.size() - line_start);
}

}  // namespace

absl::StatusOr<Description> ReadKubernetes(const std::string& file, absl::string_view text,
                                           const ImportOptions& options) {
  const auto invalid = [&](const auto&... what) {
    return absl::InvalidArgumentError(absl::StrCat(file, ": ", what...));
  };
  const Json root = Json::parse(text.begin(), text.end(), nullptr, false);
  if (root.is_discarded()) {
    return absl::InvalidArgumentError(absl::StrCat(file, ":", PlaceOfError(text),
                                                   ": not JSON — kubectl get nodes -o json "
                                                   "writes it"));
  }
  Json one = Json::array();
  if (TextOf(Member(root, "kind")) == "Node") one.push_back(root);
  const Json& items = one.empty() ? Member(root, "items") : one;
  if (!items.is_array()) return invalid("items: must be the list of nodes");
  if (items.empty()) return invalid("items: there are no nodes in it");

  Description description;
  for (const auto& [level, labels] : options.labels) description.levels.push_back(level);
  description.domain_level = description.levels.empty() ? "" : description.levels.back();
  std::vector<bool> used(description.levels.size(), false);
  for (size_t i = 0; i < items.size(); ++i) {
    const std::string object = TextOf(Member(items[i], "kind"));
    if (!object.empty() && object != "Node") {
      return invalid("items[", i, "]: a ", object.substr(0, 40),
                     " is no node — kubectl get nodes -o json lists them");
    }
    const Json& metadata = Member(items[i], "metadata");
    Node node{.name = TextOf(Member(metadata, "name")), .kind = options.device};
    if (node.name.empty()) return invalid("items[", i, "].metadata.name: required key is missing");
    const absl::StatusOr<int> devices = DevicesOf(items[i], options.devices);
    if (!devices.ok()) {
      return invalid("items[", i, "] (", node.name, "): ", devices.status().message());
    }
    node.devices = *devices;
    if (node.devices == 0) continue;  // runs no ranks: control plane, storage
    const Json& labels = Member(metadata, "labels");
    const std::string product = TextOf(Member(labels, "nvidia.com/gpu.product"));
    if (!product.empty()) node.kind = KindOfProduct(product);
    if (node.kind.empty()) node.kind = "gpu";
    for (int device = 0; device < node.devices; ++device) node.free.push_back(device);
    node.healthy = IsHealthy(items[i]);
    for (size_t level = 0; level < options.labels.size(); ++level) {
      std::string value;
      for (const std::string& label : options.labels[level].second) {
        if (value.empty()) value = TextOf(Member(labels, label.c_str()));
      }
      used[level] = used[level] || !value.empty();
      node.at.push_back(std::move(value));
    }
    description.nodes.push_back(std::move(node));
  }
  if (description.nodes.empty()) {
    return invalid("no node has ", kGpus, " — --device KIND --devices N takes nodes without");
  }
  // Levels that no node has a value of are left out, but the domain's: nodes stand alone there.
  for (size_t level = used.size(); level-- > 0;) {
    if (used[level] || level + 1 == used.size()) continue;
    description.levels.erase(description.levels.begin() + static_cast<std::ptrdiff_t>(level));
    for (Node& node : description.nodes) {
      node.at.erase(node.at.begin() + static_cast<std::ptrdiff_t>(level));
    }
  }
  return description;
}

}  // namespace strata::topology
