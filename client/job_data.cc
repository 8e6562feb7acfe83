#include "client/job_data.h"

#include <cstdint>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/prepared_data.h"
#include "common/status_macros.h"
#include "common/units.h"
#include "data/corpus.h"
#include "data/sampler.h"

namespace strata::client {
namespace {

using strata::v1::JobSpec;

// "1,234,567".
std::string Grouped(int64_t count) {
  std::string text = absl::StrCat(count);
  for (size_t at = text.size(); at > 3;) {
    at -= 3;
    text.insert(at, ",");
  }
  return text;
}

std::string Counted(int64_t count, absl::string_view what) {
  return absl::StrCat(Grouped(count), " ", what, count == 1 ? "" : "s");
}

class Completion {
 public:
  Completion(const std::string& cache_folder, Terminal& terminal, LoadedJob& loaded)
      : loaded_(loaded),
        job_(loaded.file.job),
        terminal_(terminal),
        cache_(job_.data().tokenizer(), cache_folder, terminal) {}

  absl::Status Run() {
    for (const std::string& notice : loaded_.notices) terminal_.Say(notice);
    for (auto& file : *job_.mutable_data()->mutable_train()) {
      RETURN_IF_ERROR(Prepare(file));
    }
    if (job_.data().validation().has_path()) {
      RETURN_IF_ERROR(Prepare(*job_.mutable_data()->mutable_validation()));
    }
    if (!prepared_ && !job_.train().has_epochs()) return absl::OkStatus();
    ASSIGN_OR_RETURN(const data::Corpus corpus, Open());
    return job_.train().has_epochs() ? SetSteps(corpus.train) : absl::OkStatus();
  }

 private:
  // `file` has a path and a source.
  template <typename File>
  absl::Status Prepare(File& file) {
    ASSIGN_OR_RETURN(const bool needed, NeedsPreparation(file.path(), job_.data().has_tokenizer()));
    if (!needed) return absl::OkStatus();
    ASSIGN_OR_RETURN(const TokenFileCache::Entry entry, cache_.Get(file.path()));
    file.set_path(entry.path);
    *file.mutable_source() = entry.source;
    prepared_ = true;
    return absl::OkStatus();
  }

  absl::Status Refuse(const std::string& field, std::string what, std::string remedy) const {
    spec::Problems problems(loaded_.path);
    problems.Add({loaded_.file.positions.Of(field), field, std::move(what), std::move(remedy)});
    return problems.ToStatus();
  }

  bool HasWeights() const {
    for (int i = 0; i < job_.data().train_size(); ++i) {
      if (loaded_.file.positions.Has(absl::StrCat("data.train[", i, "].weight"))) return true;
    }
    return false;
  }

  absl::StatusOr<data::Corpus> Open() const {
    std::vector<data::CorpusProblem> found;
    absl::StatusOr<data::Corpus> corpus = data::OpenCorpus(CorpusOf(job_), &found);
    if (corpus.ok()) return corpus;
    spec::Problems problems(loaded_.path);
    for (const data::CorpusProblem& problem : found) {
      const std::string field = "data." + problem.field;
      problems.Add({loaded_.file.positions.Of(field), field, std::string(problem.status.message()),
                    "correct the path, or make the sequences shorter"});
    }
    return problems.ToStatus();
  }

  // The weights and steps that follow from train.epochs.
  absl::Status SetSteps(data::Split split) {
    const bool weighted = HasWeights();
    for (int i = 0; i < job_.data().train_size(); ++i) {
      auto& file = *job_.mutable_data()->mutable_train(i);
      data::SplitSource& source = split.sources[static_cast<size_t>(i)];
      if (!weighted) source.weight = static_cast<double>(source.windows);
      file.set_weight(source.weight);
    }
    const int64_t epochs = job_.train().epochs();
    const data::Sampler sampler(split, /*seed=*/0, /*shuffle=*/false);
    const absl::StatusOr<int64_t> samples = sampler.SamplesOfPasses(epochs);
    if (!samples.ok()) {
      return Refuse("train.epochs", std::string(samples.status().message()),
                    "give that file a larger weight, or train.steps");
    }
    const int64_t steps = common::CeilDivide(*samples, job_.train().global_batch());
    constexpr int64_t kMostSteps = 1'000'000'000'000;
    if (steps > kMostSteps) {
      return Refuse("train.epochs", absl::StrCat("makes ", steps, " steps"),
                    absl::StrCat("at most ", kMostSteps, " are allowed"));
    }
    job_.mutable_train()->set_steps(steps);
    terminal_.Say(absl::StrCat(
        Counted(epochs, "epoch"), " of ", Counted(split.windows(), "sequence"),
        weighted ? absl::StrCat(", read by their files' weights (", Grouped(*samples), " in all)")
                 : "",
        ": ", Counted(steps, "step")));
    return absl::OkStatus();
  }

  LoadedJob& loaded_;
  JobSpec& job_;
  Terminal& terminal_;
  TokenFileCache cache_;
  bool prepared_ = false;
};

}  // namespace

absl::Status CompleteJob(const std::string& cache_folder, Terminal& terminal, LoadedJob& job) {
  return Completion(cache_folder, terminal, job).Run();
}

}  // namespace strata::client
