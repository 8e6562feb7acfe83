#include "data/prepare/prepare.h"

#include <algorithm>
#include <deque>
#include <filesystem>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/digest.h"
#include "common/small_file.h"
#include "common/status_macros.h"
#include "data/prepare/encode_pool.h"
#include "data/prepare/input_plan.h"
#include "data/prepare/journal.h"
#include "data/prepare/piece_encoder.h"
#include "data/token_source.h"

namespace strata::data {
namespace {

namespace fs = std::filesystem;

constexpr size_t kChunkBytes = size_t{256} << 10;

absl::StatusOr<std::shared_ptr<const Tokenizer>> LoadTokenizer(const PrepareOptions& options) {
  if (options.tokenizer.empty()) return Tokenizer::Bytes();
  return Tokenizer::Load(options.tokenizer);
}

// Of the files that a tokenizer is made of.
absl::StatusOr<std::string> TokenizerDigest(const std::string& path) {
  if (path.empty()) return std::string("bytes");
  std::error_code error;
  const bool folder = fs::is_directory(path, error);
  const std::string in = folder ? path : fs::path(path).parent_path().string();
  std::vector<std::string> files;
  if (!folder) files.push_back(path);
  for (const char* name : {"tokenizer.json", "tokenizer_config.json", "special_tokens_map.json",
                           "config.json", "generation_config.json", "chat_template.jinja",
                           "encoder.json", "vocab.bpe", "vocab.json", "merges.txt"}) {
    files.push_back(in.empty() ? name : absl::StrCat(in, "/", name));
  }
  common::Digester digester;
  for (const std::string& file : files) {
    const absl::StatusOr<std::string> bytes = common::ReadFile(file);
    if (absl::IsNotFound(bytes.status())) continue;
    RETURN_IF_ERROR(bytes.status());
    const std::string digest =
        absl::StrCat(fs::path(file).filename().string(), " ", common::DigestOf(*bytes), "\n");
    digester.Add(digest.data(), digest.size());
  }
  return digester.Finish();
}

absl::StatusOr<std::string> DigestFor(const PrepareOptions& options,
                                      const std::vector<PlannedInput>& inputs) {
  ASSIGN_OR_RETURN(const std::string tokenizer, TokenizerDigest(options.tokenizer));
  std::string text = absl::StrCat("prepare 1\n", tokenizer, "\n", static_cast<int>(options.format),
                                  " ", options.max_tokens, " ", options.skip_bad, "\n");
  for (const PlannedInput& input : inputs) {
    absl::StrAppend(&text, input.path, "\n", input.lines, " ", input.whole_passes, " ",
                    input.last_share, " ", input.identity, "\n");
  }
  return common::DigestOf(text);
}

// Reads pieces of all inputs and passes in their order.
class InputSequence {
 public:
  // `inputs` outlives it.
  InputSequence(const std::vector<PlannedInput>& inputs, DocumentReader::Cuts text_cuts,
                const InputPosition& at)
      : inputs_(inputs), text_cuts_(text_cuts), position_(at) {
    for (const PlannedInput& input : inputs) total_bytes_ += input.bytes * input.passes();
    for (size_t i = 0; i < static_cast<size_t>(at.input); ++i) {
      passed_bytes_ += inputs[i].bytes * inputs[i].passes();
    }
    if (!at_end()) passed_bytes_ += current().bytes * at.pass;
  }

  bool at_end() const { return position_.input == static_cast<int64_t>(inputs_.size()); }
  const PlannedInput& current() const { return inputs_[static_cast<size_t>(position_.input)]; }
  const InputPosition& position() const { return position_; }
  int64_t total_bytes() const { return total_bytes_; }
  int64_t done_bytes() const {
    return passed_bytes_ + (reader_ != nullptr ? reader_->stream().done() : 0);
  }

  // Some pieces of one input; perhaps none.
  absl::StatusOr<std::vector<Piece>> Next() {
    if (reader_ == nullptr) {
      ASSIGN_OR_RETURN(
          reader_, DocumentReader::Open(current().path,
                                        current().lines ? DocumentReader::Cuts::kLines : text_cuts_,
                                        position_.reader));
    }
    std::vector<Piece> pieces;
    // Short lines take more as objects than as bytes.
    for (size_t bytes = 0; bytes < kChunkBytes && pieces.size() < 4096;) {
      ASSIGN_OR_RETURN(std::optional<Piece> piece, reader_->Next());
      if (!piece.has_value()) {
        if (pieces.empty()) EndPass();  // else at the next call
        break;
      }
      position_.reader = reader_->position();
      bytes += piece->bytes.size();
      const bool text = piece->line == 0;
      if (!text && !current().Takes(position_.pass, position_.reader.documents - 1)) continue;
      pieces.push_back(*std::move(piece));
    }
    return pieces;
  }

