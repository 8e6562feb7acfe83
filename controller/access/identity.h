// Who speaks to the controller, and how that is known.
#ifndef STRATA_CONTROLLER_ACCESS_IDENTITY_H_
#define STRATA_CONTROLLER_ACCESS_IDENTITY_H_

#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace strata::controller {

// That an identity was shown by.
struct ShownCertificate {
  std::string serial;  // hexadecimal, as openssl x509 -serial writes it
  double begin = 0;    // Unix time in seconds, of its validity
  double end = 0;
  bool operator==(const ShownCertificate& other) const = default;
};

struct Identity {
  enum class Kind { kNobody, kUser, kNode, kController };

  Kind kind = Kind::kNobody;
  std::string name;                 // alice, n0; empty: nobody, the controller
  std::string by = "none";          // unix, tls, munge; none: nothing tells who speaks
  std::vector<std::string> groups;  // of a user: names, without groups/
  // The controller's own user or root, over its Unix socket: whoever has its files already.
  bool is_owner = false;
  std::optional<ShownCertificate> certificate;  // by tls

  // users/NAME, nodes/NAME, controller; empty: nobody.
  std::string ToString() const;
  // Nothing tells callers apart: connections without any protection.
  bool is_unprotected() const { return kind == Kind::kNobody && by == "none"; }
  // Unix time in seconds from which on it is not known any more.
  double end() const {
    return certificate.has_value() ? certificate->end : std::numeric_limits<double>::infinity();
  }
  bool operator==(const Identity& other) const = default;
};

// From users/NAME, nodes/NAME or controller, known by `by`. InvalidArgument: it is none of these,
// or the name is not [A-Za-z0-9_][-A-Za-z0-9._]{0,62}.
absl::StatusOr<Identity> ParseIdentity(absl::string_view text, absl::string_view by);

}  // namespace strata::controller

#endif  // STRATA_CONTROLLER_ACCESS_IDENTITY_H_
