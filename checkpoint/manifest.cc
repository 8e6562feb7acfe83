#include "checkpoint/manifest.h"

#include <algorithm>
#include <limits>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "checkpoint/json_fields.h"
#include "checkpoint/safetensors.h"
#include "common/digest.h"

namespace strata::checkpoint {
namespace {

constexpr char kFormat[] = "strata checkpoint";
constexpr int64_t kVersion = 3;
constexpr int64_t kVersionOfRanges = 1;  // without boxes; 2: without windows
// The end of the text, between which and the body stands its digest of 32 hexadecimal digits.
constexpr char kTailBegin[] = ",\n \"manifest_digest\": \"";
constexpr char kTailEnd[] = "\"\n}\n";
constexpr size_t kDigestDigits = 32;

std::string Label(const LogicalTensor& tensor) {
  return absl::StrCat("tensor ", absl::CHexEscape(tensor.name), " (",
                      absl::CHexEscape(tensor.state), ")");
}

Json TensorToJson(const LogicalTensor& tensor) {
  return {{"name", tensor.name},
          {"state", tensor.state},
          {"shape", tensor.shape},
          {"dtype", NameOf(tensor.dtype)}};
}

absl::Status TensorFromJson(const Json& json, LogicalTensor* tensor) {
  std::string dtype;
  RETURN_IF_ERROR(Get(json, "name", &tensor->name));
  RETURN_IF_ERROR(Get(json, "state", &tensor->state));
  RETURN_IF_ERROR(Get(json, "shape", &tensor->shape));
  RETURN_IF_ERROR(Get(json, "dtype", &dtype));
  const std::optional<DType> known = DTypeFromName(dtype);
  if (!known.has_value()) {
    return absl::InvalidArgumentError(
        absl::StrCat(Label(*tensor), ": unknown dtype ", absl::CHexEscape(dtype)));
  }
  tensor->dtype = *known;
  return ElementCount(tensor->shape).status();
}

// A file of the checkpoint's own folder, nothing else.
absl::Status CheckFileName(const std::string& name) {
  if (!name.empty() && name[0] != '.' && name.find_first_of(std::string("/\0", 2)) == name.npos) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat("\"", absl::CHexEscape(name), "\" is no name of a file in the checkpoint"));
}

Json BoxToJson(const Box& box) { return {{"offset", box.offset}, {"extent", box.extent}}; }

// The box of a piece, where it has one.
absl::Status BoxFromJson(const Json& piece, std::optional<Box>* out) {
  if (!piece.is_object() || !piece.contains("box")) return absl::OkStatus();
  Box box;
  RETURN_IF_ERROR(Get(piece["box"], "offset", &box.offset));
  RETURN_IF_ERROR(Get(piece["box"], "extent", &box.extent));
  *out = std::move(box);
  return absl::OkStatus();
}

using FilesOf = std::vector<ManifestFile>;

const std::string& FileOf(const FilesOf& files, const Extent& extent) {
  return files[static_cast<size_t>(extent.file)].name;
}

// The ranges [first, last) of one box, sorted, fill it.
absl::Status CheckRanges(const ManifestTensor& tensor, const FilesOf& files, const Extent* first,
                         const Extent* last, int64_t count) {
  const std::string where = first->box.has_value() ? " of box " + ToText(*first->box) : "";
  int64_t next = 0;
  for (const Extent* extent = first; extent != last; ++extent) {
    const std::string& name = FileOf(files, *extent);
    if (extent->end <= extent->begin || extent->end > count) {
      return absl::FailedPreconditionError(absl::StrCat(Label(tensor.tensor), ": ", name,
                                                        " holds elements [", extent->begin, ", ",
                                                        extent->end, ") of ", count, where));
    }
    if (extent->begin < next) {
      return absl::FailedPreconditionError(
          absl::StrCat(Label(tensor.tensor), ": element ", extent->begin, where, " is in ",
                       FileOf(files, extent[-1]), " and in ", name));
    }
    if (extent->begin > next) break;
    next = extent->end;
  }
  if (next == count) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(Label(tensor.tensor), ": element ", next,
                                                    " of ", count, where, " is in no file"));
}

// The pieces of one box.
struct Held {
  Box box;
  const Extent* first = nullptr;
};

