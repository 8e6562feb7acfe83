#include "client/job_loading.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "checkpoint/huggingface/model_folder.h"
#include "client/adapter_check.h"
#include "client/decide_layout.h"
#include "client/feasibility.h"
#include "client/model_folder.h"
#include "client/named_files.h"
#include "client/prepared_data.h"
#include "client/text_file.h"
#include "common/status_macros.h"
#include "data/corpus.h"
#include "model/model_spec_proto.h"
#include "model/parameter_count.h"
#include "spec/defaults.h"
#include "spec/prescan.h"
#include "spec/validate.h"

namespace strata::client {
namespace {

namespace fs = std::filesystem;
using strata::v1::JobSpec;

absl::Status FileError(const std::string& path, absl::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat(path, ": ", what, "\n"));
}

void ResolvePaths(const std::string& folder, JobSpec& job) {
  const auto resolve = [&](std::string* path) { *path = Absolute(*path, folder); };
  for (auto& file : *job.mutable_data()->mutable_train()) {
    if (file.has_path()) resolve(file.mutable_path());
  }
  if (job.data().validation().has_path()) {
    resolve(job.mutable_data()->mutable_validation()->mutable_path());
  }
  if (job.data().has_tokenizer()) resolve(job.mutable_data()->mutable_tokenizer());
  if (job.model().has_from()) resolve(job.mutable_model()->mutable_from());
  if (job.model().has_adapter()) resolve(job.mutable_model()->mutable_adapter());
  if (job.train().has_start_from()) resolve(job.mutable_train()->mutable_start_from());
  if (job.checkpoint().has_directory()) resolve(job.mutable_checkpoint()->mutable_directory());
  for (int i = 0; i < job.memory().ssd_size(); ++i) {
    if (job.memory().ssd(i).has_path())
      resolve(job.mutable_memory()->mutable_ssd(i)->mutable_path());
  }
}

class FileCheck {
 public:
  FileCheck(const spec::JobFile& file, spec::Problems& problems)
      : job_(file.job), positions_(file.positions), problems_(problems) {}

  void Report(const std::string& path, std::string what, std::string remedy) {
    if (problems_.Concerns(path)) return;
    problems_.Add({positions_.Of(path), path, std::move(what), std::move(remedy)});
  }

  void Folder(bool given, const std::string& path, const std::string& folder) {
    std::error_code error;
    if (!given || fs::is_directory(folder, error)) return;
    const bool there = fs::exists(folder, error);
    Report(path, absl::StrCat(folder, ": ", there ? "not a directory" : "no such directory"),
           "correct the path");
  }

  // All that is wrong with what model.from names.
  void Model(const absl::Status& status) {
    if (status.ok() || problems_.Concerns("model.from")) return;
    for (const absl::string_view line : absl::StrSplit(status.message(), '\n', absl::SkipEmpty())) {
      problems_.Add({positions_.Of("model.from"), "model.from", std::string(line), ""});
    }
  }

  // The adapter to go on from, once the rest is right.
  void Adapter() {
    if (!job_.model().has_adapter() || !problems_.empty()) return;
    const absl::StatusOr<model::ModelSpec> model = model::FromProto(job_.model());
    if (!model.ok()) return;  // told by Fits
    for (AdapterProblem& problem : CheckAdapter(job_, *model)) {
      problems_.Add({positions_.Of(problem.key), problem.key, std::move(problem.what),
                     std::move(problem.remedy)});
    }
  }

  // Whether a model of known sizes can fit into memory of so many bytes.
  void Fits(int64_t memory_bytes) {
    const absl::StatusOr<model::ModelSpec> model = model::Unchecked(job_.model());
    if (!model.ok()) return Report("model", std::string(model.status().message()), "correct it");
    // What no machine could hold is told before what no kernel could compute.
    const absl::Status fits = CheckFits(job_, model::ParameterCount(*model), memory_bytes);
    if (fits.ok()) {
      const absl::Status possible = model::Validate(*model);
      if (!possible.ok()) Report("model", std::string(possible.message()), "correct it");
      return;
    }
    problems_.Add({positions_.Of("model"), "model", std::string(fits.message()),
                   "make the model smaller, or use more machines", spec::ProblemKind::kInfeasible});
  }

