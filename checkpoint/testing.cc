#include "checkpoint/testing.h"

#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "checkpoint/safetensors.h"
#include "common/check.h"
#include "common/rng.h"
#include "common/status_macros.h"

namespace strata::checkpoint {

TemporaryFolder::TemporaryFolder() {
  const char* base = std::getenv("TEST_TMPDIR");
  path_ = std::string(base != nullptr ? base : "/tmp") + "/strata-XXXXXX";
  STRATA_CHECK(mkdtemp(path_.data()) != nullptr);
}
TemporaryFolder::~TemporaryFolder() { std::filesystem::remove_all(path_); }

std::string ReadFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}
void WriteFile(const std::string& path, const std::string& content) {
  std::ofstream(path, std::ios::binary) << content;
}

class FaultyFile final : public WritableFile {
 public:
  FaultyFile(FaultyFileSystem* files, std::string path, std::unique_ptr<WritableFile> real)
      : files_(files), path_(std::move(path)), real_(std::move(real)) {}

  absl::Status Append(const void* bytes, size_t size) override {
    const absl::Status status = files_->Step(path_, "write");
    if (!status.ok()) real_->Append(bytes, size / 2).IgnoreError();
    RETURN_IF_ERROR(status);
    return real_->Append(bytes, size);
  }
  absl::Status Sync() override {
    RETURN_IF_ERROR(files_->Step(path_, "sync"));
    files_->unsynced_.erase(path_);
    return absl::OkStatus();
  }
  absl::Status Close() override {
    RETURN_IF_ERROR(files_->Step(path_, "close"));
    return real_->Close();
  }

 private:
  FaultyFileSystem* const files_;
  const std::string path_;
  const std::unique_ptr<WritableFile> real_;
};

class FaultyReadableFile final : public ReadableFile {
 public:
  FaultyReadableFile(FaultyFileSystem* files, std::string path, std::unique_ptr<ReadableFile> real)
      : files_(files), path_(std::move(path)), real_(std::move(real)) {}

  int64_t size_bytes() const override { return real_->size_bytes(); }
  absl::Status ReadAt(int64_t offset, int64_t size, void* out) override {
    ASSIGN_OR_RETURN(const bool flips, files_->StepRead(path_));
    RETURN_IF_ERROR(real_->ReadAt(offset, size, out));
    files_->bytes_read_ += size;
    if (flips && size > 0) static_cast<char*>(out)[size / 2] ^= 0x10;
    return absl::OkStatus();
  }

 private:
  FaultyFileSystem* const files_;
  const std::string path_;
  const std::unique_ptr<ReadableFile> real_;
};

absl::StatusOr<bool> FaultyFileSystem::StepRead(const std::string& path) {
  if (++reads_ != read_at_) return false;
  fired_ = true;
  if (read_fault_ == ReadFault::kError) return StatusFromErrno(EIO, path, "read");
  return true;
}

absl::StatusOr<std::unique_ptr<ReadableFile>> FaultyFileSystem::OpenFile(const std::string& path) {
  RETURN_IF_ERROR(StepRead(path).status());
  ASSIGN_OR_RETURN(std::unique_ptr<ReadableFile> real, real_->OpenFile(path));
  return std::make_unique<FaultyReadableFile>(this, path, std::move(real));
}

absl::StatusOr<bool> FaultyFileSystem::IsFolder(const std::string& path) {
  RETURN_IF_ERROR(StepRead(path).status());
  return real_->IsFolder(path);
}

absl::StatusOr<std::vector<std::string>> FaultyFileSystem::List(const std::string& path) {
  RETURN_IF_ERROR(StepRead(path).status());
  return real_->List(path);
}

absl::StatusOr<std::string> FaultyFileSystem::ReadWhole(const std::string& path, size_t limit) {
  ASSIGN_OR_RETURN(const bool flips, StepRead(path));
  ASSIGN_OR_RETURN(std::string text, real_->ReadWhole(path, limit));
  if (flips && !text.empty()) text[text.size() / 2] ^= 0x10;
  return text;
}

absl::Status FaultyFileSystem::Step(const std::string& path, const char* action) {
  ++done_;
  const bool fails = fault_ == Fault::kError ? done_ == at_ : done_ >= at_;
  if (fault_ == Fault::kNone || !fails) return absl::OkStatus();
  fired_ = true;
  return StatusFromErrno(ENOSPC, path, action);
}

