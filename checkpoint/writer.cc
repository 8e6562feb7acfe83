#include "checkpoint/writer.h"

#include <algorithm>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "checkpoint/layout.h"
#include "checkpoint/safetensors.h"
#include "common/digest.h"
#include "common/status_macros.h"

namespace strata::checkpoint {
namespace {

// Small enough to be in the cache when it is written after both digests have read it.
constexpr int64_t kChunkBytes = 1 << 18;

// A parameter that is written whole keeps its name and shape, so that other programs can load it.
absl::StatusOr<SafetensorsEntry> EntryOf(const SnapshotItem& item) {
  const LogicalTensor& tensor = item.tensor;
  ASSIGN_OR_RETURN(const int64_t count, ElementCount(tensor.shape));
  if (item.begin < 0 || item.end > count) {
    return absl::InvalidArgumentError(absl::StrCat("snapshot of ", tensor.name, " (", tensor.state,
                                                   "): elements [", item.begin, ", ", item.end,
                                                   ") of ", count));
  }
  const std::string name =
      tensor.state == "param" ? tensor.name : absl::StrCat(tensor.state, ":", tensor.name);
  if (item.begin == 0 && item.end == count)
    return SafetensorsEntry{name, tensor.dtype, tensor.shape};
  return SafetensorsEntry{absl::StrCat(name, "[", item.begin, ":", item.end, "]"),
                          tensor.dtype,
                          {item.end - item.begin}};
}

absl::Status AppendItem(const SnapshotItem& item, int64_t size_bytes, SafetensorsWriter& writer,
                        std::string* digest) {
  common::Digester digester;
  const char* const bytes = static_cast<const char*>(item.data);
  for (int64_t at = 0; at < size_bytes; at += kChunkBytes) {
    const size_t size = static_cast<size_t>(std::min(kChunkBytes, size_bytes - at));
    digester.Add(bytes + at, size);
    RETURN_IF_ERROR(writer.Append(bytes + at, size));
  }
  *digest = digester.Finish();
  return absl::OkStatus();
}

absl::Status WriteItems(FileSystem* files, const std::string& path, const WriterOptions& options,
                        int64_t step, absl::Span<const SnapshotItem> items,
                        FileFragment* fragment) {
  std::vector<SafetensorsEntry> entries;
  std::map<std::string, const SnapshotItem*> by_name;
  for (const SnapshotItem& item : items) {
    if (item.begin == item.end) continue;
    ASSIGN_OR_RETURN(SafetensorsEntry entry, EntryOf(item));
    by_name[entry.name] = &item;
    entries.push_back(std::move(entry));
  }
  const SafetensorsMetadata metadata = {{"format", "pt"},
                                        {"strata.rank", absl::StrCat(options.rank)},
                                        {"strata.step", absl::StrCat(step)}};
  ASSIGN_OR_RETURN(std::unique_ptr<WritableFile> file, files->CreateFile(path));
  ASSIGN_OR_RETURN(const std::unique_ptr<SafetensorsWriter> writer,
                   SafetensorsWriter::Create(std::move(file), std::move(entries), metadata));
  for (const SafetensorsEntry& entry : writer->entries()) {
    const SnapshotItem& item = *by_name.at(entry.name);
    FileEntry& written = fragment->entries.emplace_back();
    written = {entry.name, item.tensor, item.begin, item.end, ""};
    RETURN_IF_ERROR(AppendItem(item, entry.size_bytes, *writer, &written.digest));
  }
  RETURN_IF_ERROR(writer->Finish());
  fragment->size_bytes = writer->size_bytes();
  fragment->digest = writer->digest();
  fragment->header_digest = writer->header_digest();
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<FileFragment> WriteRankFile(FileSystem* files, const WriterOptions& options,
                                           int64_t step, absl::Span<const SnapshotItem> items) {
  const std::string folder = absl::StrCat(options.directory, "/", EpochFolderName(options.epoch),
                                          "/", StepFolderName(step));
  RETURN_IF_ERROR(CreateFolders(files, folder));
  FileFragment fragment;
  fragment.file = RankFileName(options.rank);
  const std::string path = folder + "/" + fragment.file, temporary = path + ".tmp";
  absl::Status status = WriteItems(files, temporary, options, step, items, &fragment);
  if (status.ok()) status = files->RenameFile(temporary, path);
  if (!status.ok()) {
    files->RemoveAll(temporary).IgnoreError();  // the first error is the one to report
    return status;
  }
  RETURN_IF_ERROR(files->SyncFolder(folder));
  return fragment;
}

AsyncWriter::AsyncWriter(WriterOptions options, FileSystem* files)
    : options_(std::move(options)), files_(files) {}

absl::Status AsyncWriter::Begin(int64_t step, absl::Span<const SnapshotItem> items) {
  if (worker_.busy()) {
    return absl::FailedPreconditionError("a checkpoint is in flight; take its result first");
  }
  worker_.Start([this, step, items] { return WriteRankFile(files_, options_, step, items); });
  return absl::OkStatus();
}

absl::StatusOr<FileFragment> AsyncWriter::Wait() {
  if (!worker_.busy()) return absl::FailedPreconditionError("no checkpoint is in flight");
  return worker_.Wait();
}

}  // namespace strata::checkpoint
