// MUNGE credentials (dun.github.io/munge): a local daemon's word about the user of a process, which
// daemons with the same key believe on other machines. Each is good once, for some minutes.
#ifndef STRATA_SECURITY_MUNGE_H_
#define STRATA_SECURITY_MUNGE_H_

#include <sys/types.h>

#include <string>

#include "absl/status/statusor.h"

namespace strata::security {

struct MungeUser {
  uid_t uid = 0;
  gid_t gid = 0;
};

// For this process's user. `socket`: the daemon's; empty: the usual one. Unavailable: there is no
// daemon. They are made for Strata: those for other services are not taken.
absl::StatusOr<std::string> MungeEncode(const std::string& socket);
// Unauthenticated: it is not believed, and why (also: it was shown before). Unavailable: there is
// no daemon. Both wait for the daemon.
absl::StatusOr<MungeUser> MungeDecode(const std::string& credential, const std::string& socket);

}  // namespace strata::security

#endif  // STRATA_SECURITY_MUNGE_H_