  void Tokenizer(const TokenizerOfJob& tokenizer) {
    if (!tokenizer.status().ok()) {
      Report("data.tokenizer", std::string(tokenizer.status().message()),
             "name a folder with a tokenizer.json that can be read");
    }
    const std::optional<int64_t> least = tokenizer.vocabulary();
    // Models have been published with tokenizers that hold a few tokens more, which no text
    // becomes.
    if (job_.model().has_from()) return;
    if (!least.has_value() || !job_.model().has_vocab() || job_.model().vocab() >= *least) return;
    Report(
        "model.vocab",
        absl::StrCat("vocab ", job_.model().vocab(), " is smaller than the tokenizer's ", *least),
        absl::StrCat("use at least ", *least, ", or remove it"));
  }

  void Data() {
    data::CorpusSpec corpus;
    std::vector<int> index;  // of corpus.train's files in the job
    const data::CorpusSpec all = CorpusOf(job_);
    for (int i = 0; i < job_.data().train_size(); ++i) {
      const std::string path = absl::StrCat("data.train[", i, "].path");
      if (!job_.data().train(i).has_path() || !CanBeOpened(job_.data().train(i).path(), path))
        continue;
      corpus.train.push_back(all.train[static_cast<size_t>(i)]);
      index.push_back(i);
    }
    if (!problems_.Concerns("data.validation")) {
      const bool opened = CanBeOpened(all.validation_path, "data.validation.path");
      if (opened) corpus.validation_path = all.validation_path;
      corpus.validation_fraction = all.validation_fraction;
    }
    corpus.sequence = all.sequence;
    corpus.vocabulary = all.vocabulary;
    corpus.packing = all.packing;
    if (corpus.train.empty() || problems_.Concerns("train.sequence")) return;
    std::vector<data::CorpusProblem> found;
    const absl::StatusOr<data::Corpus> opened = data::OpenCorpus(corpus, &found);
    // With a published model each token is looked at when it is read.
    const bool looks_later = job_.model().has_from() && job_.data().has_tokenizer();
    if (opened.ok() && job_.model().has_vocab() && !looks_later &&
        opened->vocabulary > job_.model().vocab()) {
      Report("model.vocab",
             absl::StrCat("vocab ", job_.model().vocab(), " is smaller than the data's ",
                          opened->vocabulary),
             absl::StrCat("use at least ", opened->vocabulary));
    }
    for (const data::CorpusProblem& problem : found) {
      std::string field = problem.field;
      for (size_t i = 0; i < index.size(); ++i) {
        const std::string prefix = absl::StrCat("train[", i, "]");
        if (!absl::StartsWith(field, prefix)) continue;
        field = absl::StrCat("train[", index[i], "]", field.substr(prefix.size()));
        break;
      }
      Report("data." + field, std::string(problem.status.message()), "correct the path");
    }
  }

 private:
  // Text is the model's bytes only where the model has no tokenizer at all.
  void CheckReadAsBytes(const std::string& file) {
    const absl::StatusOr<bool> is_text = NeedsPreparation(file, /*has_tokenizer=*/true);
    const absl::Status form = checkpoint::CheckTokenizerForm(job_.model().from());
    if (!is_text.ok() || !*is_text || form.ok()) return;
    Report("data.tokenizer", std::string(form.message()), "or name another tokenizer");
  }

  // Whether it is a token file already; of others it is looked whether they are there.
  bool CanBeOpened(const std::string& file, const std::string& path) {
    if (file.empty() || problems_.Concerns(path)) return false;
    const absl::StatusOr<bool> needed = NeedsPreparation(file, job_.data().has_tokenizer());
    if (!needed.ok()) {
      Report(path, std::string(needed.status().message()), "correct the path");
      return false;
    }
    if (!job_.data().has_tokenizer() && job_.model().has_from()) CheckReadAsBytes(file);
    return !*needed;
  }

