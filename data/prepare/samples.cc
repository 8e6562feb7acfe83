#include "data/prepare/samples.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/clock.h"
#include "common/status_macros.h"
#include "data/files/input_file.h"
#include "data/prepare/document_reader.h"
#include "data/prepare/piece_encoder.h"
#include "data/token_source.h"
#include "data/tokenizer/tokenizer.h"

namespace strata::data {
namespace {

constexpr int64_t kDefaultWindow = 256;

// Turns tokens into spans of text, or of numbers.
class SpanMaker {
 public:
  SpanMaker(std::shared_ptr<const Tokenizer> tokenizer, bool decodes)
      : tokenizer_(tokenizer), decodes_(decodes), decoder_(std::move(tokenizer), false) {}

  void Add(int32_t token, bool trained) {
    if (spans_.empty() || spans_.back().trained != trained) spans_.push_back({trained, ""});
    std::string& text = spans_.back().text;
    if (!decodes_) {
      absl::StrAppend(&text, text.empty() && spans_.size() == 1 ? "" : " ", token);
    } else if (token >= tokenizer_->vocabulary()) {
      absl::StrAppend(&text, "<token ", token, ">");
    } else {
      text += decoder_.Add(token);
    }
  }
  std::vector<SampleSpan> Finish() {
    const std::string rest = decoder_.Finish();
    if (!spans_.empty()) spans_.back().text += rest;
    return std::move(spans_);
  }

 private:
  const std::shared_ptr<const Tokenizer> tokenizer_;
  const bool decodes_;
  StreamDecoder decoder_;
  std::vector<SampleSpan> spans_;
};

// Samples of a token file or a text.
class SourceSamples {
 public:
  SourceSamples(std::shared_ptr<const TokenSource> source,
                std::shared_ptr<const Tokenizer> tokenizer, bool decodes)
      : source_(std::move(source)), tokenizer_(std::move(tokenizer)), decodes_(decodes) {}

  absl::StatusOr<SampleSet> Read(const SampleOptions& options) {
    SampleSet set;
    set.decoded = decodes_;
    set.tokens = source_->tokens();
    ASSIGN_OR_RETURN(set.trained, CountTrained(0, source_->tokens()));
    RETURN_IF_ERROR(FindUnits(options.sequence, set));
    const int64_t count = std::min(options.samples, set.total);
    for (int64_t i = 0; i < count; ++i) {
      const auto index = static_cast<int64_t>(static_cast<__int128>(i) * set.total / count);
      ASSIGN_OR_RETURN(Sample sample, ReadUnit(index));
      set.samples.push_back(std::move(sample));
    }
    return set;
  }

 private:
  // Documents where the file tells them and no window is asked for.
  absl::Status FindUnits(int64_t sequence, SampleSet& set) {
    const bool text = std::string(source_->unit()) == "bytes";
    if (sequence == 0 && !text) {
      absl::StatusOr<std::vector<int64_t>> ends = source_->DocumentEnds();
      if (ends.ok()) {
        ends_ = *std::move(ends);
        set.total = static_cast<int64_t>(ends_.size());
        return absl::OkStatus();
      }
      if (!absl::IsFailedPrecondition(ends.status())) return ends.status();
    }
    window_ = sequence > 0 ? sequence : kDefaultWindow;
    set.unit = "window";
    set.total = (source_->tokens() + window_ - 1) / window_;
    return absl::OkStatus();
  }

  absl::StatusOr<Sample> ReadUnit(int64_t index) const {
    Sample sample;
    sample.index = index;
    const auto at = static_cast<size_t>(index);
    sample.begin = window_ > 0 ? index * window_ : index == 0 ? 0 : ends_[at - 1];
    const int64_t end =
        window_ > 0 ? std::min(sample.begin + window_, source_->tokens()) : ends_[at];
    sample.tokens = end - sample.begin;
    ASSIGN_OR_RETURN(sample.trained, CountTrained(sample.begin, sample.tokens));
    const int64_t shown = std::min(sample.tokens, kMostShownTokens);
    std::vector<int32_t> tokens(static_cast<size_t>(shown));
    RETURN_IF_ERROR(source_->Read(sample.begin, shown, tokens.data()));
    std::vector<int32_t> targets = tokens;
    RETURN_IF_ERROR(source_->MaskTargets(sample.begin, shown, targets.data()));
    SpanMaker maker(tokenizer_, decodes_);
    for (size_t i = 0; i < tokens.size(); ++i) maker.Add(tokens[i], targets[i] >= 0);
    sample.spans = maker.Finish();
    return sample;
  }

