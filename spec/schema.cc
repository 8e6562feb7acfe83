#include "spec/schema.h"

#include <cmath>
#include <map>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "spec/scalars.h"
#include "spec/suggest.h"

namespace strata::spec {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::EnumDescriptor;
using google::protobuf::EnumValueDescriptor;
using google::protobuf::FieldDescriptor;

constexpr double kMany = 1 << 20;  // layers, heads, ranks
constexpr double kWide = 1 << 24;  // widths and vocabularies
constexpr double kLong = 1 << 30;  // sequences, batches
constexpr double kSteps = 1'000'000'000'000;
constexpr double kDay = 24 * 3600;
constexpr double kBytes = 1e18;
constexpr double kInfinite = std::numeric_limits<double>::infinity();

// Upper bounds of counts are far above anything built; they keep products inside 64-bit integers
// and doubles.
constexpr Bounds kBounds[] = {
    {"model.layers", 1, kMany},
    {"model.hidden", 1, kWide},
    {"model.heads", 1, kMany},
    {"model.kv_heads", 1, kMany},
    {"model.head_size", 1, kWide},
    {"model.ffn", 1, 4 * kWide},
    {"model.vocab", 1, kWide},
    {"model.context", 1, kLong},
    {"model.rope.theta", 0, kInfinite, true},
    {"model.rope.scaling.factor", 1, kInfinite},
    {"model.rope.scaling.low_freq_factor", 0, kInfinite, true},
    {"model.rope.scaling.high_freq_factor", 0, kInfinite, true},
    {"model.rope.scaling.original_max_position_embeddings", 1, kLong},
    {"model.rope.scaling.attention_factor", 0, kInfinite, true},
    {"model.rope.scaling.beta_fast", 0, kInfinite, true},
    {"model.rope.scaling.beta_slow", 0, kInfinite, true},
    {"model.rope.local_theta", 0, kInfinite, true},
    {"model.rope.partial_rotary_factor", 0, 1, true},
    {"model.initial_std", 0, kInfinite, true},
    {"model.norm_epsilon", 0, kInfinite, true},
    {"model.sliding_window", 1, kLong},
    {"model.full_attention_layers", 0, kMany},
    {"model.query_scale", 0, kInfinite, true},
    {"model.attention_softcap", 0, kInfinite},
    {"model.logit_softcap", 0, kInfinite},
    {"model.weights.bytes", 0, kInfinite},
    {"data.train.weight", 0, kInfinite, true},
    {"data.train.source.bytes", 0, kInfinite},
    {"data.validation.source.bytes", 0, kInfinite},
    {"data.validation.fraction", 0, 1, true, true},
    {"train.steps", 1, kSteps},
    {"train.epochs", 1, kMany},
    {"train.sequence", 1, kLong},
    {"train.global_batch", 1, kLong},
    {"train.micro_batch", 1, kLong},
    {"train.seed", 0, kInfinite},
    {"train.optimizer.learning_rate", 0, kInfinite},
    {"train.optimizer.beta1", 0, 1, false, true},
    {"train.optimizer.beta2", 0, 1, false, true},
    {"train.optimizer.epsilon", 0, kInfinite, true},
    {"train.optimizer.weight_decay", 0, kInfinite},
    {"train.optimizer.momentum", 0, 1, false, true},
    {"train.schedule.warmup_steps", 0, kSteps},
    {"train.schedule.final_fraction", 0, 1},
    {"train.gradient_clip", 0, kInfinite},
    {"train.lora.rank", 1, 65536},
    {"train.lora.alpha", 0, kInfinite, true},
    {"train.quantize.block", 1, kMany},
    {"parallel.data", 1, kMany},
    {"parallel.tensor", 1, kMany},
    {"parallel.context", 1, kMany},
    {"parallel.pipeline", 1, kMany},
    {"parallel.virtual_stages", 1, kMany},
    {"parallel.stages", 1, kMany},
    {"parallel.expert", 1, kMany},
    {"parallel.shard_group", 1, kMany},
    {"parallel.virtual_shards", 1, kLong},
    {"memory.device", 1, kBytes},
    {"memory.host", 1, kBytes},
    {"memory.ssd.size", 1, kBytes},
    {"memory.place.parameters.device", 0, 1},
    {"memory.place.parameters.host", 0, 1},
    {"memory.place.parameters.ssd", 0, 1},
    {"memory.place.parameters.unified", 0, 1},
    {"memory.place.gradients.device", 0, 1},
    {"memory.place.gradients.host", 0, 1},
    {"memory.place.gradients.ssd", 0, 1},
    {"memory.place.gradients.unified", 0, 1},
    {"memory.place.optimizer.device", 0, 1},
    {"memory.place.optimizer.host", 0, 1},
    {"memory.place.optimizer.ssd", 0, 1},
    {"memory.place.optimizer.unified", 0, 1},
    {"memory.place.activations.device", 0, 1},
    {"memory.place.activations.host", 0, 1},
    {"memory.place.activations.ssd", 0, 1},
    {"memory.place.activations.unified", 0, 1},
    {"memory.stream.resident", 1, kMany},
    {"memory.stream.moved", 1, kMany},
    {"resources.ranks", 1, kMany},
    {"resources.priority", -1'000'000, 1'000'000},
    {"resources.spares", 0, kMany},
    {"resources.topology.ranks", 1, kMany},
    {"evaluate.every_steps", 0, kSteps},
    {"evaluate.sequences", 1, kLong},
    {"checkpoint.every_steps", 0, kSteps},
    {"checkpoint.keep", 1, kMany},
    {"restart.max_without_progress", 0, kMany},
    {"projects.quota", 0, kMany},
    {"projects.max_queued_jobs", 0, kMany},
    {"projects.max_priority", -1'000'000, 1'000'000},
    {"projects.max_spec_bytes", 1, kMany},
    {"projects.max_streams", 0, kMany},
    {"projects.max_calls_per_second", 0, kMany, true},
    {"queues.priority", -1'000'000, 1'000'000},
    {"queues.max_devices", 0, kMany},
    {"scheduling.min_run_seconds", 0, kSteps},
    {"scheduling.shrink_after_seconds", 0, kSteps},
    {"scheduling.unknown_run_seconds", 0, kSteps, true},
    {"scheduling.preemption_gap", 0, 1'000'000},
    {"scheduling.ttl_after_finished_seconds", 0, kSteps},
    {"scheduling.buffer.nodes", 0, kMany},
    {"scheduling.max_nodes", 1, kMany},
    {"timing.heartbeat_seconds", 0.2, kDay},
    {"timing.node_lost_seconds", 0.4, kDay},
    {"timing.lease_seconds", 1, kDay},
    {"timing.orphan_seconds", 0, kSteps},
    {"timing.prepare_seconds", 1, kDay},
    {"timing.refused_seconds", 0, kSteps},
    {"timing.stop_seconds", 0.2, kDay},
    {"timing.cancel_seconds", 0, kSteps},
    {"timing.suspect_seconds", 0.2, kSteps},
    {"timing.hang_seconds", 1, kSteps},
    {"timing.phase_seconds", 1, kSteps},
    {"timing.storage_seconds", 1, kSteps},
    {"timing.storage_bytes_per_second", 1000, kSteps},
    {"timing.forget_node_seconds", 0, kSteps},
};

std::string WithoutIndices(absl::string_view path) {
  std::string plain;
  bool in_index = false;
  for (const char c : path) {
    in_index |= c == '[';
    if (!in_index) plain.push_back(c);
    in_index &= c != ']';
  }
  return plain;
}

// Large ones are whole: 1000000, not 1e+06.
std::string BoundText(double bound) {
  return std::abs(bound) >= 1000 ? absl::StrCat(static_cast<int64_t>(bound))
                                 : ShortestNumber(bound);
}

// "SHARD_" of enum Shard, from its first value SHARD_UNSPECIFIED.
absl::string_view PrefixOf(const EnumDescriptor& type) {
  absl::string_view name = type.value(0)->name();
  const absl::string_view kEnd = "UNSPECIFIED";
  return name.substr(0, name.size() - kEnd.size());
}

struct Path {
  std::string path;
  std::string key;
};

void CollectPaths(const Descriptor& section, const std::string& at, std::vector<Path>& paths) {
  for (const std::string& key : KeysOf(section)) {
    const FieldDescriptor* field = FindKey(section, key);
    std::string path = absl::StrCat(at, at.empty() ? "" : ".", key);
    paths.push_back({path, key});
    if (field->message_type() == nullptr || field->is_map() || IsLayerRange(*field) ||
        IsDuration(*field)) {
      continue;
    }
    if (field->is_repeated()) path += "[0]";
    CollectPaths(*field->message_type(), path, paths);
  }
}

// A section that may also be one word keeps the word in this field, which is no key of the section:
// `parallel: auto`, `recompute: full`. Likewise a share in the place of a count: `nodes: 2%`.
bool HoldsWord(const FieldDescriptor& field) {
  return field.full_name() == "strata.v1.ParallelSpec.automatic" ||
         field.full_name() == "strata.v1.RecomputeSpec.mode" ||
         field.full_name() == "strata.v1.MemorySpec.automatic" ||
         field.full_name() == "strata.v1.PlaceSpec.automatic" ||
         field.full_name() == "strata.v1.StreamSpec.automatic" ||
         field.full_name() == "strata.v1.BufferPolicy.fraction";
}

// How near another level is: 0 inside the section, 1 elsewhere.
int LevelsAway(absl::string_view section, absl::string_view candidate) {
  return section.empty() || absl::StartsWith(candidate, absl::StrCat(section, ".")) ? 0 : 1;
}

}  // namespace

