// What a checkpoint consists of: manifest.json, written last.
//
// It maps every logical tensor and state to pieces of safetensors files: boxes of the tensor, or
// ranges of boxes, so that readers ask for what they need and any layout loads any other
// (docs/checkpoint_format.md). It carries the digests of all files, and of
// itself: any changed bit of a checkpoint is found.
#ifndef STRATA_CHECKPOINT_MANIFEST_H_
#define STRATA_CHECKPOINT_MANIFEST_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "checkpoint/box.h"
#include "checkpoint/dtype.h"

namespace strata::checkpoint {

inline constexpr char kManifestName[] = "manifest.json";
inline constexpr size_t kLargestManifestBytes = size_t{1} << 30;
// What readers read at once to know that it is as it was written.
inline constexpr int64_t kWindowBytes = int64_t{4} << 20;

// A tensor of the model in one of its states: "param", or the optimizer's "adam.m", "adam.v".
struct LogicalTensor {
  std::string name;
  std::string state;
  std::vector<int64_t> shape;  // global, row-major
  DType dtype = DType::kF32;
  friend bool operator==(const LogicalTensor&, const LogicalTensor&) = default;
};

// One tensor of a safetensors file: elements [begin, end), row-major, of a box of the logical
// tensor.
struct FileEntry {
  std::string name;  // in the file
  LogicalTensor tensor;
  int64_t begin = 0;
  int64_t end = 0;
  std::string digest;      // of the entry's bytes
  std::optional<Box> box;  // absent: the whole tensor
  // Of each kWindowBytes of it, the last window shorter; none of an entry that is one window.
  std::vector<std::string> windows;
};

// A file as its writer describes it: what ranks send to the committer. Digests are XXH3-128 of what
// was in the writer's memory.
struct FileFragment {
  std::string file;  // name within the checkpoint's folder: "rank-0.safetensors"
  int64_t size_bytes = 0;
  std::string digest;
  std::string header_digest;  // of the safetensors length and header
  std::vector<FileEntry> entries;

  std::string ToJson() const;
  static absl::StatusOr<FileFragment> FromJson(const std::string& text);
};

// A file that the job trains or validates on, as it was found: see v1::DataFile.
struct DataFileInfo {
  std::string path;
  int64_t size_bytes = 0;
  std::string digest;
  std::string parts;
};

// Where a checkpoint stands in its job, and what made it.
struct CheckpointInfo {
  int64_t step = 0;               // steps done
  int64_t applied_updates = 0;    // at most `step`: non-finite steps are not applied
  int64_t next_sample_index = 0;  // the first global sample index not yet consumed
  int64_t epoch = 0;              // the start of the job's ranks that wrote it
  int64_t virtual_shards = 1;     // 0: off
  uint64_t seed = 0;
  std::string plan_digest;
  std::string build;
  std::string isa;
  std::string device_kind;
  std::string job_spec;  // the job file's text
  // Dynamic loss scaling: of the next step, and the steps in a row for which it has been so. 0:
  // none.
  double loss_scale = 0;
  int64_t good_steps = 0;
  // In the order of the job's data section; none in manifests of before there were any.
  std::vector<DataFileInfo> data_files;
};

// Elements [begin, end), row-major, of a box of a logical tensor are elements [offset, offset +
// end - begin) of an entry.
struct Extent {
  int64_t begin = 0;
  int64_t end = 0;
  int32_t file = 0;  // index into Manifest::files
  std::string entry;
  int64_t offset = 0;
  std::optional<Box> box;  // absent: the whole tensor
};

struct ManifestTensor {
  LogicalTensor tensor;
  // Together exactly the tensor, no element twice: the boxes do not overlap, and the ranges of each
  // box fill it. By box and begin.
  std::vector<Extent> extents;
};

// Most boxes of one tensor.
inline constexpr size_t kMostBoxes = size_t{1} << 14;

struct ManifestFileEntry {
  std::string name;
  std::string digest;
  std::vector<std::string> windows;  // as of FileEntry; none in manifests before version 3
};

struct ManifestFile {
  std::string name;
  int64_t size_bytes = 0;
  std::string digest;
  std::string header_digest;
  std::vector<ManifestFileEntry> entries;
};

struct Manifest {
  CheckpointInfo info;
  std::vector<ManifestFile> files;
  std::vector<ManifestTensor> tensors;

  // Null if there is none.
  const ManifestTensor* Find(const std::string& name, const std::string& state) const;
  // The text of manifest.json, which ends with a digest of all that stands before.
  absl::StatusOr<std::string> ToJson() const;
  // Reads the versions 1 (flat ranges only), 2 (no windows) and 3. DataLoss: a digest that differs,
  // or a text that no writer would have written. Unimplemented: another version.
  static absl::StatusOr<Manifest> FromJson(const std::string& text);
};

// Joins the files of all ranks. FailedPrecondition names a tensor of which some elements are in no
// file or in two, or on whose shape or type the ranks disagree.
absl::StatusOr<Manifest> JoinFragments(const CheckpointInfo& info,
                                       const std::vector<FileFragment>& fragments);

}  // namespace strata::checkpoint

#endif  // STRATA_CHECKPOINT_MANIFEST_H_
