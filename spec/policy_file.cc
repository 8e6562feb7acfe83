#include "spec/policy_file.h"

#include <algorithm>
#include <map>
#include <memory>
#include <set>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "common/path_roots.h"
#include "spec/policy_defaults.h"
#include "spec/reader.h"
#include "spec/scalars.h"
#include "spec/writer.h"
#include "spec/yaml_tree.h"

namespace strata::spec {
namespace {

constexpr size_t kLongestName = 63;
constexpr int kMostEntries = 1000;  // projects, or queues, or roles

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

// As certificates and operating systems have them.
bool IsIdentityName(absl::string_view name) {
  if (name.empty() || name.size() > kLongestName || name[0] == '-') return false;
  return std::all_of(name.begin(), name.end(), [](char c) {
    return IsLowerOrDigit(c) || (c >= 'A' && c <= 'Z') || c == '-' || c == '_' || c == '.';
  });
}

// users/NAME, groups/NAME or "*".
bool IsMember(absl::string_view member) {
  if (member == "*") return true;
  const bool prefixed =
      absl::ConsumePrefix(&member, "users/") || absl::ConsumePrefix(&member, "groups/");
  return prefixed && IsIdentityName(member);
}

// users/NAME, nodes/NAME, serial:HEX.
bool IsRevocable(absl::string_view who) {
  if (absl::ConsumePrefix(&who, "serial:")) {
    constexpr size_t kLongestSerial = 40;  // RFC 5280: 20 bytes
    return !who.empty() && who.size() <= kLongestSerial &&
           std::all_of(who.begin(), who.end(), absl::ascii_isxdigit);
  }
  const bool prefixed = absl::ConsumePrefix(&who, "users/") || absl::ConsumePrefix(&who, "nodes/");
  return prefixed && IsIdentityName(who);
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

  // What was written or, where it was not, its default.
  void CheckTiming() {
    const v1::TimingPolicy timing = CompletePolicy(file_.policy).timing();
    const auto report = [&](const char* key, double value, const char* relation, const char* other,
                            double limit) {
      Report(absl::StrCat("timing.", key),
             absl::StrCat(ShortestNumber(value), " s is ", relation, " ", other, " (",
                          ShortestNumber(limit), " s)"),
             absl::StrCat("raise it, or lower ", other));
    };
    const double heartbeat = timing.heartbeat_seconds(), lost = timing.node_lost_seconds();
    const double lease = timing.lease_seconds(), orphan = timing.orphan_seconds();
    if (lost < 2 * heartbeat) {
      report("node_lost_seconds", lost, "less than twice", "heartbeat_seconds", heartbeat);
    }
    if (lease <= lost) {
      report("lease_seconds", lease, "not more than", "node_lost_seconds", lost);
    }
    if (orphan > 0 && orphan <= lease) {
      report("orphan_seconds", orphan, "not more than", "lease_seconds", lease);
    }
    if (timing.hang_seconds() < timing.suspect_seconds()) {
      report("hang_seconds", timing.hang_seconds(), "less than", "suspect_seconds",
             timing.suspect_seconds());
    }
    if (const double forget = timing.forget_node_seconds(); forget > 0 && forget <= lease) {
      report("forget_node_seconds", forget, "not more than", "lease_seconds", lease);
    }
    if (timing.storage_seconds() < timing.hang_seconds()) {
      report("storage_seconds", timing.storage_seconds(), "less than", "hang_seconds",
             timing.hang_seconds());
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

  void CheckRoles() {
    const auto& roles = file_.policy.roles();
    if (roles.size() > kMostEntries) {
      Report("roles", absl::StrCat("has ", roles.size(), " entries"),
             absl::StrCat("at most ", kMostEntries, " are allowed"));
    }
    for (int i = 0; i < roles.size(); ++i) {
      const std::string path = absl::StrCat("roles[", i, "]");
      CheckRole(path, roles[i]);
      CheckMembers(path + ".members", roles[i]);
    }
  }

  void CheckRevoked() {
    const auto& revoked = file_.policy.revoked();
    if (revoked.size() > kMostEntries) {
      Report("revoked", absl::StrCat("has ", revoked.size(), " entries"),
             absl::StrCat("at most ", kMostEntries, " are allowed: take out what has expired"));
    }
    for (int i = 0; i < revoked.size(); ++i) {
      if (IsRevocable(revoked[i])) continue;
      Report(absl::StrCat("revoked[", i, "]"),
             absl::StrCat(Shown(revoked[i]), " is nobody and no certificate"),
             "write users/NAME, nodes/NAME, or serial:HEX as openssl x509 -serial tells it");
    }
  }

  void CheckRoots() {
    for (int i = 0; i < file_.policy.projects_size(); ++i) {
      const auto& roots = file_.policy.projects(i).roots();
      for (int j = 0; j < roots.size(); ++j) {
        if (common::LiesBeneath(roots[j], "/")) continue;
        Report(absl::StrCat("projects[", i, "].roots[", j, "]"),
               absl::StrCat(Shown(roots[j]), " is no absolute path"),
               "name a folder as the nodes see it, such as /data/nlp, without \"..\"");
      }
    }
  }

 private:
  void CheckRole(const std::string& path, const v1::RoleBinding& binding) {
    constexpr char kRoles[] =
        "the roles are viewer, submitter, project-admin, operator, admin and metrics";
    const std::string& role = binding.role();
    const std::string& project = binding.project();
    if (!binding.has_role()) {
      Report(path + ".role", "required key is missing", kRoles);
    } else if (!IsProjectRole(role) && !IsClusterRole(role)) {
      Report(path + ".role", absl::StrCat(Shown(role), " is no role"), kRoles);
    } else if (IsClusterRole(role) && binding.has_project()) {
      Report(path + ".project", absl::StrCat(role, " is a role in the whole cluster"),
             "remove this key, or give project-admin");
    } else if (binding.has_project() && project != "*" && !HasProject(project)) {
      Report(path + ".project",
             absl::StrCat("there is no project ", Shown(project), " in this file"),
             "declare it under projects:, or leave this key out for all projects");
    }
  }

  void CheckMembers(const std::string& path, const v1::RoleBinding& binding) {
    if (binding.members().empty()) {
      Report(path, "nobody has this role",
             "name such as [users/ann, groups/nlp], or \"*\" for all");
    }
    for (int i = 0; i < binding.members_size(); ++i) {
      if (IsMember(binding.members(i))) continue;
      Report(absl::StrCat(path, "[", i, "]"),
             absl::StrCat(Shown(binding.members(i)), " is no member"),
             "write users/NAME, groups/NAME, or \"*\" for everybody who is known");
    }
  }

  bool HasProject(const std::string& name) const {
    const auto& projects = file_.policy.projects();
    return name == kDefaultName ||
           std::any_of(projects.begin(), projects.end(),
                       [&](const v1::ProjectPolicy& each) { return each.name() == name; });
  }

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
  check.CheckRoles();
  check.CheckRevoked();
  check.CheckTiming();
  check.CheckRoots();
  check.CheckBuffer();
  return file;
}

std::string WritePolicy(const v1::Policy& policy) { return WriteFile(policy); }

}  // namespace strata::spec