const Bounds* FindBounds(absl::string_view path) {
  const std::string plain = WithoutIndices(path);
  for (const Bounds& bounds : kBounds) {
    if (plain == bounds.path) return &bounds;
  }
  return nullptr;
}

std::string Describe(const Bounds& bounds, double value) {
  std::string text;
  if (bounds.least > -kInfinite) {
    text = absl::StrCat(bounds.least_open ? "greater than " : "at least ", BoundText(bounds.least));
  }
  if (bounds.most < kMany || value > bounds.most) {
    absl::StrAppend(&text, text.empty() ? "" : " and ",
                    bounds.most_open ? "less than " : "at most ", BoundText(bounds.most));
  }
  return text;
}

bool Within(const Bounds& bounds, double value) {
  if (value < bounds.least || (bounds.least_open && value == bounds.least)) return false;
  return value < bounds.most || (!bounds.most_open && value == bounds.most);
}

std::string WordOf(const EnumValueDescriptor& value) {
  return absl::AsciiStrToLower(
      absl::string_view(value.name()).substr(PrefixOf(*value.type()).size()));
}

std::vector<std::string> WordsOf(const EnumDescriptor& type) {
  std::vector<std::string> words;
  for (int i = 1; i < type.value_count(); ++i) words.push_back(WordOf(*type.value(i)));
  return words;
}

