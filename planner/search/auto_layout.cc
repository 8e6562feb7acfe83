#include "planner/search/auto_layout.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <tuple>
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
#include "planner/performance/step_prediction.h"
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
    TryAll(Layouts());
    Sort();
    // Sizes of micro-batches change a layout's speed by less than the layout itself: those of the
    // best few are looked at.
    if (micro_open_) VaryMicroBatchOfBest();
    if (LeavesMuchOut()) {
      const std::vector<Layout> layouts = LayoutsToMove();
      if (MayRecompute()) {
        TryAll(Recomputing(layouts));
        Sort();
      }
      Move(layouts);
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
  static constexpr double kEnoughPasses = 2048;  // some seconds
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

  // Where the closed form knows them all, of many those that it has fit and fastest, until
  // kFinalists do fit or the work is enough: composing takes long.
  void TryAll(std::vector<Layout> layouts) {
    const std::vector<double> passes = OrderByClosedForm(layouts);
    known_ += static_cast<int64_t>(layouts.size());
    int fitting = 0;
    double composed = 0;
    for (size_t i = 0; i < layouts.size(); ++i) {
      if (!passes.empty() && (fitting == kFinalists || i == 2 * kFinalists)) break;
      if (i >= kFew && composed > kEnoughPasses) break;
      fitting += Try(layouts[i]) ? 1 : 0;
      if (!passes.empty()) composed += passes[i];
    }
  }

  // Those that it has fit, fastest first, then the others, least memory first; and of each the
  // passes of a layer by a micro-batch that its programs have. None: it does not know some of those
  // that are legal, or they are few.
  std::vector<double> OrderByClosedForm(std::vector<Layout>& layouts) {
    if (layouts.size() <= kFew || !OnAccelerator(job_)) return {};
    struct Known {
      bool large;
      double by;  // of a large one its bytes, else seconds
      double passes;
      Layout layout;
    };
    const FitDevice card = CardOf(request_.room);
    std::vector<Known> known;
    double fastest = fastest_known_;
    for (const Layout& layout : layouts) {
      const Candidate candidate = Write(layout);
      const absl::StatusOr<v1::JobSpec> job = request_.read(candidate.settings);
      if (!job.ok()) {
        Refuse(candidate, job.status());
        continue;
      }
      const auto model = model::FromProto(job->model());
      if (!model.ok()) return {};
      const std::optional<JobChoice> choice = ChoiceOf(Catalog::Shipped(), {.spec = *model}, *job,
                                                       card.name, static_cast<double>(card.bytes));
      if (!choice.has_value()) return {};
      const StepPrediction step = PredictStep(choice->machine, choice->shape, choice->layout);
      fastest = std::min(fastest, step.seconds);
      const bool large = card.bytes > 0 && step.memory_bytes > static_cast<double>(card.bytes);
      known.push_back({large, large ? step.memory_bytes : step.seconds,
                       static_cast<double>(model->layers * choice->layout.micro_batches()),
                       layout});
    }
    std::stable_sort(known.begin(), known.end(), [](const Known& a, const Known& b) {
      return std::tie(a.large, a.by) < std::tie(b.large, b.by);
    });
    fastest_known_ = fastest;  // of a question that it can answer whole
    layouts.clear();
    std::vector<double> passes;
    for (Known& each : known) {
      layouts.push_back(std::move(each.layout));
      passes.push_back(each.passes);
    }
    return passes;
  }

  // Whether nothing fits, or something that does not would be much faster than all that does.
  bool LeavesMuchOut() const {
    constexpr double kMuch = 0.9;
    if (tried_.empty()) return false;
    const Candidate& best = tried_.front().candidate;
    if (fastest_known_ < kMuch * best.seconds) return true;
    return std::any_of(tried_.begin(), tried_.end(), [&](const Tried& each) {
      return !best.fits || (!each.candidate.fits && each.candidate.seconds < kMuch * best.seconds);
    });
  }

  // All where the closed form chooses among them; else of what was looked at those that need least
  // of the device, and the fastest.
  std::vector<Layout> LayoutsToMove() const {
    if (std::isfinite(fastest_known_)) return Layouts();
    std::vector<Tried> layouts = tried_;
    if (layouts.size() > kMostMoved) {
      std::stable_sort(layouts.begin(), layouts.end(), [](const Tried& a, const Tried& b) {
        return a.candidate.rank_arena < b.candidate.rank_arena;
      });
      std::stable_sort(
          layouts.begin() + kMostMoved / 2, layouts.end(),
          [](const Tried& a, const Tried& b) { return a.candidate.seconds < b.candidate.seconds; });
      layouts.resize(kMostMoved);
    }
    std::vector<Layout> found;
    for (Tried& each : layouts) found.push_back(std::move(each.layout));
    return found;
  }

  bool MayRecompute() const {
    return parallel_open_ &&
           std::none_of(request_.kept.begin(), request_.kept.end(),
                        [](const KeptKey& kept) { return kept.key == "recompute"; });
  }

  static std::vector<Layout> Recomputing(std::vector<Layout> layouts) {
    for (Layout& layout : layouts) layout.recompute = true;
    return layouts;
  }

  // Bytes to where the job lets them go, step by step until something fits, each with recompute too
  // where activations stay.
  void Move(const std::vector<Layout>& layouts) {
    const std::vector<std::vector<Homes>> steps = StepsOfHomes(job_);
    if (steps.empty()) return;
    for (const std::vector<Homes>& step : steps) {
      std::vector<Layout> moved;
      for (const Homes& homes : step) {
        for (Layout layout : layouts) {
          layout.homes = homes;
          moved.push_back(layout);
          if (!MayRecompute() || homes.Moves("activations")) continue;
          layout.recompute = true;
          moved.push_back(layout);
        }
      }
      TryAll(std::move(moved));
      Sort();
      if (tried_.front().candidate.fits) break;
    }
    // What is moved once a step costs larger micro-batches less.
    if (micro_open_ && tried_.front().candidate.fits) VaryMicroBatchOfBest();
  }

  void VaryMicroBatchOfBest() {
    std::vector<Layout> varied;
    for (size_t i = 0; i < std::min<size_t>(kFew, tried_.size()); ++i) {
      Layout layout = tried_[i].layout;
      const int64_t data =
          parallel_open_ ? layout.data : std::max<int64_t>(1, job_.parallel().data());
      const int64_t share = job_.train().global_batch() / data;
      for (const int64_t micro : common::DivisorsOf(std::max<int64_t>(1, share))) {
        layout.micro_batch = micro;
        if (micro <= kMostMicroBatch) varied.push_back(layout);
      }
    }
    TryAll(std::move(varied));
    Sort();
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

  // Whether it is legal, new, and fits.
  bool Try(const Layout& layout) {
    given_up_ = given_up_ || (request_.gives_up && request_.gives_up());
    if (given_up_) return false;
    const size_t before = tried_.size();
    LookAt(layout);
    ++looked_at_;
    if (request_.on_progress) request_.on_progress(looked_at_, known_);
    return tried_.size() > before && tried_.back().candidate.fits;
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
      if (const double share = ShareOf(candidate, request_.room); share > candidate.excess) {
        candidate.excess = share;
        candidate.lacks = NeedsOf(candidate, request_.room);
      }
    }
    candidate.seconds = predicted.seconds;
    candidate.terms = predicted.terms;
    Correct(job, candidate);
    return absl::OkStatus();
  }

  // Of limits that are not kept the one that is exceeded most is told.
  static void Compare(int64_t needs, absl::string_view of, int64_t has, Candidate& candidate) {
    if (needs <= has) return;
    candidate.fits = false;
    const double excess =
        static_cast<double>(needs) / static_cast<double>(std::max<int64_t>(1, has));
    if (excess <= candidate.excess) return;
    candidate.excess = excess;
    candidate.lacks = absl::StrCat("needs ", BytesText(needs), " ", of, BytesText(has));
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
    const auto before = [](const Candidate& a, const Candidate& b) {
      if (a.fits != b.fits) return a.fits;
      if (a.fits) return a.seconds < b.seconds;
      return a.has_room != b.has_room ? a.has_room : a.excess < b.excess;
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
  double fastest_known_ = std::numeric_limits<double>::infinity();  // by the closed form
  int64_t looked_at_ = 0, known_ = 0;                               // layouts
  absl::Status why_not_;  // of the first that is not legal
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
