#include "planner/search/auto_layout.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/divisors.h"
#include "common/status_macros.h"
#include "common/units.h"
#include "model/model_spec_proto.h"
#include "planner/fit/collective_scratch.h"
#include "planner/fit/devices.h"
#include "planner/fit/memory_of_job.h"
#include "planner/search/homes.h"
#include "planner/search/job_choice.h"
#include "planner/search/predicted_job.h"

namespace strata::planner {
namespace {

// A layout as a job file writes it.
struct Layout {
  int64_t data = 1, tensor = 1, context = 1, pipeline = 1;
  const char* shard = "none";
  int64_t micro_batch = 0;  // 0: as the file has it
  bool recompute = false;
  Homes homes = {};
};

// How many times what there is it needs; 0: nothing is known.
double ShareOf(const Candidate& candidate, const RankRoom& room) {
  const auto share = [](int64_t needs, int64_t has) {
    return has == 0 ? 0 : static_cast<double>(needs) / static_cast<double>(has);
  };
  return std::max(share(candidate.rank_device, room.device), share(candidate.rank_host, room.host));
}

// The devices that a rank gets at worst. Those whose kind nobody knows have what the node tells.
FitDevice CardOf(const RankRoom& room) {
  absl::StatusOr<FitDevice> device = DeviceOf(room.kind, room.device);
  return device.ok() ? *std::move(device) : FitDevice{room.kind, room.device, false};
}

std::string BytesText(int64_t bytes) { return common::FormatBytes(static_cast<double>(bytes)); }

// "needs 24.00 GiB of a device, and those of n3 have 16.00 GiB".
std::string NeedsOf(const Candidate& candidate, const RankRoom& room) {
  std::string needs;
  if (room.device > 0 && candidate.rank_device > room.device) {
    needs = absl::StrCat(BytesText(candidate.rank_device), " of a device, and those of ",
                         room.device_node, " have ", BytesText(room.device));
  }
  if (room.host > 0 && candidate.rank_host > room.host) {
    absl::StrAppend(&needs, needs.empty() ? "" : "; ", BytesText(candidate.rank_host),
                    " of the host's memory, and ", room.host_node, " has ", BytesText(room.host),
                    " for each rank");
  }
  return absl::StrCat("needs ", needs);
}

class Ranking {
 public:
  explicit Ranking(const AutoRequest& request)
      : request_(request),
        job_(*request.job),
        parallel_open_(job_.parallel().automatic()),
        micro_open_(job_.train().micro_batch() == 0 ||
                    (parallel_open_ && !request.micro_batch_given)) {}

  absl::StatusOr<std::vector<Candidate>> Run() {
    std::vector<Layout> layouts = Layouts();
    const bool ordered = OrderByClosedForm(layouts);
    known_ = static_cast<int64_t>(layouts.size());
    for (const Layout& layout : layouts) {
      if (ordered && fitting_ == kFinalists) break;
      Try(layout);
    }
    Sort();
    // Sizes of micro-batches change a layout's speed by less than the layout itself: those of the
    // best few are looked at.
    if (micro_open_) VaryMicroBatchOfBest();
    if (!tried_.empty() && !tried_.front().candidate.fits) {
      const std::vector<Tried> all = tried_;
      if (MayRecompute()) {
        known_ += static_cast<int64_t>(all.size());
        for (const Tried& each : all) Recomputing(each.layout);
        Sort();
      }
      Move(all);
    }
    if (given_up_) {
      return absl::DeadlineExceededError(
          absl::StrCat("auto: only ", looked_at_, " of ", known_,
                       " layouts were looked at in the time there was"));
    }
    if (tried_.empty()) return why_not_;
    std::vector<Candidate> candidates;
    for (Tried& each : tried_) candidates.push_back(std::move(each.candidate));
    return candidates;
  }

 private:
  struct Tried {
    Layout layout;
    Candidate candidate;
  };
  static constexpr size_t kFew = 4, kMostMoved = 16;
  static constexpr int64_t kMostMicroBatch = 32;

