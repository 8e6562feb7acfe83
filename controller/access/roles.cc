#include "controller/access/roles.h"

#include <algorithm>
#include <iterator>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"

namespace strata::controller {
namespace {

// What a role may do with a method.
constexpr char kNever = '-';
constexpr char kOwn = 'o';      // to jobs of the role's project that the caller owns
constexpr char kProject = 'p';  // to jobs of the role's project
constexpr char kItself = 'n';   // to the node that calls
constexpr char kAlways = '*';

struct Row {
  // One letter per role: viewer, submitter, project-admin, operator, admin, metrics, node; then
  // anybody, known or not.
  const char* reach;
  const char* method;
};

constexpr Row kTable[] = {
    // v s p o a m n any
    {"- p p - * - - -", "JobService/CreateJob"},
    {"p p p * * - - -", "JobService/GetJob"},
    {"p p p * * - - -", "JobService/ListJobs"},
    {"p p p * * - - -", "JobService/WatchJobs"},
    {"p p p * * - - -", "JobService/ExplainJob"},
    {"p p p * * - - -", "JobService/ListJobEvents"},
    {"p p p * * - - -", "JobService/StreamLogs"},
    {"p p p * * - - -", "JobService/StreamProgress"},
    {"- o p - * - - -", "JobService/UpdateJob"},
    {"- o p - * - - -", "JobService/DeleteJob"},
    {"- o p * * - - -", "JobService/SuspendJob"},
    {"- o p * * - - -", "JobService/ResumeJob"},
    {"- o p * * - - -", "JobService/CancelJob"},
    {"- o p * * - - -", "JobService/CancelJobs"},

    {"* * * * * - - -", "ClusterService/GetCluster"},
    {"* * * * * - - -", "ClusterService/GetTopology"},
    {"* * * * * - - -", "ClusterService/ListPlanFamilies"},
    {"* * * * * - - -", "ClusterService/GetNode"},
    {"* * * * * - - -", "ClusterService/ListNodes"},
    {"* * * * * - - -", "ClusterService/WatchNodes"},
    {"- - - * * - - -", "ClusterService/DrainNode"},
    {"- - - * * - - -", "ClusterService/DrainNodes"},
    {"- - - * * - - -", "ClusterService/ResumeNode"},
    {"- - - * * - - -", "ClusterService/DeleteNode"},
    {"- - - * * - - -", "ClusterService/GetPolicy"},
    {"- - - - * - - -", "ClusterService/ApplyPolicy"},
    {"- - - - * - - -", "ClusterService/BackupCluster"},

    {"* * * * * * * *", "AccessService/GetIdentity"},
    {"* * * * * * * *", "AccessService/EnrollNode"},  // a token or a certificate allows it
    {"- - - - * - - -", "AccessService/CreateJoinToken"},
    {"- - - - * - - -", "AccessService/ListJoinTokens"},
    {"- - - - * - - -", "AccessService/DeleteJoinToken"},
    {"- - - - * - - -", "AccessService/ListAuditRecords"},

    {"- - - - - - n -", "AgentService/Session"},

    {"- - - * * * - -", "GET /metrics"},
};

struct RoleName {
  Role role;
  const char* name;
  bool of_project;
};
constexpr RoleName kRoles[] = {
    {Role::kViewer, "viewer", true},
    {Role::kSubmitter, "submitter", true},
    {Role::kProjectAdmin, "project-admin", true},
    {Role::kOperator, "operator", false},
    {Role::kAdmin, "admin", false},
    {Role::kMetrics, "metrics", false},
};
constexpr char kNodeRole[] = "node";
constexpr size_t kAnybody = std::size(kRoles) + 1;  // column
constexpr char kHowToGet[] =
    " — strata whoami tells the roles one has; an admin gives others with strata apply (roles:)";

char ReachOf(absl::string_view reach, size_t column) { return reach[2 * column]; }
char ReachOf(absl::string_view reach, Role role) {
  return ReachOf(reach, static_cast<size_t>(role));
}

const char* FindReach(absl::string_view method) {
  const Row* const row = std::find_if(std::begin(kTable), std::end(kTable),
                                      [&](const Row& each) { return method == each.method; });
  return row == std::end(kTable) ? nullptr : row->reach;
}

bool IsMember(const Identity& identity, const std::string& member) {
  if (member == "*") return true;
  absl::string_view name = member;
  if (absl::ConsumePrefix(&name, "users/")) return name == identity.name;
  return absl::ConsumePrefix(&name, "groups/") &&
         std::find(identity.groups.begin(), identity.groups.end(), name) != identity.groups.end();
}

std::vector<HeldRole> BoundRoles(const Identity& identity, const v1::Policy& policy) {
  std::vector<HeldRole> held;
  for (const v1::RoleBinding& binding : policy.roles()) {
    const std::optional<Role> role = FindRole(binding.role());
    const bool bound =
        std::any_of(binding.members().begin(), binding.members().end(),
                    [&](const std::string& member) { return IsMember(identity, member); });
    if (!role.has_value() || !bound) continue;
    const bool all = !IsOfProject(*role) || binding.project().empty();
    held.push_back({*role, all ? kAllProjects : binding.project()});
  }
  return held;
}

bool Covers(const HeldRole& held, const std::string& project) {
  return held.project == kAllProjects || held.project == project;
}

// "job x", "node n0".
std::string TargetText(const Target& target) {
  const size_t slash = target.name.find('/');
  if (slash == std::string::npos) return target.name;
  return absl::StrCat(target.is_job ? "job " : "node ", target.name.substr(slash + 1));
}

// "the role submitter (for jobs of one's own) or project-admin in project nlp, or admin".
std::string Needed(absl::string_view reach, const Target& target) {
  std::vector<std::string> in_project, anywhere;
  for (const RoleName& role : kRoles) {
    const char its = ReachOf(reach, role.role);
    if (its == kNever) continue;
    const std::string name =
        its == kOwn ? absl::StrCat(role.name, " (for jobs of one's own)") : role.name;
    (role.of_project ? in_project : anywhere).push_back(name);
  }
  std::vector<std::string> parts;
  if (!in_project.empty()) {
    const bool named = target.is_job && target.project.has_value();
    parts.push_back(absl::StrCat(absl::StrJoin(in_project, " or "),
                                 named ? absl::StrCat(" in project ", *target.project) : ""));
  }
  if (!anywhere.empty()) parts.push_back(absl::StrJoin(anywhere, " or "));
  if (ReachOf(reach, Role::kNode) == kItself) parts.push_back("the node's own certificate");
  return absl::StrJoin(parts, ", or ");
}

}  // namespace

std::string NameOf(Role role) {
  for (const RoleName& each : kRoles) {
    if (each.role == role) return each.name;
  }
  return kNodeRole;
}

std::optional<Role> FindRole(absl::string_view name) {
  for (const RoleName& each : kRoles) {
    if (name == each.name) return each.role;
  }
  return std::nullopt;
}

bool IsOfProject(Role role) {
  for (const RoleName& each : kRoles) {
    if (each.role == role) return each.of_project;
  }
  return false;
}

Rights::Rights(const Identity& identity, const v1::Policy& policy,
               const std::vector<std::string>& standing_admins)
    : caller_(identity.ToString()), unrestricted_(identity.is_owner || identity.is_unprotected()) {
  if (identity.kind == Identity::Kind::kUser) {
    roles_ = BoundRoles(identity, policy);
    const bool standing =
        std::find(standing_admins.begin(), standing_admins.end(), caller_) != standing_admins.end();
    if (standing) roles_.push_back({Role::kAdmin, kAllProjects});
  }
  if (identity.kind == Identity::Kind::kNode) roles_.push_back({Role::kNode, kAllProjects});
  if (unrestricted_) roles_ = {{Role::kAdmin, kAllProjects}};
}

Decision Rights::Decide(absl::string_view method, const Target& target) const {
  const char* const reach = FindReach(method);
  if (reach == nullptr) {
    return {.reason = absl::StrCat("nobody may do ", method, ": no role allows it")};
  }
  if (Allows(reach, target)) return {.allowed = true};
  if (caller_.empty()) {
    return {.unknown = true,
            .reason = absl::StrCat(method,
                                   " is for callers who say who they are: connect through the "
                                   "controller's Unix socket or with a certificate")};
  }
  return {.reason = WhyNot(method, reach, target)};
}

bool Rights::Allows(absl::string_view reach, const Target& target) const {
  if (unrestricted_ || ReachOf(reach, kAnybody) == kAlways) return true;
  return std::any_of(roles_.begin(), roles_.end(), [&](const HeldRole& held) {
    const bool covers =
        target.project.has_value() ? Covers(held, *target.project) : held.project == kAllProjects;
    const bool each_is_asked = target.name.empty() && !target.project.has_value();
    switch (ReachOf(reach, held.role)) {
      case kAlways:
        return true;
      case kProject:
        return each_is_asked || covers;
      case kOwn:  // of a job that does not exist the method itself tells
        return each_is_asked ||
               (covers && (!target.project.has_value() || target.owner == caller_));
      case kItself:
        return target.name == caller_;
      default:
        return false;
    }
  });
}

bool Rights::Sees(const std::string& project) const {
  const Target job = {.name = "jobs/any", .project = project, .is_job = true};
  return Allows(FindReach("JobService/GetJob"), job);
}

std::string Rights::WhyNot(absl::string_view method, absl::string_view reach,
                           const Target& target) const {
  const std::string what = absl::StrCat(caller_, " may not do ", method,
                                        target.name.empty() ? "" : " on ", TargetText(target));
  if (target.is_job && !target.name.empty() &&
      !(target.project.has_value() && Sees(*target.project))) {
    // The same whether it exists or not.
    return absl::StrCat(what, ": there is no such job, or it is of a project in which ", caller_,
                        " has no role", kHowToGet);
  }
  return absl::StrCat(what, ": it takes ", Needed(reach, target), ", and ", caller_, " has ",
                      RolesText(), kHowToGet);
}

std::string Rights::RolesText() const {
  std::vector<std::string> parts;
  for (const HeldRole& held : roles_) {
    const bool project = held.project != kAllProjects;
    parts.push_back(
        absl::StrCat(NameOf(held.role), project ? absl::StrCat(" in project ", held.project) : ""));
  }
  return parts.empty() ? "no role" : absl::StrJoin(parts, ", ");
}

bool IsRevoked(const Identity& identity, const v1::Policy& policy) {
  if (identity.is_owner) return false;
  const std::string name = identity.ToString();
  const auto names = [&](absl::string_view who) {
    if (!absl::ConsumePrefix(&who, "serial:")) return who == name;
    return identity.certificate.has_value() &&
           absl::EqualsIgnoreCase(who, identity.certificate->serial);
  };
  return std::any_of(policy.revoked().begin(), policy.revoked().end(), names);
}

std::vector<std::string> MethodsOfTable() {
  std::vector<std::string> methods;
  for (const Row& row : kTable) methods.emplace_back(row.method);
  return methods;
}

}  // namespace strata::controller