  const JobSpec& job_;
  const spec::PositionMap& positions_;
  spec::Problems& problems_;
};

// mkdir -p, and whether files can be made in it. An empty text when they can, else why not.
std::string MakeFolder(const std::string& folder) {
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) return absl::StrCat("cannot be created (", error.message(), ")");
  const std::string probe = absl::StrCat(folder, "/.probe-", getpid());
  const int fd = open(probe.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (fd < 0) return absl::StrCat("cannot be written to (", std::strerror(errno), ")");
  close(fd);
  unlink(probe.c_str());
  return "";
}

// Name of a checkpoint in the folder, or empty.
std::string CheckpointIn(const std::string& folder) {
  std::error_code error;
  std::set<std::string> names;
  for (auto at = fs::directory_iterator(folder, error); !error && at != fs::directory_iterator();
       at.increment(error)) {
    const std::string name = at->path().filename().string();
    if (absl::StartsWith(name, "step-")) names.insert(name);
  }
  return names.empty() ? "" : *names.rbegin();
}

}  // namespace

std::string Absolute(const std::string& path, const std::string& folder) {
  fs::path joined(path);
  if (joined.is_relative() && !folder.empty()) joined = fs::path(folder) / joined;
  std::error_code error;
  if (joined.is_relative()) joined = fs::current_path(error) / joined;
  std::string text = joined.lexically_normal().string();
  while (text.size() > 1 && text.back() == '/') text.pop_back();
  return text;
}

namespace {

// Problems of the file itself go to `problems`; an error is that there is no such file.
absl::StatusOr<LoadedJob> Read(const std::string& path, const spec::ReadOptions& options,
                               NamedFiles& files, spec::Problems& problems) {
  RETURN_IF_ERROR(CheckPathText("the job file", Absolute(path)));
  ASSIGN_OR_RETURN(const std::string text, ReadTextFile(path, spec::kMostBytes, "job file"));
  spec::ReadOptions named = options;
  named.default_name = spec::NameFromFile(path);
  named.vocabulary_of = [&](const std::string& folder) {
    return files.tokenizer.VocabularyOf(folder);
  };
  named.model_of = [&](const std::string& from) { return files.model.Read(from); };
  return LoadedJob{spec::ReadJob(text, named, problems), path};
}

std::string FolderOf(const std::string& path) {
  return fs::path(Absolute(path)).parent_path().string();
}

}  // namespace

data::CorpusSpec CorpusOf(const JobSpec& job) {
  data::CorpusSpec corpus;
  for (const auto& file : job.data().train()) {
    corpus.train.push_back({file.path(), file.has_weight() ? file.weight() : 1});
  }
  corpus.validation_path = job.data().validation().path();
  if (corpus.validation_path.empty()) {
    corpus.validation_fraction = job.data().validation().fraction();
  }
  corpus.sequence = job.train().sequence();
  corpus.vocabulary = job.model().vocab();
  corpus.packing = job.data().packing();
  return corpus;
}

namespace {

absl::StatusOr<LoadedJob> ReadAlone(const std::string& path, const spec::ReadOptions& options,
                                    NamedFiles& files) {
  spec::Problems problems(path);
  ASSIGN_OR_RETURN(LoadedJob loaded, Read(path, options, files, problems));
  FileCheck check(loaded.file, problems);
  check.Model(files.model.status());
  check.Tokenizer(files.tokenizer);
  RETURN_IF_ERROR(problems.ToStatus());
  ResolvePaths(FolderOf(path), loaded.file.job);
  return loaded;
}

}  // namespace

absl::StatusOr<LoadedJob> ReadJobAlone(const std::string& path, const spec::ReadOptions& options) {
  NamedFiles files(FolderOf(path));
  return ReadAlone(path, options, files);
}

