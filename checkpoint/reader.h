// Reads checkpoints: which ones are intact, and any box or element range of any tensor, whatever
// layout wrote it.
#ifndef STRATA_CHECKPOINT_READER_H_
#define STRATA_CHECKPOINT_READER_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "checkpoint/box.h"
#include "checkpoint/file_system.h"
#include "checkpoint/manifest.h"
#include "checkpoint/safetensors.h"

namespace strata::checkpoint {

enum class Verification {
  kEverything,  // every byte of every file, before anything is returned
  kOnRead,      // sizes and headers at once, data when it is read: after somebody verified it all
};

// A damaged checkpoint; `what` is one line, "step-00000040/rank-0.safetensors: digest differs
// (...)".
struct Damage {
  int64_t step = 0;
  std::string folder;  // path
  std::string what;
};

// A published checkpoint's folder.
struct CheckpointFolder {
  int64_t step = 0;
  std::string path;
};

// An open checkpoint. Used by one thread at a time.
class Checkpoint {
 public:
  // Errors are one line that names folder and file: NotFound (no such folder), InvalidArgument (a
  // file), PermissionDenied, Unavailable (the storage failed, which may pass), Unimplemented
  // (written by another version), DataLoss (damaged or incomplete; the first damage found).
  // `files` outlives the checkpoint.
  static absl::StatusOr<std::unique_ptr<Checkpoint>> OpenFolder(
      const std::string& folder, Verification verification, FileSystem* files = PosixFileSystem());

  const std::string& folder() const { return folder_; }
  const Manifest& manifest() const { return manifest_; }

  // A box of a tensor in row-major order, put together from the files that hold parts of it,
  // widened to float. Bytes are compared with their digests before this returns OK: the first read
  // of a window of a stored piece (manifest.h) reads all of it, later ones what they need.
  // NotFound: no such tensor or
  // state; OutOfRange; DataLoss; Unavailable.
  absl::Status ReadBox(const std::string& name, const std::string& state, const Box& box,
                       float* out);
  // The same of a range of a box, such as a data-parallel rank's share of a cut tensor.
  absl::Status ReadRegion(const std::string& name, const std::string& state, const Region& region,
                          float* out);
  // The same of elements [begin, end) of the whole tensor.
  absl::Status ReadRange(const std::string& name, const std::string& state, int64_t begin,
                         int64_t end, float* out);
  // Without conversion: elements of the stored type.
  absl::Status ReadRegionBytes(const std::string& name, const std::string& state,
                               const Region& region, void* out);
  absl::Status ReadRangeBytes(const std::string& name, const std::string& state, int64_t begin,
                              int64_t end, void* out);

 private:
  struct Windows {
    int64_t size_bytes = 0;            // of each, the last one may be shorter
    std::vector<std::string> digests;  // as the manifest says
    std::vector<bool> verified;        // whether its bytes were compared with it
  };
  struct OpenFile {
    std::unique_ptr<SafetensorsReader> reader;
    std::vector<Windows> windows;  // by entry, in the reader's order
  };
  Checkpoint() = default;
  absl::Status Open(const ManifestFile& file, Verification verification);
  absl::Status CheckExtents() const;
  absl::StatusOr<const ManifestTensor*> FindTensor(const std::string& name,
                                                   const std::string& state) const;
  absl::Status ReadPiece(const ManifestTensor& tensor, const Extent& piece, const Box& box,
                         char* out);
  absl::Status Damaged(const std::string& file, const std::string& what) const;

  FileSystem* file_system_ = nullptr;
  std::string folder_;
  Manifest manifest_;
  std::vector<OpenFile> files_;
  std::vector<char> chunk_;
};

// The published checkpoints of a directory, oldest first; a folder without a manifest counts (its
// manifest was lost). Empty if there is no such directory.
absl::StatusOr<std::vector<CheckpointFolder>> ListCheckpoints(
    const std::string& directory, FileSystem* files = PosixFileSystem());

struct NewestIntact {
  std::unique_ptr<Checkpoint> checkpoint;
  std::vector<Damage> damaged;  // newer than it, newest first
};

// The newest checkpoint of which every byte is as it was written. NotFound: no checkpoint there.
// DataLoss: only damaged ones, each named on a line of its own. Whatever else keeps one from being
// read (permission, another version) is returned as it is: that is no damage to fall back from.
absl::StatusOr<NewestIntact> FindNewestIntact(const std::string& directory,
                                              FileSystem* files = PosixFileSystem());

// CHECKPOINT of the command line: a checkpoint's folder, or a directory of them (its newest intact
// one). Everything is verified.
absl::StatusOr<NewestIntact> OpenCheckpoint(const std::string& path,
                                            FileSystem* files = PosixFileSystem());

}  // namespace strata::checkpoint

#endif  // STRATA_CHECKPOINT_READER_H_
