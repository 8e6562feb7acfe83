#include "checkpoint/reader.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "checkpoint/file_system.h"
#include "checkpoint/layout.h"
#include "common/status_macros.h"

namespace strata::checkpoint {
namespace {

constexpr int64_t kChunkBytes = 1 << 20;
constexpr int64_t kLargestGapBytes = 1 << 12;  // a page: no disk reads less

std::string WithoutTrailingSlashes(std::string path) {
  while (path.size() > 1 && path.back() == '/') path.pop_back();
  return path;
}

std::string BaseName(const std::string& path) { return path.substr(path.rfind('/') + 1); }

// OK for a folder, else what is wrong with the path.
absl::Status CheckFolder(FileSystem* files, const std::string& path) {
  ASSIGN_OR_RETURN(const bool folder, files->IsFolder(path));
  if (folder) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(path, ": is a file, not a checkpoint's folder"));
}

// What keeps a file from being read at present says nothing of its bytes; anything else does.
bool IsOfTheMoment(const absl::Status& status) {
  return absl::IsPermissionDenied(status) || absl::IsUnavailable(status);
}

// What a piece holds of a box: runs of bytes, ascending.
class PieceRuns {
 public:
  struct Run {
    int64_t from = 0;  // in the piece's entry
    int64_t to = 0;    // in the box
    int64_t size = 0;
  };
  PieceRuns(const Extent& piece, const LogicalTensor& tensor, const Box& box)
      : piece_(&piece),
        element_(SizeOf(tensor.dtype)),
        runs_(piece.box.has_value() ? *piece.box : WholeBox(tensor.shape), box) {}

  std::optional<Run> Next() {
    while (const auto run = runs_.Next()) {
      // The piece may be a range of its box.
      const int64_t skipped = std::max<int64_t>(0, piece_->begin - run->from);
      const int64_t from = run->from + skipped;
      const int64_t count = std::min(run->count - skipped, piece_->end - from);
      if (count <= 0) continue;
      return Run{(piece_->offset + from - piece_->begin) * element_, (run->to + skipped) * element_,
                 count * element_};
    }
    return std::nullopt;
  }

 private:
  const Extent* piece_;
  int64_t element_;
  CommonRuns runs_;
};

// Brings bytes of a piece's entry, as they are read in ascending order, to their places in a box.
class Scatter {
 public:
  Scatter(PieceRuns runs, char* out) : runs_(std::move(runs)), run_(runs_.Next()), out_(out) {}

  bool done() const { return !run_.has_value(); }
  int64_t next() const { return run_->from; }  // the first byte that is wanted
  // How much to read from there on: through small gaps, as that is faster than to read again.
  int64_t ReadSize() const {
    PieceRuns ahead = runs_;
    int64_t end = run_->from + run_->size;
    while (end - run_->from < kChunkBytes) {
      const std::optional<PieceRuns::Run> run = ahead.Next();
      if (!run.has_value() || run->from - end > kLargestGapBytes) break;
      end = run->from + run->size;
    }
    return std::min(end - run_->from, kChunkBytes);
  }
  // Bytes [at, at + size) of the entry; none that are wanted lie before.
  void Take(int64_t at, int64_t size, const char* bytes) {
    while (run_.has_value() && run_->from < at + size) {
      const int64_t taken = std::min(run_->size, at + size - run_->from);
      std::memcpy(out_ + run_->to, bytes + (run_->from - at), static_cast<size_t>(taken));
      run_->from += taken, run_->to += taken, run_->size -= taken;
      if (run_->size == 0) run_ = runs_.Next();
    }
  }

 private:
  PieceRuns runs_;
  std::optional<PieceRuns::Run> run_;
  char* const out_;
};

// Reads bytes [begin, end) of an entry, in chunks, and compares them with their digest; `scatter`
// takes what it wants.
absl::Status ReadVerified(const SafetensorsReader& reader, const SafetensorsEntry& entry,
                          int64_t begin, int64_t end, const std::string& digest,
                          std::vector<char>& chunk, Scatter& scatter) {
  common::Digester digester;
  for (int64_t at = begin; at < end; at += kChunkBytes) {
    const int64_t size = std::min(kChunkBytes, end - at);
    RETURN_IF_ERROR(reader.ReadBytes(entry, at, size, chunk.data()));
    digester.Add(chunk.data(), static_cast<size_t>(size));
    scatter.Take(at, size, chunk.data());
  }
  if (digester.Finish() == digest) return absl::OkStatus();
  return absl::DataLossError(absl::StrCat(reader.path(), ": digest of bytes ", begin, " to ", end,
                                          " of entry ", absl::CHexEscape(entry.name),
                                          " differs from the one written"));
}

}  // namespace

