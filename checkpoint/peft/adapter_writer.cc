#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "checkpoint/new_folder.h"
#include "checkpoint/peft/adapter_weights.h"
#include "common/check.h"
#include "common/status_macros.h"
#include "model/adapter_names.h"

namespace strata::checkpoint {
namespace {

constexpr char kPrefix[] = "base_model.model.";

// By name in the file, the model's tensors whose rows it has.
struct Written {
  SafetensorsEntry entry;
  std::vector<const AdapterTensor*> parts;
};

std::vector<Written> WrittenOf(const AdapterToWrite& adapter) {
  std::vector<Written> all;
  for (const AdapterTensor& tensor : adapter.tensors) {
    const std::string name = kPrefix + model::StoredAdapter(tensor.name);
    const auto is_named = [&](const Written& written) { return written.entry.name == name; };
    auto written = std::find_if(all.begin(), all.end(), is_named);
    if (written == all.end()) {
      written = all.insert(written, Written{{name, adapter.type, {0, tensor.shape[1]}}, {}});
    }
    written->entry.shape[0] += tensor.shape[0];
    written->parts.push_back(&tensor);
  }
  return all;
}

std::vector<std::string> ModulesOf(const AdapterToWrite& adapter) {
  std::vector<std::string> modules;
  for (const AdapterTensor& tensor : adapter.tensors) {
    std::string module = tensor.name.substr(0, tensor.name.find(".lora_"));
    if (modules.empty() || modules.back() != module) modules.push_back(std::move(module));
  }
  std::sort(modules.begin(), modules.end());
  modules.erase(std::unique(modules.begin(), modules.end()), modules.end());
  return modules;
}

absl::Status WriteTensors(const AdapterToWrite& adapter, const std::string& path,
                          FileSystem* files) {
  const std::vector<Written> all = WrittenOf(adapter);
  std::vector<SafetensorsEntry> entries;
  for (const Written& written : all) entries.push_back(written.entry);
  ASSIGN_OR_RETURN(std::unique_ptr<WritableFile> file, files->CreateFile(path));
  ASSIGN_OR_RETURN(
      const std::unique_ptr<SafetensorsWriter> writer,
      SafetensorsWriter::Create(std::move(file), std::move(entries), {{"format", "pt"}}));
  std::vector<float> values;
  std::vector<char> bytes;
  for (const SafetensorsEntry& entry : writer->entries()) {
    const auto is_entry = [&](const Written& written) { return written.entry.name == entry.name; };
    for (const AdapterTensor* part : std::find_if(all.begin(), all.end(), is_entry)->parts) {
      const Box whole = WholeBox(part->shape);
      const int64_t count = whole.elements();
      values.resize(static_cast<size_t>(count));
      bytes.resize(static_cast<size_t>(count * SizeOf(adapter.type)));
      RETURN_IF_ERROR(adapter.source->ReadRegion(part->name, {whole, 0, count}, values.data()));
      if (!NarrowFromFloat(adapter.type, values.data(), count, bytes.data())) {
        return absl::InvalidArgumentError(absl::StrCat(part->name, ": holds values beyond ",
                                                       NameOf(adapter.type),
                                                       " — write it as bf16 or f32"));
      }
      RETURN_IF_ERROR(writer->Append(bytes.data(), bytes.size()));
    }
  }
  return writer->Finish();
}

absl::Status WriteInto(const AdapterToWrite& adapter, const std::string& partial,
                       FileSystem* files) {
  RETURN_IF_ERROR(WriteTensors(adapter, absl::StrCat(partial, "/", kAdapterWeightsName), files));
  AdapterConfig config = adapter.config;
  config.modules = ModulesOf(adapter);
  RETURN_IF_ERROR(WriteAtomically(files, absl::StrCat(partial, "/", kAdapterConfigName),
                                  FormatAdapterConfig(config)));
  return files->SyncFolder(partial);
}

}  // namespace

absl::Status WriteAdapter(const AdapterToWrite& adapter, const std::string& folder,
                          FileSystem* files) {
  return WriteNewFolder(folder, files, [&](const std::string& partial) {
    return WriteInto(adapter, partial, files);
  });
}

}  // namespace strata::checkpoint
