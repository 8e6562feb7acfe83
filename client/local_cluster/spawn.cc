#include "client/local_cluster/spawn.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

extern char** environ;

namespace strata::client {
namespace {

void PutLargeLogAside(const std::string& log) {
  constexpr off_t kLarge = off_t{16} << 20;
  struct stat info = {};
  if (stat(log.c_str(), &info) != 0 || info.st_size < kLarge) return;
  std::rename(log.c_str(), (log + ".1").c_str());
}

std::vector<char*> Pointers(const std::vector<std::string>& texts) {
  std::vector<char*> pointers;
  pointers.reserve(texts.size() + 1);
  for (const std::string& text : texts) pointers.push_back(const_cast<char*>(text.c_str()));
  pointers.push_back(nullptr);
  return pointers;
}

absl::StatusOr<pid_t> Spawn(const std::string& program, const std::vector<std::string>& arguments,
                            char* const* environment, const std::string& folder,
                            const std::string& log, short group) {
  PutLargeLogAside(log);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  const absl::Cleanup destroy = [&] {
    posix_spawnattr_destroy(&attributes);
    posix_spawn_file_actions_destroy(&actions);
  };
  posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, log.c_str(),
                                   O_WRONLY | O_CREAT | O_APPEND, 0644);
  posix_spawn_file_actions_adddup2(&actions, STDOUT_FILENO, STDERR_FILENO);
  posix_spawn_file_actions_addclosefrom_np(&actions, STDERR_FILENO + 1);
  if (!folder.empty()) posix_spawn_file_actions_addchdir_np(&actions, folder.c_str());
  posix_spawnattr_setflags(
      &attributes, static_cast<short>(group | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF));
  posix_spawnattr_setpgroup(&attributes, 0);
  sigset_t none;
  sigset_t all;
  sigemptyset(&none);
  sigfillset(&all);
  posix_spawnattr_setsigmask(&attributes, &none);
  posix_spawnattr_setsigdefault(&attributes, &all);
  pid_t pid = -1;
  const int error = posix_spawn(&pid, program.c_str(), &actions, &attributes,
                                Pointers(arguments).data(), environment);
  if (error == 0) return pid;
  return absl::UnknownError(
      absl::StrCat("cannot start ", program, ": ", std::strerror(error), " (log: ", log, ")"));
}

}  // namespace

absl::StatusOr<pid_t> SpawnMember(const std::vector<std::string>& arguments,
                                  const std::string& log) {
  return Spawn(arguments[0], arguments, environ, "", log, POSIX_SPAWN_SETPGROUP);
}

absl::StatusOr<pid_t> SpawnDetached(const std::string& program,
                                    const std::vector<std::string>& arguments,
                                    const std::string& folder, const std::string& variable,
                                    const std::string& log) {
  const std::string name = variable.substr(0, variable.find('=') + 1);
  std::vector<std::string> variables = {variable};
  for (char** entry = environ; *entry != nullptr; ++entry) {
    if (!absl::StartsWith(*entry, name)) variables.emplace_back(*entry);
  }
  return Spawn(program, arguments, Pointers(variables).data(), folder, log, POSIX_SPAWN_SETSID);
}

}  // namespace strata::client
