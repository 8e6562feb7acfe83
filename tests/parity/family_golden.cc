#include "tests/parity/family_golden.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include "common/check.h"
#include "google/protobuf/util/json_util.h"
#include "model/model_spec_proto.h"
#include "model/weight_names.h"

namespace strata::parity {
namespace {

using checkpoint::SafetensorsEntry;
using checkpoint::SafetensorsReader;

std::string Folder() {
  const char* const given = std::getenv("STRATA_PARITY_GOLDENS");
  return given != nullptr ? given : "tests/parity/goldens/families";
}

// As the script makes them: FNV-1a of the name, begun with the seed, then SplitMix64.
std::vector<float> MakeWeights(uint64_t seed, const std::string& name, double scale, double offset,
                               int64_t count) {
  uint64_t key = uint64_t{0xcbf29ce484222325} ^ seed;
  for (const char c : name) {
    key = (key ^ static_cast<unsigned char>(c)) * uint64_t{0x100000001b3};
  }
  std::vector<float> values;
  for (int64_t i = 1; i <= count; ++i) {
    uint64_t x = key + static_cast<uint64_t>(i) * uint64_t{0x9e3779b97f4a7c15};
    x = (x ^ (x >> 30)) * uint64_t{0xbf58476d1ce4e5b9};
    x = (x ^ (x >> 27)) * uint64_t{0x94d049bb133111eb};
    x ^= x >> 31;
    const double uniform = static_cast<double>(x >> 40) * 0x1p-23 - 1;
    values.push_back(static_cast<float>(uniform * scale + offset));
  }
  return values;
}

int64_t Elements(const std::vector<int64_t>& shape) {
  int64_t count = 1;
  for (const int64_t extent : shape) count *= extent;
  return count;
}

}  // namespace

std::vector<std::string> FamilyGolden::Names() {
  std::vector<std::string> names;
  for (const auto& file : std::filesystem::directory_iterator(Folder())) {
    if (file.path().extension() == ".safetensors") names.push_back(file.path().stem());
  }
  std::sort(names.begin(), names.end());
  return names;
}

template <typename T>
std::vector<T> FamilyGolden::Read(const std::string& name) const {
  const SafetensorsEntry* const entry = reader_->Find(name);
  STRATA_CHECK(entry != nullptr);
  std::vector<T> values(entry->size_bytes / sizeof(T));
  STRATA_CHECK(reader_->ReadBytes(*entry, 0, entry->size_bytes, values.data()).ok());
  return values;
}

template std::vector<float> FamilyGolden::Read(const std::string& name) const;
template std::vector<double> FamilyGolden::Read(const std::string& name) const;

FamilyGolden::FamilyGolden(const std::string& name) {
  auto reader = SafetensorsReader::Open(Folder() + "/" + name + ".safetensors");
  STRATA_CHECK(reader.ok());
  reader_ = *std::move(reader);
  const auto& metadata = reader_->metadata();
  v1::ModelSpec message;
  STRATA_CHECK(google::protobuf::util::JsonStringToMessage(metadata.at("model"), &message).ok());
  const absl::StatusOr<model::ModelSpec> spec = model::FromProto(message);
  if (!spec.ok()) std::fprintf(stderr, "%s\n", spec.status().ToString().c_str());
  STRATA_CHECK(spec.ok());
  spec_ = *spec;
  scales_ = nlohmann::json::parse(metadata.at("scales"));
  seed_ = std::stoull(metadata.at("seed"));
  bf16_loss_ = std::stod(metadata.at("bf16_loss"));
  bf16_norm_ = std::stod(metadata.at("bf16_norm"));
  const nlohmann::json training = nlohmann::json::parse(metadata.at("training"));
  adamw_ = {training.at("beta1"), training.at("beta2"), training.at("epsilon"),
            training.at("weight_decay")};
  schedule_.peak = training.at("learning_rate");
  schedule_.steps = training.at("steps");
  schedule_.warmup_steps = training.at("warmup_steps");
  schedule_.final_fraction = training.at("final_fraction");
  gradient_clip_ = training.at("gradient_clip");
  tokens_ = Read<int32_t>("tokens");
  targets_ = Read<int32_t>("targets");
  const std::vector<int64_t>& shape = reader_->Find("tokens")->shape;
  steps_ = shape[0];
  batch_ = shape[1];
  sequence_ = shape[2];
}

const SafetensorsEntry& FamilyGolden::StoredGradient(const std::string& name) const {
  const SafetensorsEntry* const entry =
      reader_->Find("gradients/" + model::HuggingFaceTensor(spec_, name).tensor);
  if (entry == nullptr) std::fprintf(stderr, "no gradient of %s\n", name.c_str());
  STRATA_CHECK(entry != nullptr);
  return *entry;
}

std::vector<float> FamilyGolden::Part(const std::string& name,
                                      const std::vector<float>& stored) const {
  const model::StoredAs as = model::HuggingFaceTensor(spec_, name);
  const std::vector<int64_t>& shape = StoredGradient(name).shape;
  int64_t rows = shape[0], columns = shape.size() > 1 ? shape[1] : 1;
  std::vector<float> whole = stored;
  if (as.transposed) {
    for (int64_t i = 0; i < rows; ++i) {
      for (int64_t j = 0; j < columns; ++j) whole[j * rows + i] = stored[i * columns + j];
    }
    std::swap(rows, columns);
  }
  const int64_t count = as.rows > 0 ? as.rows : rows;
  const auto begin = whole.begin() + as.first_row * columns;
  return {begin, begin + count * columns};
}

std::vector<float> FamilyGolden::Weight(const std::string& name) const {
  const std::string tensor = model::HuggingFaceTensor(spec_, name).tensor;
  const nlohmann::json& scale = scales_.at(tensor);
  return Part(name, MakeWeights(seed_, tensor, scale.at(0), scale.at(1),
                                Elements(StoredGradient(name).shape)));
}

std::vector<float> FamilyGolden::Gradient(const std::string& name) const {
  return Part(name, Read<float>("gradients/" + model::HuggingFaceTensor(spec_, name).tensor));
}

void FamilyGolden::FillWeights(const program::ParameterSet& set, int64_t rank,
                               absl::Span<float> flat) const {
  for (const program::ElementRun& run : ElementRuns(set, rank, 0, set.elements)) {
    const std::vector<float> weights = Weight(set.tensors[run.tensor].logical_name(run.part));
    std::copy_n(weights.begin() + run.first, run.count, flat.begin() + run.flat);
  }
}

}  // namespace strata::parity