  absl::StatusOr<int64_t> CountTrained(int64_t begin, int64_t count) const {
    if (!source_->masked()) return count;
    std::vector<int32_t> targets(size_t{64} << 10);
    int64_t trained = 0;
    for (int64_t done = 0; done < count;) {
      const int64_t piece = std::min(count - done, static_cast<int64_t>(targets.size()));
      std::fill(targets.begin(), targets.end(), 0);
      RETURN_IF_ERROR(source_->MaskTargets(begin + done, piece, targets.data()));
      trained += std::count(targets.begin(), targets.begin() + piece, 0);
      done += piece;
    }
    return trained;
  }

  const std::shared_ptr<const TokenSource> source_;
  const std::shared_ptr<const Tokenizer> tokenizer_;
  const bool decodes_;
  std::vector<int64_t> ends_;
  int64_t window_ = 0;  // 0: documents
};

absl::StatusOr<SampleSet> RecordSamples(const SampleOptions& options,
                                        const std::shared_ptr<const Tokenizer>& tokenizer) {
  const std::string& path = options.input.path;
  ASSIGN_OR_RETURN(const std::unique_ptr<const PieceEncoder> encoder,
                   PieceEncoder::Create(tokenizer, LineCuts::kNone, /*records=*/true,
                                        static_cast<int64_t>(common::WallSeconds())));
  ASSIGN_OR_RETURN(const std::unique_ptr<DocumentReader> reader,
                   DocumentReader::Open(path, DocumentReader::Cuts::kLines, {}));
  SampleSet set;
  set.unit = "record";
  while (static_cast<int64_t>(set.samples.size()) < options.samples) {
    ASSIGN_OR_RETURN(const std::optional<Piece> piece, reader->Next());
    if (!piece.has_value()) break;
    const EncodedPiece encoded = encoder->Encode(*piece);
    if (!encoded.status.ok()) return AtPath(absl::StrCat(path, ":", piece->line), encoded.status);
    const std::vector<uint8_t>& trained = encoded.document.trained;
    Sample sample;
    sample.index = piece->line;
    sample.begin = set.tokens;
    sample.tokens = static_cast<int64_t>(trained.size());
    sample.trained = std::count(trained.begin(), trained.end(), 1);
    SpanMaker maker(tokenizer, /*decodes=*/true);
    const size_t shown = std::min(trained.size(), static_cast<size_t>(kMostShownTokens));
    for (size_t i = 0; i < shown; ++i) maker.Add(encoded.document.tokens[i], trained[i] != 0);
    sample.spans = maker.Finish();
    set.tokens += sample.tokens, set.trained += sample.trained;
    set.samples.push_back(std::move(sample));
  }
  if (!set.samples.empty()) return set;
  return absl::InvalidArgumentError(absl::StrCat(path, ": holds no records"));
}

// A text is read as a model without a tokenizer reads it; with one, it must be prepared first.
absl::Status CheckText(const TokenSource& source, const std::string& tokenizer) {
  if (tokenizer.empty() || std::string(source.unit()) != "bytes") return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(source.path(),
                   ": is a text — show it without --tokenizer, or the token file "
                   "that strata data prepare makes of it"));
}

}  // namespace

absl::StatusOr<SampleSet> ReadSamples(const SampleOptions& options) {
  std::shared_ptr<const Tokenizer> tokenizer = Tokenizer::Bytes();
  if (!options.tokenizer.empty()) {
    ASSIGN_OR_RETURN(tokenizer, Tokenizer::Load(options.tokenizer));
  }
  const bool named_tokens =
      absl::EndsWith(options.input.path, ".bin") || absl::EndsWith(options.input.path, ".idx");
  if (!named_tokens) {
    ASSIGN_OR_RETURN(const bool lines, IsJsonLines(options.input));
    if (lines) return RecordSamples(options, tokenizer);
  }
  ASSIGN_OR_RETURN(const std::shared_ptr<const TokenSource> source,
                   OpenTokenSource(options.input.path));
  RETURN_IF_ERROR(CheckText(*source, options.tokenizer));
  const bool decodes = !options.tokenizer.empty() || source->vocabulary() <= 256;
  return SourceSamples(source, tokenizer, decodes).Read(options);
}

}  // namespace strata::data