  std::vector<Layout> Layouts() const {
    if (!parallel_open_) return {Layout{.micro_batch = job_.train().micro_batch() == 0 ? 1 : 0}};
    std::vector<Layout> layouts;
    const int64_t ranks = std::max<int64_t>(1, job_.resources().ranks());
    for (const int64_t tensor : common::DivisorsOf(ranks)) {
      for (const int64_t context : common::DivisorsOf(ranks / tensor)) {
        for (const int64_t pipeline : common::DivisorsOf(ranks / tensor / context)) {
          Layout layout{.data = ranks / tensor / context / pipeline,
                        .tensor = tensor,
                        .context = context,
                        .pipeline = pipeline,
                        .micro_batch = job_.train().micro_batch() == 0 ? 1 : 0};
          layouts.push_back(layout);
          for (const char* shard : {"zero1", "zero2", "zero3"}) {
            if (layout.data == 1) break;
            layout.shard = shard;
            layouts.push_back(layout);
          }
        }
      }
    }
    return layouts;
  }

  // Fastest first, where the closed form knows all that are legal; false: it does not.
  bool OrderByClosedForm(std::vector<Layout>& layouts) {
    if (layouts.size() <= kFinalists) return false;
    const Catalog& catalog = Catalog::Shipped();
    std::vector<std::pair<double, Layout>> timed;
    for (const Layout& layout : layouts) {
      const Candidate candidate = Write(layout);
      const absl::StatusOr<v1::JobSpec> job = request_.read(candidate.settings);
      if (!job.ok()) {
        Refuse(candidate, job.status());
        continue;
      }
      const auto model = model::FromProto(job->model());
      if (!model.ok()) return false;
      const double seconds = StepSecondsOf(
          catalog, {.model = {.spec = *model}, .job = *job, .device = CardOf(request_.room)});
      if (seconds < 0) return false;
      timed.emplace_back(seconds, layout);
    }
    std::stable_sort(timed.begin(), timed.end(),
                     [](const auto& a, const auto& b) { return a.first < b.first; });
    layouts.clear();
    for (auto& [seconds, layout] : timed) layouts.push_back(std::move(layout));
    return true;
  }

  bool MayRecompute() const {
    return parallel_open_ &&
           std::none_of(request_.kept.begin(), request_.kept.end(),
                        [](const KeptKey& kept) { return kept.key == "recompute"; });
  }

  void Recomputing(Layout layout) {
    layout.recompute = true;
    Try(layout);
  }

  // Bytes to where the job lets them go, step by step until something fits: of those layouts that
  // need least of the device, each with recompute too where activations stay.
  void Move(std::vector<Tried> layouts) {
    std::stable_sort(layouts.begin(), layouts.end(), [](const Tried& a, const Tried& b) {
      return a.candidate.rank_arena < b.candidate.rank_arena;
    });
    layouts.resize(std::min(kMostMoved, layouts.size()));
    for (const std::vector<Homes>& step : StepsOfHomes(job_)) {
      for (const Homes& homes : step) {
        const bool recomputes = MayRecompute() && !homes.Moves("activations");
        known_ += static_cast<int64_t>(layouts.size()) * (recomputes ? 2 : 1);
        for (Tried each : layouts) {
          each.layout.homes = homes;
          Try(each.layout);
          if (recomputes) Recomputing(each.layout);
        }
      }
      Sort();
      if (tried_.front().candidate.fits) break;
    }
    // What is moved once a step costs larger micro-batches less.
    if (micro_open_ && tried_.front().candidate.fits) VaryMicroBatchOfBest();
  }

  void VaryMicroBatchOfBest() {
    const size_t few = std::min<size_t>(kFew, tried_.size());
    const std::vector<Tried> best(tried_.begin(), tried_.begin() + few);
    for (const Tried& each : best) VaryMicroBatch(each.layout);
    Sort();
  }

  void VaryMicroBatch(Layout layout) {
    const int64_t data =
        parallel_open_ ? layout.data : std::max<int64_t>(1, job_.parallel().data());
    const int64_t share = job_.train().global_batch() / data;
    std::vector<int64_t> sizes = common::DivisorsOf(std::max<int64_t>(1, share));
    std::erase_if(sizes, [](int64_t size) { return size > kMostMicroBatch; });
    known_ += static_cast<int64_t>(sizes.size());
    for (const int64_t micro : sizes) {
      layout.micro_batch = micro;
      Try(layout);
    }
  }

