#include "checkpoint/safetensors.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "checkpoint/safetensors_header.h"
#include "common/check.h"
#include "common/status_macros.h"

namespace strata::checkpoint {
namespace {

static_assert(std::endian::native == std::endian::little, "the format is little-endian");

constexpr int64_t kLengthBytes = 8;
constexpr int64_t kLargestHeader = 100'000'000;     // as in the format's reference implementation
constexpr int64_t kLargestData = int64_t{1} << 62;  // beyond any file system
constexpr int64_t kChunkBytes = 1 << 20;

// Gives each entry its place in the data; returns the data's size.
absl::StatusOr<int64_t> LayOut(std::vector<SafetensorsEntry>& entries) {
  std::stable_sort(entries.begin(), entries.end(),
                   [](const SafetensorsEntry& a, const SafetensorsEntry& b) {
                     return SizeOf(a.dtype) > SizeOf(b.dtype);
                   });
  std::set<std::string> names;
  int64_t end = 0;
  for (SafetensorsEntry& entry : entries) {
    if (!names.insert(entry.name).second) {
      return absl::InvalidArgumentError(absl::StrCat("tensor ", entry.name, " twice"));
    }
    ASSIGN_OR_RETURN(const int64_t count, ElementCount(entry.shape));
    entry.offset_bytes = end;
    if (__builtin_mul_overflow(count, SizeOf(entry.dtype), &entry.size_bytes) ||
        __builtin_add_overflow(end, entry.size_bytes, &end) || end > kLargestData) {
      return absl::InvalidArgumentError(absl::StrCat("tensor ", entry.name, ": too large"));
    }
  }
  return end;
}

}  // namespace

absl::StatusOr<int64_t> ElementCount(const std::vector<int64_t>& shape) {
  int64_t count = 1;
  // All extents count, also beside a zero: 0 x 2^62 x 2^62 is no shape that anybody meant.
  for (const int64_t extent : shape) {
    if (extent < 0) return absl::InvalidArgumentError("shape with a negative extent");
  }
  for (const int64_t extent : shape) {
    if (extent > 0 && __builtin_mul_overflow(count, extent, &count)) {
      return absl::InvalidArgumentError("shape of more than 2^63 - 1 elements");
    }
  }
  return std::count(shape.begin(), shape.end(), 0) > 0 ? 0 : count;
}

absl::StatusOr<std::unique_ptr<SafetensorsWriter>> SafetensorsWriter::Create(
    std::unique_ptr<WritableFile> file, std::vector<SafetensorsEntry> entries,
    const SafetensorsMetadata& metadata) {
  ASSIGN_OR_RETURN(const int64_t data_bytes, LayOut(entries));
  ASSIGN_OR_RETURN(const std::string header, FormatSafetensorsHeader(entries, metadata));
  if (static_cast<int64_t>(header.size()) > kLargestHeader) {
    return absl::InvalidArgumentError(absl::StrCat("the header of ", entries.size(),
                                                   " tensors exceeds ", kLargestHeader, " bytes"));
  }
  const uint64_t length = header.size();
  std::string start(reinterpret_cast<const char*>(&length), sizeof(length));
  start += header;
  const int64_t start_bytes = static_cast<int64_t>(start.size());
  for (SafetensorsEntry& entry : entries) entry.offset_bytes += start_bytes;

  auto writer = std::unique_ptr<SafetensorsWriter>(new SafetensorsWriter);
  writer->file_ = std::move(file);
  writer->entries_ = std::move(entries);
  writer->header_digest_ = common::DigestOf(start.data(), start.size());
  writer->total_ = start_bytes + data_bytes;
  RETURN_IF_ERROR(writer->Append(start.data(), start.size()));
  return writer;
}

absl::Status SafetensorsWriter::Append(const void* bytes, size_t size) {
  if (static_cast<int64_t>(size) > total_ - written_) {
    return absl::InternalError("more data than the header announces");
  }
  digester_.Add(bytes, size);
  written_ += static_cast<int64_t>(size);
  return file_->Append(bytes, size);
}

absl::Status SafetensorsWriter::Finish() {
  if (written_ != total_) {
    return absl::InternalError(
        absl::StrCat(written_, " bytes were written where the header announces ", total_));
  }
  RETURN_IF_ERROR(file_->Sync());
  return file_->Close();
}

absl::StatusOr<std::unique_ptr<SafetensorsReader>> SafetensorsReader::Open(const std::string& path,
                                                                           FileSystem* files) {
  ASSIGN_OR_RETURN(std::unique_ptr<ReadableFile> file, files->OpenFile(path));
  return Of(std::move(file), path);
}

absl::StatusOr<std::unique_ptr<SafetensorsReader>> SafetensorsReader::Of(
    std::unique_ptr<ReadableFile> file, const std::string& path) {
  auto reader = std::unique_ptr<SafetensorsReader>(new SafetensorsReader);
  reader->path_ = path;
  reader->file_ = std::move(file);
  const int64_t size_bytes = reader->size_bytes();
  const auto refuse = [&path](const std::string& what) {
    return absl::InvalidArgumentError(absl::StrCat(path, ": no valid safetensors file: ", what));
  };
  uint64_t length = 0;
  if (size_bytes < kLengthBytes) return refuse("shorter than 8 bytes");
  RETURN_IF_ERROR(reader->file_->ReadAt(0, kLengthBytes, &length));
  if (std::memcmp(&length, "version ", kLengthBytes) == 0) {
    return refuse("a text, as Git LFS leaves it where the file itself was not fetched");
  }
  if (length > static_cast<uint64_t>(kLargestHeader)) {
    return refuse(
        absl::StrCat("header of ", length, " bytes, at most ", kLargestHeader, " are allowed"));
  }
  const int64_t data_begin = kLengthBytes + static_cast<int64_t>(length);
  if (data_begin > size_bytes) return refuse("the header is longer than the file");
  std::string start(static_cast<size_t>(data_begin), '\0');
  RETURN_IF_ERROR(reader->file_->ReadAt(0, data_begin, start.data()));
  absl::StatusOr<SafetensorsHeader> header =
      ParseSafetensorsHeader(start.substr(kLengthBytes), size_bytes - data_begin);
  if (!header.ok()) return refuse(std::string(header.status().message()));
  reader->header_digest_ = common::DigestOf(start.data(), start.size());
  reader->metadata_ = std::move(header->metadata);
  reader->entries_ = std::move(header->entries);
  for (size_t i = 0; i < reader->entries_.size(); ++i) {
    reader->entries_[i].offset_bytes += data_begin;
    reader->by_name_[reader->entries_[i].name] = i;
  }
  return reader;
}

const SafetensorsEntry* SafetensorsReader::Find(const std::string& name) const {
  const auto found = by_name_.find(name);
  return found == by_name_.end() ? nullptr : &entries_[found->second];
}

absl::Status SafetensorsReader::ReadBytes(const SafetensorsEntry& entry, int64_t begin,
                                          int64_t size, void* out) const {
  STRATA_CHECK(begin >= 0 && size >= 0 && begin <= entry.size_bytes - size);
  return file_->ReadAt(entry.offset_bytes + begin, size, out);
}

absl::StatusOr<std::string> SafetensorsReader::DigestWholeFile() const {
  common::Digester digester;
  std::vector<char> chunk(kChunkBytes);
  for (int64_t at = 0; at < size_bytes(); at += kChunkBytes) {
    const int64_t size = std::min(kChunkBytes, size_bytes() - at);
    RETURN_IF_ERROR(file_->ReadAt(at, size, chunk.data()));
    digester.Add(chunk.data(), static_cast<size_t>(size));
  }
  return digester.Finish();
}

}  // namespace strata::checkpoint
