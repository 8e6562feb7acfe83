#include "common/path_roots.h"

#include <dirent.h>
#include <linux/openat2.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace strata::common {
namespace {

constexpr uint64_t kBeneath = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS;

int OpenBeneath(int folder, const std::string& path, int flags, mode_t mode) {
  open_how how = {};
  how.flags = static_cast<uint64_t>(flags | O_CLOEXEC);
  how.mode = (flags & O_CREAT) != 0 ? mode : 0;
  how.resolve = kBeneath;
  // EAGAIN: a rename elsewhere raced with it, and the kernel could not tell that it did no harm.
  int file = -1;
  do {
    file = static_cast<int>(syscall(SYS_openat2, folder, path.c_str(), &how, sizeof(how)));
  } while (file < 0 && (errno == EAGAIN || errno == EINTR));
  return file;
}

// Without a slash at its end, but for "/".
std::string Trimmed(std::string path) {
  while (path.size() > 1 && path.back() == '/') path.pop_back();
  return path;
}

// `path` from the root on; "." for the root itself.
std::string Below(const std::string& path, const std::string& root) {
  const std::string rest = Trimmed(path).substr(root.size());
  const size_t begin = rest.find_first_not_of('/');
  return begin == std::string::npos ? "." : rest.substr(begin);
}

bool ClimbsUp(const std::string& path) {
  return path == ".." || absl::StartsWith(path, "../") || absl::EndsWith(path, "/..") ||
         absl::StrContains(path, "/../");
}

bool IsPrefix(const std::string& path, const std::string& folder) {
  return path == folder || folder == "/" || absl::StartsWith(path, absl::StrCat(folder, "/"));
}

int Fail(int error) {
  errno = error;
  return -1;
}

// Closes and keeps errno.
void CloseQuietly(int file) {
  const int error = errno;
  close(file);
  errno = error;
}

// The entries of an open folder, which it closes.
int RemoveEntries(int file) {
  DIR* const entries = fdopendir(file);
  if (entries == nullptr) {
    CloseQuietly(file);
    return -1;
  }
  int result = 0;
  errno = 0;
  while (const dirent* entry = result == 0 ? readdir(entries) : nullptr) {
    const std::string name = entry->d_name;
    if (name != "." && name != "..") result = RemoveTree(dirfd(entries), name.c_str());
    if (result == 0) errno = 0;
  }
  if (result == 0 && errno != 0) result = -1;
  const int error = errno;
  closedir(entries);
  errno = error;
  return result;
}

int RemoveFolder(int folder, const char* name) {
  const int file =
      openat(folder, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
  if (file < 0) return errno == ENOENT ? 0 : -1;
  if (RemoveEntries(file) != 0) return -1;
  return unlinkat(folder, name, AT_REMOVEDIR) == 0 || errno == ENOENT ? 0 : -1;
}

PathRoots& ProcessRoots() {
  static auto* const roots = new PathRoots;
  return *roots;
}

}  // namespace

bool LiesBeneath(const std::string& path, const std::string& root) {
  return !path.empty() && path[0] == '/' && !root.empty() && root[0] == '/' && !ClimbsUp(path) &&
         !ClimbsUp(root) && IsPrefix(Trimmed(path), Trimmed(root));
}

PathRoots::Place::~Place() {
  if (owned_ && folder_ >= 0) CloseQuietly(folder_);
}

absl::StatusOr<PathRoots> PathRoots::Open(const std::vector<std::string>& roots) {
  PathRoots opened;
  opened.restricts_ = !roots.empty();
  for (const std::string& root : roots) {
    if (!LiesBeneath(root, "/")) {
      return absl::InvalidArgumentError(absl::StrCat(root, ": a root is an absolute path"));
    }
    // Links on the way to it are the operator's.
    const int file = open(root.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (file < 0 && errno == ENOENT) continue;
    if (file < 0) {
      return absl::InvalidArgumentError(absl::StrCat(root, ": ", strerror(errno), " (open root)"));
    }
    const auto closer = [](const int* each) {
      close(*each);
      delete each;
    };
    opened.roots_.push_back({Trimmed(root), std::shared_ptr<const int>(new int(file), closer)});
    const int probe = OpenBeneath(file, ".", O_PATH | O_DIRECTORY, 0);
    if (probe < 0) {
      return absl::UnimplementedError(absl::StrCat(
          "paths cannot be held beneath ", root, " on this machine: openat2: ", strerror(errno),
          " (Linux 5.6 or later is needed for a project's roots)"));
    }
    close(probe);
  }
  return opened;
}

const PathRoots& PathRoots::OfProcess() { return ProcessRoots(); }
void PathRoots::SetForProcess(PathRoots roots) { ProcessRoots() = std::move(roots); }

const PathRoots::Root* PathRoots::Find(const std::string& path) const {
  const Root* found = nullptr;
  for (const Root& root : roots_) {
    if (!LiesBeneath(path, root.path)) continue;
    if (found == nullptr || root.path.size() > found->path.size()) found = &root;
  }
  return found;
}

bool PathRoots::IsAbove(const std::string& path) const {
  for (const Root& root : roots_) {
    if (Trimmed(path) != root.path && LiesBeneath(root.path, path)) return true;
  }
  return false;
}

int PathRoots::OpenFile(const std::string& path, int flags, mode_t mode) const {
  if (!restricts_) return open(path.c_str(), flags | O_CLOEXEC, mode);
  const Root* const root = Find(path);
  if (root == nullptr) return Fail(EACCES);
  return OpenBeneath(*root->folder, Below(path, root->path), flags, mode);
}

PathRoots::Place PathRoots::OpenParent(const std::string& path) const {
  if (!restricts_) return Place(AT_FDCWD, false, path);
  const Root* const root = Find(path);
  if (root == nullptr) return Place(Fail(EACCES), false, "");
  const std::string below = Below(path, root->path);
  const size_t slash = below.rfind('/');
  const std::string parent = slash == std::string::npos ? "." : below.substr(0, slash);
  const int folder = OpenBeneath(*root->folder, parent, O_PATH | O_DIRECTORY, 0);
  return Place(folder, true, slash == std::string::npos ? below : below.substr(slash + 1));
}

int PathRoots::MakeFolders(const std::string& path, mode_t mode) const {
  for (size_t end = path.find('/', 1);; end = path.find('/', end + 1)) {
    const std::string part = path.substr(0, end);
    if (!restricts_ || Find(part) != nullptr) {
      const Place place = OpenParent(part);
      if (place.folder() == -1) return -1;
      if (mkdirat(place.folder(), place.name(), mode) != 0 && errno != EEXIST) {
        const int why = errno;
        struct stat there;  // what is there may be on a file system that takes nothing new
        if (fstatat(place.folder(), place.name(), &there, StatFlags()) != 0) {
          errno = why;
          return -1;
        }
      }
    }
    if (end == std::string::npos) break;
  }
  return OpenFile(path, O_PATH | O_DIRECTORY);
}

int RemoveTree(int folder, const char* name) {
  struct stat status;
  if (fstatat(folder, name, &status, AT_SYMLINK_NOFOLLOW) != 0) return errno == ENOENT ? 0 : -1;
  if (S_ISDIR(status.st_mode)) return RemoveFolder(folder, name);
  return unlinkat(folder, name, 0) == 0 || errno == ENOENT ? 0 : -1;
}

}  // namespace strata::common
