#include "worker/trainer/state_io.h"

#include <algorithm>
#include <functional>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/check.h"
#include "common/status_macros.h"
#include "common/units.h"
#include "kernels/state_format.h"
#include "model/initialize.h"
#include "model/rope_table.h"
#include "worker/engine/binding/number_formats.h"
#include "worker/trainer/logical_ranges.h"
#include "worker/trainer/quantised_weights.h"

namespace strata::worker {
namespace {

constexpr char kParameterState[] = "param";
constexpr int64_t kInitialisePiece = int64_t{1} << 16;  // elements
// Elements that are read at once where they are kept in another form than f32: whole blocks.
constexpr int64_t kWindow = int64_t{1} << 20;

// Elements [begin, end) of a set's flat layout, where a slot has them.
struct FlatBytes {
  std::byte* data = nullptr;
  int64_t begin = 0, end = 0;
  int64_t count() const { return end - begin; }
};

// One of `parts` equal parts of a set's flat layout.
FlatBytes PartOf(const Engine& engine, const RankState& state, int set, int slot, int parts,
                 int64_t applied) {
  const int64_t count = engine.programs().sets[set].elements / parts;
  const int64_t begin = parts > 1 ? state.shard * count : 0;
  return {engine.SlotBytes(slot, 0, applied).data(), begin, begin + count};
}

FlatBytes WeightsAt(const Engine& engine, const RankState& state, int set, int64_t applied) {
  const program::StateSlots::Set& slots = state.slots.sets[set];
  return PartOf(engine, state, set, slots.parameters, slots.parameter_parts, applied);
}

FlatBytes StateAt(const Engine& engine, const RankState& state, int set, int slot,
                  int64_t applied) {
  return PartOf(engine, state, set, slot, state.slots.sets[set].state_parts, applied);
}

bool IsMaster(const program::StateSpec& spec) { return spec.name == program::kMasterState; }

// The weights of a state's range and their master, for the kernels that split and join them.
kernels::Weights WeightsOf(const Engine& engine, const RankState& state, int set,
                           const FlatBytes& master, program::StateFormat format, int64_t applied) {
  const FlatBytes weights = WeightsAt(engine, state, set, applied);
  const program::DType type = engine.programs().sets[set].type;
  return {.type = NumberTypeOf(type),
          .master_format = MasterFormatOf(format),
          .weights = weights.data + (master.begin - weights.begin) * program::SizeOf(type),
          .master = master.data};
}

// Reads a logical range of a tensor in f32.
using RangeReader = std::function<absl::Status(const LogicalRange& range, float* out)>;

absl::Status LoadRange(const program::ParameterSet& set, int64_t begin, int64_t end,
                       int64_t cut_index, const RangeReader& read, float* out) {
  for (const LogicalRange& range : LogicalRanges(set, begin, end, cut_index)) {
    RETURN_IF_ERROR(read(range, out + (range.flat_begin - begin)));
  }
  return absl::OkStatus();
}

// Reads the range in windows, and hands each to `take(first, count, values)`, where `first` counts
// from the range's begin. Padding is zero.
absl::Status LoadWindows(
    const program::ParameterSet& set, const FlatBytes& range, int64_t cut_index,
    const RangeReader& read,
    const std::function<void(int64_t first, int64_t count, const float* values)>& take) {
  std::vector<float> window;
  for (int64_t at = range.begin; at < range.end; at += kWindow) {
    const int64_t count = std::min(kWindow, range.end - at);
    window.assign(static_cast<size_t>(count), 0.0F);
    RETURN_IF_ERROR(LoadRange(set, at, at + count, cut_index, read, window.data()));
    take(at - range.begin, count, window.data());
  }
  return absl::OkStatus();
}

RangeReader FromCheckpoint(checkpoint::Checkpoint& source, const std::string& state) {
  return [&source, state](const LogicalRange& range, float* out) {
    const checkpoint::ManifestTensor* const tensor = source.manifest().Find(range.name, state);
    if (tensor != nullptr && tensor->tensor.shape != range.shape) {
      return absl::InvalidArgumentError(
          absl::StrCat(source.folder(), ": ", range.name, " has the shape [",
                       absl::StrJoin(tensor->tensor.shape, ", "), "], the model's has [",
                       absl::StrJoin(range.shape, ", "), "]"));
    }
    return source.ReadRegion(range.name, state, range.region(), out);
  };
}

// All of a set's tensors are cut, or none.
bool IsCut(const program::ParameterSet& set) {
  return std::any_of(set.tensors.begin(), set.tensors.end(),
                     [](const program::TensorSpec& tensor) { return tensor.cut.ways > 1; });
}

// Blocks are read whole.
void ReadMomentsAnywhere(const kernels::Moments& moments, int64_t begin, int64_t count,
                         float* out) {
  constexpr int64_t kBlock = kernels::kMomentBlock;
  float values[kBlock];
  for (int64_t at = begin; at < begin + count;) {
    const int64_t block = at / kBlock * kBlock;
    const int64_t end = std::min(block + kBlock, begin + count);
    kernels::ReadMoments(moments, block, kBlock, values);
    out = std::copy(values + (at - block), values + (end - block), out);
    at = end;
  }
}

// Elements of a set as a checkpoint has them: in memory as they are, from `data` on, or made by
// `read(first, count, out)`; both count from the range's begin.
struct Kept {
  checkpoint::DType dtype = checkpoint::DType::kF32;
  FlatBytes range;
  std::function<void(int64_t first, int64_t count, float* out)> read = {};
};

Kept KeptState(const FlatBytes& range, program::StateFormat format) {
  if (format == program::StateFormat::kF32) return {.range = range};
  if (format == program::StateFormat::kBF16) {
    return {.dtype = checkpoint::DType::kBF16, .range = range};
  }
  const kernels::Moments moments = {MomentFormatOf(format), range.data, range.count()};
  return {.range = range, .read = [moments](int64_t first, int64_t count, float* out) {
            ReadMomentsAnywhere(moments, first, count, out);
          }};
}

// The parameter itself: the master where there is one.
Kept KeptParameter(const Engine& engine, const RankState& state, int set, int64_t applied) {
  for (const auto& [slot, spec] : state.slots.sets[set].states) {
    if (!IsMaster(spec)) continue;
    const FlatBytes master = StateAt(engine, state, set, slot, applied);
    if (spec.format == program::StateFormat::kF32) return {.range = master};
    const kernels::Weights both = WeightsOf(engine, state, set, master, spec.format, applied);
    return {.range = master, .read = [both](int64_t first, int64_t count, float* out) {
              kernels::ReadMaster(both, first, count, out);
            }};
  }
  const FlatBytes weights = WeightsAt(engine, state, set, applied);
  const program::DType type = engine.programs().sets[set].type;
  if (type == program::DType::kF32) return {.range = weights};
  return {.range = weights,
          .read = [type, data = weights.data](int64_t first, int64_t count, float* out) {
            kernels::ReadNumbers(NumberTypeOf(type), data, first, count, out);
          }};
}

// The part of [begin, end) of the set's flat layout that is kept here.
void AddItems(const program::ParameterSet& set, const std::string& state, const Kept& kept,
              int64_t cut_index, int64_t begin, int64_t end,
              std::vector<checkpoint::SnapshotItem>& items) {
  for (const LogicalRange& range : LogicalRanges(set, begin, end, cut_index)) {
    checkpoint::SnapshotItem item;
    item.tensor = {range.name, state, range.shape, kept.dtype};
    item.begin = range.begin;
    item.end = range.end;
    item.box = range.box;
    const int64_t at = range.flat_begin - kept.range.begin;
    if (kept.read) {
      item.read = [read = kept.read, at](int64_t first, int64_t count, void* out) {
        read(at + first, count, static_cast<float*>(out));
      };
    } else {
      item.data = kept.range.data + at * checkpoint::SizeOf(kept.dtype);
    }
    items.push_back(std::move(item));
  }
}

// In pieces on all threads: `make(first, values)` fills f32 values of the range's elements from
// `first` on, `keep(first, count, values)` keeps them.
void FillPieces(device::ThreadPool& pool, int64_t count,
                const std::function<void(int64_t first, absl::Span<float> values)>& make,
                const std::function<void(int64_t, int64_t, const float*)>& keep) {
  pool.ParallelFor(common::CeilDivide(count, kInitialisePiece), [&](int64_t piece, int) {
    const int64_t first = piece * kInitialisePiece;
    std::vector<float> values(static_cast<size_t>(std::min(kInitialisePiece, count - first)));
    make(first, absl::MakeSpan(values));
    keep(first, static_cast<int64_t>(values.size()), values.data());
  });
}

// Of a set whose weights are not f32: them, and their master.
void InitialiseNarrow(const Engine& engine, const RankState& state, int set, uint64_t seed,
                      device::ThreadPool& pool) {
  const program::ParameterSet& of = engine.programs().sets[set];
  const auto make_from = [&](int64_t begin) {
    return [&, begin](int64_t first, absl::Span<float> values) {
      model::FillInitial(of, seed, begin + first, values, state.tensor);
    };
  };
  const FlatBytes weights = WeightsAt(engine, state, set, 0);
  const kernels::Weights only = {.type = NumberTypeOf(of.type), .weights = weights.data};
  FillPieces(pool, weights.count(), make_from(weights.begin),
             [&](int64_t first, int64_t count, const float* values) {
               kernels::WriteWeights(only, first, count, values);
             });
  for (const auto& [slot, spec] : state.slots.sets[set].states) {
    if (!IsMaster(spec)) continue;
    const FlatBytes master = StateAt(engine, state, set, slot, 0);
    const kernels::Weights both = WeightsOf(engine, state, set, master, spec.format, 0);
    FillPieces(pool, master.count(), make_from(master.begin),
               [&](int64_t first, int64_t count, const float* values) {
                 kernels::WriteMasterOnly(both, first, count, values);
               });
  }
}

// A set's weights and, where there is one, their master.
absl::Status LoadParameters(const Engine& engine, const RankState& state, int set, int64_t applied,
                            const RangeReader& read) {
  const program::ParameterSet& of = engine.programs().sets[set];
  const FlatBytes weights = WeightsAt(engine, state, set, applied);
  if (of.type == program::DType::kF32) {
    return LoadRange(of, weights.begin, weights.end, state.tensor, read,
                     reinterpret_cast<float*>(weights.data));
  }
  const kernels::Weights only = {.type = NumberTypeOf(of.type), .weights = weights.data};
  RETURN_IF_ERROR(LoadWindows(of, weights, state.tensor, read,
                              [&](int64_t first, int64_t count, const float* values) {
                                kernels::WriteWeights(only, first, count, values);
                              }));
  for (const auto& [slot, spec] : state.slots.sets[set].states) {
    if (!IsMaster(spec)) continue;
    const FlatBytes master = StateAt(engine, state, set, slot, applied);
    const kernels::Weights both = WeightsOf(engine, state, set, master, spec.format, applied);
    RETURN_IF_ERROR(LoadWindows(of, master, state.tensor, read,
                                [&](int64_t first, int64_t count, const float* values) {
                                  kernels::WriteMasterOnly(both, first, count, values);
                                }));
  }
  return absl::OkStatus();
}

absl::Status LoadMoments(const Engine& engine, const RankState& state, int set,
                         const program::StateSlots::Set::State& kept, int64_t applied,
                         const RangeReader& read) {
  const program::ParameterSet& of = engine.programs().sets[set];
  const FlatBytes range = StateAt(engine, state, set, kept.slot, applied);
  if (kept.spec.format == program::StateFormat::kF32) {
    return LoadRange(of, range.begin, range.end, state.tensor, read,
                     reinterpret_cast<float*>(range.data));
  }
  const kernels::Moments moments = {MomentFormatOf(kept.spec.format), range.data, range.count()};
  return LoadWindows(of, range, state.tensor, read,
                     [&](int64_t first, int64_t count, const float* values) {
                       kernels::WriteMoments(moments, first, count, values);
                     });
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
  for (int s = 0; s < static_cast<int>(sets.size()); ++s) {
    if (!IsAmong(sets[s], which)) continue;
    STRATA_CHECK(sets[s].type != program::DType::kNf4);
    if (sets[s].type != program::DType::kF32) {
      InitialiseNarrow(engine, state, s, seed, pool);
      continue;
    }
    const FlatBytes span = WeightsAt(engine, state, s, 0);
    float* const values = reinterpret_cast<float*>(span.data);
    pool.ParallelFor(common::CeilDivide(span.count(), kInitialisePiece), [&](int64_t piece, int) {
      const int64_t begin = piece * kInitialisePiece;
      const int64_t count = std::min(kInitialisePiece, span.count() - begin);
      model::FillInitial(sets[s], seed, span.begin + begin,
                         absl::MakeSpan(values + begin, static_cast<size_t>(count)), state.tensor);
    });
  }
}

absl::Status LoadState(const Engine& engine, const RankState& state, int64_t applied,
                       checkpoint::Checkpoint& source) {
  const std::vector<program::ParameterSet>& sets = engine.programs().sets;
  for (int s = 0; s < static_cast<int>(sets.size()); ++s) {
    if (!IsAmong(sets[s], Sets::kTrained)) continue;
    RETURN_IF_ERROR(
        LoadParameters(engine, state, s, applied, FromCheckpoint(source, kParameterState)));
    for (const program::StateSlots::Set::State& kept : state.slots.sets[s].states) {
      if (IsMaster(kept.spec)) continue;
      RETURN_IF_ERROR(
          LoadMoments(engine, state, s, kept, applied, FromCheckpoint(source, kept.spec.name)));
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
    const RangeReader read = [&source](const LogicalRange& range, float* out) {
      return source.ReadRegion(range.name, range.region(), out);
    };
    RETURN_IF_ERROR(LoadParameters(engine, state, s, 0, read));
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
    AddItems(sets[s], kParameterState, KeptParameter(engine, state, s, applied), state.tensor,
             begin, end, items);
    for (const auto& [slot, spec] : state.slots.sets[s].states) {
      if (IsMaster(spec)) continue;
      AddItems(sets[s], spec.name, KeptState(StateAt(engine, state, s, slot, applied), spec.format),
               state.tensor, begin, end, items);
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
