#include "data/corpus.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/check.h"
#include "common/status_macros.h"

namespace strata::data {
namespace {

absl::StatusOr<SplitSource> OpenTokens(const SourceSpec& spec, int64_t vocabulary) {
  if (!std::isfinite(spec.weight) || spec.weight <= 0) {
    return absl::InvalidArgumentError(
        absl::StrCat(spec.path, ": weight ", spec.weight, " is not a positive number"));
  }
  SplitSource source;
  ASSIGN_OR_RETURN(source.tokens, OpenTokenSource(spec.path, vocabulary));
  source.weight = spec.weight;
  return source;
}

absl::Status CutWindows(int64_t sequence, SplitSource& source) {
  const TokenSource& tokens = *source.tokens;
  source.windows = (tokens.tokens() - 1) / sequence;
  if (source.windows > 0) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(tokens.path(), ": shorter than one sequence: ", tokens.tokens(), " ",
                   tokens.unit(), ", a sequence of ", sequence, " needs ", sequence + 1));
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

// Packs the documents of tokens [begin, end).
absl::Status Pack(const std::vector<int64_t>& ends, int64_t begin, int64_t end, int64_t sequence,
                  SplitSource& source) {
  source.packing = std::make_shared<const Packing>(ends, begin, end, sequence);
  source.windows = source.packing->windows();
  if (source.windows > 0) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      source.tokens->path(), ": ", source.tokens->unit(), " ", begin, " to ", end,
      " hold no document of two ", source.tokens->unit(), ": there is nothing to predict"));
}

// Where the last part of the documents begins, which is a fraction of the tokens or a little more.
int64_t BeginOfLast(const std::vector<int64_t>& ends, double fraction, int64_t sequence) {
  const int64_t tokens = ends.back();
  const int64_t wanted =
      std::min(tokens - 1, static_cast<int64_t>((1 - fraction) * static_cast<double>(tokens)));
  const auto end = std::upper_bound(ends.begin(), ends.end(), wanted);
  const int64_t document = end == ends.begin() ? 0 : *(end - 1);
  return document + (wanted - document) / sequence * sequence;
}

// As CutWindows and SetApart.
absl::Status PackDocuments(double fraction, SplitSource& train, Split& validation) {
  ASSIGN_OR_RETURN(const std::vector<int64_t> ends, train.tokens->DocumentEnds());
  const int64_t sequence = validation.sequence, tokens = train.tokens->tokens();
  if (fraction == 0) return Pack(ends, 0, tokens, sequence, train);
  SplitSource held = train;
  const int64_t begin = BeginOfLast(ends, fraction, sequence);
  RETURN_IF_ERROR(Pack(ends, 0, begin, sequence, train));
  RETURN_IF_ERROR(Pack(ends, begin, tokens, sequence, held));
  validation.sources.push_back(std::move(held));
  return absl::OkStatus();
}

// Opens a source and appends what is held back of it to `validation`, whose sequence is set.
absl::StatusOr<SplitSource> OpenSource(const SourceSpec& spec, const CorpusSpec& corpus,
                                       double fraction, Split& validation) {
  ASSIGN_OR_RETURN(SplitSource source, OpenTokens(spec, corpus.vocabulary));
  if (corpus.packing) {
    RETURN_IF_ERROR(PackDocuments(fraction, source, validation));
    return source;
  }
  RETURN_IF_ERROR(CutWindows(validation.sequence, source));
  if (fraction > 0) RETURN_IF_ERROR(SetApart(fraction, source, validation));
  return source;
}

absl::Status CheckSpec(const CorpusSpec& spec) {
  if (spec.sequence < 1) return absl::InvalidArgumentError("sequence: must be at least 1");
  if (spec.packing && spec.sequence > Packing::kLongestSequence) {
    return absl::InvalidArgumentError(absl::StrCat("sequence: ", spec.sequence, " is more than ",
                                                   Packing::kLongestSequence, " packed rows"));
  }
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
    absl::StatusOr<SplitSource> source =
        OpenSource(spec.train[i], spec, spec.validation_fraction, corpus.validation);
    if (source.ok()) {
      corpus.train.sources.push_back(*std::move(source));
    } else {
      report(field, source.status());
    }
  }
  if (!spec.validation_path.empty()) {
    absl::StatusOr<SplitSource> source =
        OpenSource({spec.validation_path, 1}, spec, 0, corpus.validation);
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
