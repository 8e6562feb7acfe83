#include "checkpoint/reader.h"

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
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

std::string WithoutTrailingSlashes(std::string path) {
  while (path.size() > 1 && path.back() == '/') path.pop_back();
  return path;
}

std::string BaseName(const std::string& path) { return path.substr(path.rfind('/') + 1); }

// OK for a folder, else what is wrong with the path.
absl::Status CheckFolder(const std::string& path) {
  struct stat status;
  if (stat(path.c_str(), &status) != 0) return StatusFromErrno(errno, path, "open checkpoint");
  if (S_ISDIR(status.st_mode)) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(path, ": is a file, not a checkpoint's folder"));
}

// What keeps a file from being read at present says nothing of its bytes; anything else does.
bool IsOfTheMoment(const absl::Status& status) {
  return absl::IsPermissionDenied(status) || absl::IsUnavailable(status);
}

}  // namespace

absl::Status Checkpoint::Damaged(const std::string& file, const std::string& what) const {
  return absl::DataLossError(absl::StrCat(folder_, "/", file, ": ", what));
}

absl::StatusOr<std::unique_ptr<Checkpoint>> Checkpoint::OpenFolder(const std::string& folder,
                                                                   Verification verification) {
  RETURN_IF_ERROR(CheckFolder(folder));
  auto checkpoint = std::unique_ptr<Checkpoint>(new Checkpoint);
  checkpoint->folder_ = WithoutTrailingSlashes(folder);
  const std::string path = checkpoint->folder_ + "/" + kManifestName;
  const auto text = PosixFileSystem()->ReadWhole(path, kLargestManifestBytes);
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
  struct stat status;
  if (stat(path.c_str(), &status) != 0) {
    const int error = errno;
    const absl::Status failed = StatusFromErrno(error, path, "stat");
    if (IsOfTheMoment(failed)) return failed;
    return Damaged(file.name, error == ENOENT ? "is missing" : strerror(error));
  }
  if (status.st_size != file.size_bytes) {
    return Damaged(file.name, absl::StrCat("has ", status.st_size, " bytes, ", file.size_bytes,
                                           " were written"));
  }
  absl::StatusOr<std::unique_ptr<SafetensorsReader>> reader = SafetensorsReader::Open(path);
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
  std::map<std::string, std::string> digests;
  for (const ManifestFileEntry& entry : file.entries) digests[entry.name] = entry.digest;
  OpenFile& open = files_.emplace_back();
  for (const SafetensorsEntry& entry : (*reader)->entries()) {
    const auto digest = digests.find(entry.name);
    if (digest == digests.end()) {
      return Damaged(file.name, absl::StrCat("entry ", absl::CHexEscape(entry.name),
                                             " is not in the manifest"));
    }
    open.digests.push_back(digest->second);
  }
  open.verified.assign(open.digests.size(), verification == Verification::kEverything);
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

absl::Status Checkpoint::ReadRangeBytes(const std::string& name, const std::string& state,
                                        int64_t begin, int64_t end, void* out) {
  const ManifestTensor* const tensor = manifest_.Find(name, state);
  if (tensor == nullptr) {
    return absl::NotFoundError(
        absl::StrCat(folder_, ": no tensor ", name, " (", state, ") in this checkpoint"));
  }
  ASSIGN_OR_RETURN(const int64_t count, ElementCount(tensor->tensor.shape));
  if (begin < 0 || begin > end || end > count) {
    return absl::OutOfRangeError(absl::StrCat(folder_, ": elements [", begin, ", ", end, ") of ",
                                              name, " (", state, "), which has ", count));
  }
  const int64_t element_bytes = SizeOf(tensor->tensor.dtype);
  // The first extent that ends behind `begin`; they are sorted and without gaps.
  auto extent = std::upper_bound(tensor->extents.begin(), tensor->extents.end(), begin,
                                 [](int64_t at, const Extent& e) { return at < e.end; });
  char* next = static_cast<char*>(out);
  for (int64_t at = begin; at < end; ++extent) {
    const int64_t stop = std::min(end, extent->end);
    RETURN_IF_ERROR(ReadExtent(*extent, element_bytes, at, stop, next));
    next += (stop - at) * element_bytes;
    at = stop;
  }
  return absl::OkStatus();
}

absl::Status Checkpoint::ReadExtent(const Extent& extent, int64_t element_bytes, int64_t begin,
                                    int64_t end, char* out) {
  OpenFile& file = files_[static_cast<size_t>(extent.file)];
  const SafetensorsEntry* const entry = file.reader->Find(extent.entry);
  const size_t index = static_cast<size_t>(entry - file.reader->entries().data());
  const int64_t from = (extent.offset + begin - extent.begin) * element_bytes;
  const int64_t size = (end - begin) * element_bytes;
  if (file.verified[index]) return file.reader->ReadBytes(*entry, from, size, out);
  return ReadAndVerify(file, index, from, size, out);
}

// Reads the whole entry once, keeping what was asked for and digesting all of it.
absl::Status Checkpoint::ReadAndVerify(OpenFile& file, size_t entry, int64_t begin, int64_t size,
                                       char* out) {
  const SafetensorsEntry& stored = file.reader->entries()[entry];
  common::Digester digester;
  for (int64_t at = 0; at < stored.size_bytes; at += kChunkBytes) {
    const int64_t length = std::min(kChunkBytes, stored.size_bytes - at);
    RETURN_IF_ERROR(file.reader->ReadBytes(stored, at, length, chunk_.data()));
    digester.Add(chunk_.data(), static_cast<size_t>(length));
    const int64_t from = std::max(at, begin), to = std::min(at + length, begin + size);
    if (from < to) {
      std::memcpy(out + (from - begin), chunk_.data() + (from - at),
                  static_cast<size_t>(to - from));
    }
  }
  if (digester.Finish() != file.digests[entry]) {
    return absl::DataLossError(absl::StrCat(file.reader->path(), ": digest of entry ",
                                            absl::CHexEscape(stored.name),
                                            " differs from the one written"));
  }
  file.verified[entry] = true;
  return absl::OkStatus();
}

absl::Status Checkpoint::ReadRange(const std::string& name, const std::string& state, int64_t begin,
                                   int64_t end, float* out) {
  const ManifestTensor* const tensor = manifest_.Find(name, state);
  const DType dtype = tensor == nullptr ? DType::kF32 : tensor->tensor.dtype;
  if (dtype == DType::kF32) return ReadRangeBytes(name, state, begin, end, out);
  if (dtype != DType::kBF16 && dtype != DType::kF16) {
    return absl::FailedPreconditionError(absl::StrCat(
        folder_, ": ", name, " (", state, ") is ", NameOf(dtype), ", which is not read as float"));
  }
  if (begin < 0 || begin > end) return ReadRangeBytes(name, state, begin, end, out);
  std::vector<char> narrow(static_cast<size_t>(std::min(kChunkBytes, (end - begin) * 2)));
  for (int64_t at = begin; at < end;) {
    const int64_t stop = std::min(end, at + kChunkBytes / 2);
    RETURN_IF_ERROR(ReadRangeBytes(name, state, at, stop, narrow.data()));
    WidenToFloat(dtype, narrow.data(), stop - at, out + (at - begin));
    at = stop;
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<CheckpointFolder>> ListCheckpoints(const std::string& directory) {
  std::vector<CheckpointFolder> found;
  const absl::Status folder = CheckFolder(directory);
  if (absl::IsNotFound(folder)) return found;
  RETURN_IF_ERROR(folder);
  ASSIGN_OR_RETURN(const std::vector<std::string> names, PosixFileSystem()->List(directory));
  for (const std::string& name : names) {
    const std::optional<int64_t> step = StepFromFolderName(name);
    const std::string path = WithoutTrailingSlashes(directory) + "/" + name;
    if (step.has_value() && CheckFolder(path).ok()) found.push_back({*step, path});
  }
  std::sort(found.begin(), found.end(),
            [](const CheckpointFolder& a, const CheckpointFolder& b) { return a.step < b.step; });
  return found;
}

absl::StatusOr<NewestIntact> FindNewestIntact(const std::string& directory) {
  ASSIGN_OR_RETURN(const std::vector<CheckpointFolder> folders, ListCheckpoints(directory));
  if (folders.empty()) {
    return absl::NotFoundError(absl::StrCat(directory, ": no checkpoint there"));
  }
  NewestIntact found;
  for (auto folder = folders.rbegin(); folder != folders.rend(); ++folder) {
    absl::StatusOr<std::unique_ptr<Checkpoint>> checkpoint =
        Checkpoint::OpenFolder(folder->path, Verification::kEverything);
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

absl::StatusOr<NewestIntact> OpenCheckpoint(const std::string& path) {
  RETURN_IF_ERROR(CheckFolder(path));
  const std::string folder = WithoutTrailingSlashes(path);
  const bool single = PosixFileSystem()->Exists(folder + "/" + kManifestName) ||
                      StepFromFolderName(BaseName(folder)).has_value();
  if (!single) return FindNewestIntact(folder);
  NewestIntact found;
  ASSIGN_OR_RETURN(found.checkpoint, Checkpoint::OpenFolder(folder, Verification::kEverything));
  return found;
}

}  // namespace strata::checkpoint
