#include "program/ir/types.h"

#include "program/ir/op.h"
#include "program/ir/operand.h"
#include "program/ir/optimizer_state.h"
#include "program/ir/scalars.h"
#include "program/ir/template.h"

namespace strata::program {

const char* Name(Tier tier) {
  static constexpr const char* kNames[] = {"device", "host", "ssd"};
  return kNames[static_cast<int>(tier)];
}
const char* Name(Stream stream) {
  static constexpr const char* kNames[] = {
      "compute",      "parameters",   "gradients",   "tensor",       "send",      "receive",
      "fetch",        "evict",        "host",        "ssd-read",     "ssd-write", "update",
      "update-fetch", "update-evict", "update-read", "update-write", "caller"};
  return kNames[static_cast<int>(stream)];
}
const char* Name(Axis axis) {
  static constexpr const char* kNames[] = {"replica", "shard",  "pipeline",
                                           "context", "expert", "tensor"};
  return kNames[static_cast<int>(axis)];
}
std::string Name(Group group) {
  if (group == Group::kNone) return "none";
  if (group == Group::kWorld) return "world";
  if (group == Group::kEmbedding) return "embedding";
  std::string name;
  const auto add = [&name](const char* part) {
    if (!name.empty()) name += '+';
    name += part;
  };
  if ((group.axes & Group::kData.axes) == Group::kData.axes) {
    add("data");
    group.axes = static_cast<Axes>(group.axes & ~Group::kData.axes);
  }
  for (int a = 0; a < kAxisCount; ++a) {
    if ((group.axes >> a & 1) != 0) add(Name(static_cast<Axis>(a)));
  }
  return name;
}
std::string PartialName(Partial partial) {
  if (partial == 0) return "complete";
  std::string name = Name(Group{partial});
  for (size_t plus = name.find('+'); plus != std::string::npos; plus = name.find('+')) {
    name.replace(plus, 1, " and ");
  }
  return name;
}
const char* Name(Access access) {
  static constexpr const char* kNames[] = {"read", "write", "accumulate"};
  return kNames[static_cast<int>(access)];
}
const char* Name(DType dtype) {
  static constexpr const char* kNames[] = {"f32", "f64",  "bf16", "i32",    "bytes",
                                           "f16", "int8", "nf4",  "nf4-f32"};
  return kNames[static_cast<int>(dtype)];
}
const char* Name(StateFormat format) {
  static constexpr const char* kNames[] = {"f32", "bf16", "remainder", "8bit", "8bit"};
  return kNames[static_cast<int>(format)];
}
const char* Name(Mechanism mechanism) {
  static constexpr const char* kNames[] = {"call",    "collective", "send",
                                           "receive", "transfer",   "signal"};
  return kNames[static_cast<int>(mechanism)];
}
const char* Name(CollectiveOp op) {
  static constexpr const char* kNames[] = {
      "all-gather", "reduce-scatter", "all-reduce", "broadcast", "barrier", "all-to-all", "rotate"};
  return kNames[static_cast<int>(op)];
}
const char* Name(Purpose purpose) {
  static constexpr const char* kNames[] = {
      "load",     "forward", "backward", "backward-input", "backward-weight", "recompute",
      "gather",   "reduce",  "combine",  "norm",           "update",          "fix-up",
      "pipeline", "fetch",   "stash",    "snapshot",       "report"};
  return kNames[static_cast<int>(purpose)];
}
const char* Name(SlotClass klass) {
  static constexpr const char* kNames[] = {
      "parameters", "gradients", "optimizer", "activations", "workspace", "communication",
      "batch",      "scalars",   "constants", "cache",       "staging"};
  return kNames[static_cast<int>(klass)];
}
const char* Name(Scalar scalar) {
  static constexpr const char* kNames[] = {
      "step", "applied",       "learning_rate", "inverse_tokens", "position", "valid_tokens",
      "loss", "gradient_norm", "clip_factor",   "apply",          "clipped",  "loss_scale"};
  return kNames[static_cast<int>(scalar)];
}
const char* Name(OpKind kind) {
  static constexpr const char* kNames[] = {"load-batch",
                                           "load-scalars",
                                           "matmul",
                                           "embedding-forward",
                                           "embedding-backward",
                                           "rmsnorm-forward",
                                           "add-rmsnorm-forward",
                                           "rmsnorm-replay",
                                           "rmsnorm-backward",
                                           "layernorm-forward",
                                           "add-layernorm-forward",
                                           "layernorm-replay",
                                           "layernorm-backward",
                                           "head-norm-forward",
                                           "head-norm-replay",
                                           "head-norm-backward",
                                           "add-bias",
                                           "bias-gradient",
                                           "add-positions",
                                           "positions-gradient",
                                           "rope",
                                           "attention-forward",
                                           "attention-backward",
                                           "attention-decode",
                                           "attention-part",
                                           "attention-part-backward",
                                           "attention-delta",
                                           "move-blocks",
                                           "order-rows",
                                           "swiglu-forward",
                                           "swiglu-backward",
                                           "activate",
                                           "activate-backward",
                                           "cross-entropy",
                                           "cross-entropy-loss",
                                           "cross-entropy-statistics",
                                           "cross-entropy-finish",
                                           "take-heads",
                                           "add-heads",
                                           "add",
                                           "copy",
                                           "zero",
                                           "scale",
                                           "dequantise",
                                           "dequantise-rows",
                                           "softcap",
                                           "sum-squares",
                                           "finish-step",
                                           "adamw",
                                           "adamw-fix-up",
                                           "convert",
                                           "mixed-adamw",
                                           "sgd",
                                           "collective"};
  return kNames[static_cast<int>(kind)];
}
const char* Name(Role role) {
  static constexpr const char* kNames[] = {
      "input", "output",     "gradient-stream", "output-gradient", "input-gradient", "saved",
      "stash", "parameters", "gradients",       "tokens",          "targets",        "positions",
      "loss",  "scalars",    "constants",       "cache",           "logits",         "state",
      "any"};
  return kNames[static_cast<int>(role)];
}

}  // namespace strata::program