const EnumValueDescriptor* FindWord(const EnumDescriptor& type, absl::string_view word) {
  for (int i = 1; i < type.value_count(); ++i) {
    if (WordOf(*type.value(i)) == word) return type.value(i);
  }
  return nullptr;
}

std::string WordOfZero(const FieldDescriptor& field) {
  if (field.full_name() == "strata.v1.TrainSpec.micro_batch") return "auto";
  if (field.full_name() == "strata.v1.ParallelSpec.virtual_shards") return "off";
  return "";
}

bool MayBeShare(const FieldDescriptor& field) {
  return field.full_name() == "strata.v1.BufferPolicy.nodes";
}

bool IsSize(const FieldDescriptor& field) {
  return field.full_name() == "strata.v1.MemorySpec.device" ||
         field.full_name() == "strata.v1.MemorySpec.host" ||
         field.full_name() == "strata.v1.SsdPath.size";
}

bool IsLayerRange(const FieldDescriptor& field) {
  return field.message_type() != nullptr &&
         field.message_type()->full_name() == "strata.v1.LayerRange";
}

bool IsDuration(const FieldDescriptor& field) {
  return field.message_type() != nullptr &&
         field.message_type()->full_name() == "google.protobuf.Duration";
}

std::vector<std::string> KeysOf(const Descriptor& section) {
  std::vector<std::string> keys;
  for (int i = 0; i < section.field_count(); ++i) {
    if (!HoldsWord(*section.field(i))) keys.push_back(section.field(i)->name());
  }
  return keys;
}

const FieldDescriptor* FindKey(const Descriptor& section, absl::string_view key) {
  const FieldDescriptor* field = section.FindFieldByName(std::string(key));
  return field == nullptr || HoldsWord(*field) ? nullptr : field;
}

Suggestion SuggestKey(const Descriptor& root, const Descriptor& section, absl::string_view path,
                      absl::string_view key) {
  const std::string prefix = path.empty() ? "" : absl::StrCat(path, ".");
  // The same letters at another level beat a misspelling at this one, which beats a misspelling
  // elsewhere.
  std::string near = Nearest(key, KeysOf(section));
  int least = near.empty() ? std::numeric_limits<int>::max() : 8 * EditDistance(key, near);
  Suggestion best{near, near.empty() ? "" : prefix + near};
  const std::string plain = WithoutIndices(path);
  std::vector<Path> all;
  CollectPaths(root, "", all);
  for (const Path& candidate : all) {
    const int distance = EditDistance(key, candidate.key);
    if (!IsNear(distance, candidate.key)) continue;
    const int cost = 8 * distance + 1 + LevelsAway(plain, WithoutIndices(candidate.path));
    if (cost >= least) continue;
    least = cost;
    best = {candidate.path, candidate.path};
  }
  return best;
}

}  // namespace strata::spec
