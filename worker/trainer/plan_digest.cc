#include "worker/trainer/plan_digest.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "common/digest.h"
#include "program/readers/dump.h"

namespace strata::worker {
namespace {

using program::LayerGraph;
using program::ParameterSet;
using program::Plan;
using program::TensorSpec;

// Structured bindings name every member: one that is added later does not compile before it is
// written here. The separators keep neighbours apart.
std::string Text(const TensorSpec& tensor) {
  const auto& [name, shape, initializer, decay, parts, cut, offset] = tensor;
  std::string text = absl::StrFormat(
      "  tensor '%s' [%s] initial %d %.17g decay %d cut %s %d %d %d at %d", name,
      absl::StrJoin(shape, ","), static_cast<int>(initializer.kind), initializer.value, decay,
      program::Name(cut.group), cut.dimension, cut.ways, cut.padding, offset);
  for (const TensorSpec::Part& part : parts) {
    absl::StrAppend(&text, " '", part.name, "' ", part.rows);
  }
  return absl::StrCat(text, "\n");
}

std::string Text(const ParameterSet& set) {
  const auto& [name, tensors, trainable, gradient_group, counted_in_norm, elements, type,
               alignment] = set;
  std::string text = absl::StrFormat(
      "set '%s' trainable %d gradients %s counted %d elements %d type %s alignment %d\n", name,
      trainable, program::Name(gradient_group), counted_in_norm, elements, program::Name(type),
      alignment);
  for (const TensorSpec& tensor : tensors) absl::StrAppend(&text, Text(tensor));
  return text;
}

std::string Text(const program::Template& tmpl) {
  std::string text = program::DumpTemplate(tmpl);
  for (const program::Formal& formal : tmpl.formals) {
    const auto& [name, role, index, bytes] = formal;
    absl::StrAppend(&text, "  formal ", name, " ", program::Name(role), " ", index, " ", bytes,
                    "\n");
  }
  for (const program::Slot& local : tmpl.locals) {
    absl::StrAppend(&text, "  local ", local.name, " ", local.bytes, " ", local.alignment, "\n");
  }
  return text;
}

std::string Text(const LayerGraph& graph) {
  const auto& [templates, sets, constants, layers, micro_batch, sequence, boundary, logits] = graph;
  std::string text =
      absl::StrCat("graph ", micro_batch, " ", sequence, " ", boundary, " ", logits, "\n");
  for (const program::Template& tmpl : templates) absl::StrAppend(&text, Text(tmpl));
  for (const ParameterSet& set : sets) absl::StrAppend(&text, Text(set));
  for (const program::Constant& constant : constants) {
    absl::StrAppend(&text, "constant '", constant.name, "' ", constant.bytes, "\n");
  }
  for (const program::Layer& layer : layers) {
    const auto& [forward, backward, input, weight, evaluate, prefill, decode] = layer.templates;
    absl::StrAppend(
        &text, "layer '", layer.name, "' ",
        absl::StrJoin({forward, backward, input, weight, evaluate, prefill, decode}, ","), " sets ",
        absl::StrJoin(layer.sets, ","), " cache ", layer.cache_bytes, "\n");
  }
  return text;
}

std::string Text(const Plan& plan) {
  const auto& [groups, shard, virtual_shards, global_batch, evaluate_batch, micro_order, schedule,
               virtual_stages, durations, in_flight, stage_of_layer, prefetch_bytes, places,
               streaming, device_limit, update, slabs, range_bytes, gradient_clip, gradient, spool,
               master, moments, loss_scaling, tier, scratch] = plan;
  const auto& [data, tensor, context, pipeline, shard_degree] = groups;
  const auto& [forward, backward_input, backward_weight] = durations;
  std::string text = absl::StrFormat(
      "plan groups %d,%d,%d,%d,%d shard %d leaves %d batch %d,%d order %d schedule %d,%d,%d,%d,%d "
      "in flight %d stages %s prefetch %d streaming %d,%d limit %d update %d slabs %d,%d clip "
      "%.17g "
      "tier %s\n",
      data, tensor, context, pipeline, shard_degree, static_cast<int>(shard), virtual_shards,
      global_batch, evaluate_batch, static_cast<int>(micro_order), static_cast<int>(schedule),
      virtual_stages, forward, backward_input, backward_weight, in_flight,
      absl::StrJoin(stage_of_layer, ","), prefetch_bytes, streaming.resident, streaming.moved,
      device_limit, static_cast<int>(update), slabs, range_bytes, gradient_clip,
      program::Name(tier));
  for (const program::Place& place :
       {places.parameters, places.gradients, places.optimizer, places.activations}) {
    absl::StrAppendFormat(&text, "place %.17g %.17g %.17g\n", place.host, place.ssd, place.unified);
  }
  absl::StrAppendFormat(&text, "types gradient %s,%s master %s scaling %d\n",
                        program::Name(gradient), program::Name(spool), program::Name(master),
                        loss_scaling);
  for (const program::StateSpec& state : moments) {
    absl::StrAppendFormat(&text, "moment '%s' '%s' %d\n", state.name, state.title,
                          static_cast<int>(state.format));
  }
  return text;
}

}  // namespace

std::string PlanDigest(const LayerGraph& graph, const Plan& plan,
                       const program::UpdateEmitter& update, const program::Mesh& mesh,
                       const std::string& build) {
  std::string text = absl::StrCat(build, "\n", Text(graph), Text(plan), "order");
  for (const program::Axis axis : mesh.order) absl::StrAppend(&text, " ", program::Name(axis));
  absl::StrAppend(&text, "\n");
  for (const ParameterSet& set : graph.sets) {
    if (set.trainable) absl::StrAppend(&text, Text(update(set, {0, set.elements, set.elements})));
  }
  return common::DigestOf(text);
}

std::string PlanDigest(const LayerGraph& graph, const std::string& build) {
  return common::DigestOf(absl::StrCat(build, "\n", Text(graph)));
}

}  // namespace strata::worker
