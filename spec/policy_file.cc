#include "spec/policy_file.h"

#include <algorithm>
#include <map>
#include <memory>
#include <set>

#include "absl/strings/str_cat.h"
#include "spec/reader.h"
#include "spec/writer.h"
#include "spec/yaml_tree.h"

namespace strata::spec {
namespace {

constexpr size_t kLongestName = 63;
constexpr int kMostEntries = 1000;  // projects, or queues

bool IsLowerOrDigit(char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9'); }

bool IsName(const std::string& name) {
  if (name.empty() || name.size() > kLongestName || name.front() == '-' || name.back() == '-') {
    return false;
  }
  return std::all_of(name.begin(), name.end(),
                     [](char c) { return IsLowerOrDigit(c) || c == '-'; });
}

// A device's kind as nodes and topology files name it, or "*".
bool IsKind(const std::string& kind) {
  if (kind == "*") return true;
  if (kind.empty() || kind.size() > kLongestName) return false;
  return std::all_of(kind.begin(), kind.end(), [](char c) {
    return IsLowerOrDigit(c) || (c >= 'A' && c <= 'Z') || c == '-' || c == '_' || c == '.';
  });
}

class PolicyCheck {
 public:
  PolicyCheck(const PolicyFile& file, Problems& problems) : file_(file), problems_(problems) {}

  template <typename Entries>
  void CheckNames(const std::string& list, const Entries& entries) {
    if (entries.size() > kMostEntries) {
      Report(list, absl::StrCat("has ", entries.size(), " entries"),
             absl::StrCat("at most ", kMostEntries, " are allowed"));
    }
    std::map<std::string, int> seen;
    for (int i = 0; i < entries.size(); ++i) {
      const std::string path = absl::StrCat(list, "[", i, "].name");
      const std::string& name = entries.Get(i).name();
      if (!entries.Get(i).has_name()) {
        Report(path, "required key is missing", "give it a name, such as {name: nlp}");
      } else if (!IsName(name)) {
        Report(path, absl::StrCat(Shown(name), " is no name"),
               "use 1 to 63 of a-z, 0-9 and '-', not '-' at its ends");
      } else if (const auto [first, fresh] = seen.try_emplace(name, i); !fresh) {
        Report(
            path,
            absl::StrCat(name, " stands here twice (it is ", list, "[", first->second, "], too)"),
            "remove one of them");
      }
    }
  }

  void CheckBuffer() {
    if (!file_.policy.scheduling().has_buffer()) return;
    const v1::BufferPolicy& buffer = file_.policy.scheduling().buffer();
    if (!buffer.has_level()) {
      Report("scheduling.buffer.level", "required key is missing",
             "name a level of the topology, such as zone, or cluster");
    }
    if (!buffer.has_nodes() && !buffer.has_fraction()) {
      Report("scheduling.buffer.nodes", "required key is missing",
             "say how many nodes of each group are held back, such as 2, or 2%");
    }
  }

  void CheckQuotas() {
    for (int i = 0; i < file_.policy.projects_size(); ++i) {
      const auto& quota = file_.policy.projects(i).quota();
      for (const auto& [kind, devices] :
           std::map<std::string, int64_t>(quota.begin(), quota.end())) {
        if (IsKind(kind)) continue;
        Report(PathOf(absl::StrCat("projects[", i, "].quota"), kind),
               absl::StrCat(Shown(kind), " is no kind of device"),
               "name one, such as h100, or \"*\" for all kinds together");
      }
    }
  }

 private:
  void Report(const std::string& path, std::string what, std::string remedy) {
    if (problems_.Concerns(path)) return;
    problems_.Add({file_.positions.Of(path), path, std::move(what), std::move(remedy)});
  }

  const PolicyFile& file_;
  Problems& problems_;
};

}  // namespace

PolicyFile ReadPolicy(absl::string_view text, Problems& problems) {
  PolicyFile file;
  const std::unique_ptr<YamlNode> root = ParseYaml(text, problems);
  if (root == nullptr) return file;
  ReadTree(*root, "projects: [{name: nlp, quota: {h100: 64}}]", file.policy, file.positions,
           problems);
  PolicyCheck check(file, problems);
  check.CheckNames("projects", file.policy.projects());
  check.CheckNames("queues", file.policy.queues());
  check.CheckQuotas();
  check.CheckBuffer();
  return file;
}

std::string WritePolicy(const v1::Policy& policy) { return WriteFile(policy); }

}  // namespace strata::spec
