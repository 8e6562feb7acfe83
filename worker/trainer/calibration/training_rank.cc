#include "worker/trainer/calibration/training_rank.h"

#ifdef __SSE__
#include <xmmintrin.h>
#endif

#include <algorithm>
#include <utility>

#include "common/status_macros.h"
#include "model/initialize.h"
#include "model/optimizer/adamw.h"
#include "model/rope_table.h"
#include "program/ir/context_rows.h"
#include "program/ir/mesh.h"
#include "program/ir/scalars.h"

namespace strata::worker {
namespace {

constexpr size_t kTracedActions = 1 << 16;

absl::Span<float> FloatsOf(const Engine& engine, int slot) {
  const absl::Span<std::byte> bytes = engine.SlotBytes(slot, 0, 0);
  return absl::MakeSpan(reinterpret_cast<float*>(bytes.data()), bytes.size() / sizeof(float));
}

// Initial parameters and the rotary table, of the rank.
void Fill(const TrainingSpec& spec, const program::StateSlots& slots, const program::Mesh& mesh,
          int rank, const Engine& engine) {
  const std::vector<program::ContextRun> rows =
      program::ContextRuns(spec.emit.sequence, mesh.sizes.context, mesh.context(rank));
  const model::ModelGraph forward =
      model::ForwardOf(spec.model, model::ForwardOptionsOf(spec.emit));
  for (size_t i = 0; i < slots.constants.size(); ++i) {
    if (slots.constants[i] < 0) continue;
    model::FillConstant(spec.model, forward.constants[i].name, rows, spec.emit.sequence,
                        engine.SlotBytes(slots.constants[i], 0, 0));
  }
  for (size_t s = 0; s < slots.sets.size(); ++s) {
    const absl::Span<float> values = FloatsOf(engine, slots.sets[s].parameters);
    const bool whole = slots.sets[s].parameter_parts == 1;
    const int64_t begin = whole ? 0 : mesh.shard(rank) * static_cast<int64_t>(values.size());
    model::FillInitial(engine.programs().sets[s], 1, begin, values, mesh.tensor(rank));
  }
}

program::Template Update(const program::ParameterSet& set, const program::UpdateRange& range) {
  return model::EmitAdamW(set, {}, range);
}

}  // namespace

absl::StatusOr<std::vector<program::StagePrograms>> ComposeTraining(const TrainingSpec& spec) {
  ASSIGN_OR_RETURN(program::LayerGraph graph, model::EmitFamily(spec.model, spec.emit));
  return program::Compose(std::move(graph), spec.plan, Update);
}

absl::Status SyntheticHost::LoadBatch(const BatchRows& rows) {
  for (int64_t i = 0; i < rows.samples * rows.sequence; ++i) {
    state_ = state_ * 6364136223846793005 + 1442695040888963407;  // Knuth, MMIX
    rows.tokens[i] = static_cast<int32_t>((state_ >> 33) % static_cast<uint64_t>(vocab_));
    rows.targets[i] = static_cast<int32_t>((state_ >> 13) % static_cast<uint64_t>(vocab_));
  }
  return absl::OkStatus();
}

absl::Status SyntheticHost::LoadScalars(double* scalars) {
  using program::Scalar;
  const auto set = [&](Scalar scalar, double value) { scalars[static_cast<int>(scalar)] = value; };
  set(Scalar::kStep, static_cast<double>(step_ + 1));
  set(Scalar::kApplied, static_cast<double>(step_));
  set(Scalar::kLearningRate, 1e-4);
  set(Scalar::kInverseTokens, 1.0 / static_cast<double>(tokens_));
  ++step_;
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<TrainingRank>> TrainingRank::Create(
    const TrainingSpec& spec, collectives::Communicator* communicator, device::ThreadPool* pool) {
  const int rank = communicator == nullptr ? 0 : communicator->rank();
  const program::Mesh mesh{.sizes = spec.plan.groups};
  ASSIGN_OR_RETURN(std::vector<program::StagePrograms> stages, ComposeTraining(spec));
  program::StagePrograms& programs = stages[mesh.stage(rank)];
  for (program::Program& program : programs.set.programs) {
    for (program::Instruction& instruction : program.instructions) instruction.predicate.reset();
  }
  std::unique_ptr<TrainingRank> made(new TrainingRank(spec, kTracedActions));
  EngineOptions options;
  options.pool = pool;
  options.communicator = communicator;
  options.host = &made->host_;
  options.device = &made->device_;
  options.trace = absl::MakeSpan(made->trace_);
  for (const program::Group group : program::kGroups) {
    options.groups[group] = mesh.Members(group, rank);
  }
  const program::StateSlots slots = programs.slots;
  ASSIGN_OR_RETURN(made->engine_, Engine::Create(std::move(programs.set), options));
  Fill(spec, slots, mesh, rank, *made->engine_);
  return made;
}

void FlushDenormals() {
#ifdef __SSE__
  constexpr unsigned kFlushToZero = 0x8000, kDenormalsAreZero = 0x40;  // Intel SDM 1, 10.2.3
  _mm_setcsr(_mm_getcsr() | kFlushToZero | kDenormalsAreZero);
#endif
}

double Median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values.empty() ? 0 : values[values.size() / 2];
}

}  // namespace strata::worker
