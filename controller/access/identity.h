// Who speaks to the controller, and how that is known.
#ifndef STRATA_CONTROLLER_ACCESS_IDENTITY_H_
#define STRATA_CONTROLLER_ACCESS_IDENTITY_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace strata::controller {

struct Identity {
  enum class Kind { kNobody, kUser, kNode, kController };

  Kind kind = Kind::kNobody;
  std::string name;                 // alice, n0; empty: nobody, the controller
  std::string by = "none";          // unix, tls, munge; none: nothing tells who speaks
  std::vector<std::string> groups;  // of a user: names, without groups/
  // The controller's own user or root, over its Unix socket: whoever has its files already.
  bool is_owner = false;

  // users/NAME, nodes/NAME, controller; empty: nobody.
  std::string ToString() const;
  // Nothing tells callers apart: connections without any protection.
  bool is_unprotected() const { return kind == Kind::kNobody && by == "none"; }
  bool operator==(const Identity& other) const = default;
};

// From users/NAME, nodes/NAME or controller, known by `by`. InvalidArgument: it is none of these,
// or the name is not [A-Za-z0-9_][-A-Za-z0-9._]{0,62}.
absl::StatusOr<Identity> ParseIdentity(absl::string_view text, absl::string_view by);

}  // namespace strata::controller

#endif  // STRATA_CONTROLLER_ACCESS_IDENTITY_H_
