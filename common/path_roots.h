// Opening files by path beneath folders that somebody else has allowed, whatever becomes of the
// paths meanwhile: below a root no link is followed, and nothing leads out of it again. Without
// roots paths mean what they always do.
#ifndef STRATA_COMMON_PATH_ROOTS_H_
#define STRATA_COMMON_PATH_ROOTS_H_

#include <fcntl.h>
#include <sys/types.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace strata::common {

// Whether absolute `path` is `root` or lies below it, by their text alone; one with a part ".."
// lies nowhere.
bool LiesBeneath(const std::string& path, const std::string& root);

class PathRoots {
 public:
  // A folder, open, and a name in it: what the *at calls take for a path.
  class Place {
   public:
    Place(int folder, bool owned, std::string name)
        : folder_(folder), owned_(owned), name_(std::move(name)) {}
    Place(Place&& other) noexcept
        : folder_(other.folder_),
          owned_(std::exchange(other.owned_, false)),
          name_(std::move(other.name_)) {}
    Place& operator=(Place&&) = delete;
    ~Place();

    // -1: it could not be opened, for the reason in errno.
    int folder() const { return folder_; }
    const char* name() const { return name_.c_str(); }

   private:
    int folder_;
    bool owned_;
    std::string name_;
  };

  PathRoots() = default;  // anywhere
  // Those of `roots` that exist here. Unimplemented: the kernel cannot hold paths beneath a root
  // (openat2, Linux 5.6), and there are some. InvalidArgument: one is no absolute path, or a file.
  static absl::StatusOr<PathRoots> Open(const std::vector<std::string>& roots);
  // Those of this process, for libraries that open files by path. To be set before there is a
  // second thread that does.
  static const PathRoots& OfProcess();
  static void SetForProcess(PathRoots roots);

  bool restricts() const { return restricts_; }
  // With roots: links count as what they are, not as what they lead to.
  int StatFlags() const { return restricts_ ? AT_SYMLINK_NOFOLLOW : 0; }

  // As open(2) with O_CLOEXEC. With roots: EACCES outside of them, ELOOP at a link, EXDEV at what
  // leads out.
  int OpenFile(const std::string& path, int flags, mode_t mode = 0) const;
  // The folder of `path`, and its name there; a root itself is "." in it.
  Place OpenParent(const std::string& path) const;
  // Creates the folder with its missing parents, as far as they lie beneath a root, and opens it
  // (O_PATH). -1 and errno where that cannot be.
  int MakeFolders(const std::string& path, mode_t mode) const;
  // Whether `path` lies beneath one, by its text; without roots it does.
  bool Covers(const std::string& path) const { return !restricts_ || Find(path) != nullptr; }
  // Whether a root lies below `path`: that folder is there, and not to be opened.
  bool IsAbove(const std::string& path) const;

 private:
  struct Root {
    std::string path;
    std::shared_ptr<const int> folder;
  };
  // Of the roots that it lies beneath the innermost; null: none.
  const Root* Find(const std::string& path) const;

  bool restricts_ = false;
  std::vector<Root> roots_;
};

// Removes a file, or a folder with all that is in it, by descriptors: links are removed, not
// followed, whoever puts them there meanwhile. 0, also when there is none; otherwise -1 and errno.
int RemoveTree(int folder, const char* name);

}  // namespace strata::common

#endif  // STRATA_COMMON_PATH_ROOTS_H_