namespace {

// Reads a job again, with settings beside those that were typed. Borrows `files`.
ReadWith Reader(const std::string& path, const spec::ReadOptions& options, NamedFiles& files) {
  return
      [path, options, &files](const std::vector<std::string>& settings) -> absl::StatusOr<JobSpec> {
        spec::ReadOptions more = options;
        more.settings.insert(more.settings.end(), settings.begin(), settings.end());
        ASSIGN_OR_RETURN(LoadedJob candidate, ReadAlone(path, more, files));
        spec::ClosePlaces(candidate.file.job);
        return candidate.file.job;
      };
}

// That nothing can be decided, told at the key that left it open.
absl::Status ToldAt(const std::string& key, const LoadedJob& loaded, const absl::Status& why) {
  const bool infeasible = why.code() == absl::StatusCode::kResourceExhausted;
  spec::Problems problems(loaded.path);
  problems.Add({loaded.file.positions.Of(key), key, std::string(why.message()),
                key == "parallel"
                    ? "change resources.ranks or train.global_batch, or give the degrees, "
                      "such as {data: 2}"
                : key == "train.micro_batch"
                    ? "give a number, or change parallel"
                    : "change parallel or train, or name the tiers, such as {optimizer: host}",
                infeasible ? spec::ProblemKind::kInfeasible : spec::ProblemKind::kInvalid});
  return problems.ToStatus();
}

// The key that leaves most to decide.
const char* KeyOf(const LoadedJob& loaded) {
  const JobSpec& job = loaded.file.job;
  if (job.parallel().automatic()) return "parallel";
  if (job.train().has_micro_batch() && job.train().micro_batch() == 0) return "train.micro_batch";
  return job.memory().automatic() ? "memory" : "memory.place";
}

absl::Status WithoutRoom(const LoadedJob& loaded, const RankedLayouts& ranked) {
  const char* const key = KeyOf(loaded);
  spec::Problems problems(loaded.path);
  problems.Add(
      {loaded.file.positions.Of(key), key,
       absl::StrCat("of ", ranked.candidates.size(),
                    " layouts none fits the cluster's nodes; with the least ",
                    planner::WhyNoRoom(ranked.candidates.front(), ranked.room)),
       "use more ranks, a shorter train.sequence or a smaller model, or delete the nodes that have "
       "too little (strata delete node)",
       spec::ProblemKind::kInfeasible});
  return problems.ToStatus();
}

// What the file leaves to be decided becomes settings beside those that were typed.
absl::StatusOr<LoadedJob> Decided(const LoadedJob& loaded, const spec::ReadOptions& options,
                                  const DecisionBasis& basis, NamedFiles& files) {
  ASSIGN_OR_RETURN(const RankedLayouts ranked,
                   RankHere(loaded.file, Reader(loaded.path, options, files), basis));
  if (!ranked.why_none.ok()) return ToldAt(KeyOf(loaded), loaded, ranked.why_none);
  if (!ranked.candidates.front().has_room) return WithoutRoom(loaded, ranked);
  const std::vector<std::string>& settings = ranked.candidates.front().settings;
  spec::ReadOptions more = options;
  more.settings.insert(more.settings.end(), settings.begin(), settings.end());
  ASSIGN_OR_RETURN(LoadedJob again, ReadAlone(loaded.path, more, files));
  spec::ClosePlaces(again.file.job);
  again.notices = NoticesOf(ranked);
  return again;
}

}  // namespace

absl::StatusOr<RankedLayouts> RankLayoutsOf(const std::string& path,
                                            const spec::ReadOptions& options,
                                            const DecisionBasis& basis) {
  // Without its degrees the file may say no more how many ranks they were.
  spec::Problems of_file(path);
  NamedFiles files(FolderOf(path));
  ASSIGN_OR_RETURN(const LoadedJob written, Read(path, options, files, of_file));
  spec::ReadOptions open = options;
  open.settings.emplace_back("parallel=auto");
  open.settings.push_back(absl::StrCat(
      "resources.ranks=", options.ranks.value_or(written.file.job.resources().ranks())));
  ASSIGN_OR_RETURN(const LoadedJob loaded, ReadAlone(path, open, files));
  ASSIGN_OR_RETURN(RankedLayouts ranked,
                   RankHere(loaded.file, Reader(path, open, files), basis, KeptOf(written.file)));
  if (!ranked.why_none.ok()) return ToldAt("parallel", written, ranked.why_none);
  return ranked;
}