absl::Status Checkpoint::Damaged(const std::string& file, const std::string& what) const {
  return absl::DataLossError(absl::StrCat(folder_, "/", file, ": ", what));
}

absl::StatusOr<std::unique_ptr<Checkpoint>> Checkpoint::OpenFolder(const std::string& folder,
                                                                   Verification verification,
                                                                   FileSystem* files) {
  RETURN_IF_ERROR(CheckFolder(files, folder));
  auto checkpoint = std::unique_ptr<Checkpoint>(new Checkpoint);
  checkpoint->file_system_ = files;
  checkpoint->folder_ = WithoutTrailingSlashes(folder);
  const std::string path = checkpoint->folder_ + "/" + kManifestName;
  const auto text = files->ReadWhole(path, kLargestManifestBytes);
  if (absl::IsNotFound(text.status())) return checkpoint->Damaged(kManifestName, "is missing");
  if (!text.ok()) {
    return IsOfTheMoment(text.status()) ? text.status()
                                        : absl::DataLossError(text.status().message());
  }
  absl::StatusOr<Manifest> manifest = Manifest::FromJson(*text);
  if (!manifest.ok()) {
    return absl::Status(manifest.status().code(),
                        absl::StrCat(path, ": ", std::string(manifest.status().message())));
  }
  checkpoint->manifest_ = *std::move(manifest);
  checkpoint->chunk_.resize(kChunkBytes);
  for (const ManifestFile& file : checkpoint->manifest_.files) {
    RETURN_IF_ERROR(checkpoint->Open(file, verification));
  }
  RETURN_IF_ERROR(checkpoint->CheckExtents());
  return checkpoint;
}

absl::Status Checkpoint::Open(const ManifestFile& file, Verification verification) {
  const std::string path = folder_ + "/" + file.name;
  absl::StatusOr<std::unique_ptr<ReadableFile>> bytes = file_system_->OpenFile(path);
  if (IsOfTheMoment(bytes.status())) return bytes.status();
  if (absl::IsNotFound(bytes.status())) return Damaged(file.name, "is missing");
  if (!bytes.ok()) return absl::DataLossError(bytes.status().message());
  if ((*bytes)->size_bytes() != file.size_bytes) {
    return Damaged(file.name, absl::StrCat("has ", (*bytes)->size_bytes(), " bytes, ",
                                           file.size_bytes, " were written"));
  }
  absl::StatusOr<std::unique_ptr<SafetensorsReader>> reader =
      SafetensorsReader::Of(*std::move(bytes), path);
  if (IsOfTheMoment(reader.status())) return reader.status();
  if (!reader.ok()) return absl::DataLossError(reader.status().message());
  if ((*reader)->header_digest() != file.header_digest) {
    return Damaged(file.name, "digest of its header differs from the one written");
  }
  if (verification == Verification::kEverything) {
    ASSIGN_OR_RETURN(const std::string digest, (*reader)->DigestWholeFile());
    if (digest != file.digest) {
      return Damaged(file.name, absl::StrCat("digest differs: its content has ", digest, ", ",
                                             absl::CHexEscape(file.digest), " was written"));
    }
  }
  std::map<std::string, const ManifestFileEntry*> listed;
  for (const ManifestFileEntry& entry : file.entries) listed[entry.name] = &entry;
  OpenFile& open = files_.emplace_back();
  for (const SafetensorsEntry& entry : (*reader)->entries()) {
    const auto found = listed.find(entry.name);
    if (found == listed.end()) {
      return Damaged(file.name, absl::StrCat("entry ", absl::CHexEscape(entry.name),
                                             " is not in the manifest"));
    }
    Windows& windows = open.windows.emplace_back();
    const bool whole = found->second->windows.empty();
    windows.size_bytes = whole ? std::max<int64_t>(1, entry.size_bytes) : kWindowBytes;
    windows.digests = whole ? std::vector{found->second->digest} : found->second->windows;
    const size_t count = static_cast<size_t>((entry.size_bytes + kWindowBytes - 1) / kWindowBytes);
    if (!whole && windows.digests.size() != count) {
      return Damaged(file.name,
                     absl::StrCat("entry ", absl::CHexEscape(entry.name), " has ", count,
                                  " windows, the manifest says ", windows.digests.size()));
    }
    windows.verified.assign(windows.digests.size(), verification == Verification::kEverything);
  }
  open.reader = *std::move(reader);
  return absl::OkStatus();
}

