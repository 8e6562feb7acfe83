#include "worker/trainer/calibration/training_rank.h"

#ifdef __SSE__
#include <xmmintrin.h>
#endif

#include <algorithm>
#include <cstring>
#include <random>
#include <utility>

#include "common/status_macros.h"
#include "kernels/number_types.h"
#include "model/initialize.h"
#include "model/optimizer/adamw.h"
#include "model/rope_table.h"
#include "program/ir/context_rows.h"
#include "program/ir/mesh.h"
#include "program/ir/scalars.h"
#include "worker/engine/binding/number_type.h"

namespace strata::worker {
namespace {

constexpr size_t kTracedActions = 1 << 16;

absl::Span<float> FloatsOf(const Engine& engine, int slot) {
  const absl::Span<std::byte> bytes = engine.SlotBytes(slot, 0, 0);
  return absl::MakeSpan(reinterpret_cast<float*>(bytes.data()), bytes.size() / sizeof(float));
}

model::ModelGraph ForwardOf(const TrainingSpec& spec) {
  return model::ForwardOf(spec.model, model::ForwardOptionsOf(spec.emit));
}

// Parameters of about the size that models begin with, the same few again and again: millions are
// slow to make, and a step's time depends on none of them, but a device that multiplies zeros draws
// less power and is faster.
std::vector<std::byte> SmallNumbers(program::DType type, int64_t bytes) {
  constexpr int64_t kDrawn = 1 << 16;
  constexpr float kSpread = 0.035f;
  std::mt19937_64 random(1);
  std::vector<std::byte> made(bytes);
  WithNumber(type, [&]<typename T>(T) {
    std::vector<T> drawn(kDrawn);
    for (T& value : drawn) {
      const auto unit = static_cast<float>(random() >> 40) / (1 << 24);  // in [0, 1)
      value = kernels::FromFloat<T>(kSpread * (2 * unit - 1));
    }
    const auto size = static_cast<int64_t>(drawn.size() * sizeof(T));
    for (int64_t at = 0; at < bytes; at += size) {
      std::memcpy(made.data() + at, drawn.data(), std::min(size, bytes - at));
    }
  });
  return made;
}

// The same by copies, of slots that the host does not reach.
absl::Status FillDevice(const TrainingSpec& spec, const program::StateSlots& slots,
                        const program::Mesh& mesh, Engine& engine) {
  const std::vector<program::ContextRun> rows =
      program::ContextRuns(spec.emit.sequence, mesh.sizes.context, mesh.context(0));
  const model::ModelGraph forward = ForwardOf(spec);
  const auto write = [&](int slot, absl::Span<const std::byte> bytes) {
    return engine.slots().Write(slot, 0, 0, 0, bytes);
  };
  const auto size = [&](int slot) { return engine.programs().slots[slot].bytes; };
  for (size_t i = 0; i < slots.constants.size(); ++i) {
    const int slot = slots.constants[i];
    if (slot < 0) continue;
    std::vector<std::byte> table(size(slot));
    model::FillConstant(spec.model, forward.constants[i].name, rows, spec.emit.sequence,
                        absl::MakeSpan(table));
    RETURN_IF_ERROR(write(slot, table));
  }
  for (size_t s = 0; s < slots.sets.size(); ++s) {
    const program::DType type = engine.programs().sets[s].type;
    const program::StateSlots::Set& set = slots.sets[s];
    RETURN_IF_ERROR(write(set.parameters, SmallNumbers(type, size(set.parameters))));
    if (type == program::DType::kF32 || spec.plan.master != program::StateFormat::kF32) continue;
    for (const program::StateSlots::Range& range : set.ranges) {
      const int master = range.slots[0];
      RETURN_IF_ERROR(write(master, SmallNumbers(program::DType::kF32, size(master))));
    }
  }
  return absl::OkStatus();
}

// Initial parameters and the rotary table, of the rank.
void Fill(const TrainingSpec& spec, const program::StateSlots& slots, const program::Mesh& mesh,
          int rank, const Engine& engine) {
  const std::vector<program::ContextRun> rows =
      program::ContextRuns(spec.emit.sequence, mesh.sizes.context, mesh.context(rank));
  const model::ModelGraph forward = ForwardOf(spec);
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

}  // namespace

absl::StatusOr<std::vector<program::StagePrograms>> ComposeTraining(const TrainingSpec& spec) {
  ASSIGN_OR_RETURN(program::LayerGraph graph, model::EmitFamily(spec.model, spec.emit));
  return program::Compose(std::move(graph), spec.plan,
                          [&](const program::ParameterSet& set, const program::UpdateRange& range) {
                            return model::EmitAdamW(set, {}, spec.formats, range);
                          });
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
    const TrainingSpec& spec, collectives::Communicator* communicator, device::ThreadPool* pool,
    const OtherDevice& other) {
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
  options.accelerator = other.accelerator;
  options.observer = other.observer;
  if (other.accelerator == nullptr) options.device = &made->device_;
  options.trace = absl::MakeSpan(made->trace_);
  for (const program::Group group : program::kGroups) {
    options.groups[group] = mesh.Members(group, rank);
  }
  const program::StateSlots slots = programs.slots;
  ASSIGN_OR_RETURN(made->engine_, Engine::Create(std::move(programs.set), options));
  if (other.accelerator != nullptr) {
    RETURN_IF_ERROR(FillDevice(spec, slots, mesh, *made->engine_));
  } else {
    Fill(spec, slots, mesh, rank, *made->engine_);
  }
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