  Candidate Write(const Layout& layout) const {
    Candidate candidate;
    auto& words = candidate.words.parallel;
    const auto degree = [&](const char* key, int64_t value) {
      if (value > 1) words.emplace_back(key, absl::StrCat(value));
    };
    if (parallel_open_) {
      degree("tensor", layout.tensor);
      degree("context", layout.context);
      degree("pipeline", layout.pipeline);
      degree("data", layout.data);
      if (words.empty()) words.emplace_back("data", "1");
      if (std::string(layout.shard) != "none") words.emplace_back("shard", layout.shard);
      if (layout.recompute) words.emplace_back("recompute", "full");
      for (const KeptKey& kept : request_.kept) {
        const bool goes = kept.with.empty() || (kept.with == "pipeline" && layout.pipeline > 1) ||
                          (kept.with == "context" && layout.context > 1);
        if (goes) words.emplace_back(kept.key, kept.value);
      }
      candidate.settings.push_back(
          absl::StrCat("parallel={", absl::StrJoin(words, ", ", absl::PairFormatter(": ")), "}"));
    }
    if (layout.micro_batch > 0) {
      candidate.settings.push_back(absl::StrCat("train.micro_batch=", layout.micro_batch));
    }
    if (!LeavesPlacesOpen(job_.memory())) return candidate;
    for (std::string& setting : SettingsOf(layout.homes, job_.memory())) {
      candidate.settings.push_back(std::move(setting));
    }
    candidate.words.memory = layout.homes.elsewhere;
    candidate.words.resident = layout.homes.resident;
    return candidate;
  }

  void Refuse(const Candidate& candidate, const absl::Status& status) {
    if (!why_not_.ok()) return;
    // Of several reasons the first, without its place in settings that nobody typed.
    absl::string_view reason = absl::StripAsciiWhitespace(status.message());
    reason = reason.substr(0, reason.find('\n'));
    if (absl::StartsWith(reason, "--set:")) reason.remove_prefix(reason.find(": ") + 2);
    why_not_ =
        absl::Status(status.code(), absl::StrCat("no layout is legal (the first, ",
                                                 candidate.words.ToText(), ": ", reason, ")"));
  }

  void Try(const Layout& layout) {
    given_up_ = given_up_ || (request_.gives_up && request_.gives_up());
    if (given_up_) return;
    LookAt(layout);
    ++looked_at_;
    if (request_.on_progress) request_.on_progress(looked_at_, known_);
  }

  void LookAt(const Layout& layout) {
    Candidate candidate = Write(layout);
    const absl::StatusOr<v1::JobSpec> job = request_.read(candidate.settings);
    if (!job.ok()) return Refuse(candidate, job.status());
    if (micro_open_) {
      candidate.words.parallel.emplace_back("micro_batch",
                                            absl::StrCat(job->train().micro_batch()));
    }
    for (const Tried& each : tried_) {
      if (each.candidate.words == candidate.words) return;
    }
    const absl::Status status = Predict(*job, candidate);
    if (!status.ok()) return Refuse(candidate, status);
    fitting_ += candidate.fits ? 1 : 0;
    tried_.push_back({layout, std::move(candidate)});
  }

  // Composes the candidate's programs, and reads memory and time off them.
  absl::Status Predict(const v1::JobSpec& job, Candidate& candidate) const {
    ASSIGN_OR_RETURN(const model::ModelSpec model, model::FromProto(job.model()));
    ASSIGN_OR_RETURN(const PredictedJob predicted,
                     PredictJob(job, model,
                                {.threads = request_.threads,
                                 .evaluate_sequences = request_.evaluate_sequences,
                                 .scratch = CollectiveScratch,
                                 .costs = request_.costs}));
    const program::Mesh& mesh = predicted.mesh;
    int64_t of_machine = 0, on_disks = 0;
    for (const program::StagePrograms& stage : predicted.stages) {
      const int64_t ranks = mesh.ranks() / mesh.sizes.pipeline;
      const auto held = [&](program::Tier tier) { return stage.set.arena(tier); };
      const int64_t device = held(program::Tier::kDevice), host = held(program::Tier::kHost);
      candidate.bytes += ranks * (device + host);
      of_machine += ranks * (OnAccelerator(job) ? host : device + host);
      on_disks = std::max(on_disks, held(program::Tier::kSsd));
      candidate.rank_arena = std::max(candidate.rank_arena, device);
      FillRank(job, model, mesh.sizes, device, host, candidate);
      const v1::MemorySpec& limits = job.memory();
      if (limits.has_device()) {
        Compare(device, "of a device, and memory.device is ", limits.device(), candidate);
      }
      if (limits.has_host()) {
        Compare(host, "of the host's memory, and memory.host is ", limits.host(), candidate);
      }
    }
    Compare(on_disks, "of disks, and a rank's part of memory.ssd is ", DisksOfRank(job), candidate);
    if (request_.memory_bytes > 0) {
      Compare(of_machine, "of memory for all ranks, and this machine has ", request_.memory_bytes,
              candidate);
    }
    candidate.has_room = ShareOf(candidate, request_.room) <= 1;
    if (!candidate.has_room) {
      candidate.fits = false;
      if (candidate.lacks.empty()) candidate.lacks = NeedsOf(candidate, request_.room);
    }
    candidate.seconds = predicted.seconds;
    candidate.terms = predicted.terms;
    Correct(job, candidate);
    return absl::OkStatus();
  }

