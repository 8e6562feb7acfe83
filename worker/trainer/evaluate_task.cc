#include "worker/trainer/evaluate_task.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "checkpoint/safetensors.h"
#include "common/status_macros.h"
#include "data/batch_reader.h"
#include "data/corpus.h"
#include "worker/trainer/inference_session.h"

namespace strata::worker {
namespace {

constexpr int64_t kLargestChunk = 256;

// Window length: what was asked for, or what the model was trained with.
int64_t SequenceOf(const v1::StandaloneRequest& request, int64_t trained) {
  return request.sequence() > 0 ? request.sequence() : trained;
}

absl::StatusOr<data::Corpus> OpenFile(const std::string& path, int64_t sequence,
                                      int64_t vocabulary) {
  data::CorpusSpec spec;
  spec.train.push_back({path, 1});
  spec.sequence = sequence;
  spec.vocabulary = vocabulary;
  return data::OpenCorpus(spec, nullptr);
}

// -log softmax(logits)[target] in double precision.
double LossOf(absl::Span<const float> logits, int32_t target) {
  const double largest = *std::max_element(logits.begin(), logits.end());
  double sum = 0;
  for (const float logit : logits) sum += std::exp(logit - largest);
  return std::log(sum) + largest - logits[target];
}

class Evaluation {
 public:
  // `counts`: this rank is the one that looks at the logits.
  Evaluation(InferenceSession* session, const data::Corpus& corpus, int64_t sequence, bool counts)
      : session_(*session),
        counts_(counts),
        split_(corpus.train),
        reader_(corpus.train),
        sequence_(sequence),
        vocab_(session->program().model.vocab),
        tokens_(sequence),
        targets_(sequence),
        losses_(sequence) {}

  absl::Status OpenDump(const std::string& path) {
    ASSIGN_OR_RETURN(std::unique_ptr<checkpoint::WritableFile> file,
                     checkpoint::PosixFileSystem()->CreateFile(path));
    checkpoint::SafetensorsEntry entry;
    entry.name = "logits";
    entry.dtype = checkpoint::DType::kF32;
    entry.shape = {split_.windows(), sequence_, vocab_};
    ASSIGN_OR_RETURN(dump_, checkpoint::SafetensorsWriter::Create(std::move(file), {entry}, {}));
    return absl::OkStatus();
  }

  absl::StatusOr<v1::EvalResult> Run() {
    double loss = 0;
    int64_t counted = 0;
    for (int64_t window = 0; window < split_.windows(); ++window) {
      RETURN_IF_ERROR(reader_.ReadWindow({0, window}, tokens_.data(), targets_.data()));
      RETURN_IF_ERROR(ReadWindow());
      for (int64_t row = 0; row < sequence_; ++row) {
        loss += losses_[row];
        counted += targets_[row] >= 0;
      }
    }
    if (dump_ != nullptr) RETURN_IF_ERROR(dump_->Finish());
    if (counted == 0) {
      return absl::InvalidArgumentError(absl::StrCat(
          split_.sources.front().tokens->path(), ": none of its tokens is trained on (its mask)"));
    }
    v1::EvalResult result;
    result.set_tokens(counted);
    result.set_loss(loss / static_cast<double>(counted));
    result.set_perplexity(std::exp(result.loss()));
    return result;
  }

 private:
  absl::Status ReadWindow() {
    for (int64_t at = 0; at < sequence_; at += session_.chunk()) {
      const auto chunk = absl::MakeConstSpan(tokens_).subspan(at, session_.chunk());
      ASSIGN_OR_RETURN(const absl::Span<const float> logits, session_.Read(chunk, at));
      if (!counts_) continue;
      session_.pool().ParallelFor(static_cast<int64_t>(chunk.size()), [&](int64_t row, int) {
        const int32_t target = targets_[at + row];
        losses_[at + row] = target < 0 ? 0 : LossOf(logits.subspan(row * vocab_, vocab_), target);
      });
      if (dump_ != nullptr) {
        RETURN_IF_ERROR(dump_->Append(logits.data(), logits.size() * sizeof(float)));
      }
    }
    return absl::OkStatus();
  }

  InferenceSession& session_;
  const bool counts_;
  const data::Split split_;
  data::BatchReader reader_;
  const int64_t sequence_;
  const int64_t vocab_;
  std::vector<int32_t> tokens_, targets_;
  std::vector<double> losses_;  // nats, per token of the window
  std::unique_ptr<checkpoint::SafetensorsWriter> dump_;
};

}  // namespace

absl::StatusOr<v1::JobPlan> PlanEvaluation(const TaskContext& context) {
  const v1::StandaloneRequest& request = context.task.request();
  v1::JobSpec job;
  ASSIGN_OR_RETURN(const v1::JobPlan plan,
                   PlanInference(context, request.checkpoint_path(), kLargestChunk, &job));
  const int64_t sequence = SequenceOf(request, job.train().sequence());
  if (sequence > job.model().context()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--sequence: ", sequence, " is more than the model's context of ", job.model().context()));
  }
  ASSIGN_OR_RETURN(const data::Corpus corpus,
                   OpenFile(request.data_path(), sequence, job.model().vocab()));
  if (!job.model().has_from() && corpus.vocabulary > job.model().vocab()) {
    return absl::InvalidArgumentError(absl::StrCat(request.data_path(), ": its tokens need ",
                                                   corpus.vocabulary, " entries, the model has ",
                                                   job.model().vocab()));
  }
  return plan;
}

absl::Status RunEvaluation(const TaskContext& context) {
  const v1::StandaloneRequest& request = context.task.request();
  ASSIGN_OR_RETURN(const std::unique_ptr<InferenceSession> session,
                   InferenceSession::Open(context, kLargestChunk));
  const int64_t sequence = SequenceOf(request, session->program().trained_sequence);
  ASSIGN_OR_RETURN(const data::Corpus corpus,
                   OpenFile(request.data_path(), sequence, session->program().model.vocab));
  const bool counts = context.task.rank() == 0;
  Evaluation evaluation(session.get(), corpus, sequence, counts);
  if (counts && !request.dump_logits_path().empty()) {
    RETURN_IF_ERROR(evaluation.OpenDump(request.dump_logits_path()));
  }
  ASSIGN_OR_RETURN(const v1::EvalResult result, evaluation.Run());
  if (!counts) return absl::OkStatus();
  v1::TrainerEvent event;
  *event.mutable_result() = result;
  context.control->Send(event);
  return absl::OkStatus();
}

}  // namespace strata::worker
