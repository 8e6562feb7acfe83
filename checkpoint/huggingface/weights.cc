#include "checkpoint/huggingface/weights.h"

#include <algorithm>
#include <set>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "checkpoint/huggingface/weights_index.h"
#include "common/check.h"
#include "common/status_macros.h"

namespace strata::checkpoint {
namespace {

constexpr char kSingle[] = "model.safetensors";
constexpr int64_t kChunkElements = int64_t{1} << 20;  // read at once
constexpr size_t kMostNamed = 5;                      // of tensors in one message

absl::StatusOr<WeightsIndex> ReadIndex(const std::string& folder, FileSystem* files) {
  const std::string path = absl::StrCat(folder, "/", kIndexName);
  const absl::StatusOr<std::string> text = files->ReadWhole(path, kLargestIndexBytes);
  if (!text.ok()) return absl::InvalidArgumentError(text.status().message());
  absl::StatusOr<WeightsIndex> index = ParseWeightsIndex(*text);
  if (index.ok()) return index;
  return absl::InvalidArgumentError(
      absl::StrCat(path, ": ", index.status().message(), " — download the directory again"));
}

// The names under which transformers' models have stored a tensor: with or without the base
// model's prefix, and inside a model that has other parts too.
std::vector<std::string> NamesOf(const std::string& name, bool tied) {
  std::vector<std::string> names = {name};
  absl::string_view bare = name;
  if (absl::ConsumePrefix(&bare, "model.")) {
    names.push_back(absl::StrCat("model.language_model.", bare));
    names.emplace_back(bare);
  } else if (absl::ConsumePrefix(&bare, "transformer.")) {
    names.emplace_back(bare);
  }
  names.push_back(absl::StrCat("language_model.", name));
  // Of tensors that are one, some files keep the head's name.
  const bool embedding =
      absl::EndsWith(name, "embed_tokens.weight") || absl::EndsWith(name, "wte.weight");
  if (tied && embedding) names.emplace_back("lm_head.weight");
  return names;
}

// Constant buffers that older versions stored beside the weights.
bool IsBuffer(const std::string& name) {
  return absl::EndsWith(name, ".attn.bias") || absl::EndsWith(name, ".attn.masked_bias") ||
         absl::EndsWith(name, "rotary_emb.inv_freq");
}

// Of the other parts of a model whose text model is used.
bool IsOfOtherPart(absl::string_view name) {
  absl::ConsumePrefix(&name, "model.");
  return absl::StartsWith(name, "vision_tower.") ||
         absl::StartsWith(name, "multi_modal_projector.");
}

std::string ShapeText(const std::vector<int64_t>& shape) {
  return absl::StrCat("[", absl::StrJoin(shape, ", "), "]");
}

// "a, b and 3 more".
std::string Listed(const std::vector<std::string>& names) {
  const size_t shown = std::min(names.size(), kMostNamed);
  std::string text = absl::CHexEscape(
      absl::StrJoin(names.begin(), names.begin() + static_cast<int64_t>(shown), ", "));
  if (shown < names.size()) absl::StrAppend(&text, " and ", names.size() - shown, " more");
  return text;
}

}  // namespace

absl::StatusOr<std::vector<std::string>> WeightFiles(const std::string& folder, FileSystem* files) {
  const auto there = [&](const std::string& name) { return files->Exists(folder + "/" + name); };
  if (there(kSingle)) return std::vector<std::string>{kSingle};
  if (there(kIndexName)) {
    ASSIGN_OR_RETURN(const WeightsIndex index, ReadIndex(folder, files));
    std::set<std::string> names;
    for (const auto& [tensor, file] : index.file_of) names.insert(file);
    return std::vector<std::string>(names.begin(), names.end());
  }
  for (const char* pickled : {"pytorch_model.bin", "pytorch_model.bin.index.json"}) {
    if (!there(pickled)) continue;
    return absl::InvalidArgumentError(
        absl::StrCat(folder, "/", pickled,
                     ": pickled weights are not read (they may run code) — convert them: load the "
                     "model with transformers and save_pretrained it"));
  }
  return std::vector<std::string>();
}

absl::Status HuggingFaceWeights::OpenFiles(FileSystem* files) {
  ASSIGN_OR_RETURN(const std::vector<std::string> names, WeightFiles(folder_, files));
  if (names.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat(folder_, ": no weights in it (model.safetensors, or model-*.safetensors and ",
                     kIndexName, ")"));
  }
  WeightsIndex index;
  const bool indexed = names.front() != kSingle;
  if (indexed) {
    ASSIGN_OR_RETURN(index, ReadIndex(folder_, files));
  }
  const auto bad = [&](const std::string& what) {
    return absl::InvalidArgumentError(
        absl::StrCat(folder_, "/", kIndexName, ": ", what, " — download the directory again"));
  };
  for (const std::string& name : names) {
    absl::StatusOr<std::unique_ptr<SafetensorsReader>> reader =
        SafetensorsReader::Open(absl::StrCat(folder_, "/", name), files);
    if (absl::IsNotFound(reader.status())) return bad(absl::StrCat(name, " is not there"));
    if (absl::IsInvalidArgument(reader.status())) {
      return absl::InvalidArgumentError(
          absl::StrCat(reader.status().message(), " — download the file again"));
    }
    RETURN_IF_ERROR(reader.status());
    for (const SafetensorsEntry& entry : (*reader)->entries()) {
      const auto said = index.file_of.find(entry.name);
      if (indexed && (said == index.file_of.end() || said->second != name)) {
        if (IsBuffer(entry.name)) continue;
        return bad(absl::StrCat("does not say that ", name, " holds ",
                                absl::CHexEscape(entry.name.substr(0, 200))));
      }
      stored_[entry.name] = {reader->get(), &entry};
    }
    readers_.push_back(*std::move(reader));
  }
  for (const auto& [tensor, file] : index.file_of) {
    if (stored_.count(tensor) == 0) {
      return bad(absl::StrCat(file, " does not hold ", absl::CHexEscape(tensor.substr(0, 200))));
    }
  }
  return absl::OkStatus();
}

