#include "planner/fit/memory_of_job.h"

#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "model/families/families.h"
#include "planner/fit/closed_form.h"
#include "planner/fit/collective_scratch.h"
#include "planner/fit/library_attention.h"
#include "planner/job/job_plan.h"
#include "program/ir/unified.h"
#include "program/readers/memory.h"

namespace strata::planner {
namespace {

using program::ProgramSet;
using program::SlotClass;
using program::Tier;

constexpr double kScoreNumbers = 2;  // scores, and probabilities beside them

ByteClass ClassOf(SlotClass klass) {
  switch (klass) {
    case SlotClass::kParameters:
      return ByteClass::kParameters;
    case SlotClass::kGradients:
      return ByteClass::kGradients;
    case SlotClass::kOptimizer:
      return ByteClass::kOptimizer;
    case SlotClass::kActivations:
      return ByteClass::kActivations;
    case SlotClass::kWorkspace:
      return ByteClass::kWorkspace;
    case SlotClass::kCommunication:
      return ByteClass::kCommunication;
    case SlotClass::kCache:
      return ByteClass::kCache;
    case SlotClass::kStaging:
      return ByteClass::kStaging;
    default:
      return ByteClass::kTables;
  }
}

const program::Instruction* PeakOf(const ProgramSet& set, const program::TierMemory& memory) {
  const program::Program* program = set.find(memory.peak_program);
  if (program == nullptr || memory.peak_instruction < 0) return nullptr;
  return &program->instructions[static_cast<size_t>(memory.peak_instruction)];
}

// Of the frame of the call that is at work at the peak.
int64_t LogitsOf(const ProgramSet& set, const program::Instruction* peak) {
  if (peak == nullptr || peak->template_index < 0) return 0;
  const program::Template& at = set.templates[static_cast<size_t>(peak->template_index)];
  int64_t bytes = 0;
  for (const program::Slot& local : at.locals) {
    if (absl::StartsWith(local.name, "logits")) bytes += local.bytes;
  }
  return std::min(bytes, at.frame_bytes);
}

TierBytes TierOf(const ProgramSet& set, Tier tier, const program::TierMemory& memory) {
  TierBytes bytes;
  bytes.arena_bytes = memory.arena_bytes;
  for (int k = 0; k < program::kSlotClassCount; ++k) {
    bytes.of(ClassOf(static_cast<SlotClass>(k))) += memory.peak_by_class[static_cast<size_t>(k)];
  }
  for (const program::TierMemory::Content& content : memory.contents) {
    if (content.klass != SlotClass::kOptimizer || !absl::StartsWith(content.what, "master")) {
      continue;
    }
    bytes.of(ByteClass::kMaster) += content.bytes;
    bytes.of(ByteClass::kOptimizer) -= content.bytes;
  }
  if (tier == set.compute_tier) {
    const int64_t logits = LogitsOf(set, PeakOf(set, memory));
    bytes.of(ByteClass::kLogits) += logits;
    bytes.of(ByteClass::kWorkspace) -= logits;
  }
  int64_t rest = memory.arena_bytes - memory.peak_bytes;
  // Rooms of unified memory have bytes of their own, which the peak need not use.
  const int64_t rooms = tier != Tier::kDevice ? 0 : memory.arena_bytes - UnifiedBegin(set, tier);
  bytes.of(ByteClass::kStaging) += std::min(rooms, rest);
  rest -= std::min(rooms, rest);
  bytes.of(ByteClass::kRounding) = rest;
  return bytes;
}

StageMemory StageOf(const ProgramSet& set) {
  const program::MemoryReport report = program::ReadMemory(set);
  StageMemory stage;
  for (int t = 0; t < program::kTierCount; ++t) {
    stage.tiers[static_cast<size_t>(t)] =
        TierOf(set, static_cast<Tier>(t), report.tiers[static_cast<size_t>(t)]);
  }
  const program::TierMemory& compute = report.tiers[static_cast<size_t>(set.compute_tier)];
  if (const program::Instruction* peak = PeakOf(set, compute)) {
    stage.peak = absl::StrCat(compute.peak_program, ", ", peak->label);
  }
  stage.largest_activations =
      compute.largest_by_class[static_cast<size_t>(SlotClass::kActivations)];
  for (const program::Program& program : set.programs) {
    for (const program::Instruction& instruction : program.instructions) {
      stage.largest_logits = std::max(stage.largest_logits, LogitsOf(set, &instruction));
    }
  }
  return stage;
}

absl::Status ReadTraining(const FitRequest& request, MemoryOfJob& memory) {
  ASSIGN_OR_RETURN(const DecidedJob decided,
                   DecideJob(request.job, request.model.spec,
                             {.threads = request.threads,
                              .evaluate_sequences = request.evaluate_sequences,
                              .scratch = CollectiveScratch}));
  memory.mesh.sizes = decided.decision.plan.groups;
  memory.compute_tier = decided.decision.plan.tier;
  memory.basis = "the programs that the ranks would run";
  for (int stage = 0; stage < memory.mesh.sizes.pipeline; ++stage) {
    ASSIGN_OR_RETURN(const program::StagePrograms programs,
                     program::ComposeStage(decided.decision, stage, decided.update));
    memory.stages.push_back(StageOf(programs.set));
  }
  return absl::OkStatus();
}

absl::Status ReadDecoding(const FitRequest& request, MemoryOfJob& memory) {
  model::ModelSpec spec = request.model.spec;
  if (spec.family != model::Family::kGpt2) {
    spec.context = std::min(spec.context, request.job.train().sequence());
  }
  model::EmitOptions emit;
  emit.type = request.weights;
  emit.threads = request.threads;
  emit.prefill_chunk = std::min(emit.prefill_chunk, spec.context);
  ASSIGN_OR_RETURN(const program::LayerGraph graph, model::EmitFamily(spec, emit));
  program::DecodeOptions options = StreamingOf(request.job.memory());
  options.stages = std::max<int>(1, static_cast<int>(request.job.parallel().pipeline()));
  if (request.job.has_memory()) options.tier = Tier::kDevice;
  memory.mesh.sizes.pipeline = options.stages;
  memory.compute_tier = options.tier;
  memory.basis = "the programs that generate text";
  ASSIGN_OR_RETURN(const std::vector<program::DecodePrograms> stages,
                   program::BuildDecode(graph, options));
  for (const program::DecodePrograms& stage : stages) memory.stages.push_back(StageOf(stage.set));
  return absl::OkStatus();
}

int Communicators(const program::GroupSizes& sizes) {
  int count = sizes.world() > 1 ? 1 : 0;
  for (const int size : {sizes.data, sizes.tensor, sizes.context, sizes.pipeline}) {
    count += size > 1 && size < sizes.world() ? 1 : 0;
  }
  return count + (sizes.shard > 1 && sizes.shard < sizes.data ? 2 : 0);
}

void AddOverhead(const FitRequest& request, MemoryOfJob& memory) {
  int64_t most = -1;
  for (StageMemory& stage : memory.stages) {
    TierBytes& tier = stage.tier(memory.compute_tier);
    const std::vector<OverheadItem> items =
        OverheadOfRank(request, memory.mesh.sizes, tier.arena_bytes);
    for (const OverheadItem& item : items) tier.of(ByteClass::kOverhead) += item.bytes;
    if (tier.total() > most) memory.overhead_items = items;
    most = std::max(most, tier.total());
  }
}

}  // namespace

const char* Name(ByteClass c) {
  static constexpr const char* kNames[kByteClassCount] = {
      "parameters", "gradients", "master", "optimizer", "activations", "logits",  "communication",
      "workspace",  "staging",   "cache",  "tables",    "rounding",    "overhead"};
  return kNames[static_cast<size_t>(c)];
}

int MemoryOfJob::worst_rank() const {
  int worst = 0;
  const auto held = [&](int rank) { return of_rank(rank).tier(compute_tier).total(); };
  // Ranks of a stage are alike: one of each is looked at.
  std::vector<bool> seen(stages.size(), false);
  for (int rank = 0; rank < mesh.ranks(); ++rank) {
    const auto stage = static_cast<size_t>(mesh.stage(rank));
    if (seen[stage]) continue;
    seen[stage] = true;
    if (held(rank) > held(worst)) worst = rank;
  }
  return worst;
}

bool LibraryMayAttend(const FitRequest& request) {
  const v1::JobSpec& job = request.job;
  const model::ModelSpec& spec = request.model.spec;
  const FitModel::Kind kind = request.model.kind;
  if (request.inference || (kind != FitModel::Kind::kFamily && kind != FitModel::Kind::kMoe) ||
      job.train().precision() <= v1::TrainSpec::PRECISION_F32 || job.data().packing()) {
    return false;
  }
  // Ranks of context have parts of the sequences, unless they change them for heads.
  const bool whole = job.parallel().context() <= 1 ||
                     job.parallel().context_method() == v1::ParallelSpec::CONTEXT_METHOD_ALL_TO_ALL;
  if (!whole || !LibraryTakesHeads(spec.head_size, spec.attention_softcap)) return false;
  for (int64_t layer = 0; layer < spec.layers; ++layer) {
    const int64_t window = spec.window(layer);
    if (window == 0 || window >= job.train().sequence()) return true;
  }
  return false;
}

std::vector<OverheadItem> OverheadOfRank(const FitRequest& request,
                                         const program::GroupSizes& sizes, int64_t arena_bytes) {
  return OverheadOf(request.device, {.communicators = Communicators(sizes),
                                     .arena_bytes = arena_bytes,
                                     .library_attends = LibraryMayAttend(request)});
}

absl::StatusOr<MemoryOfJob> ReadMemoryOfJob(const FitRequest& request) {
  MemoryOfJob memory;
  if (const std::string why = WhyNoProgram(request); !why.empty()) {
    memory = ClosedForm(request);
    memory.basis = absl::StrCat("closed forms (docs/fit.md), as ", why);
  } else if (request.inference) {
    RETURN_IF_ERROR(ReadDecoding(request, memory));
  } else {
    RETURN_IF_ERROR(ReadTraining(request, memory));
  }
  memory.parameters = request.model.parameters();
  const v1::TrainSpec& train = request.job.train();
  const program::GroupSizes& sizes = memory.mesh.sizes;
  const double rows = static_cast<double>(train.sequence()) / sizes.context;
  const double number = train.precision() > v1::TrainSpec::PRECISION_F32 ? 2 : 4;
  const bool attends = request.model.kind != FitModel::Kind::kPlain;
  memory.score_bytes = !attends
                           ? 0
                           : kScoreNumbers * number * static_cast<double>(train.micro_batch()) *
                                 static_cast<double>(request.model.spec.heads) / sizes.tensor *
                                 rows * static_cast<double>(train.sequence());
  AddOverhead(request, memory);
  return memory;
}

}  // namespace strata::planner
