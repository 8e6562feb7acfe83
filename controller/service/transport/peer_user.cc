#include "controller/service/transport/peer_user.h"

#include <grp.h>
#include <pwd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <vector>

#include "absl/strings/str_cat.h"

namespace strata::controller {
namespace {

constexpr size_t kMostEntryBytes = size_t{1} << 20;  // of one user or group, with its members
constexpr int kMostGroups = 4096;

// Calls a function of the getpwuid_r family with as much room as it needs; empty: no such entry.
template <typename Entry, typename Get>
std::string NameOf(const Get& get, char* Entry::*name) {
  Entry entry{};
  Entry* found = nullptr;
  for (std::vector<char> room(1024); room.size() <= kMostEntryBytes; room.resize(4 * room.size())) {
    const int error = get(&entry, room.data(), room.size(), &found);
    if (error == ERANGE) continue;
    return error == 0 && found != nullptr ? std::string(entry.*name) : std::string();
  }
  return "";
}

std::string UserName(uid_t uid) {
  return NameOf<passwd>([uid](passwd* entry, char* room, size_t size,
                              passwd** found) { return getpwuid_r(uid, entry, room, size, found); },
                        &passwd::pw_name);
}

std::string GroupName(gid_t gid) {
  const std::string name =
      NameOf<group>([gid](group* entry, char* room, size_t size,
                          group** found) { return getgrgid_r(gid, entry, room, size, found); },
                    &group::gr_name);
  return name.empty() ? absl::StrCat("gid-", gid) : name;
}

std::vector<gid_t> GroupsOf(const std::string& user, gid_t gid) {
  std::vector<gid_t> groups(64);
  auto count = static_cast<int>(groups.size());
  while (getgrouplist(user.c_str(), gid, groups.data(), &count) < 0 && count <= kMostGroups) {
    if (count <= static_cast<int>(groups.size())) return {gid};
    groups.resize(count);
  }
  groups.resize(std::min<size_t>(count, groups.size()));
  return groups;
}

}  // namespace

Identity UserOfUid(uid_t uid, gid_t gid, const std::string& by) {
  const std::string user = UserName(uid);
  absl::StatusOr<Identity> known = ParseIdentity(absl::StrCat("users/", user), by);
  Identity identity;
  if (known.ok()) identity = *std::move(known);
  identity.kind = Identity::Kind::kUser;
  identity.by = by;
  if (identity.name.empty()) identity.name = absl::StrCat("uid-", uid);
  const std::vector<gid_t> groups = user.empty() ? std::vector<gid_t>{gid} : GroupsOf(user, gid);
  for (const gid_t group : groups) identity.groups.push_back(GroupName(group));
  return identity;
}

absl::StatusOr<Identity> PeerUser(int connection) {
  ucred peer{};
  socklen_t size = sizeof(peer);
  if (getsockopt(connection, SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0) {
    return absl::InternalError(absl::StrCat("SO_PEERCRED: ", std::strerror(errno)));
  }
  Identity identity = UserOfUid(peer.uid, peer.gid, "unix");
  identity.is_owner = peer.uid == geteuid() || peer.uid == 0;
  return identity;
}

}  // namespace strata::controller
