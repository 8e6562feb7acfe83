#include "checkpoint/huggingface/export.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "checkpoint/huggingface/config.h"
#include "checkpoint/huggingface/weights_index.h"
#include "checkpoint/new_folder.h"
#include "checkpoint/safetensors.h"
#include "common/check.h"
#include "common/status_macros.h"

namespace strata::checkpoint {
namespace {

constexpr int64_t kPieceElements = int64_t{1} << 22;  // floats held at once
constexpr int64_t kCopyBytes = int64_t{1} << 20;

int64_t ElementsOf(const StoredTensor& tensor) {
  int64_t count = 1;
  for (const int64_t extent : tensor.shape) count *= extent;
  return count;
}

std::string NameOfPath(const std::string& path) { return path.substr(path.rfind('/') + 1); }

class Exporter {
 public:
  Exporter(const ExportRequest& request, std::string folder, FileSystem* files)
      : request_(request), folder_(std::move(folder)), files_(*files) {
    for (const StoredTensor& tensor : request_.tensors) total_ += BytesOf(tensor);
  }

  absl::StatusOr<ExportedDirectory> Run() {
    RETURN_IF_ERROR(WriteAllWeights());
    for (const std::string& path : request_.copies) RETURN_IF_ERROR(Copy(path));
    RETURN_IF_ERROR(WriteText(kConfigName, request_.config));
    RETURN_IF_ERROR(files_.SyncFolder(folder_));
    return ExportedDirectory{total_, static_cast<int64_t>(request_.tensors.size()), file_count_};
  }

 private:
  DType TypeOf(const StoredTensor& tensor) const {
    const auto found = request_.types.find(tensor.name);
    return found == request_.types.end() ? request_.type : found->second;
  }
  int64_t BytesOf(const StoredTensor& tensor) const {
    return ElementsOf(tensor) * SizeOf(TypeOf(tensor));
  }

  // Consecutive tensors share a file while they fit.
  std::vector<std::vector<const StoredTensor*>> Files() const {
    std::vector<std::vector<const StoredTensor*>> all(1);
    int64_t bytes = 0;
    for (const StoredTensor& tensor : request_.tensors) {
      if (bytes > 0 && bytes + BytesOf(tensor) > request_.largest_file_bytes) {
        all.emplace_back();
        bytes = 0;
      }
      bytes += BytesOf(tensor);
      all.back().push_back(&tensor);
    }
    return all;
  }

  absl::Status WriteAllWeights() {
    const std::vector<std::vector<const StoredTensor*>> all = Files();
    file_count_ = static_cast<int64_t>(all.size());
    if (all.size() == 1) return WriteWeights("model.safetensors", all.front());
    WeightsIndex index;
    index.total_bytes = total_;
    for (size_t i = 0; i < all.size(); ++i) {
      const std::string name = absl::StrFormat("model-%05d-of-%05d.safetensors", i + 1, all.size());
      RETURN_IF_ERROR(WriteWeights(name, all[i]));
      for (const StoredTensor* tensor : all[i]) index.file_of[tensor->name] = name;
    }
    ASSIGN_OR_RETURN(const std::string text, FormatWeightsIndex(index));
    return WriteText(kIndexName, text);
  }

  absl::Status WriteWeights(const std::string& name,
                            const std::vector<const StoredTensor*>& tensors) {
    std::vector<SafetensorsEntry> entries;
    std::map<std::string, const StoredTensor*> by_name;
    for (const StoredTensor* tensor : tensors) {
      SafetensorsEntry entry;
      entry.name = tensor->name;
      entry.dtype = TypeOf(*tensor);
      entry.shape = tensor->shape;
      entries.push_back(std::move(entry));
      by_name[tensor->name] = tensor;
    }
    ASSIGN_OR_RETURN(std::unique_ptr<WritableFile> file,
                     files_.CreateFile(absl::StrCat(folder_, "/", name)));
    ASSIGN_OR_RETURN(writer_, SafetensorsWriter::Create(std::move(file), std::move(entries),
                                                        {{"format", "pt"}}));
    for (const SafetensorsEntry& entry : writer_->entries()) {
      const StoredTensor& tensor = *by_name.at(entry.name);
      RETURN_IF_ERROR(tensor.parts.front().transposed ? WriteTransposed(tensor)
                                                      : WriteTensor(tensor));
    }
    return writer_->Finish();
  }

  absl::Status WriteTensor(const StoredTensor& tensor) {
    for (const StoredPart& part : tensor.parts) {
      const Box whole = WholeBox(part.logical.shape);
      const int64_t elements = whole.elements();
      for (int64_t begin = 0; begin < elements; begin += kPieceElements) {
        const int64_t end = std::min(elements, begin + kPieceElements);
        values_.resize(static_cast<size_t>(end - begin));
        RETURN_IF_ERROR(
            request_.source->ReadRegion(part.logical.name, {whole, begin, end}, values_.data()));
        RETURN_IF_ERROR(Append(tensor));
      }
    }
    return absl::OkStatus();
  }