std::vector<std::string> HuggingFaceWeights::Match(const std::vector<StoredTensor>& model,
                                                   bool tied) {
  std::vector<std::string> problems, missing;
  for (const StoredTensor& stored : model) {
    const std::vector<std::string> names = NamesOf(stored.name, tied);
    const auto name = std::find_if(names.begin(), names.end(), [&](const std::string& each) {
      return stored_.count(each) > 0;
    });
    if (name == names.end()) {
      missing.push_back(stored.name);
      continue;
    }
    text_of_more_ |= absl::StrContains(*name, "language_model.");
    const Entry found = stored_.extract(*name).mapped();
    const auto report = [&](const std::string& what) {
      problems.push_back(absl::StrCat(found.file->path(), ": ", *name, ": ", what));
    };
    if (found.entry->shape != stored.shape) {
      report(absl::StrCat("has the shape ", ShapeText(found.entry->shape), ", config.json's has ",
                          ShapeText(stored.shape)));
    }
    const DType type = found.entry->dtype;
    if (type != DType::kF32 && type != DType::kBF16 && type != DType::kF16) {
      report(absl::StrCat("has the type ", NameOf(type),
                          " — F32, BF16 and F16 are read: save the model in one of them"));
    }
    types_[stored.name] = type;
    for (const StoredPart& part : stored.parts) places_[part.logical.name] = {found, part};
  }
  if (!missing.empty()) {
    problems.push_back(absl::StrCat(folder_, ": tensors are missing: ", Listed(missing),
                                    " — download the directory again, or correct config.json"));
  }
  return problems;
}

std::vector<std::string> HuggingFaceWeights::FindOthers(const model::ModelSpec& spec) const {
  std::vector<std::string> others;
  for (const auto& [name, entry] : stored_) {
    const bool head = spec.tied_embeddings && absl::EndsWith(name, "lm_head.weight");
    const bool part = text_of_more_ && IsOfOtherPart(name);
    if (!head && !part && !IsBuffer(name)) others.push_back(name);
  }
  if (others.empty()) return {};
  return {absl::StrCat(folder_, ": tensors that the model of config.json does not have: ",
                       Listed(others), " — name a causal language model that matches its config")};
}

void HuggingFaceWeights::ChooseType() {
  std::map<DType, int64_t> elements;
  for (const auto& [name, place] : places_) {
    elements[place.found.entry->dtype] +=
        place.found.entry->size_bytes / SizeOf(place.found.entry->dtype);
  }
  const auto most =
      std::max_element(elements.begin(), elements.end(),
                       [](const auto& a, const auto& b) { return a.second < b.second; });
  const DType type = most == elements.end() ? DType::kF32 : most->first;
  type_ = type == DType::kBF16 ? "bf16" : type == DType::kF16 ? "f16" : "f32";
}