absl::Status FaultyFileSystem::CreateFolder(const std::string& path) {
  RETURN_IF_ERROR(Step(path, "create folder"));
  std::error_code error;
  std::filesystem::create_directory(path, error);
  return error ? StatusFromErrno(error.value(), path, "create folder") : absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<WritableFile>> FaultyFileSystem::CreateFile(
    const std::string& path) {
  RETURN_IF_ERROR(Step(path, "create"));
  ASSIGN_OR_RETURN(std::unique_ptr<WritableFile> real, real_->CreateFile(path));
  unsynced_.insert(path);
  return std::make_unique<FaultyFile>(this, path, std::move(real));
}

absl::Status FaultyFileSystem::Rename(const std::string& from, const std::string& to, Move move) {
  RETURN_IF_ERROR(Step(to, "rename"));
  std::optional<std::string> replaced;
  if (move == Move::kFile && Exists(to)) replaced = ReadFile(to);
  RETURN_IF_ERROR(move == Move::kFile     ? real_->RenameFile(from, to)
                  : move == Move::kFolder ? real_->RenameFolder(from, to)
                                          : real_->PublishFolder(from, to));
  // What is pending inside a folder moves along with it.
  const auto moved = [&](const std::string& path) {
    const bool inside = path == from || absl::StartsWith(path, from + "/");
    return inside ? to + path.substr(from.size()) : path;
  };
  std::set<std::string> unsynced;
  for (const std::string& path : unsynced_) unsynced.insert(moved(path));
  unsynced_ = std::move(unsynced);
  for (PendingRename& rename : renames_)
    rename.from = moved(rename.from), rename.to = moved(rename.to);
  renames_.push_back({from, to, std::move(replaced)});
  return absl::OkStatus();
}
absl::Status FaultyFileSystem::RenameFile(const std::string& from, const std::string& to) {
  return Rename(from, to, Move::kFile);
}
absl::Status FaultyFileSystem::RenameFolder(const std::string& from, const std::string& to) {
  return Rename(from, to, Move::kFolder);
}
absl::Status FaultyFileSystem::PublishFolder(const std::string& from, const std::string& to) {
  const absl::Status status = Rename(from, to, Move::kPublish);
  // The place is made, and nothing has moved there.
  if (!status.ok() && fault_ == Fault::kCrash && done_ == at_) {
    std::filesystem::create_directory(to);
  }
  return status;
}

absl::Status FaultyFileSystem::SyncFolder(const std::string& path) {
  RETURN_IF_ERROR(Step(path, "sync folder"));
  std::erase_if(renames_, [&](const PendingRename& rename) {
    return std::filesystem::path(rename.to).parent_path() == path;
  });
  return absl::OkStatus();
}

absl::Status FaultyFileSystem::RemoveAll(const std::string& path) {
  const absl::Status status = Step(path, "remove");
  if (status.ok()) {
    std::erase_if(unsynced_, [&](const std::string& file) { return absl::StartsWith(file, path); });
    return real_->RemoveAll(path);
  }
  // The first thing in the folder is gone, the rest is not.
  const auto names = real_->List(path);
  if (fault_ == Fault::kCrash && done_ == at_ && names.ok() && !names->empty()) {
    real_->RemoveAll(path + "/" + names->front()).IgnoreError();
  }
  return status;
}

void FaultyFileSystem::LosePower() {
  for (; !renames_.empty(); renames_.pop_back()) {
    const auto& [from, to, replaced] = renames_.back();
    std::error_code error;
    std::filesystem::rename(to, from, error);
    if (replaced.has_value()) WriteFile(to, *replaced);
    if (unsynced_.erase(to) > 0) unsynced_.insert(from);
  }
  for (const std::string& path : unsynced_) {
    std::error_code error;
    std::filesystem::resize_file(path, std::filesystem::file_size(path, error) / 2, error);
  }
  unsynced_.clear();
}

std::vector<LogicalTensor> SmallModel() {
  const std::pair<std::string, std::vector<int64_t>> shapes[] = {
      {"embedding", {37, 5}}, {"block.0.weight", {11, 13}}, {"block.0.norm", {7}}, {"scale", {}}};
  std::vector<LogicalTensor> tensors;
  for (const auto& [name, shape] : shapes) {
    for (const char* state : {"param", "adam.m", "adam.v"}) {
      tensors.push_back({name, state, shape, DType::kF32});
    }
  }
  return tensors;
}

float ValueAt(const LogicalTensor& tensor, int64_t step, int64_t index) {
  uint64_t key = static_cast<uint64_t>(step);
  for (const char c : tensor.name + "/" + tensor.state) {
    key = key * 31 + static_cast<unsigned char>(c);
  }
  return common::NormalAt(key, static_cast<uint64_t>(index));
}

Snapshot SnapshotOf(int64_t step, int rank, int ranks) {
  Snapshot snapshot;
  for (const LogicalTensor& tensor : SmallModel()) {
    const int64_t count = *ElementCount(tensor.shape);
    int64_t begin = rank * count / ranks, end = (rank + 1) * count / ranks;
    // Parameters are whole on one of the ranks.
    if (tensor.state == "param") {
      const bool mine = static_cast<int>(tensor.name.size()) % ranks == rank;
      begin = 0, end = mine ? count : 0;
    }
    std::vector<float>& memory = snapshot.memory.emplace_back();
    for (int64_t i = begin; i < end; ++i) memory.push_back(ValueAt(tensor, step, i));
    snapshot.items.push_back({tensor, begin, end, memory.data()});
  }
  return snapshot;
}

std::vector<Region> RandomCut(const std::vector<int64_t>& shape, uint64_t seed) {
  uint64_t next = 0;
  const auto below = [&](int64_t bound) {
    return static_cast<int64_t>(common::Philox(seed, next++, 3)[0]) % bound;
  };
  std::vector<Box> boxes = {WholeBox(shape)};
  for (int64_t cuts = shape.empty() ? 0 : below(5); cuts > 0; --cuts) {
    const size_t index = static_cast<size_t>(below(static_cast<int64_t>(boxes.size())));
    const size_t d = static_cast<size_t>(below(static_cast<int64_t>(shape.size())));
    Box& first = boxes[index];
    if (first.extent[d] < 2) continue;
    Box second = first;
    first.extent[d] = 1 + below(first.extent[d] - 1);
    second.offset[d] += first.extent[d];
    second.extent[d] -= first.extent[d];
    boxes.push_back(std::move(second));
  }
  std::vector<Region> regions;
  for (const Box& box : boxes) {
    const int64_t middle = below(2) == 0 ? 0 : below(box.elements());
    if (middle > 0) regions.push_back({box, 0, middle});
    regions.push_back({box, middle, box.elements()});
  }
  for (size_t i = regions.size(); i > 1; --i) {
    std::swap(regions[i - 1], regions[static_cast<size_t>(below(static_cast<int64_t>(i)))]);
  }
  return regions;
}

void AddRegion(const LogicalTensor& tensor, int64_t step, const Region& region, bool strided,
               Snapshot& snapshot) {
  const std::vector<int64_t> tensor_strides = DenseStrides(tensor.shape);
  const std::vector<int64_t> own = DenseStrides(region.box.extent);
  // A gap behind every row, and twice as much behind every one of the last dimension's elements.
  std::vector<int64_t> padded = region.box.extent;
  for (int64_t& size : padded) ++size;
  std::vector<int64_t> strides = DenseStrides(padded);
  if (region.box.elements() % 2 == 0) {
    for (int64_t& stride : strides) stride *= 2;
  }
  std::vector<float>& memory = snapshot.memory.emplace_back();
  for (int64_t i = strided ? 0 : region.begin; i < (strided ? region.box.elements() : region.end);
       ++i) {
    int64_t element = 0, place = 0, rest = i;
    for (size_t d = 0; d < own.size(); ++d) {
      element += (region.box.offset[d] + rest / own[d]) * tensor_strides[d];
      place += rest / own[d] * strides[d];
      rest %= own[d];
    }
    const size_t at = static_cast<size_t>(strided ? place : i - region.begin);
    if (memory.size() <= at) memory.resize(at + 1, -99.0f);
    memory[at] = ValueAt(tensor, step, element);
  }
  SnapshotItem item{tensor, region.begin, region.end, memory.data(), region.box, {}};
  if (strided) item.strides = strides;
  snapshot.items.push_back(std::move(item));
}

CommitRequest RequestOf(int64_t epoch, int64_t step, std::vector<FileFragment> fragments,
                        int64_t keep) {
  CommitRequest request;
  request.info.step = step;
  request.info.applied_updates = step - 1;
  request.info.next_sample_index = 32 * step;
  request.info.epoch = epoch;
  request.info.virtual_shards = 4;
  request.info.seed = ~uint64_t{0};
  request.info.plan_digest = "plan";
  request.info.build = "build";
  request.info.isa = "avx2";
  request.info.device_kind = "cpu";
  request.info.job_spec = "name: \"small\"\n# ü\n";
  request.info.data_files = {{"/data/ü.bin", 4096, "whole", "abcd"}};
  request.fragments = std::move(fragments);
  request.keep = keep;
  return request;
}

absl::StatusOr<Published> WriteCheckpoint(FileSystem* files, const std::string& directory,
                                          int64_t epoch, int64_t step, int ranks, int64_t keep) {
  std::vector<FileFragment> fragments;
  for (int rank = 0; rank < ranks; ++rank) {
    const Snapshot snapshot = SnapshotOf(step, rank, ranks);
    ASSIGN_OR_RETURN(const FileFragment fragment,
                     WriteRankFile(files, {directory, epoch, rank}, step, snapshot.items));
    // As it goes from process to process.
    ASSIGN_OR_RETURN(fragments.emplace_back(), FileFragment::FromJson(fragment.ToJson()));
  }
  LocalCommitAuthority authority;
  Committer committer(directory, files, &authority);
  return committer.Commit(RequestOf(epoch, step, std::move(fragments), keep));
}

std::string Compare(Checkpoint& checkpoint, int64_t step, int readers) {
  for (const LogicalTensor& tensor : SmallModel()) {
    const int64_t count = *ElementCount(tensor.shape);
    for (int reader = 0; reader < readers; ++reader) {
      const int64_t begin = reader * count / readers, end = (reader + 1) * count / readers;
      std::vector<float> values(static_cast<size_t>(end - begin));
      const absl::Status status =
          checkpoint.ReadRange(tensor.name, tensor.state, begin, end, values.data());
      if (!status.ok()) return status.ToString();
      for (int64_t i = begin; i < end; ++i) {
        if (values[static_cast<size_t>(i - begin)] == ValueAt(tensor, step, i)) continue;
        return absl::StrCat(tensor.name, " ", tensor.state, " element ", i, " differs");
      }
    }
  }
  return "";
}

}  // namespace strata::checkpoint