  // A row of the file is a column of all parts.
  absl::Status WriteTransposed(const StoredTensor& tensor) {
    const int64_t width = tensor.shape[1];
    const int64_t at_once = std::max<int64_t>(1, kPieceElements / std::max<int64_t>(1, width));
    std::vector<float> columns;
    for (int64_t begin = 0; begin < tensor.shape[0]; begin += at_once) {
      const int64_t count = std::min(at_once, tensor.shape[0] - begin);
      values_.resize(static_cast<size_t>(count * width));
      for (const StoredPart& part : tensor.parts) {
        const int64_t rows = part.logical.shape[0];
        columns.resize(static_cast<size_t>(rows * count));
        const Region region{{{0, begin}, {rows, count}}, 0, rows * count};
        RETURN_IF_ERROR(request_.source->ReadRegion(part.logical.name, region, columns.data()));
        for (int64_t c = 0; c < count; ++c) {
          for (int64_t r = 0; r < rows; ++r) {
            values_[c * width + part.first_row + r] = columns[r * count + c];
          }
        }
      }
      RETURN_IF_ERROR(Append(tensor));
    }
    return absl::OkStatus();
  }

  absl::Status Append(const StoredTensor& tensor) {
    const DType type = TypeOf(tensor);
    const auto count = static_cast<int64_t>(values_.size());
    bytes_.resize(values_.size() * static_cast<size_t>(SizeOf(type)));
    if (!NarrowFromFloat(type, values_.data(), count, bytes_.data())) {
      return absl::InvalidArgumentError(absl::StrCat(tensor.name, ": holds values beyond ",
                                                     NameOf(type), " — export it as bf16 or f32"));
    }
    RETURN_IF_ERROR(writer_->Append(bytes_.data(), bytes_.size()));
    written_ += static_cast<int64_t>(bytes_.size());
    if (request_.on_progress) request_.on_progress(written_, total_);
    return absl::OkStatus();
  }

  absl::Status WriteText(const std::string& name, const std::string& text) {
    ASSIGN_OR_RETURN(const std::unique_ptr<WritableFile> file,
                     files_.CreateFile(absl::StrCat(folder_, "/", name)));
    RETURN_IF_ERROR(file->Append(text.data(), text.size()));
    RETURN_IF_ERROR(file->Sync());
    return file->Close();
  }

  absl::Status Copy(const std::string& path) {
    ASSIGN_OR_RETURN(const std::unique_ptr<ReadableFile> from, files_.OpenFile(path));
    ASSIGN_OR_RETURN(const std::unique_ptr<WritableFile> to,
                     files_.CreateFile(absl::StrCat(folder_, "/", NameOfPath(path))));
    std::vector<char> chunk(static_cast<size_t>(kCopyBytes));
    for (int64_t at = 0; at < from->size_bytes(); at += kCopyBytes) {
      const int64_t size = std::min(kCopyBytes, from->size_bytes() - at);
      RETURN_IF_ERROR(from->ReadAt(at, size, chunk.data()));
      RETURN_IF_ERROR(to->Append(chunk.data(), static_cast<size_t>(size)));
    }
    RETURN_IF_ERROR(to->Sync());
    return to->Close();
  }

  const ExportRequest& request_;
  const std::string folder_;
  FileSystem& files_;
  int64_t total_ = 0, written_ = 0, file_count_ = 0;
  std::unique_ptr<SafetensorsWriter> writer_;
  std::vector<float> values_;
  std::vector<char> bytes_;
};

}  // namespace

absl::StatusOr<ExportedDirectory> ExportDirectory(const ExportRequest& request,
                                                  const std::string& folder, FileSystem* files) {
  ExportedDirectory exported;
  RETURN_IF_ERROR(WriteNewFolder(folder, files, [&](const std::string& partial) -> absl::Status {
    ASSIGN_OR_RETURN(exported, Exporter(request, partial, files).Run());
    return absl::OkStatus();
  }));
  return exported;
}

std::vector<std::string> TokenizerFilesIn(const std::string& folder, FileSystem* files) {
  std::vector<std::string> found;
  for (const char* name :
       {"tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "added_tokens.json",
        "chat_template.jinja", "generation_config.json", "tokenizer.model", "vocab.json",
        "merges.txt", "encoder.json", "vocab.bpe"}) {
    const std::string path = absl::StrCat(folder, "/", name);
    if (files->Exists(path)) found.push_back(path);
  }
  return found;
}

std::optional<DType> WeightsType(const std::string& word) {
  if (word == "f32") return DType::kF32;
  if (word == "bf16") return DType::kBF16;
  if (word == "f16") return DType::kF16;
  return std::nullopt;
}

}  // namespace strata::checkpoint
