// Who may do what: one table of methods and roles, and the decision about one call.
//
// Roles come from the policy (RoleBinding). Beside them, a node may speak for itself alone, and the
// controller's own user, at its Unix socket, may do everything, so that no policy locks everybody
// out. Pure: no calls, no state.
#ifndef STRATA_CONTROLLER_ACCESS_ROLES_H_
#define STRATA_CONTROLLER_ACCESS_ROLES_H_

#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "controller/access/identity.h"
#include "proto/strata/v1/policy.pb.h"

namespace strata::controller {

// In the order of the table's columns.
enum class Role { kViewer, kSubmitter, kProjectAdmin, kOperator, kAdmin, kMetrics, kNode };

// "project-admin": as in policies.
std::string NameOf(Role role);
// Those that a policy can give; none for other names.
std::optional<Role> FindRole(absl::string_view name);
// Whether the role is one in a project; others are of the whole cluster.
bool IsOfProject(Role role);

inline constexpr char kAllProjects[] = "*";

struct HeldRole {
  Role role;
  std::string project;  // kAllProjects: all, and always so for roles of the whole cluster
};

// What a call is about.
struct Target {
  std::string name;  // jobs/NAME or nodes/NAME; empty: nothing by itself, such as a list
  // Of a job. Absent for a name that no job has.
  std::optional<std::string> project;
  std::string owner;  // users/NAME; empty: nobody known
  bool is_job = false;
};

struct Decision {
  bool allowed = false;
  bool unknown = false;  // refused, as nobody is known to call
  std::string reason;    // of a refusal: who lacks what, and how to get it
};

// Of one caller, under the policy of the moment.
class Rights {
 public:
  // Nobody's: everything is refused that asks for a role.
  Rights() = default;
  // `standing_admins`: users/NAME, admins whatever the policy says.
  Rights(const Identity& identity, const v1::Policy& policy,
         const std::vector<std::string>& standing_admins);

  // `method`: "JobService/GetJob", or "GET /metrics" for that page; one that the table does not
  // know is refused. A target without a name is allowed to who may do it to some jobs: which ones,
  // the method is to ask for each.
  Decision Decide(absl::string_view method, const Target& target) const;
  // Whether jobs of the project may be looked at.
  bool Sees(const std::string& project) const;
  bool SeesAll() const { return Sees(kAllProjects); }

  // Nothing tells callers apart here, or it is the controller's own user.
  bool unrestricted() const { return unrestricted_; }
  const std::vector<HeldRole>& roles() const { return roles_; }

 private:
  bool Allows(absl::string_view reach, const Target& target) const;
  std::string WhyNot(absl::string_view method, absl::string_view reach, const Target& target) const;
  std::string RolesText() const;

  std::string caller_;  // "users/ann"; empty: nobody known
  std::vector<HeldRole> roles_;
  bool unrestricted_ = false;
};

// Whether the policy says that nobody who shows himself so is to be believed. Never of the
// controller's own user.
bool IsRevoked(const Identity& identity, const v1::Policy& policy);

// All methods that the table knows, in its order.
std::vector<std::string> MethodsOfTable();

}  // namespace strata::controller

#endif  // STRATA_CONTROLLER_ACCESS_ROLES_H_
