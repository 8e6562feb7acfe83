// The user at the other end of a Unix socket.
#ifndef STRATA_CONTROLLER_SERVICE_TRANSPORT_PEER_USER_H_
#define STRATA_CONTROLLER_SERVICE_TRANSPORT_PEER_USER_H_

#include <sys/types.h>

#include <string>

#include "absl/status/statusor.h"
#include "controller/access/identity.h"

namespace strata::controller {

// users/NAME with its groups, as this machine's user database has them; `by`: how the uid is known.
// Names that an identity cannot have, and ids that have none, are uid-N and gid-N. May wait for the
// network, where that is where users are kept.
Identity UserOfUid(uid_t uid, gid_t gid, const std::string& by);

// The process that connected, as the kernel recorded it then: by "unix". Internal: `connection` is
// no Unix socket.
absl::StatusOr<Identity> PeerUser(int connection);

}  // namespace strata::controller

#endif  // STRATA_CONTROLLER_SERVICE_TRANSPORT_PEER_USER_H_
