#include "worker/trainer/state_io.h"

#include <algorithm>
#include <array>
#include <functional>
#include <future>
#include <memory>
#include <string>
#include <utility>
#include <vector>

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
#include "worker/trainer/slot_window.h"

namespace strata::worker {
namespace {

constexpr char kParameterState[] = "param";
constexpr int64_t kInitialisePiece = int64_t{1} << 14;  // elements: near their thread
// Elements that are read at once where they are kept in another form than f32: whole blocks.
constexpr int64_t kWindow = int64_t{1} << 20;

// Elements [begin, end) of a set's flat layout.
struct FlatRange {
  int64_t begin = 0, end = 0;
  int64_t count() const { return end - begin; }
};

// Those of its weights that the rank holds.
FlatRange WeightsOf(const Engine& engine, const RankState& state, int set) {
  const int parts = state.slots.sets[set].parameter_parts;
  const int64_t count = engine.programs().sets[set].elements / parts;
  const int64_t begin = parts > 1 ? state.shard * count : 0;
  return {begin, begin + count};
}

// Those of its states that a range of slots holds.
FlatRange StatesOf(const Engine& engine, const RankState& state, int set,
                   const program::StateSlots::Range& range) {
  const int parts = state.slots.sets[set].state_parts;
  const int64_t part = engine.programs().sets[set].elements / parts;
  const int64_t begin = (parts > 1 ? state.shard * part : 0) + range.first;
  return {begin, begin + range.count};
}

bool IsMaster(const program::StateSpec& spec) { return spec.name == program::kMasterState; }

// The elements of `of`, of so many bytes each, in bytes [offset, offset + size) of the slot that
// holds all of them.
FlatRange PieceOf(const FlatRange& of, int64_t element_bytes, int64_t offset, size_t size) {
  const int64_t begin = of.begin + offset / element_bytes;
  return {begin, begin + static_cast<int64_t>(size) / element_bytes};
}

// Reads a logical range of a tensor in f32.
using RangeReader = std::function<absl::Status(const LogicalRange& range, float* out)>;

// Padding is zero.
absl::Status LoadRange(const program::ParameterSet& set, int64_t begin, int64_t end,
                       int64_t cut_index, const RangeReader& read, float* out) {
  float* next = out;
  for (const LogicalRange& range : LogicalRanges(set, begin, end, cut_index)) {
    float* const values = out + (range.flat_begin - begin);
    std::fill(next, values, 0.0F);
    RETURN_IF_ERROR(read(range, values));
    next = values + (range.end - range.begin);
  }
  std::fill(next, out + (end - begin), 0.0F);
  return absl::OkStatus();
}

// Reads the range in windows, and hands each to `take(first, count, values)`, where `first` counts
// from the range's begin, on another thread while the next one is read.
absl::Status LoadWindows(
    const program::ParameterSet& set, const FlatRange& range, int64_t cut_index,
    const RangeReader& read,
    const std::function<void(int64_t first, int64_t count, const float* values)>& take) {
  std::array<std::vector<float>, 2> windows;
  std::future<void> taken;
  for (int64_t at = range.begin, i = 0; at < range.end; at += kWindow, ++i) {
    const int64_t count = std::min(kWindow, range.end - at);
    std::vector<float>& window = windows[i % 2];
    window.resize(static_cast<size_t>(count));
    RETURN_IF_ERROR(LoadRange(set, at, at + count, cut_index, read, window.data()));
    if (taken.valid()) taken.get();
    taken = std::async(std::launch::async, take, at - range.begin, count, window.data());
  }
  if (taken.valid()) taken.get();
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

// Elements of a set as a checkpoint has them: in memory, from `data` on, or made by `read(first,
// count, out)`; both count from the range's begin.
struct Kept {
  checkpoint::DType dtype = checkpoint::DType::kF32;
  FlatRange range;
  const std::byte* data = nullptr;
  std::function<absl::Status(int64_t first, int64_t count, std::byte* out)> read = {};
};

// As they lie in a slot, from byte `offset` on.
Kept KeptAsItIs(Engine& engine, const std::shared_ptr<SlotSource>& source, int slot, int64_t offset,
                int64_t applied, checkpoint::DType dtype, const FlatRange& range) {
  if (engine.slots().IsNear(slot)) {
    return {
        .dtype = dtype, .range = range, .data = engine.SlotBytes(slot, 0, applied).data() + offset};
  }
  const int64_t size = checkpoint::SizeOf(dtype);
  return {.dtype = dtype,
          .range = range,
          .read = [source, slot, offset, size](int64_t first, int64_t count, std::byte* out) {
            return source->Read(slot, offset + first * size, count * size, out);
          }};
}

Kept KeptState(Engine& engine, const std::shared_ptr<SlotSource>& source, int slot, int64_t applied,
               program::StateFormat format, const FlatRange& range) {
  if (format == program::StateFormat::kF32 || format == program::StateFormat::kBF16) {
    const bool wide = format == program::StateFormat::kF32;
    return KeptAsItIs(engine, source, slot, 0, applied,
                      wide ? checkpoint::DType::kF32 : checkpoint::DType::kBF16, range);
  }
  return {.range = range,
          .read = [source, slot, format, all = range.count()](int64_t first, int64_t count,
                                                              std::byte* out) -> absl::Status {
            ASSIGN_OR_RETURN(const std::byte* const data, source->Whole(slot));
            // Of the kernels' pair of reading and writing only the former is used.
            const kernels::Moments moments = {MomentFormatOf(format), const_cast<std::byte*>(data),
                                              all};
            ReadMomentsAnywhere(moments, first, count, reinterpret_cast<float*>(out));
            return absl::OkStatus();
          }};
}

// 16-bit weights from byte `offset` of their slot on, and, where there is one, the master's
// remainder.
Kept KeptNarrow(const std::shared_ptr<SlotSource>& source, program::DType type, int weights,
                int64_t offset, int remainder, const FlatRange& range) {
  return {
      .range = range, .read = [=](int64_t first, int64_t count, std::byte* out) -> absl::Status {
        const int64_t size = program::SizeOf(type);
        std::vector<std::byte> near(static_cast<size_t>(count * size));
        RETURN_IF_ERROR(source->Read(weights, offset + first * size, count * size, near.data()));
        auto* const values = reinterpret_cast<float*>(out);
        if (remainder < 0) {
          kernels::ReadNumbers(NumberTypeOf(type), near.data(), 0, count, values);
          return absl::OkStatus();
        }
        std::vector<std::byte> rest(static_cast<size_t>(count * 2));
        RETURN_IF_ERROR(source->Read(remainder, first * 2, count * 2, rest.data()));
        kernels::ReadMaster({.type = NumberTypeOf(type),
                             .master_format = MasterFormatOf(program::StateFormat::kRemainder),
                             .weights = near.data(),
                             .master = rest.data()},
                            0, count, values);
        return absl::OkStatus();
      }};
}

// The parameter itself: the master where there is one. All that the rank has of it.
std::vector<Kept> KeptParameter(Engine& engine, const std::shared_ptr<SlotSource>& source,
                                const RankState& state, int set, int64_t applied) {
  const program::StateSlots::Set& slots = state.slots.sets[set];
  const program::DType type = engine.programs().sets[set].type;
  const FlatRange weights = WeightsOf(engine, state, set);
  std::vector<Kept> kept;
  for (size_t s = 0; s < slots.states.size(); ++s) {
    if (!IsMaster(slots.states[s])) continue;
    for (const program::StateSlots::Range& of : slots.ranges) {
      const FlatRange range = StatesOf(engine, state, set, of);
      if (slots.states[s].format == program::StateFormat::kF32) {
        kept.push_back(
            KeptAsItIs(engine, source, of.slots[s], 0, applied, checkpoint::DType::kF32, range));
      } else {
        kept.push_back(KeptNarrow(source, type, slots.parameters,
                                  (range.begin - weights.begin) * program::SizeOf(type),
                                  of.slots[s], range));
      }
    }
    return kept;
  }
  if (type == program::DType::kF32) {
    kept.push_back(
        KeptAsItIs(engine, source, slots.parameters, 0, applied, checkpoint::DType::kF32, weights));
  } else {
    kept.push_back(KeptNarrow(source, type, slots.parameters, 0, -1, weights));
  }
  return kept;
}

// The part of [begin, end) of the set's flat layout that is kept here.
void AddItems(const program::ParameterSet& set, const std::string& state, const Kept& kept,
              int64_t cut_index, int64_t begin, int64_t end,
              std::vector<checkpoint::SnapshotItem>& items) {
  begin = std::max(begin, kept.range.begin);
  end = std::min(end, kept.range.end);
  if (begin >= end) return;
  for (const LogicalRange& range : LogicalRanges(set, begin, end, cut_index)) {
    checkpoint::SnapshotItem item;
    item.tensor = {range.name, state, range.shape, kept.dtype};
    item.begin = range.begin;
    item.end = range.end;
    item.box = range.box;
    const int64_t at = range.flat_begin - kept.range.begin;
    if (kept.read) {
      item.read = [read = kept.read, at](int64_t first, int64_t count, void* out) {
        return read(at + first, count, static_cast<std::byte*>(out));
      };
    } else {
      item.data = kept.data + at * checkpoint::SizeOf(kept.dtype);
    }
    items.push_back(std::move(item));
  }
}

// In pieces on all threads: `make(first, values)` fills f32 values of the range's elements from
// `first` on, `keep(first, count, values)` keeps them.
void FillPieces(device::ThreadPool& pool, int64_t count,
                const std::function<void(int64_t first, absl::Span<float> values)>& make,
                const std::function<void(int64_t, int64_t, const float*)>& keep) {
  std::vector<std::vector<float>> scratch(pool.threads());
  pool.ParallelFor(common::CeilDivide(count, kInitialisePiece), [&](int64_t piece, int thread) {
    const int64_t first = piece * kInitialisePiece,
                  size = std::min(kInitialisePiece, count - first);
    scratch[thread].resize(kInitialisePiece);
    make(first, absl::MakeSpan(scratch[thread]).subspan(0, static_cast<size_t>(size)));
    keep(first, size, scratch[thread].data());
  });
}

// Writes values of `of`'s elements from `first` on into the bytes of a range.
using Writer = std::function<void(int64_t first, int64_t count, const float* values)>;
// Makes the values of a range, and hands them to `write`.
using Filler = std::function<absl::Status(const FlatRange& range, const Writer& write)>;

Writer WritesWeights(program::DType type, absl::Span<std::byte> bytes) {
  const kernels::Weights weights = {.type = NumberTypeOf(type), .weights = bytes.data()};
  return [weights](int64_t first, int64_t count, const float* values) {
    kernels::WriteWeights(weights, first, count, values);
  };
}

Writer WritesMaster(program::DType type, program::StateFormat format, absl::Span<std::byte> bytes) {
  const kernels::Weights weights = {
      .type = NumberTypeOf(type), .master_format = MasterFormatOf(format), .master = bytes.data()};
  return [weights](int64_t first, int64_t count, const float* values) {
    kernels::WriteMasterOnly(weights, first, count, values);
  };
}

Writer WritesMoments(program::StateFormat format, absl::Span<std::byte> bytes, int64_t elements) {
  const kernels::Moments moments = {MomentFormatOf(format), bytes.data(), elements};
  return [moments](int64_t first, int64_t count, const float* values) {
    kernels::WriteMoments(moments, first, count, values);
  };
}

// A set's weights and, where there is one, their master.
absl::Status FillParameters(SlotFiller& slots, const Engine& engine, const RankState& state,
                            int set, const Filler& fill) {
  const program::StateSlots::Set& of = state.slots.sets[set];
  const program::DType type = engine.programs().sets[set].type;
  const FlatRange weights = WeightsOf(engine, state, set);
  const int64_t weight_bytes = program::SizeOf(type);
  RETURN_IF_ERROR(
      slots.Units(of.parameters, weight_bytes, [&](int64_t offset, absl::Span<std::byte> bytes) {
        return fill(PieceOf(weights, weight_bytes, offset, bytes.size()),
                    WritesWeights(type, bytes));
      }));
  for (size_t s = 0; s < of.states.size(); ++s) {
    if (!IsMaster(of.states[s])) continue;
    const program::StateFormat format = of.states[s].format;
    const int64_t master_bytes = program::BytesOf(format, 1);
    for (const program::StateSlots::Range& range : of.ranges) {
      const FlatRange masters = StatesOf(engine, state, set, range);
      RETURN_IF_ERROR(slots.Units(
          range.slots[s], master_bytes, [&](int64_t offset, absl::Span<std::byte> bytes) {
            return fill(PieceOf(masters, master_bytes, offset, bytes.size()),
                        WritesMaster(type, format, bytes));
          }));
    }
  }
  return absl::OkStatus();
}

Filler FromReader(const program::ParameterSet& set, int64_t cut_index, const RangeReader& read) {
  return [&set, cut_index, read](const FlatRange& range, const Writer& write) {
    return LoadWindows(set, range, cut_index, read, write);
  };
}

absl::Status LoadMoments(SlotFiller& slots, const Engine& engine, const RankState& state, int set,
                         size_t which, const RangeReader& read) {
  const program::StateSlots::Set& of = state.slots.sets[set];
  const program::StateFormat format = of.states[which].format;
  const Filler fill = FromReader(engine.programs().sets[set], state.tensor, read);
  for (const program::StateSlots::Range& range : of.ranges) {
    const FlatRange moments = StatesOf(engine, state, set, range);
    if (program::HasBlocks(format)) {
      // Scales lie behind all codes.
      RETURN_IF_ERROR(slots.Whole(range.slots[which], [&](int64_t, absl::Span<std::byte> bytes) {
        return fill(moments, WritesMoments(format, bytes, range.count));
      }));
      continue;
    }
    const int64_t moment_bytes = program::BytesOf(format, 1);
    RETURN_IF_ERROR(slots.Units(
        range.slots[which], moment_bytes, [&](int64_t offset, absl::Span<std::byte> bytes) {
          const FlatRange piece = PieceOf(moments, moment_bytes, offset, bytes.size());
          return fill(piece, WritesMoments(format, bytes, piece.count()));
        }));
  }
  return absl::OkStatus();
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

absl::Status InitialiseState(Engine& engine, const RankState& state, Sets which, uint64_t seed,
                             device::ThreadPool& pool) {
  const std::vector<program::ParameterSet>& sets = engine.programs().sets;
  SlotFiller slots(engine, 0);
  for (int s = 0; s < static_cast<int>(sets.size()); ++s) {
    if (!IsAmong(sets[s], which)) continue;
    STRATA_CHECK(!program::IsQuantised(sets[s].type));
    const Filler fill = [&](const FlatRange& range, const Writer& write) {
      FillPieces(
          pool, range.count(),
          [&](int64_t first, absl::Span<float> values) {
            model::FillInitial(sets[s], seed, range.begin + first, values, state.tensor);
          },
          write);
      return absl::OkStatus();
    };
    RETURN_IF_ERROR(FillParameters(slots, engine, state, s, fill));
  }
  return slots.Finish();
}

absl::Status LoadState(Engine& engine, const RankState& state, int64_t applied,
                       checkpoint::Checkpoint& source) {
  const std::vector<program::ParameterSet>& sets = engine.programs().sets;
  SlotFiller slots(engine, applied);
  for (int s = 0; s < static_cast<int>(sets.size()); ++s) {
    if (!IsAmong(sets[s], Sets::kTrained)) continue;
    RETURN_IF_ERROR(
        FillParameters(slots, engine, state, s,
                       FromReader(sets[s], state.tensor, FromCheckpoint(source, kParameterState))));
    const std::vector<program::StateSpec>& states = state.slots.sets[s].states;
    for (size_t which = 0; which < states.size(); ++which) {
      if (IsMaster(states[which])) continue;
      RETURN_IF_ERROR(
          LoadMoments(slots, engine, state, s, which, FromCheckpoint(source, states[which].name)));
    }
  }
  return slots.Finish();
}

absl::Status LoadWeights(Engine& engine, const RankState& state, Sets which,
                         checkpoint::TensorSource& source) {
  const std::vector<program::ParameterSet>& sets = engine.programs().sets;
  const RangeReader read = [&source](const LogicalRange& range, float* out) {
    return source.ReadRegion(range.name, range.region(), out);
  };
  SlotFiller slots(engine, 0);
  for (int s = 0; s < static_cast<int>(sets.size()); ++s) {
    if (!IsAmong(sets[s], which)) continue;
    if (!program::IsQuantised(sets[s].type)) {
      RETURN_IF_ERROR(
          FillParameters(slots, engine, state, s, FromReader(sets[s], state.tensor, read)));
      continue;
    }
    const FlatRange range = WeightsOf(engine, state, s);
    const int64_t unit = sets[s].alignment, unit_bytes = program::BytesOf(sets[s].type, unit);
    RETURN_IF_ERROR(slots.Units(state.slots.sets[s].parameters, unit_bytes,
                                [&](int64_t offset, absl::Span<std::byte> bytes) {
                                  const int64_t first = range.begin + offset / unit_bytes * unit;
                                  return LoadQuantised(sets[s], first, state.tensor, source, bytes);
                                }));
  }
  return slots.Finish();
}

std::vector<checkpoint::SnapshotItem> SnapshotItems(Engine& engine, const RankState& state,
                                                    int64_t applied) {
  const std::vector<program::ParameterSet>& sets = engine.programs().sets;
  const auto source = std::make_shared<SlotSource>(engine, applied);
  std::vector<checkpoint::SnapshotItem> items;
  for (int s = 0; s < static_cast<int>(sets.size()); ++s) {
    if (!IsAmong(sets[s], Sets::kTrained)) continue;
    // Of what several ranks hold, one writes: of a tied set the first stage, of what a tensor group
    // does not cut its first rank, of its shard each replica a part.
    const program::StateSlots::Set& slots = state.slots.sets[s];
    if (!slots.saved || (state.tensor > 0 && !IsCut(sets[s]))) continue;
    const int64_t parts = int64_t{state.shards} * state.replicas;
    const int64_t part = int64_t{state.shard} * state.replicas + state.replica;
    const int64_t begin = sets[s].elements * part / parts;
    const int64_t end = sets[s].elements * (part + 1) / parts;
    for (const Kept& kept : KeptParameter(engine, source, state, s, applied)) {
      AddItems(sets[s], kParameterState, kept, state.tensor, begin, end, items);
    }
    for (size_t which = 0; which < slots.states.size(); ++which) {
      const program::StateSpec& spec = slots.states[which];
      if (IsMaster(spec)) continue;
      for (const program::StateSlots::Range& range : slots.ranges) {
        AddItems(sets[s], spec.name,
                 KeptState(engine, source, range.slots[which], applied, spec.format,
                           StatesOf(engine, state, s, range)),
                 state.tensor, begin, end, items);
      }
    }
  }
  return items;
}

absl::Status FillConstants(Engine& engine, const model::ModelSpec& spec,
                           const std::vector<program::Constant>& constants,
                           const std::vector<int>& slots,
                           absl::Span<const program::ContextRun> rows, int64_t sequence) {
  SlotFiller filler(engine, 0);
  for (size_t i = 0; i < slots.size(); ++i) {
    if (slots[i] < 0) continue;
    RETURN_IF_ERROR(filler.Whole(slots[i], [&](int64_t, absl::Span<std::byte> bytes) {
      model::FillConstant(spec, constants[i].name, rows, sequence, bytes);
      return absl::OkStatus();
    }));
  }
  return filler.Finish();
}

}  // namespace strata::worker
