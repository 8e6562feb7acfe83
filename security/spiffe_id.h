// Names in certificates: SPIFFE IDs (spiffe.io), a URI per identity.
//
//   spiffe://CLUSTER/controller   spiffe://CLUSTER/node/n0   spiffe://CLUSTER/user/alice
#ifndef STRATA_SECURITY_SPIFFE_ID_H_
#define STRATA_SECURITY_SPIFFE_ID_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace strata::security {

inline constexpr char kControllerPath[] = "controller";

struct SpiffeId {
  std::string cluster;  // the trust domain
  std::string path;     // controller, node/NAME, user/NAME; empty: the cluster's authority itself
  std::string ToString() const;
  bool operator==(const SpiffeId& other) const = default;
};

// InvalidArgument: not spiffe://CLUSTER[/PATH], CLUSTER of [a-z0-9._-] and PATH's segments of
// [A-Za-z0-9._-], none of them empty, "." or "..".
absl::StatusOr<SpiffeId> ParseSpiffeId(absl::string_view text);

}  // namespace strata::security

#endif  // STRATA_SECURITY_SPIFFE_ID_H_