// Every extent lies in an entry that is there, and whose type is the tensor's.
absl::Status Checkpoint::CheckExtents() const {
  for (const ManifestTensor& tensor : manifest_.tensors) {
    for (const Extent& extent : tensor.extents) {
      const ManifestFile& file = manifest_.files[static_cast<size_t>(extent.file)];
      const SafetensorsEntry* const entry =
          files_[static_cast<size_t>(extent.file)].reader->Find(extent.entry);
      const int64_t elements = entry == nullptr ? 0 : entry->size_bytes / SizeOf(entry->dtype);
      if (entry == nullptr || entry->dtype != tensor.tensor.dtype ||
          extent.end - extent.begin > elements ||
          extent.offset > elements - (extent.end - extent.begin)) {
        return Damaged(file.name, absl::StrCat("does not hold ", absl::CHexEscape(extent.entry),
                                               " as the manifest says"));
      }
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<const ManifestTensor*> Checkpoint::FindTensor(const std::string& name,
                                                             const std::string& state) const {
  const ManifestTensor* const tensor = manifest_.Find(name, state);
  if (tensor != nullptr) return tensor;
  return absl::NotFoundError(
      absl::StrCat(folder_, ": no tensor ", name, " (", state, ") in this checkpoint"));
}

absl::Status Checkpoint::ReadRegionBytes(const std::string& name, const std::string& state,
                                         const Region& region, void* out) {
  ASSIGN_OR_RETURN(const ManifestTensor* const tensor, FindTensor(name, state));
  if (!IsInside(region.box, tensor->tensor.shape) || region.begin < 0 ||
      region.begin > region.end || region.end > region.box.elements()) {
    return absl::OutOfRangeError(absl::StrCat(
        folder_, ": elements [", region.begin, ", ", region.end, ") of ", ToText(region.box),
        " of ", name, " (", state, "), which is ", ToText(WholeBox(tensor->tensor.shape))));
  }
  char* next = static_cast<char*>(out);
  for (const Box& box : BoxesOf(region)) {
    for (const Extent& piece : tensor->extents) {
      RETURN_IF_ERROR(ReadPiece(*tensor, piece, box, next));
    }
    next += box.elements() * SizeOf(tensor->tensor.dtype);
  }
  return absl::OkStatus();
}

// Of the windows of the piece's entry that the box needs something of: all of one the first time,
// else only what the box needs.
absl::Status Checkpoint::ReadPiece(const ManifestTensor& tensor, const Extent& piece,
                                   const Box& box, char* out) {
  Scatter scatter(PieceRuns(piece, tensor.tensor, box), out);
  if (scatter.done()) return absl::OkStatus();
  OpenFile& file = files_[static_cast<size_t>(piece.file)];
  const SafetensorsEntry& entry = *file.reader->Find(piece.entry);
  Windows& windows = file.windows[static_cast<size_t>(&entry - file.reader->entries().data())];
  while (!scatter.done()) {
    const int64_t at = scatter.next();
    const size_t window = static_cast<size_t>(at / windows.size_bytes);
    const int64_t begin = at / windows.size_bytes * windows.size_bytes;
    const int64_t end = std::min(begin + windows.size_bytes, entry.size_bytes);
    if (!windows.verified[window]) {
      RETURN_IF_ERROR(
          ReadVerified(*file.reader, entry, begin, end, windows.digests[window], chunk_, scatter));
      windows.verified[window] = true;
      continue;
    }
    const int64_t size = std::min(scatter.ReadSize(), end - at);
    RETURN_IF_ERROR(file.reader->ReadBytes(entry, at, size, chunk_.data()));
    scatter.Take(at, size, chunk_.data());
  }
  return absl::OkStatus();
}

absl::Status Checkpoint::ReadRangeBytes(const std::string& name, const std::string& state,
                                        int64_t begin, int64_t end, void* out) {
  ASSIGN_OR_RETURN(const ManifestTensor* const tensor, FindTensor(name, state));
  return ReadRegionBytes(name, state, {WholeBox(tensor->tensor.shape), begin, end}, out);
}

absl::Status Checkpoint::ReadRegion(const std::string& name, const std::string& state,
                                    const Region& region, float* out) {
  ASSIGN_OR_RETURN(const ManifestTensor* const tensor, FindTensor(name, state));
  const DType dtype = tensor->tensor.dtype;
  if (dtype == DType::kF32) return ReadRegionBytes(name, state, region, out);
  if (dtype != DType::kBF16 && dtype != DType::kF16) {
    return absl::FailedPreconditionError(absl::StrCat(
        folder_, ": ", name, " (", state, ") is ", NameOf(dtype), ", which is not read as float"));
  }
  if (region.begin < 0 || region.begin > region.end) {
    return ReadRegionBytes(name, state, region, out);
  }
  const int64_t most = kChunkBytes / SizeOf(dtype);
  std::vector<char> narrow(
      static_cast<size_t>(std::min(most, region.end - region.begin) * SizeOf(dtype)));
  for (int64_t at = region.begin; at < region.end;) {
    const int64_t stop = at + std::min(most, region.end - at);
    RETURN_IF_ERROR(ReadRegionBytes(name, state, {region.box, at, stop}, narrow.data()));
    WidenToFloat(dtype, narrow.data(), stop - at, out + (at - region.begin));
    at = stop;
  }
  return absl::OkStatus();
}

absl::Status Checkpoint::ReadRange(const std::string& name, const std::string& state, int64_t begin,
                                   int64_t end, float* out) {
  ASSIGN_OR_RETURN(const ManifestTensor* const tensor, FindTensor(name, state));
  return ReadRegion(name, state, {WholeBox(tensor->tensor.shape), begin, end}, out);
}

absl::Status Checkpoint::ReadBox(const std::string& name, const std::string& state, const Box& box,
                                 float* out) {
  ASSIGN_OR_RETURN(const ManifestTensor* const tensor, FindTensor(name, state));
  // Of a box outside there is no number of elements; it is refused.
  const bool inside = IsInside(box, tensor->tensor.shape);
  return ReadRegion(name, state, {box, 0, inside ? box.elements() : 0}, out);
}

absl::StatusOr<std::vector<CheckpointFolder>> ListCheckpoints(const std::string& directory,
                                                              FileSystem* files) {
  std::vector<CheckpointFolder> found;
  const absl::Status folder = CheckFolder(files, directory);
  if (absl::IsNotFound(folder)) return found;
  RETURN_IF_ERROR(folder);
  ASSIGN_OR_RETURN(const std::vector<std::string> names, files->List(directory));
  for (const std::string& name : names) {
    const std::optional<int64_t> step = StepFromFolderName(name);
    const std::string path = WithoutTrailingSlashes(directory) + "/" + name;
    if (step.has_value() && CheckFolder(files, path).ok()) found.push_back({*step, path});
  }
  std::sort(found.begin(), found.end(),
            [](const CheckpointFolder& a, const CheckpointFolder& b) { return a.step < b.step; });
  return found;
}

absl::StatusOr<NewestIntact> FindNewestIntact(const std::string& directory, FileSystem* files) {
  ASSIGN_OR_RETURN(const std::vector<CheckpointFolder> folders, ListCheckpoints(directory, files));
  if (folders.empty()) {
    return absl::NotFoundError(absl::StrCat(directory, ": no checkpoint there"));
  }
  NewestIntact found;
  for (auto folder = folders.rbegin(); folder != folders.rend(); ++folder) {
    absl::StatusOr<std::unique_ptr<Checkpoint>> checkpoint =
        Checkpoint::OpenFolder(folder->path, Verification::kEverything, files);
    if (checkpoint.ok()) {
      found.checkpoint = *std::move(checkpoint);
      return found;
    }
    // Whatever cannot be read is no damage: continuing from an older one would hide the reason.
    if (!absl::IsDataLoss(checkpoint.status())) return checkpoint.status();
    found.damaged.push_back(
        {folder->step, folder->path, std::string(checkpoint.status().message())});
  }
  const std::string lines =
      absl::StrJoin(found.damaged, "\n",
                    [](std::string* text, const Damage& damage) { text->append(damage.what); });
  return absl::DataLossError(absl::StrCat(directory, ": only damaged checkpoints there:\n", lines));
}

absl::StatusOr<NewestIntact> OpenCheckpoint(const std::string& path, FileSystem* files) {
  RETURN_IF_ERROR(CheckFolder(files, path));
  const std::string folder = WithoutTrailingSlashes(path);
  const bool single = files->Exists(folder + "/" + kManifestName) ||
                      StepFromFolderName(BaseName(folder)).has_value();
  if (!single) return FindNewestIntact(folder, files);
  NewestIntact found;
  ASSIGN_OR_RETURN(found.checkpoint,
                   Checkpoint::OpenFolder(folder, Verification::kEverything, files));
  return found;
}

}  // namespace strata::checkpoint