 private:
  void EndPass() {
    reader_ = nullptr;
    position_.reader = {};
    passed_bytes_ += current().bytes;
    if (++position_.pass < current().passes()) return;
    position_.pass = 0;
    ++position_.input;
  }

  const std::vector<PlannedInput>& inputs_;
  const DocumentReader::Cuts text_cuts_;
  InputPosition position_;
  std::unique_ptr<DocumentReader> reader_;
  int64_t total_bytes_ = 0, passed_bytes_ = 0;
};

// Takes encoded pieces in order, cuts documents, counts, and writes.
class Output {
 public:
  Output(const PrepareOptions& options, std::unique_ptr<TokenWriter> writer, const Journal& begun)
      : options_(options), writer_(std::move(writer)), state_(begun) {}

  absl::Status Add(const std::string& path, EncodedPiece piece) {
    const std::string where = piece.line > 0 ? absl::StrCat(path, ":", piece.line) : path;
    if (piece.status.ok()) piece.status = Cut(piece);
    if (!piece.status.ok()) {
      // A text is all there is of its file, and what a tokenizer lacks no record can help.
      const bool whole = piece.line == 0 || absl::IsFailedPrecondition(piece.status);
      return whole ? AtPath(where, piece.status) : Refuse(where, piece.status);
    }
    if (!bad_.empty()) return absl::OkStatus();  // nothing will come of it
    const std::vector<uint8_t>& trained = piece.document.trained;
    const absl::Status written = writer_->Append(piece.document.tokens, trained);
    if (absl::IsFailedPrecondition(written)) return AtPath(where, written);
    RETURN_IF_ERROR(written);
    state_.counts.trained += std::count(trained.begin(), trained.end(), 1);
    return piece.ends_document ? EndDocument(where) : absl::OkStatus();
  }

  // The bad records told, then `status`, which ended the work, if it is an error.
  absl::Status WithBadRecords(const absl::Status& status) const {
    if (bad_.empty()) return status;
    std::vector<std::string> lines = bad_;
    if (!status.ok()) lines.emplace_back(status.message());
    return absl::InvalidArgumentError(absl::StrJoin(lines, "\n"));
  }
  bool full_of_bad() const { return bad_.size() >= kMostBadRecords; }
  TokenWriter& writer() { return *writer_; }

  // Makes what is written up to `at` survive. Nothing while there are bad records: they would be
  // forgotten.
  absl::Status Keep(const InputPosition& at, const std::string& journal_path) {
    if (!bad_.empty()) return absl::OkStatus();
    RETURN_IF_ERROR(writer_->Sync());
    state_.input = at;
    state_.output = writer_->position();
    return WriteJournal(journal_path, state_);
  }

  PrepareReport Report() const {
    PrepareReport report = state_.counts;
    report.tokens = writer_->position().tokens;
    report.documents = writer_->position().documents;
    return report;
  }

 private:
  absl::Status Refuse(const std::string& where, const absl::Status& status) {
    if (options_.skip_bad) {
      ++state_.counts.skipped;
    } else if (!full_of_bad()) {
      bad_.push_back(absl::StrCat(where, ": ", status.message()));
    }
    return absl::OkStatus();
  }

  // Leaves out what is beyond max_tokens.
  absl::Status Cut(EncodedPiece& piece) {
    std::vector<int32_t>& tokens = piece.document.tokens;
    std::vector<uint8_t>& trained = piece.document.trained;
    if (state_.cut) {
      tokens.clear(), trained.clear();
      return absl::OkStatus();
    }
    const int64_t most = options_.max_tokens;
    const int64_t room = most - writer_->document_tokens();
    if (most == 0 || static_cast<int64_t>(tokens.size()) <= room) return absl::OkStatus();
    const size_t whole = tokens.size();
    tokens.resize(static_cast<size_t>(room));
    trained.resize(static_cast<size_t>(room));
    if (piece.line > 0 && std::find(trained.begin(), trained.end(), 1) == trained.end()) {
      return absl::InvalidArgumentError(
          absl::StrCat("nothing is left to train on in the first ", most, " of its ", whole,
                       " tokens — raise --max-tokens, or shorten its beginning"));
    }
    state_.cut = true;
    ++state_.counts.truncated;
    return absl::OkStatus();
  }

