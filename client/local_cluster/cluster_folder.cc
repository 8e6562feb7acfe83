#include "client/local_cluster/cluster_folder.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <vector>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "common/digest.h"
#include "common/small_file.h"
#include "common/status_macros.h"

namespace strata::client {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

absl::Status SystemError(absl::string_view what, const std::string& path) {
  return absl::UnknownError(absl::StrCat(path, ": ", what, " (", std::strerror(errno), ")"));
}

json ReadJson(const std::string& path) {
  return json::parse(common::TextOf(path), nullptr, /*allow_exceptions=*/false);
}

int64_t Integer(const json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_number_integer() ? found->get<int64_t>() : 0;
}

std::string Text(const json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_string() ? found->get<std::string>() : "";
}

bool Flag(const json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_boolean() && found->get<bool>();
}

// Empty: not readable. A description of an earlier version counts its nodes only.
std::vector<ClusterNode> NodesOf(const json& stored) {
  const int64_t count = Integer(stored, "agents");
  const auto list = stored.find("nodes");
  if (list == stored.end())
    return PlainNodes(static_cast<int>(std::clamp<int64_t>(count, 0, 1024)));
  std::vector<ClusterNode> nodes;
  if (!list->is_array()) return nodes;
  for (const json& entry : *list) {
    if (!entry.is_object()) return {};
    ClusterNode& node = nodes.emplace_back();
    node.name = Text(entry, "name");
    node.devices = static_cast<int>(Integer(entry, "devices"));
    const auto locality = entry.find("locality");
    if (node.name.empty() || node.devices < 1 || locality == entry.end() ||
        !locality->is_object()) {
      return {};
    }
    for (const auto& [level, value] : locality->items()) {
      if (value.is_string()) node.locality[level] = value.get<std::string>();
    }
  }
  return nodes;
}

// Which folder a path leads to. A copy has another one, and a renamed folder or a link the same.
json Identity(const std::string& path) {
  struct stat info = {};
  if (stat(path.c_str(), &info) != 0) return nullptr;
  return {{"device", info.st_dev}, {"inode", info.st_ino}};
}

json ReadRecord(const std::string& path) {
  json stored = ReadJson(path + "/processes.json");
  return stored.is_object() && Text(stored, "boot_id") == BootId() ? stored : json::object();
}

bool IsOwn(const json& record, const std::string& path) {
  const auto identity = record.find("identity");
  return identity != record.end() && identity->is_object() && *identity == Identity(path);
}

Processes ProcessesOf(const json& record) {
  Processes found;
  const auto list = record.find("processes");
  if (list == record.end() || !list->is_object()) return found;
  for (const auto& [name, entry] : list->items()) {
    if (!entry.is_object()) continue;
    const ProcessId id = {static_cast<pid_t>(Integer(entry, "pid")),
                          static_cast<uint64_t>(Integer(entry, "start"))};
    found[name] = {IsAlive(id) ? id : ProcessId(), static_cast<int>(Integer(entry, "restarts"))};
  }
  return found;
}

// A descriptor that holds the lock of `file`. AlreadyExists, with `held`: another process does.
absl::StatusOr<int> LockFile(const std::string& file, const std::string& held) {
  const int fd = open(file.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
  if (fd < 0) return SystemError("cannot be opened", file);
  if (flock(fd, LOCK_EX | LOCK_NB) == 0) return fd;
  const int error = errno;
  close(fd);
  if (error == EWOULDBLOCK) return absl::AlreadyExistsError(held);
  errno = error;
  return SystemError("cannot be locked", file);
}

}  // namespace

std::string ClusterFolder::Mark() const { return absl::StrCat(kClusterVariable, "=", path_); }

absl::StatusOr<std::string> ClusterFolder::SocketPath() const {
  const std::string own = path_ + "/controller.sock";
  if (own.size() + sizeof(".lock") <= kLongestSocketPath) return own;
  const std::string folder = absl::StrCat("/tmp/strata-", geteuid());
  struct stat info = {};
  if (mkdir(folder.c_str(), 0700) != 0 && errno != EEXIST) {
    return SystemError("cannot be made", folder);
  }
  if (lstat(folder.c_str(), &info) != 0) return SystemError("cannot be used", folder);
  if (!S_ISDIR(info.st_mode) || info.st_uid != geteuid() || (info.st_mode & 0077) != 0) {
    return absl::FailedPreconditionError(
        absl::StrCat(folder, ": not a folder of yours that only you may enter — choose a shorter ",
                     "--dir than ", path_, ", or an address with --listen"));
  }
  return absl::StrCat(folder, "/", common::DigestOf(absl::string_view(path_)).substr(0, 16),
                      ".sock");
}

absl::Status ClusterFolder::Make(const std::vector<ClusterNode>& nodes) const {
  std::vector<std::string> folders = {path_ + "/log", ControllerFolder()};
  for (const ClusterNode& node : nodes) folders.push_back(NodeFolder(node.name));
  for (const std::string& folder : folders) {
    std::error_code error;
    fs::create_directories(folder, error);
    if (error) {
      return absl::InvalidArgumentError(absl::StrCat(folder, ": cannot be created (",
                                                     error.message(), ") — choose another --dir"));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<ClusterShape> ClusterFolder::ReadShape() const {
  const std::string file = path_ + "/cluster.json";
  if (!IsCluster()) {
    return absl::NotFoundError(absl::StrCat(path_, ": no cluster was started there"));
  }
  const json stored = ReadJson(file);
  const auto broken = [&] {
    return absl::DataLossError(
        absl::StrCat(file, ": damaged, not a cluster's description — strata down --dir ", path_,
                     ", remove this file, then strata up --dir ", path_,
                     " --agents N with as many agents as before: jobs and checkpoints are kept"));
  };
  if (!stored.is_object()) return broken();
  ClusterShape shape;
  shape.nodes = NodesOf(stored);
  shape.has_topology = Flag(stored, "topology");
  shape.threads_per_agent = static_cast<int>(Integer(stored, "threads_per_agent"));
  shape.binaries = Text(stored, "binaries");
  const auto listen = ParseServerAddress(Text(stored, "listen"));
  const auto metrics = ParseServerAddress(Text(stored, "metrics"));
  if (shape.nodes.empty() || shape.threads_per_agent < 1 || !listen.ok() || !metrics.ok()) {
    return broken();
  }
  shape.listen = *listen;
  shape.metrics = *metrics;
  shape.own_socket = Flag(stored, "own_socket");
  shape.insecure_listen = Flag(stored, "insecure_listen");
  const auto no_restart = stored.find("no_restart");
  if (no_restart != stored.end() && no_restart->is_array()) {
    for (const json& node : *no_restart) {
      if (node.is_string()) shape.no_restart.insert(node.get<std::string>());
    }
  }
  return shape;
}

absl::Status ClusterFolder::WriteShape(const ClusterShape& shape) const {
  json nodes = json::array();
  for (const ClusterNode& node : shape.nodes) {
    nodes.push_back({{"name", node.name}, {"devices", node.devices}, {"locality", node.locality}});
  }
  const json stored = {{"agents", shape.nodes.size()},
                       {"nodes", nodes},
                       {"topology", shape.has_topology},
                       {"listen", shape.listen.ToString()},
                       {"own_socket", shape.own_socket},
                       {"metrics", shape.metrics.ToString()},
                       {"no_restart", shape.no_restart},
                       {"insecure_listen", shape.insecure_listen},
                       {"threads_per_agent", shape.threads_per_agent},
                       {"binaries", shape.binaries}};
  return common::ReplaceFile(path_ + "/cluster.json",
                             stored.dump(2, ' ', false, json::error_handler_t::replace) + "\n",
                             /*durable=*/true);
}

absl::Status ClusterFolder::WriteTopology(const std::string& text) const {
  return common::ReplaceFile(TopologyFile(), text, /*durable=*/true);
}

Processes ClusterFolder::ReadProcesses() const {
  const json record = ReadRecord(path_);
  return IsOwn(record, path_) ? ProcessesOf(record) : Processes();
}

absl::Status ClusterFolder::WriteProcesses(const Processes& processes, bool stopping) const {
  json list = json::object();
  for (const auto& [name, process] : processes) {
    list[name] = {
        {"pid", process.id.pid}, {"start", process.id.start}, {"restarts", process.restarts}};
  }
  const json stored = {{"boot_id", BootId()},
                       {"folder", path_},
                       {"identity", Identity(path_)},
                       {"stopping", stopping},
                       {"processes", list}};
  return common::ReplaceFile(path_ + "/processes.json",
                             stored.dump(2, ' ', false, json::error_handler_t::replace) + "\n",
                             /*durable=*/true);
}

std::string ClusterFolder::RunningOriginal() const {
  const json record = ReadRecord(path_);
  if (IsOwn(record, path_)) return "";
  const Processes processes = ProcessesOf(record);
  const bool any = std::any_of(processes.begin(), processes.end(),
                               [](const auto& entry) { return entry.second.id.pid != 0; });
  return any ? Text(record, "folder") : "";
}

bool ClusterFolder::IsStopping() const {
  const json record = ReadRecord(path_);
  const auto stopping = record.find("stopping");
  if (!IsOwn(record, path_) || stopping == record.end() || *stopping != true) return false;
  const Processes processes = ProcessesOf(record);
  const auto supervisor = processes.find("supervisor");
  return supervisor != processes.end() && supervisor->second.id.pid != 0;
}

absl::StatusOr<int> ClusterFolder::Lock() const {
  return LockFile(path_ + "/supervisor.lock", absl::StrCat(path_, " has a supervisor"));
}

absl::StatusOr<int> ClusterFolder::LockChanges() const {
  return LockFile(path_ + "/change.lock", "another strata up or strata down of " + path_);
}

bool ClusterFolder::IsCluster() const {
  return access((path_ + "/cluster.json").c_str(), F_OK) == 0;
}

bool ClusterFolder::HasSupervisor() const {
  if (access((path_ + "/supervisor.lock").c_str(), F_OK) != 0) return false;
  const absl::StatusOr<int> lock = Lock();
  if (lock.ok()) close(*lock);
  return absl::IsAlreadyExists(lock.status());
}

std::string TailOf(const std::string& file, int lines) {
  const std::string text = common::TextOf(file);
  std::vector<std::string> all = absl::StrSplit(text, '\n', absl::SkipEmpty());
  const size_t most = static_cast<size_t>(lines);
  std::string tail;
  for (size_t i = all.size() > most ? all.size() - most : 0; i < all.size(); ++i) {
    absl::StrAppend(&tail, "  ", all[i], "\n");
  }
  return tail;
}

}  // namespace strata::client