// No two boxes, sorted by offset, overlap. Only those are compared that meet in the first
// dimension.
absl::Status CheckApart(const ManifestTensor& tensor, const FilesOf& files,
                        const std::vector<Held>& boxes) {
  for (size_t i = 0; i + 1 < boxes.size(); ++i) {
    for (size_t j = i + 1; j < boxes.size(); ++j) {
      const Box &box = boxes[i].box, &other = boxes[j].box;
      if (!box.offset.empty() && other.offset[0] >= box.offset[0] + box.extent[0]) break;
      const std::optional<Box> common = Intersect(box, other);
      if (!common.has_value()) continue;
      return absl::FailedPreconditionError(
          absl::StrCat(Label(tensor.tensor), ": ", ToText(*common), " is in ",
                       FileOf(files, *boxes[i].first), ", box ", ToText(box), ", and in ",
                       FileOf(files, *boxes[j].first), ", box ", ToText(other)));
    }
  }
  return absl::OkStatus();
}

// Brings the pieces into their order: by box, the whole tensor first, and range.
absl::Status SortExtents(ManifestTensor& tensor, const FilesOf& files, int64_t count) {
  for (Extent& extent : tensor.extents) {
    if (!extent.box.has_value()) continue;
    if (!IsInside(*extent.box, tensor.tensor.shape)) {
      return absl::FailedPreconditionError(
          absl::StrCat(Label(tensor.tensor), ": ", FileOf(files, extent),
                       " holds a box that is not inside ", ToText(WholeBox(tensor.tensor.shape))));
    }
    if (extent.box->elements() == count) extent.box.reset();
  }
  std::sort(tensor.extents.begin(), tensor.extents.end(), [](const Extent& a, const Extent& b) {
    return std::tie(a.box, a.begin) < std::tie(b.box, b.begin);
  });
  return absl::OkStatus();
}

// Sorts the extents, and checks that together they are exactly the tensor.
absl::Status CheckCoverage(ManifestTensor& tensor, const FilesOf& files) {
  ASSIGN_OR_RETURN(const int64_t count, ElementCount(tensor.tensor.shape));
  RETURN_IF_ERROR(SortExtents(tensor, files, count));
  std::vector<Held> boxes;
  const Extent* const end = tensor.extents.data() + tensor.extents.size();
  for (const Extent *first = tensor.extents.data(), *last = first; first != end; first = last) {
    while (last != end && last->box == first->box) ++last;
    boxes.push_back({first->box.value_or(WholeBox(tensor.tensor.shape)), first});
    RETURN_IF_ERROR(CheckRanges(tensor, files, first, last, boxes.back().box.elements()));
  }
  if (boxes.size() > kMostBoxes) {
    return absl::FailedPreconditionError(absl::StrCat(Label(tensor.tensor), ": in ", boxes.size(),
                                                      " boxes, at most ", kMostBoxes,
                                                      " are allowed"));
  }
  RETURN_IF_ERROR(CheckApart(tensor, files, boxes));
  int64_t covered = 0;  // apart and inside, they cannot be more than the tensor
  for (const Held& held : boxes) covered += held.box.elements();
  if (covered == count) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat(Label(tensor.tensor), ": ",
                   covered == 0 ? absl::StrCat("element 0 of ", count, " is")
                                : absl::StrCat(count - covered, " of ", count, " elements are"),
                   " in no file"));
}

// Entries of one window have none.
void WindowsToJson(const std::vector<std::string>& windows, Json& entry) {
  if (!windows.empty()) entry["windows"] = windows;
}

absl::Status WindowsFromJson(const Json& entry, std::vector<std::string>* windows) {
  if (!entry.is_object() || !entry.contains("windows")) return absl::OkStatus();
  return Get(entry, "windows", windows);
}

Json InfoToJson(const CheckpointInfo& info) {
  Json data_files = Json::array();
  for (const DataFileInfo& file : info.data_files) {
    data_files.push_back({{"path", file.path},
                          {"size_bytes", file.size_bytes},
                          {"digest", file.digest},
                          {"parts", file.parts}});
  }
  Json json = {{"step", info.step},
               {"applied_updates", info.applied_updates},
               {"next_sample_index", info.next_sample_index},
               {"epoch", info.epoch},
               {"virtual_shards", info.virtual_shards},
               {"seed", info.seed},
               {"plan_digest", info.plan_digest},
               {"build", info.build},
               {"isa", info.isa},
               {"device_kind", info.device_kind},
               {"job_spec", info.job_spec},
               {"data_files", std::move(data_files)}};
  if (info.loss_scale > 0) {
    json["loss_scale"] = info.loss_scale;
    json["good_steps"] = info.good_steps;
  }
  return json;
}