  absl::Status EndDocument(const std::string& where) {
    state_.cut = false;
    const int64_t length = writer_->document_tokens();
    if (length == 0) {
      return absl::InvalidArgumentError(absl::StrCat(where, ": holds no text"));
    }
    state_.counts.longest = std::max(state_.counts.longest, length);
    return writer_->EndDocument();
  }

  const PrepareOptions& options_;
  const std::unique_ptr<TokenWriter> writer_;
  Journal state_;
  std::vector<std::string> bad_;
};

class Preparation {
 public:
  Preparation(const PrepareOptions& options, const PrepareEvents& events,
              const common::Clock& clock)
      : options_(options), events_(events), clock_(clock), begun_at_(clock.Now()) {}

  absl::StatusOr<PrepareReport> Run() {
    RETURN_IF_ERROR(Begin());
    absl::Status done = output_->WithBadRecords(Write());
    if (done.ok()) done = output_->writer().Finish();
    if (absl::IsFailedPrecondition(done) || absl::IsInvalidArgument(done)) {
      // What is wrong must change, and then nothing of this is of use.
      RemoveFile(JournalPath(file_));
      TokenWriter::Discard(file_);
    }
    RETURN_IF_ERROR(done);
    RemoveFile(JournalPath(file_));
    PrepareReport report = output_->Report();
    report.path = PathForJobs(file_);
    report.seconds = clock_.Now() - begun_at_;
    for (const PlannedInput& input : inputs_) report.input_bytes += input.bytes * input.passes();
    RETURN_IF_ERROR(CheckReadable(report));
    return report;
  }

 private:
  struct Given {
    std::string path;
    InputPosition after;
    int64_t done_bytes;
  };

  absl::Status Begin() {
    ASSIGN_OR_RETURN(inputs_, PlanInputs(options_));
    ASSIGN_OR_RETURN(const std::shared_ptr<const Tokenizer> tokenizer, LoadTokenizer(options_));
    LineCuts cuts = LineCuts::kPlain;
    if (options_.tokenizer.empty()) {
      text_cuts_ = DocumentReader::Cuts::kAnywhere;
    } else {
      ASSIGN_OR_RETURN(cuts, LineCutsOf(options_.tokenizer, *tokenizer));
      if (cuts == LineCuts::kNone) text_cuts_ = DocumentReader::Cuts::kNever;
    }
    if (!options_.tokenizer.empty() && !tokenizer->end_of_text().has_value()) {
      events_.notice(absl::StrCat(options_.tokenizer,
                                  ": names no end-of-text token: documents of plain text follow "
                                  "each other without one"));
    }
    ASSIGN_OR_RETURN(begun_.digest, DigestFor(options_, inputs_));
    file_ = {options_.output, options_.format, tokenizer->vocabulary()};
    begun_.date = static_cast<int64_t>(common::WallSeconds());
    RETURN_IF_ERROR(OpenOutput());
    const bool records = std::any_of(inputs_.begin(), inputs_.end(),
                                     [](const PlannedInput& input) { return input.lines; });
    ASSIGN_OR_RETURN(encoder_, PieceEncoder::Create(tokenizer, cuts, records, begun_.date));
    return absl::OkStatus();
  }

  // Goes on with what an earlier call left, if it is of the same work.
  absl::Status OpenOutput() {
    const absl::StatusOr<Journal> earlier = ReadJournal(JournalPath(file_));
    if (earlier.ok() && earlier->digest == begun_.digest) {
      auto writer = TokenWriter::Open(file_, earlier->output);
      if (!writer.ok() && !absl::IsDataLoss(writer.status())) return writer.status();
      if (writer.ok()) {
        begun_ = *earlier;
        events_.notice(absl::StrCat("going on after ", begun_.output.documents, " documents, ",
                                    begun_.output.tokens, " tokens"));
        output_.emplace(options_, *std::move(writer), begun_);
        return absl::OkStatus();
      }
    }
    ASSIGN_OR_RETURN(std::unique_ptr<TokenWriter> writer, TokenWriter::Open(file_, {}));
    if (!absl::IsNotFound(earlier.status())) {
      events_.notice(
          "beginning anew: inputs, tokenizer or options are others than those of the interrupted "
          "attempt, or what it wrote is gone");
    }
    RemoveFile(JournalPath(file_));
    output_.emplace(options_, std::move(writer), begun_);
    return absl::OkStatus();
  }