  // The first limit that is not kept is told.
  static void Compare(int64_t needs, absl::string_view of, int64_t has, Candidate& candidate) {
    if (needs <= has) return;
    candidate.fits = false;
    if (candidate.lacks.empty()) {
      candidate.lacks = absl::StrCat("needs ", BytesText(needs), " ", of, BytesText(has));
    }
  }

  // What the job's directories have for each rank: they are shared by those of a node.
  static int64_t DisksOfRank(const v1::JobSpec& job) {
    const int64_t ranks = std::max<int64_t>(1, job.resources().ranks());
    const int64_t on_node = OnAccelerator(job) ? std::min<int64_t>(ranks, kDevicesPerNode) : ranks;
    int64_t bytes = 0;
    for (const v1::SsdPath& path : job.memory().ssd()) bytes += path.size() / on_node;
    return bytes;
  }

  // Of a rank of one stage, as far as it is the fullest.
  void FillRank(const v1::JobSpec& job, const model::ModelSpec& model,
                const program::GroupSizes& sizes, int64_t device, int64_t host,
                Candidate& candidate) const {
    if (OnAccelerator(job)) {
      const FitRequest rank = {
          .model = {.spec = model}, .job = job, .device = CardOf(request_.room)};
      for (const OverheadItem& item : OverheadOfRank(rank, sizes, device)) device += item.bytes;
    } else {
      host += std::exchange(device, 0);
    }
    candidate.rank_device = std::max(candidate.rank_device, device);
    candidate.rank_host = std::max(candidate.rank_host, host);
  }

  void Correct(const v1::JobSpec& job, Candidate& candidate) const {
    candidate.correction =
        CorrectionOf(FamilyOf(job, job.model(), request_.device), request_.learned);
    if (!candidate.correction.has_value()) return;
    const double predicted = candidate.seconds;
    candidate.seconds *= candidate.correction->ratio;
    candidate.terms.emplace_back("correction", candidate.seconds - predicted);
  }

  void Sort() {
    const auto before = [&room = request_.room](const Candidate& a, const Candidate& b) {
      if (a.fits != b.fits) return a.fits;
      if (a.fits) return a.seconds < b.seconds;
      if (a.has_room != b.has_room) return a.has_room;
      return a.has_room ? a.bytes < b.bytes : ShareOf(a, room) < ShareOf(b, room);
    };
    std::stable_sort(tried_.begin(), tried_.end(), [&](const Tried& a, const Tried& b) {
      return before(a.candidate, b.candidate);
    });
  }

  const AutoRequest& request_;
  const v1::JobSpec& job_;
  const bool parallel_open_, micro_open_;
  std::vector<Tried> tried_;
  bool given_up_ = false;
  int64_t looked_at_ = 0, known_ = 0, fitting_ = 0;  // layouts
  absl::Status why_not_;                             // of the first that is not legal
};

}  // namespace

bool LeavesToDecide(const v1::JobSpec& job) {
  return job.parallel().automatic() || LeavesPlacesOpen(job.memory()) ||
         (job.train().has_micro_batch() && job.train().micro_batch() == 0);
}

program::Rates UsualRates(int64_t threads) {
  const auto share = static_cast<double>(threads);
  return {.flops_per_second = 5e10 * share, .memory_bytes_per_second = 1e10 * share};
}

std::string WhyNoRoom(const Candidate& candidate, const RankRoom& room) {
  return absl::StrCat(candidate.words.ToText(), " ", NeedsOf(candidate, room));
}

absl::StatusOr<std::vector<Candidate>> RankLayouts(const AutoRequest& request) {
  const int64_t ranks = request.job->resources().ranks();
  if (request.job->parallel().automatic() && ranks > kMostAutoRanks) {
    return absl::UnimplementedError(
        absl::StrCat("auto looks at up to ", kMostAutoRanks, " ranks, not ", ranks));
  }
  return Ranking(request).Run();
}

}  // namespace strata::planner