absl::Status LossScaleFromJson(const Json& json, CheckpointInfo* info) {
  const auto found = json.find("loss_scale");
  if (found == json.end()) return absl::OkStatus();
  if (!found->is_number() || !(found->get<double>() > 0) ||
      !(found->get<double>() <= std::numeric_limits<float>::max())) {
    return absl::InvalidArgumentError("\"loss_scale\" is no scale");
  }
  info->loss_scale = found->get<double>();
  return Get(json, "good_steps", &info->good_steps);
}

absl::Status DataFilesFromJson(const Json& json, std::vector<DataFileInfo>* files) {
  if (!json.contains("data_files")) return absl::OkStatus();
  ASSIGN_OR_RETURN(const Json* const list, GetList(json, "data_files"));
  for (const Json& item : *list) {
    DataFileInfo& file = files->emplace_back();
    RETURN_IF_ERROR(Get(item, "path", &file.path));
    RETURN_IF_ERROR(Get(item, "size_bytes", &file.size_bytes));
    RETURN_IF_ERROR(Get(item, "digest", &file.digest));
    RETURN_IF_ERROR(Get(item, "parts", &file.parts));
  }
  return absl::OkStatus();
}

absl::Status InfoFromJson(const Json& json, CheckpointInfo* info) {
  RETURN_IF_ERROR(Get(json, "step", &info->step));
  RETURN_IF_ERROR(Get(json, "applied_updates", &info->applied_updates));
  RETURN_IF_ERROR(Get(json, "next_sample_index", &info->next_sample_index));
  RETURN_IF_ERROR(Get(json, "epoch", &info->epoch));
  RETURN_IF_ERROR(Get(json, "virtual_shards", &info->virtual_shards));
  RETURN_IF_ERROR(Get(json, "seed", &info->seed));
  RETURN_IF_ERROR(Get(json, "plan_digest", &info->plan_digest));
  RETURN_IF_ERROR(Get(json, "build", &info->build));
  RETURN_IF_ERROR(Get(json, "isa", &info->isa));
  RETURN_IF_ERROR(Get(json, "device_kind", &info->device_kind));
  RETURN_IF_ERROR(Get(json, "job_spec", &info->job_spec));
  RETURN_IF_ERROR(LossScaleFromJson(json, info));
  return DataFilesFromJson(json, &info->data_files);
}

Json FileToJson(const ManifestFile& file) {
  Json entries = Json::array();
  for (const ManifestFileEntry& entry : file.entries) {
    entries.push_back({{"name", entry.name}, {"digest", entry.digest}});
    WindowsToJson(entry.windows, entries.back());
  }
  return {{"name", file.name},
          {"size_bytes", file.size_bytes},
          {"digest", file.digest},
          {"header_digest", file.header_digest},
          {"entries", std::move(entries)}};
}

absl::Status FileFromJson(const Json& json, ManifestFile* file) {
  RETURN_IF_ERROR(Get(json, "name", &file->name));
  RETURN_IF_ERROR(CheckFileName(file->name));
  RETURN_IF_ERROR(Get(json, "size_bytes", &file->size_bytes));
  RETURN_IF_ERROR(Get(json, "digest", &file->digest));
  RETURN_IF_ERROR(Get(json, "header_digest", &file->header_digest));
  ASSIGN_OR_RETURN(const Json* const entries, GetList(json, "entries"));
  for (const Json& entry : *entries) {
    ManifestFileEntry& added = file->entries.emplace_back();
    RETURN_IF_ERROR(Get(entry, "name", &added.name));
    RETURN_IF_ERROR(Get(entry, "digest", &added.digest));
    RETURN_IF_ERROR(WindowsFromJson(entry, &added.windows));
  }
  return absl::OkStatus();
}

Json ManifestTensorToJson(const ManifestTensor& tensor) {
  Json json = TensorToJson(tensor.tensor);
  Json& extents = json["extents"] = Json::array();
  for (const Extent& extent : tensor.extents) {
    extents.push_back({{"begin", extent.begin},
                       {"end", extent.end},
                       {"file", extent.file},
                       {"entry", extent.entry},
                       {"offset", extent.offset}});
    if (extent.box.has_value()) extents.back()["box"] = BoxToJson(*extent.box);
  }
  return json;
}

