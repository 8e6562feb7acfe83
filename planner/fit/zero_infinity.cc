#include "planner/fit/zero_infinity.h"

#include <algorithm>
#include <bit>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "common/units.h"
#include "model/families/families.h"

namespace strata::planner {
namespace {

constexpr int64_t kWeightBytes = 2, kStateBytes = 4;

void Count(const program::TensorSpec& tensor, const ZeroInfinityOptions& options,
           int64_t& sub_group, ZeroInfinityModel& model) {
  for (int part = 0; part < tensor.part_count(); ++part) {
    int64_t elements = 1;
    for (const int64_t extent : tensor.logical_shape(part)) elements *= extent;
    const int64_t own = common::CeilDivide(elements, options.ranks);
    model.parameters += elements;
    model.largest_tensor = std::max(model.largest_tensor, own);
    sub_group += own;
    model.largest_sub_group = std::max(model.largest_sub_group, sub_group);
    if (sub_group >= options.sub_group_elements) sub_group = 0;
  }
}

}  // namespace

int64_t PinnedBytes(int64_t bytes) {
  return bytes <= 0 ? 0 : static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(bytes)));
}

absl::StatusOr<ZeroInfinityModel> ZeroInfinityModelOf(const model::ModelSpec& spec,
                                                      const ZeroInfinityOptions& options) {
  model::EmitOptions emit;
  emit.prefill_chunk = 0;
  ASSIGN_OR_RETURN(const program::LayerGraph graph, model::EmitFamily(spec, emit));
  ZeroInfinityModel model;
  int64_t sub_group = 0;
  for (const program::ParameterSet& set : graph.sets) {
    for (const program::TensorSpec& tensor : set.tensors) Count(tensor, options, sub_group, model);
  }
  return model;
}

std::vector<HostItem> ZeroInfinityHost(const ZeroInfinityModel& model,
                                       const ZeroInfinityOptions& options) {
  std::vector<HostItem> items;
  const int64_t own = common::CeilDivide(model.parameters, options.ranks);
  const auto pinned = [&](std::string what, std::string formula, int64_t count, int64_t bytes) {
    const int64_t reserved = options.pinned_by_torch ? PinnedBytes(bytes) : bytes;
    items.push_back({std::move(what), std::move(formula), count * bytes, count * reserved});
  };
  const int64_t g = options.gradient_bytes;
  pinned("gradients of the whole model (grad_partitions_flat_buffer)",
         absl::StrCat(g, " B × N / W"), 1, g * own);
  if (options.fp16) {
    const int64_t scan = (g + 1) * own;  // |x| of full size, and a byte of truth for each
    items.push_back(
        {"overflow check (isinf, isnan)", absl::StrCat("(", g, " + 1) B × N / W"), scan, scan});
  }
  pinned("buffers that optimizer state passes through",
         absl::StrCat(options.optimizer_buffers, " × 4 B × S"), options.optimizer_buffers,
         kStateBytes * model.largest_sub_group);
  pinned("pool of parameters, a slot as large as the largest tensor",
         absl::StrCat(options.parameter_buffers, " × 2 B × E, one allocation"), 1,
         kWeightBytes * options.parameter_buffers * model.largest_tensor);
  pinned("parameters kept in host memory (max_in_cpu)", "2 B × min(max_in_cpu, N / W)", 1,
         kWeightBytes * std::min(options.most_in_cpu, own));
  pinned("a sub-group's weights on their way out", "2 B × S", 1,
         kWeightBytes * model.largest_sub_group);
  return items;
}

int64_t ReservedBytes(const std::vector<HostItem>& items) {
  int64_t sum = 0;
  for (const HostItem& item : items) sum += item.reserved_bytes;
  return sum;
}

}  // namespace strata::planner
