#include "checkpoint/peft/adapter_weights.h"

#include <algorithm>
#include <set>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "checkpoint/box.h"
#include "common/check.h"
#include "common/status_macros.h"
#include "model/adapter_names.h"

namespace strata::checkpoint {
namespace {

// Before the module's name: of PEFT's model, and of the model inside it.
constexpr char kPrefix[] = "base_model.model.";
constexpr size_t kMostProblems = 20;

// A tensor of the file, and the model's that it consists of.
struct Stored {
  std::string name;
  std::vector<int64_t> shape;
  std::vector<AdapterTensor> parts;
};

std::vector<Stored> StoredOf(absl::Span<const AdapterTensor> tensors) {
  std::vector<Stored> all;
  for (const AdapterTensor& tensor : tensors) {
    STRATA_CHECK(model::IsAdapter(tensor.name) && tensor.shape.size() == 2);
    const std::string name = kPrefix + model::StoredAdapter(tensor.name);
    const auto is_named = [&](const Stored& stored) { return stored.name == name; };
    auto stored = std::find_if(all.begin(), all.end(), is_named);
    if (stored == all.end()) stored = all.insert(stored, Stored{name, {0, tensor.shape[1]}, {}});
    stored->shape[0] += tensor.shape[0];
    stored->parts.push_back(tensor);
  }
  return all;
}

// The module of "base_model.model.MODULE.lora_A.weight"; empty for other names.
std::string ModuleIn(absl::string_view name) {
  if (!absl::ConsumePrefix(&name, kPrefix)) return "";
  if (!absl::ConsumeSuffix(&name, ".lora_A.weight")) return "";
  return std::string(name);
}

absl::StatusOr<std::unique_ptr<SafetensorsReader>> OpenFile(const std::string& folder,
                                                            FileSystem* files) {
  const std::string path = absl::StrCat(folder, "/", kAdapterWeightsName);
  const bool pickled = files->Exists(absl::StrCat(folder, "/adapter_model.bin"));
  if (!files->Exists(path) && pickled) {
    return absl::InvalidArgumentError(
        absl::StrCat(folder, "/adapter_model.bin: is a pickled file, which is not read — save the ",
                     "adapter again with safe_serialization=True"));
  }
  absl::StatusOr<std::unique_ptr<SafetensorsReader>> reader = SafetensorsReader::Open(path, files);
  if (absl::IsNotFound(reader.status())) {
    return absl::InvalidArgumentError(std::string(reader.status().message()));
  }
  return reader;
}

std::string Text(const std::vector<int64_t>& shape) {
  return absl::StrCat("[", absl::StrJoin(shape, ", "), "]");
}

bool IsNumber(DType type) {
  return type == DType::kF32 || type == DType::kBF16 || type == DType::kF16;
}

}  // namespace

absl::StatusOr<std::unique_ptr<AdapterWeights>> AdapterWeights::Open(
    const std::string& folder, absl::Span<const AdapterTensor> tensors, Named named,
    FileSystem* files) {
  std::unique_ptr<AdapterWeights> weights(new AdapterWeights());
  ASSIGN_OR_RETURN(weights->reader_, OpenFile(folder, files));
  std::vector<std::string> problems = weights->Match(tensors, named);
  if (problems.empty()) return weights;
  const size_t count = problems.size();
  if (count > kMostProblems) {
    problems.resize(kMostProblems);
    problems.push_back(
        absl::StrCat(weights->reader_->path(), ": and ", count - kMostProblems, " more"));
  }
  return absl::InvalidArgumentError(absl::StrJoin(problems, "\n"));
}

std::vector<std::string> AdapterWeights::Match(absl::Span<const AdapterTensor> tensors,
                                               Named named) {
  std::vector<std::string> problems;
  const auto report = [&](const std::string& name, const std::string& what) {
    problems.push_back(absl::StrCat(reader_->path(), ": ", name, ": ", what));
  };
  std::set<std::string> known;
  for (const Stored& stored : StoredOf(tensors)) {
    known.insert(stored.name);
    const SafetensorsEntry* const entry = reader_->Find(stored.name);
    if (entry == nullptr) {
      report(stored.name, "missing — train.lora must have the targets of the adapter");
      continue;
    }
    if (entry->shape != stored.shape) {
      report(stored.name, absl::StrCat("has the shape ", Text(entry->shape), ", the model's has ",
                                       Text(stored.shape)));
    }
    if (!IsNumber(entry->dtype)) {
      report(stored.name,
             absl::StrCat("has the type ", NameOf(entry->dtype), " — save it as F32, BF16 or F16"));
    }
    int64_t row = 0;
    for (const AdapterTensor& part : stored.parts) {
      places_[part.name] = {entry, row, part.shape};
      row += part.shape[0];
    }
  }
  for (const SafetensorsEntry& entry : reader_->entries()) {
    if (named == Named::kSome || known.contains(entry.name)) continue;
    report(entry.name, "is not a tensor of the job's adapters — correct train.lora");
  }
  return problems;
}

absl::Status AdapterWeights::ReadRegion(const std::string& name, const Region& region, float* out) {
  const auto found = places_.find(name);
  if (found == places_.end()) {
    return absl::NotFoundError(absl::StrCat(reader_->path(), ": has no tensor ", name));
  }
  const auto& [entry, first_row, shape] = found->second;
  const int64_t size = SizeOf(entry->dtype);
  for (const Box& box : BoxesOf(region)) {
    STRATA_CHECK(IsInside(box, shape));
    const int64_t columns = box.extent[1];
    bytes_.resize(static_cast<size_t>(columns * size));
    for (int64_t row = 0; row < box.extent[0]; ++row, out += columns) {
      const int64_t from = (first_row + box.offset[0] + row) * shape[1] + box.offset[1];
      RETURN_IF_ERROR(reader_->ReadBytes(*entry, from * size, columns * size, bytes_.data()));
      STRATA_CHECK(WidenToFloat(entry->dtype, bytes_.data(), columns, out));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<std::string>> AdaptedModules(const std::string& folder,
                                                        FileSystem* files) {
  ASSIGN_OR_RETURN(const std::unique_ptr<SafetensorsReader> reader, OpenFile(folder, files));
  std::vector<std::string> modules;
  for (const SafetensorsEntry& entry : reader->entries()) {
    if (std::string module = ModuleIn(entry.name); !module.empty()) {
      modules.push_back(std::move(module));
    }
  }
  return modules;
}

}  // namespace strata::checkpoint
