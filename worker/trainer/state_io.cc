#include "worker/trainer/state_io.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/check.h"
#include "common/status_macros.h"
#include "common/units.h"
#include "model/initialize.h"
#include "model/optimizer/adamw.h"
#include "model/rope_table.h"
#include "worker/trainer/logical_ranges.h"
#include "worker/trainer/quantised_weights.h"

namespace strata::worker {
namespace {

constexpr char kParameterState[] = "param";
constexpr int64_t kInitialisePiece = int64_t{1} << 16;  // elements

// A slot's floats, with the flat range of the set that they are.
struct FlatSpan {
  absl::Span<float> values;
  int64_t begin = 0;
};

absl::Span<float> Floats(const Engine& engine, int slot, int64_t applied) {
  const absl::Span<std::byte> bytes = engine.SlotBytes(slot, 0, applied);
  return absl::MakeSpan(reinterpret_cast<float*>(bytes.data()), bytes.size() / sizeof(float));
}

// One of `parts` equal parts of a set's flat layout.
FlatSpan PartOf(const Engine& engine, const RankState& state, int slot, int parts,
                int64_t applied) {
  const absl::Span<float> values = Floats(engine, slot, applied);
  return {values, parts > 1 ? state.shard * static_cast<int64_t>(values.size()) : 0};
}

FlatSpan Parameters(const Engine& engine, const RankState& state, int set, int64_t applied) {
  const program::StateSlots::Set& slots = state.slots.sets[set];
  return PartOf(engine, state, slots.parameters, slots.parameter_parts, applied);
}

FlatSpan Moment(const Engine& engine, const RankState& state, int set, int index, int64_t applied) {
  const program::StateSlots::Set& slots = state.slots.sets[set];
  return PartOf(engine, state, slots.moments[index], slots.state_parts, applied);
}

bool HasMoments(const RankState& state, int set) { return state.slots.sets[set].moments[0] >= 0; }

absl::Status LoadSpan(const program::ParameterSet& set, const char* state, FlatSpan span,
                      int64_t cut_index, checkpoint::Checkpoint& source) {
  const int64_t end = span.begin + static_cast<int64_t>(span.values.size());
  for (const LogicalRange& range : LogicalRanges(set, span.begin, end, cut_index)) {
    const checkpoint::ManifestTensor* const tensor = source.manifest().Find(range.name, state);
    if (tensor != nullptr && tensor->tensor.shape != range.shape) {
      return absl::InvalidArgumentError(
          absl::StrCat(source.folder(), ": ", range.name, " has the shape [",
                       absl::StrJoin(tensor->tensor.shape, ", "), "], the model's has [",
                       absl::StrJoin(range.shape, ", "), "]"));
    }
    RETURN_IF_ERROR(source.ReadRegion(range.name, state, range.region(),
                                      span.values.data() + (range.flat_begin - span.begin)));
  }
  return absl::OkStatus();
}

// All of a set's tensors are cut, or none.
bool IsCut(const program::ParameterSet& set) {
  return std::any_of(set.tensors.begin(), set.tensors.end(),
                     [](const program::TensorSpec& tensor) { return tensor.cut.ways > 1; });
}

// The part of [begin, end) of the set's flat layout that lies in the span.
void AddItems(const program::ParameterSet& set, const char* state, FlatSpan span, int64_t cut_index,
              int64_t begin, int64_t end, std::vector<checkpoint::SnapshotItem>& items) {
  for (const LogicalRange& range : LogicalRanges(set, begin, end, cut_index)) {
    checkpoint::SnapshotItem item;
    item.tensor = {range.name, state, range.shape, checkpoint::DType::kF32};
    item.begin = range.begin;
    item.end = range.end;
    item.data = span.values.data() + (range.flat_begin - span.begin);
    item.box = range.box;
    items.push_back(std::move(item));
  }
}

bool IsAmong(const program::ParameterSet& set, Sets which) {
  return which == Sets::kAll || set.trainable == (which == Sets::kTrained);
}

}  // namespace

RankState StateOf(const program::StateSlots& slots, const program::Mesh& mesh, int rank) {
  const program::GroupSizes& sizes = mesh.sizes;
  RankState state{.slots = slots};
  state.shard = mesh.shard(rank);
  state.shards = sizes.shard;
  state.replica = mesh.replica(rank) * sizes.context + mesh.context(rank);
  state.replicas = sizes.data / sizes.shard * sizes.context;
  state.tensor = mesh.tensor(rank);
  return state;
}

void InitialiseState(const Engine& engine, const RankState& state, Sets which, uint64_t seed,
                     device::ThreadPool& pool) {
  const std::vector<program::ParameterSet>& sets = engine.programs().sets;
  for (size_t s = 0; s < sets.size(); ++s) {
    if (!IsAmong(sets[s], which)) continue;
    STRATA_CHECK(sets[s].type != program::DType::kNf4);
    const FlatSpan span = Parameters(engine, state, static_cast<int>(s), 0);
    const int64_t size = static_cast<int64_t>(span.values.size());
    pool.ParallelFor(common::CeilDivide(size, kInitialisePiece), [&](int64_t piece, int) {
      const int64_t begin = piece * kInitialisePiece;
      const int64_t count = std::min(kInitialisePiece, size - begin);
      model::FillInitial(sets[s], seed, span.begin + begin, span.values.subspan(begin, count),
                         state.tensor);
    });
  }
}

absl::Status LoadState(const Engine& engine, const RankState& state, int64_t applied,
                       checkpoint::Checkpoint& source) {
  const std::vector<program::ParameterSet>& sets = engine.programs().sets;
  for (int s = 0; s < static_cast<int>(sets.size()); ++s) {
    if (!IsAmong(sets[s], Sets::kTrained)) continue;
    RETURN_IF_ERROR(LoadSpan(sets[s], kParameterState, Parameters(engine, state, s, applied),
                             state.tensor, source));
    for (int m = 0; m < 2 && HasMoments(state, s); ++m) {
      RETURN_IF_ERROR(LoadSpan(sets[s], model::kAdamWStates[m],
                               Moment(engine, state, s, m, applied), state.tensor, source));
    }
  }
  return absl::OkStatus();
}

absl::Status LoadWeights(const Engine& engine, const RankState& state, Sets which,
                         checkpoint::TensorSource& source) {
  const std::vector<program::ParameterSet>& sets = engine.programs().sets;
  for (int s = 0; s < static_cast<int>(sets.size()); ++s) {
    if (!IsAmong(sets[s], which)) continue;
    if (sets[s].type == program::DType::kNf4) {
      const program::StateSlots::Set& slots = state.slots.sets[s];
      const int64_t begin =
          slots.parameter_parts > 1 ? state.shard * (sets[s].elements / slots.parameter_parts) : 0;
      RETURN_IF_ERROR(LoadQuantised(sets[s], begin, state.tensor, source,
                                    engine.SlotBytes(slots.parameters, 0, 0)));
      continue;
    }
    const FlatSpan span = Parameters(engine, state, s, 0);
    const int64_t end = span.begin + static_cast<int64_t>(span.values.size());
    for (const LogicalRange& range : LogicalRanges(sets[s], span.begin, end, state.tensor)) {
      RETURN_IF_ERROR(source.ReadRegion(range.name, range.region(),
                                        span.values.data() + (range.flat_begin - span.begin)));
    }
  }
  return absl::OkStatus();
}

std::vector<checkpoint::SnapshotItem> SnapshotItems(const Engine& engine, const RankState& state,
                                                    int64_t applied) {
  const std::vector<program::ParameterSet>& sets = engine.programs().sets;
  std::vector<checkpoint::SnapshotItem> items;
  for (int s = 0; s < static_cast<int>(sets.size()); ++s) {
    if (!IsAmong(sets[s], Sets::kTrained)) continue;
    // Of what several ranks hold, one writes: of a tied set the first stage, of what a tensor group
    // does not cut its first rank, of its shard each replica a part.
    if (!state.slots.sets[s].saved || (state.tensor > 0 && !IsCut(sets[s]))) continue;
    const int64_t parts = int64_t{state.shards} * state.replicas;
    const int64_t part = int64_t{state.shard} * state.replicas + state.replica;
    const int64_t begin = sets[s].elements * part / parts;
    const int64_t end = sets[s].elements * (part + 1) / parts;
    AddItems(sets[s], kParameterState, Parameters(engine, state, s, applied), state.tensor, begin,
             end, items);
    for (int m = 0; m < 2 && HasMoments(state, s); ++m) {
      AddItems(sets[s], model::kAdamWStates[m], Moment(engine, state, s, m, applied), state.tensor,
               begin, end, items);
    }
  }
  return items;
}

void FillConstants(const Engine& engine, const model::ModelSpec& spec,
                   const std::vector<program::Constant>& constants, const std::vector<int>& slots,
                   absl::Span<const program::ContextRun> rows, int64_t sequence) {
  for (size_t i = 0; i < slots.size(); ++i) {
    if (slots[i] < 0) continue;
    model::FillConstant(spec, constants[i].name, rows, sequence, engine.SlotBytes(slots[i], 0, 0));
  }
}

}  // namespace strata::worker
