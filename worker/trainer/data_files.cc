#include "worker/trainer/data_files.h"

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "data/file_identity.h"
#include "data/files/document_ends.h"
#include "data/files/input_file.h"

namespace strata::worker {
namespace {

// An entry of the data section.
struct Named {
  std::string path;
  v1::PreparedFrom source;  // empty: none
  bool validates = false;

  // What the user calls it.
  const std::string& name() const { return source.has_path() ? source.path() : path; }
};

std::vector<Named> FilesOf(const v1::JobSpec& job) {
  std::vector<Named> files;
  for (const v1::WeightedFile& file : job.data().train()) {
    files.push_back({file.path(), file.source()});
  }
  const v1::ValidationSpec& validation = job.data().validation();
  if (!validation.path().empty()) {
    files.push_back({validation.path(), validation.source(), /*validates=*/true});
  }
  return files;
}

std::string ChangeOf(const v1::PreparedFrom& was, const v1::PreparedFrom& is) {
  v1::DataFile before, now;
  before.set_bytes(was.bytes());
  before.set_digest(was.digest());
  now.set_bytes(is.bytes());
  now.set_digest(is.digest());
  return protocol::ChangeOf(before, now);
}

// Of a file whose tokens are others: by what it was prepared from, where that tells it.
std::string Explain(const Named& was, const Named& is, const std::string& change) {
  const std::string begin =
      absl::StrCat(is.name(), ": is not what the checkpoint was trained on: ");
  if (!was.source.has_digest() || !is.source.has_digest()) return absl::StrCat(begin, change);
  const std::string of_source = ChangeOf(was.source, is.source);
  if (!of_source.empty()) return absl::StrCat(begin, of_source);
  return absl::StrCat(begin, "the tokens made of it (", is.path,
                      ") are others, with another tokenizer, template or options");
}

// Of the file that holds the tokens, with what else says which tokens they are.
absl::StatusOr<data::FileIdentity> Identify(const std::string& path, bool packing) {
  constexpr absl::string_view kIndex = ".idx";  // of Megatron, beside its .bin
  if (absl::EndsWith(path, kIndex)) {
    return data::IdentifyFile(path.substr(0, path.size() - kIndex.size()) + ".bin", {path});
  }
  const std::string documents = data::DocumentsPath(path);
  if (packing && data::InputFile::Open(documents).ok()) {
    return data::IdentifyFile(path, {documents});
  }
  return data::IdentifyFile(path);
}

}  // namespace

absl::StatusOr<protocol::DataFiles> IdentifyDataFiles(const v1::JobSpec& job) {
  protocol::DataFiles files;
  for (const Named& named : FilesOf(job)) {
    ASSIGN_OR_RETURN(const data::FileIdentity identity, Identify(named.path, job.data().packing()));
    v1::DataFile& file = *files.Add();
    file.set_path(named.path);
    file.set_bytes(identity.bytes);
    file.set_digest(identity.digest);
    file.set_parts(identity.parts);
  }
  return files;
}

std::vector<checkpoint::DataFileInfo> ToManifest(const protocol::DataFiles& files) {
  std::vector<checkpoint::DataFileInfo> infos;
  for (const v1::DataFile& file : files) {
    infos.push_back({file.path(), file.bytes(), file.digest(), file.parts()});
  }
  return infos;
}

protocol::DataFiles FromManifest(const std::vector<checkpoint::DataFileInfo>& infos) {
  protocol::DataFiles files;
  for (const checkpoint::DataFileInfo& info : infos) {
    v1::DataFile& file = *files.Add();
    file.set_path(info.path);
    file.set_bytes(info.size_bytes);
    file.set_digest(info.digest);
    file.set_parts(info.parts);
  }
  return files;
}

absl::Status CheckUnchanged(const v1::JobSpec& job, const v1::JobPlan& plan) {
  ASSIGN_OR_RETURN(const protocol::DataFiles found, IdentifyDataFiles(job));
  const std::string change = protocol::ChangeOf(plan.data_files(), found);
  if (change.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(change, ", since this start of the job was planned"));
}

absl::Status CheckSameData(const v1::JobSpec& job, const v1::JobSpec& other,
                           const protocol::DataFiles& recorded, v1::JobPlan& plan) {
  const std::vector<Named> were = FilesOf(other), are = FilesOf(job);
  for (size_t i = 0; i < are.size(); ++i) {
    const int index = static_cast<int>(i);
    // Of several training files CompareJobs has told; what remains is a validation file.
    const bool there = i < were.size() && index < recorded.size();
    if (!there && are[i].validates) break;
    if (!there || index >= plan.data_files_size()) {
      return absl::InvalidArgumentError("data.train: not as many files as the checkpoint's");
    }
    const std::string change = protocol::ChangeOf(recorded[index], plan.data_files(index));
    if (change.empty()) continue;
    if (are[i].validates && are[i].name() != were[i].name()) {
      v1::Notice& notice = *plan.add_notices();
      notice.set_severity(v1::Notice::SEVERITY_WARNING);
      notice.set_text(absl::StrCat("changed since the checkpoint: data.validation.path: ",
                                   are[i].name(), ", the checkpoint's ", were[i].name()));
      continue;
    }
    return absl::InvalidArgumentError(
        absl::StrCat(Explain(were[i], are[i], change), " — ", protocol::kChangedDataAdvice));
  }
  return absl::OkStatus();
}

}  // namespace strata::worker