absl::StatusOr<LoadedJob> LoadJob(const std::string& path, const spec::ReadOptions& options,
                                  const DecisionBasis& basis) {
  spec::Problems problems(path);
  NamedFiles files(FolderOf(path));
  ASSIGN_OR_RETURN(LoadedJob loaded, Read(path, options, files, problems));
  std::vector<std::string> decided;
  if (problems.empty() && planner::LeavesToDecide(loaded.file.job)) {
    ASSIGN_OR_RETURN(loaded, Decided(loaded, options, basis, files));
    decided = loaded.notices;
  }
  JobSpec& job = loaded.file.job;
  const bool sizes_known =
      problems.empty() && job.model().has_vocab() && !job.parallel().automatic();
  if (job.data().has_tokenizer()) files.tokenizer.Load(job.data().tokenizer());
  ResolvePaths(FolderOf(path), job);
  FileCheck check(loaded.file, problems);
  check.Folder(job.model().has_from(), "model.from", job.model().from());
  check.Model(files.model.status());
  loaded.notices = files.model.notices();
  loaded.notices.insert(loaded.notices.end(), decided.begin(), decided.end());
  if (job.model().has_layers() && job.model().has_from()) {
    check.Model(AddWeights(job.model().from(), job.mutable_model()));
    if (job.model().weights().empty()) {
      loaded.notices.push_back(
          absl::StrCat(job.model().from(), ": has no weights: the model begins with random ones"));
    }
  }
  check.Folder(job.model().has_adapter(), "model.adapter", job.model().adapter());
  check.Adapter();
  check.Tokenizer(files.tokenizer);
  check.Data();
  if (sizes_known) check.Fits(basis.memory_bytes);
  // Beside other problems `auto` is not decided, which is no problem of its own.
  if (job.parallel().automatic()) job.clear_parallel();
  spec::ClosePlaces(job);
  if (job.train().has_micro_batch() && job.train().micro_batch() == 0) {
    job.mutable_train()->set_micro_batch(1);
  }
  spec::CheckSupported(job, loaded.file.positions, problems);
  if (!problems.empty()) return problems.ToStatus();
  return loaded;
}

absl::Status PrepareDirectories(const std::string& job_directory, bool resume, LoadedJob& loaded) {
  JobSpec& job = loaded.file.job;
  if (!job.checkpoint().has_directory()) {
    job.mutable_checkpoint()->set_directory(job_directory + "/checkpoints");
  }
  const std::string& checkpoints = job.checkpoint().directory();
  if (const std::string why = MakeFolder(job_directory); !why.empty()) {
    return FileError(job_directory, why + " — choose another --dir");
  }
  spec::Problems problems(loaded.path);
  const auto report = [&](const std::string& field, std::string what, std::string remedy) {
    problems.Add({loaded.file.positions.Of(field), field, std::move(what), std::move(remedy)});
    return problems.ToStatus();
  };
  if (const std::string why = MakeFolder(checkpoints); !why.empty()) {
    return report("checkpoint.directory", absl::StrCat(checkpoints, ": ", why),
                  "choose another folder");
  }
  for (int i = 0; i < job.memory().ssd_size(); ++i) {
    const std::string& folder = job.memory().ssd(i).path();
    if (const std::string why = MakeFolder(folder); !why.empty()) {
      return report(absl::StrCat("memory.ssd[", i, "].path"), absl::StrCat(folder, ": ", why),
                    "choose another folder");
    }
  }
  const std::string found = resume ? "" : CheckpointIn(checkpoints);
  if (found.empty()) return absl::OkStatus();
  return report("checkpoint.directory",
                absl::StrCat(checkpoints, " already holds checkpoints (", found, ")"),
                "go on from them with --resume, or choose another --dir or folder");
}

absl::Status CheckPathText(absl::string_view what, const std::string& path) {
  if (spec::IsUtf8(path)) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(what, " ", absl::CHexEscape(path),
                                                 ": not UTF-8 — rename it, or choose another\n"));
}

absl::Status CheckWritableFile(const std::string& path) {
  const bool existed = access(path.c_str(), F_OK) == 0;
  const int fd = open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NONBLOCK, 0644);
  if (fd < 0)
    return FileError(path, absl::StrCat("cannot be written (", std::strerror(errno), ")"));
  close(fd);
  if (!existed) unlink(path.c_str());
  return absl::OkStatus();
}

}  // namespace strata::client