absl::StatusOr<std::unique_ptr<HuggingFaceWeights>> HuggingFaceWeights::Open(
    const std::string& folder, const model::ModelSpec& spec,
    absl::Span<const LogicalTensorShape> tensors, Named named, FileSystem* files) {
  std::unique_ptr<HuggingFaceWeights> weights(new HuggingFaceWeights(folder));
  RETURN_IF_ERROR(weights->OpenFiles(files));
  std::vector<std::string> problems =
      weights->Match(StoredTensorsOf(spec, tensors), spec.tied_embeddings);
  if (named == Named::kAll) {
    for (std::string& problem : weights->FindOthers(spec)) problems.push_back(std::move(problem));
  }
  weights->stored_.clear();
  if (!problems.empty()) {
    constexpr size_t kMostProblems = 20;
    problems.resize(std::min(problems.size(), kMostProblems));
    return absl::InvalidArgumentError(absl::StrJoin(problems, "\n"));
  }
  weights->ChooseType();
  return weights;
}

absl::Status HuggingFaceWeights::ReadRun(const Entry& found, int64_t first, int64_t count,
                                         float* out) {
  const int64_t size = SizeOf(found.entry->dtype);
  for (int64_t done = 0; done < count;) {
    const int64_t piece = std::min(kChunkElements, count - done);
    chunk_.resize(static_cast<size_t>(piece * size));
    RETURN_IF_ERROR(
        found.file->ReadBytes(*found.entry, (first + done) * size, piece * size, chunk_.data()));
    STRATA_CHECK(WidenToFloat(found.entry->dtype, chunk_.data(), piece, out + done));
    done += piece;
  }
  return absl::OkStatus();
}

absl::Status HuggingFaceWeights::ReadBox(const Entry& found, const StoredPart& part, const Box& box,
                                         float* out) {
  if (part.transposed) return ReadTransposed(found, part, box, out);
  const int64_t width = box.extent.size() > 1 ? part.logical.shape[1] : 1;
  const int64_t columns = box.extent.size() > 1 ? box.extent[1] : 1;
  const int64_t column = box.extent.size() > 1 ? box.offset[1] : 0;
  const int64_t row = part.first_row + box.offset[0];
  if (columns == width) return ReadRun(found, row * width, box.extent[0] * width, out);
  for (int64_t r = 0; r < box.extent[0]; ++r) {
    RETURN_IF_ERROR(ReadRun(found, (row + r) * width + column, columns, out + r * columns));
  }
  return absl::OkStatus();
}

// The box's columns are rows of the file.
absl::Status HuggingFaceWeights::ReadTransposed(const Entry& found, const StoredPart& part,
                                                const Box& box, float* out) {
  const int64_t width = found.entry->shape[1];
  const int64_t rows = box.extent[0], columns = box.extent[1];
  const int64_t at_once = std::clamp<int64_t>(kChunkElements / std::max<int64_t>(1, rows), 1, 64);
  wide_.resize(static_cast<size_t>(at_once * rows));
  for (int64_t begin = 0; begin < columns; begin += at_once) {
    const int64_t count = std::min(at_once, columns - begin);
    for (int64_t c = 0; c < count; ++c) {
      const int64_t first = (box.offset[1] + begin + c) * width + part.first_row + box.offset[0];
      RETURN_IF_ERROR(ReadRun(found, first, rows, wide_.data() + c * rows));
    }
    for (int64_t r = 0; r < rows; ++r) {
      for (int64_t c = 0; c < count; ++c) out[r * columns + begin + c] = wide_[c * rows + r];
    }
  }
  return absl::OkStatus();
}

absl::Status HuggingFaceWeights::ReadRegion(const std::string& name, const Region& region,
                                            float* out) {
  const auto place = places_.find(name);
  if (place == places_.end()) {
    return absl::NotFoundError(absl::StrCat(folder_, ": holds no ", name));
  }
  for (const Box& box : BoxesOf(region)) {
    RETURN_IF_ERROR(ReadBox(place->second.found, place->second.part, box, out));
    out += box.elements();
  }
  return absl::OkStatus();
}

}  // namespace strata::checkpoint
