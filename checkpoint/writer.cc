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

absl::Status Refuse(const SnapshotItem& item, const std::string& what) {
  return absl::InvalidArgumentError(
      absl::StrCat("snapshot of ", item.tensor.name, " (", item.tensor.state, "): ", what));
}

// A parameter that is written whole keeps its name and shape, so that other programs can load it;
// a whole box its extent.
absl::StatusOr<SafetensorsEntry> EntryOf(const SnapshotItem& item) {
  const LogicalTensor& tensor = item.tensor;
  RETURN_IF_ERROR(ElementCount(tensor.shape).status());
  const Box box = item.box.value_or(WholeBox(tensor.shape));
  if (!IsInside(box, tensor.shape)) return Refuse(item, "a box that is not inside the tensor");
  if (!item.strides.empty() && item.strides.size() != tensor.shape.size()) {
    return Refuse(item, absl::StrCat(item.strides.size(), " strides of ", tensor.shape.size(),
                                     " dimensions"));
  }
  if (item.begin < 0 || item.end > box.elements()) {
    return Refuse(item,
                  absl::StrCat("elements [", item.begin, ", ", item.end, ") of ", box.elements()));
  }
  std::string name =
      tensor.state == "param" ? tensor.name : absl::StrCat(tensor.state, ":", tensor.name);
  if (!(box == WholeBox(tensor.shape))) name += ToText(box);
  if (item.begin == 0 && item.end == box.elements()) {
    return SafetensorsEntry{name, tensor.dtype, box.extent};
  }
  return SafetensorsEntry{absl::StrCat(name, "[", item.begin, ":", item.end, "]"),
                          tensor.dtype,
                          {item.end - item.begin}};
}

// Appends an item's bytes to the file and to the item's own digests.
class ItemWriter {
 public:
  explicit ItemWriter(SafetensorsWriter& writer) : writer_(writer) {}

  absl::Status Append(const char* bytes, int64_t size_bytes) {
    for (int64_t at = 0; at < size_bytes;) {
      if (in_window_ == kWindowBytes) EndWindow();
      const int64_t size = std::min({kChunkBytes, size_bytes - at, kWindowBytes - in_window_});
      digester_.Add(bytes + at, static_cast<size_t>(size));
      window_->Add(bytes + at, static_cast<size_t>(size));
      RETURN_IF_ERROR(writer_.Append(bytes + at, static_cast<size_t>(size)));
      at += size, in_window_ += size;
    }
    return absl::OkStatus();
  }

  // Gathers what lies apart in memory, a chunk at a time.
  absl::Status AppendStrided(const SnapshotItem& item) {
    const Box box = item.box.value_or(WholeBox(item.tensor.shape));
    const size_t element = static_cast<size_t>(SizeOf(item.tensor.dtype));
    gathered_.reserve(2 * static_cast<size_t>(kChunkBytes));
    for (const Box& part : BoxesOf({box, item.begin, item.end})) {
      RETURN_IF_ERROR(Gather(item, box, part, element));
    }
    return Flush();
  }

  // A chunk at a time too.
  absl::Status AppendRead(const SnapshotItem& item) {
    const int64_t element = SizeOf(item.tensor.dtype), most = kChunkBytes / element;
    gathered_.resize(static_cast<size_t>(kChunkBytes));
    for (int64_t at = item.begin; at < item.end; at += most) {
      const int64_t count = std::min(most, item.end - at);
      RETURN_IF_ERROR(item.read(at - item.begin, count, gathered_.data()));
      RETURN_IF_ERROR(Append(gathered_.data(), count * element));
    }
    return absl::OkStatus();
  }

  absl::Status AppendAll(const SnapshotItem& item, int64_t size_bytes) {
    if (item.read) return AppendRead(item);
    if (!item.strides.empty()) return AppendStrided(item);
    return Append(static_cast<const char*>(item.data), size_bytes);
  }

  std::string digest() const { return digester_.Finish(); }
  // Of an item of more than one; no more is appended.
  std::vector<std::string> TakeWindows() {
    if (!windows_.empty()) EndWindow();
    return std::move(windows_);
  }

 private:
  // With the first byte of the next, or the item's last.
  void EndWindow() {
    windows_.push_back(window_->Finish());
    window_.emplace();
    in_window_ = 0;
  }

  absl::Status Gather(const SnapshotItem& item, const Box& box, const Box& part, size_t element) {
    const size_t dimensions = part.extent.size();
    const int64_t most = kChunkBytes / static_cast<int64_t>(element);
    std::vector<int64_t> at(dimensions, 0);
    for (;;) {
      int64_t index = 0;
      for (size_t d = 0; d < dimensions; ++d) {
        index += (part.offset[d] - box.offset[d] + at[d]) * item.strides[d];
      }
      // Neighbours of the last dimension together where they are neighbours in memory.
      const bool dense = dimensions > 0 && item.strides.back() == 1;
      const int64_t run = dense ? std::min(most, part.extent.back() - at.back()) : 1;
      const char* const from =
          static_cast<const char*>(item.data) + index * static_cast<int64_t>(element);
      gathered_.insert(gathered_.end(), from, from + run * static_cast<int64_t>(element));
      if (gathered_.size() >= static_cast<size_t>(kChunkBytes)) RETURN_IF_ERROR(Flush());
      if (dense) at.back() += run - 1;
      size_t d = dimensions;
      while (d > 0 && ++at[d - 1] == part.extent[d - 1]) at[--d] = 0;
      if (d == 0) return absl::OkStatus();
    }
  }

  absl::Status Flush() {
    const absl::Status status = Append(gathered_.data(), static_cast<int64_t>(gathered_.size()));
    gathered_.clear();
    return status;
  }

  SafetensorsWriter& writer_;
  common::Digester digester_;
  std::optional<common::Digester> window_{std::in_place};
  int64_t in_window_ = 0;             // bytes of the window begun last
  std::vector<std::string> windows_;  // ended
  std::vector<char> gathered_;
};

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
    written = {entry.name, item.tensor, item.begin, item.end, "", item.box, {}};
    ItemWriter bytes(*writer);
    RETURN_IF_ERROR(bytes.AppendAll(item, entry.size_bytes));
    written.digest = bytes.digest();
    written.windows = bytes.TakeWindows();
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
