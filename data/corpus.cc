#include "data/corpus.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/check.h"
#include "common/status_macros.h"

namespace strata::data {
namespace {

absl::StatusOr<SplitSource> OpenSource(const SourceSpec& spec, int64_t sequence,
                                       int64_t vocabulary) {
  if (!std::isfinite(spec.weight) || spec.weight <= 0) {
    return absl::InvalidArgumentError(
        absl::StrCat(spec.path, ": weight ", spec.weight, " is not a positive number"));
  }
  SplitSource source;
  ASSIGN_OR_RETURN(source.tokens, OpenTokenSource(spec.path, vocabulary));
  source.windows = (source.tokens->tokens() - 1) / sequence;
  source.weight = spec.weight;
  if (source.windows == 0) {
    return absl::InvalidArgumentError(
        absl::StrCat(spec.path, ": shorter than one sequence: ", source.tokens->tokens(), " ",
                     source.tokens->unit(), ", a sequence of ", sequence, " needs ", sequence + 1));
  }
  return source;
}

// Moves the last windows of a training source to the validation split.
absl::Status SetApart(double fraction, SplitSource& train, Split& validation) {
  const int64_t count = std::max<int64_t>(
      1, static_cast<int64_t>(std::floor(fraction * static_cast<double>(train.windows))));
  if (count >= train.windows) {
    return absl::InvalidArgumentError(
        absl::StrCat(train.tokens->path(), ": shorter than two sequences of ", validation.sequence,
                     ": its only sequence would be the validation part, none would be left to "
                     "train on"));
  }
  train.windows -= count;
  SplitSource held = train;
  held.first_window += train.windows;
  held.windows = count;
  validation.sources.push_back(std::move(held));
  return absl::OkStatus();
}

absl::Status CheckSpec(const CorpusSpec& spec) {
  if (spec.sequence < 1) return absl::InvalidArgumentError("sequence: must be at least 1");
  if (spec.train.empty()) return absl::InvalidArgumentError("train: needs at least one file");
  if (!(spec.validation_fraction >= 0 && spec.validation_fraction < 1)) {
    return absl::InvalidArgumentError(
        absl::StrCat("validation.fraction: ", spec.validation_fraction, " is not between 0 and 1"));
  }
  if (spec.validation_fraction > 0 && !spec.validation_path.empty()) {
    return absl::InvalidArgumentError("validation: has both a path and a fraction");
  }
  return absl::OkStatus();
}

}  // namespace

int64_t Split::windows() const {
  int64_t total = 0;
  for (const SplitSource& source : sources) total += source.windows;
  return total;
}

SampleRef Split::Spread(int64_t index, int64_t count) const {
  const int64_t total = windows();
  STRATA_CHECK(0 <= index && index < count && count <= total);
  // 128 bits: index * total may exceed 64.
  int64_t window = static_cast<int64_t>(static_cast<__int128>(index) * total / count);
  for (size_t s = 0;; ++s) {
    if (window < sources[s].windows) return {static_cast<int32_t>(s), window};
    window -= sources[s].windows;
  }
}

absl::StatusOr<Corpus> OpenCorpus(const CorpusSpec& spec, std::vector<CorpusProblem>* problems) {
  absl::Status first;
  const auto report = [&](const std::string& field, const absl::Status& status) {
    first.Update(status);  // keeps the first error
    if (problems != nullptr) problems->push_back({field, status});
  };
  if (const absl::Status status = CheckSpec(spec); !status.ok()) {
    const std::string text(status.message());
    report(text.substr(0, text.find(':')), status);
    return first;
  }
  Corpus corpus;
  corpus.train.sequence = corpus.validation.sequence = spec.sequence;
  for (size_t i = 0; i < spec.train.size(); ++i) {
    const std::string field = absl::StrCat("train[", i, "].path");
    absl::StatusOr<SplitSource> source = OpenSource(spec.train[i], spec.sequence, spec.vocabulary);
    if (!source.ok()) {
      report(field, source.status());
      continue;
    }
    if (spec.validation_fraction > 0) {
      const absl::Status status = SetApart(spec.validation_fraction, *source, corpus.validation);
      if (!status.ok()) report(field, status);
    }
    corpus.train.sources.push_back(*std::move(source));
  }
  if (!spec.validation_path.empty()) {
    absl::StatusOr<SplitSource> source =
        OpenSource({spec.validation_path, 1}, spec.sequence, spec.vocabulary);
    if (source.ok()) {
      corpus.validation.sources.push_back(*std::move(source));
    } else {
      report("validation.path", source.status());
    }
  }
  if (!first.ok()) return first;
  for (const Split* split : {&corpus.train, &corpus.validation}) {
    for (const SplitSource& source : split->sources) {
      corpus.vocabulary = std::max(corpus.vocabulary, source.tokens->vocabulary());
    }
  }
  return corpus;
}

}  // namespace strata::data