absl::Status ManifestTensorFromJson(const Json& json, bool boxes, const FilesOf& files,
                                    ManifestTensor* tensor) {
  RETURN_IF_ERROR(TensorFromJson(json, &tensor->tensor));
  ASSIGN_OR_RETURN(const Json* const extents, GetList(json, "extents"));
  for (const Json& item : *extents) {
    Extent& extent = tensor->extents.emplace_back();
    int64_t file = 0;
    RETURN_IF_ERROR(Get(item, "begin", &extent.begin));
    RETURN_IF_ERROR(Get(item, "end", &extent.end));
    RETURN_IF_ERROR(Get(item, "file", &file));
    RETURN_IF_ERROR(Get(item, "entry", &extent.entry));
    RETURN_IF_ERROR(Get(item, "offset", &extent.offset));
    if (boxes) RETURN_IF_ERROR(BoxFromJson(item, &extent.box));
    if (file >= static_cast<int64_t>(files.size())) {
      return absl::InvalidArgumentError(absl::StrCat(Label(tensor->tensor), ": no file ", file));
    }
    extent.file = static_cast<int32_t>(file);
  }
  return CheckCoverage(*tensor, files);
}

absl::StatusOr<Manifest> ParseManifest(const std::string& body) {
  const Json json = Json::parse(body + "}", nullptr, /*allow_exceptions=*/false);
  if (json.is_discarded()) return absl::InvalidArgumentError("it is no valid JSON");
  std::string format;
  int64_t version = 0;
  RETURN_IF_ERROR(Get(json, "format", &format));
  RETURN_IF_ERROR(Get(json, "version", &version));
  if (format != kFormat || version < kVersionOfRanges || version > kVersion) {
    return absl::UnimplementedError(absl::StrCat(
        "it is \"", absl::CHexEscape(format), "\" version ", version, "; this build reads \"",
        kFormat, "\" versions ", kVersionOfRanges, " to ", kVersion));
  }
  Manifest manifest;
  ASSIGN_OR_RETURN(const Json* const info, FieldOf(json, "info"));
  RETURN_IF_ERROR(InfoFromJson(*info, &manifest.info));
  ASSIGN_OR_RETURN(const Json* const files, GetList(json, "files"));
  for (const Json& file : *files) {
    RETURN_IF_ERROR(FileFromJson(file, &manifest.files.emplace_back()));
  }
  ASSIGN_OR_RETURN(const Json* const tensors, GetList(json, "tensors"));
  for (const Json& tensor : *tensors) {
    RETURN_IF_ERROR(ManifestTensorFromJson(tensor, version > kVersionOfRanges, manifest.files,
                                           &manifest.tensors.emplace_back()));
  }
  return manifest;
}

// Adds a file's entries to the tensors that they are parts of.
absl::Status AddEntries(const FileFragment& fragment, int32_t file,
                        std::map<std::pair<std::string, std::string>, ManifestTensor>& tensors) {
  for (const FileEntry& entry : fragment.entries) {
    ManifestTensor& joined = tensors[{entry.tensor.name, entry.tensor.state}];
    if (joined.extents.empty()) joined.tensor = entry.tensor;
    if (!(joined.tensor == entry.tensor)) {
      return absl::FailedPreconditionError(absl::StrCat(
          Label(entry.tensor), ": its shape or dtype in ", fragment.file, " differs from others'"));
    }
    joined.extents.push_back({entry.begin, entry.end, file, entry.name, 0, entry.box});
  }
  return absl::OkStatus();
}

}  // namespace

std::string FileFragment::ToJson() const {
  Json list = Json::array();
  for (const FileEntry& entry : entries) {
    Json json = TensorToJson(entry.tensor);
    json["entry"] = entry.name;
    json["begin"] = entry.begin;
    json["end"] = entry.end;
    json["digest"] = entry.digest;
    if (entry.box.has_value()) json["box"] = BoxToJson(*entry.box);
    WindowsToJson(entry.windows, json);
    list.push_back(std::move(json));
  }
  // Names that are not UTF-8 were refused when the file was written.
  return Json{{"file", file},
              {"size_bytes", size_bytes},
              {"digest", digest},
              {"header_digest", header_digest},
              {"entries", std::move(list)}}
      .dump();
}