  absl::Status Write() {
    InputSequence sequence(inputs_, text_cuts_, begun_.input);
    total_bytes_ = sequence.total_bytes();
    EncodePool pool(options_.threads, [this](const Piece& p) { return encoder_->Encode(p); });
    kept_at_ = clock_.Now();
    InputPosition last = begun_.input;
    while (!output_->full_of_bad()) {
      if (!sequence.at_end() && !pool.full()) {
        const std::string path = sequence.current().path;
        ASSIGN_OR_RETURN(std::vector<Piece> pieces, sequence.Next());
        if (pieces.empty()) continue;
        pool.Give(std::move(pieces));
        given_.push_back({path, sequence.position(), sequence.done_bytes()});
        continue;
      }
      if (pool.empty()) break;
      RETURN_IF_ERROR(TakeChunk(pool));
      last = given_.front().after;
      RETURN_IF_ERROR(Tell(given_.front()));
      given_.pop_front();
    }
    // Also of the passes that ended without a piece.
    return output_->Keep(sequence.at_end() ? sequence.position() : last, JournalPath(file_));
  }

  absl::Status TakeChunk(EncodePool& pool) {
    for (EncodedPiece& piece : pool.Take()) {
      RETURN_IF_ERROR(output_->Add(given_.front().path, std::move(piece)));
    }
    return absl::OkStatus();
  }

  // Progress, and a journal now and then.
  absl::Status Tell(const Given& given) {
    PrepareProgress progress;
    progress.path = given.path;
    progress.done_bytes = given.done_bytes;
    progress.total_bytes = total_bytes_;
    progress.documents = output_->writer().position().documents;
    progress.tokens = output_->writer().position().tokens;
    const bool go_on = events_.progress(progress);
    if (go_on && clock_.Now() - kept_at_ < options_.sync_seconds) return absl::OkStatus();
    RETURN_IF_ERROR(output_->Keep(given.after, JournalPath(file_)));
    kept_at_ = clock_.Now();
    if (go_on) return absl::OkStatus();
    return absl::CancelledError(
        absl::StrCat(options_.output, ": interrupted — the same command goes on where it ended"));
  }

  // What was written is what jobs will read.
  absl::Status CheckReadable(const PrepareReport& report) const {
    ASSIGN_OR_RETURN(const std::shared_ptr<const TokenSource> source,
                     OpenTokenSource(report.path, file_.vocabulary));
    if (source->tokens() == report.tokens) return absl::OkStatus();
    return absl::InternalError(absl::StrCat(report.path, ": was written with ", report.tokens,
                                            " tokens and is read with ", source->tokens()));
  }

  const PrepareOptions& options_;
  const PrepareEvents& events_;
  const common::Clock& clock_;
  const double begun_at_;
  std::vector<PlannedInput> inputs_;
  DocumentReader::Cuts text_cuts_ = DocumentReader::Cuts::kSafely;
  std::unique_ptr<const PieceEncoder> encoder_;
  TokenFile file_;
  Journal begun_;  // where this call begins
  std::optional<Output> output_;
  std::deque<Given> given_;  // chunks in the pool
  int64_t total_bytes_ = 0;
  double kept_at_ = 0;
};

absl::Status CheckOptions(const PrepareOptions& options) {
  if (options.output.empty()) return absl::InvalidArgumentError("there is no output");
  if (options.max_tokens < 0 || options.threads < 1) {
    return absl::InvalidArgumentError("max_tokens and threads must be positive");
  }
  for (const PrepareInput& input : options.inputs) {
    std::error_code error;
    if (!fs::equivalent(input.path, options.output, error)) continue;
    return absl::InvalidArgumentError(
        absl::StrCat(options.output, ": is an input — give the output another name"));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<PrepareReport> PrepareData(const PrepareOptions& options,
                                          const PrepareEvents& events, const common::Clock& clock) {
  RETURN_IF_ERROR(CheckOptions(options));
  return Preparation(options, events, clock).Run();
}

absl::StatusOr<std::string> PrepareDigest(const PrepareOptions& options) {
  RETURN_IF_ERROR(CheckOptions(options));
  ASSIGN_OR_RETURN(const std::vector<PlannedInput> inputs, PlanInputs(options));
  return DigestFor(options, inputs);
}

}  // namespace strata::data