absl::StatusOr<FileFragment> FileFragment::FromJson(const std::string& text) {
  const Json json = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (json.is_discarded()) return absl::InvalidArgumentError("file fragment: no valid JSON");
  FileFragment fragment;
  RETURN_IF_ERROR(Get(json, "file", &fragment.file));
  RETURN_IF_ERROR(CheckFileName(fragment.file));
  RETURN_IF_ERROR(Get(json, "size_bytes", &fragment.size_bytes));
  RETURN_IF_ERROR(Get(json, "digest", &fragment.digest));
  RETURN_IF_ERROR(Get(json, "header_digest", &fragment.header_digest));
  ASSIGN_OR_RETURN(const Json* const entries, GetList(json, "entries"));
  for (const Json& item : *entries) {
    FileEntry& entry = fragment.entries.emplace_back();
    RETURN_IF_ERROR(TensorFromJson(item, &entry.tensor));
    RETURN_IF_ERROR(Get(item, "entry", &entry.name));
    RETURN_IF_ERROR(Get(item, "begin", &entry.begin));
    RETURN_IF_ERROR(Get(item, "end", &entry.end));
    RETURN_IF_ERROR(Get(item, "digest", &entry.digest));
    RETURN_IF_ERROR(WindowsFromJson(item, &entry.windows));
    RETURN_IF_ERROR(BoxFromJson(item, &entry.box));
  }
  return fragment;
}

const ManifestTensor* Manifest::Find(const std::string& name, const std::string& state) const {
  const auto found = std::find_if(tensors.begin(), tensors.end(), [&](const ManifestTensor& t) {
    return t.tensor.name == name && t.tensor.state == state;
  });
  return found == tensors.end() ? nullptr : &*found;
}

absl::StatusOr<std::string> Manifest::ToJson() const {
  Json json = {{"format", kFormat}, {"version", kVersion}, {"info", InfoToJson(info)}};
  Json& file_list = json["files"] = Json::array();
  for (const ManifestFile& file : files) file_list.push_back(FileToJson(file));
  Json& tensor_list = json["tensors"] = Json::array();
  for (const ManifestTensor& tensor : tensors) {
    tensor_list.push_back(ManifestTensorToJson(tensor));
  }
  ASSIGN_OR_RETURN(std::string body, ToText(json, 1));
  body.resize(body.size() - 2);  // the closing "\n}" comes with the tail
  return absl::StrCat(body, kTailBegin, common::DigestOf(body.data(), body.size()), kTailEnd);
}

absl::StatusOr<Manifest> Manifest::FromJson(const std::string& text) {
  const std::string begin = kTailBegin, end = kTailEnd;
  const size_t tail = begin.size() + kDigestDigits + end.size();
  const size_t body_size = text.size() < tail ? 0 : text.size() - tail;
  if (body_size == 0 || text.compare(body_size, begin.size(), begin) != 0 ||
      text.compare(text.size() - end.size(), end.size(), end) != 0) {
    return absl::DataLossError("does not end as a manifest does (truncated or changed)");
  }
  const std::string digest = text.substr(body_size + begin.size(), kDigestDigits);
  const std::string found = common::DigestOf(text.data(), body_size);
  if (digest != found) {
    return absl::DataLossError(absl::StrCat("digest differs: its content has ", found, ", it says ",
                                            absl::CHexEscape(digest)));
  }
  absl::StatusOr<Manifest> manifest = ParseManifest(text.substr(0, body_size));
  if (manifest.ok() || absl::IsUnimplemented(manifest.status())) return manifest;
  return absl::DataLossError(manifest.status().message());
}

absl::StatusOr<Manifest> JoinFragments(const CheckpointInfo& info,
                                       const std::vector<FileFragment>& fragments) {
  Manifest manifest;
  manifest.info = info;
  std::set<std::string> names;
  std::map<std::pair<std::string, std::string>, ManifestTensor> tensors;
  for (const FileFragment& fragment : fragments) {
    RETURN_IF_ERROR(CheckFileName(fragment.file));
    if (!names.insert(fragment.file).second) {
      return absl::FailedPreconditionError(absl::StrCat("two ranks wrote ", fragment.file));
    }
    const int32_t index = static_cast<int32_t>(manifest.files.size());
    ManifestFile& file = manifest.files.emplace_back();
    file = {fragment.file, fragment.size_bytes, fragment.digest, fragment.header_digest, {}};
    for (const FileEntry& entry : fragment.entries) {
      file.entries.push_back({entry.name, entry.digest, entry.windows});
    }
    RETURN_IF_ERROR(AddEntries(fragment, index, tensors));
  }
  for (auto& [key, tensor] : tensors) {
    RETURN_IF_ERROR(CheckCoverage(tensor, manifest.files));
    manifest.tensors.push_back(std::move(tensor));
  }
  return manifest;
}

}  // namespace strata::checkpoint
