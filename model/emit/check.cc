#include "model/emit/check.h"

#include <algorithm>
#include <array>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "ops/table.h"

namespace strata::model {
namespace {

using program::Formal;
using program::Layer;
using program::LayerGraph;
using program::Op;
using program::Operand;
using program::Role;
using program::Template;

// The bytes of one slot that have been written, and what they are partial over.
class Coverage {
 public:
  void Write(const Operand& operand) {
    const int64_t begin = operand.offset;
    const int64_t end = operand.offset + operand.bytes;
    std::vector<Range> kept;
    for (const Range& range : ranges_) {
      if (range.begin < begin)
        kept.push_back({range.begin, std::min(range.end, begin), range.mark});
      if (range.end > end) kept.push_back({std::max(range.begin, end), range.end, range.mark});
    }
    kept.push_back({begin, end, operand.partial});
    std::sort(kept.begin(), kept.end(),
              [](const Range& a, const Range& b) { return a.begin < b.begin; });
    ranges_ = std::move(kept);
  }

  bool Holds(const Operand& operand) const {
    int64_t next = operand.offset;
    const int64_t end = operand.offset + operand.bytes;
    for (const Range& range : ranges_) {
      if (range.end <= next || range.begin >= end) continue;
      if (range.begin > next || range.mark != operand.partial) return false;
      next = range.end;
    }
    return next >= end;
  }

 private:
  struct Range {
    int64_t begin, end;
    program::Partial mark;
  };
  std::vector<Range> ranges_;  // disjoint, ascending
};

std::string Describe(const Template& checked, size_t op) {
  return absl::StrCat("template ", checked.name, ", op ", op, " (", Name(checked.ops[op].kind),
                      "): ");
}

const std::string& SlotName(const Template& checked, int slot) {
  const int formals = static_cast<int>(checked.formals.size());
  return slot < formals ? checked.formals[slot].name : checked.locals[slot - formals].name;
}

int64_t SlotBytes(const Template& checked, int slot) {
  const int formals = static_cast<int>(checked.formals.size());
  return slot < formals ? checked.formals[slot].bytes : checked.locals[slot - formals].bytes;
}

bool Overlap(const Operand& a, const Operand& b) {
  return a.slot == b.slot && a.offset < b.offset + b.bytes && b.offset < a.offset + a.bytes;
}

// Formals that hold nothing when the template is called.
bool BeginsEmpty(Role role) {
  return role == Role::kOutput || role == Role::kInputGradient || role == Role::kLogits;
}

absl::Status CheckShape(const Template& checked, size_t index) {
  const Op& op = checked.ops[index];
  const std::string where = Describe(checked, index);
  if (const absl::Status status = ops::Check(op); !status.ok()) {
    return absl::InternalError(absl::StrCat(where, status.message()));
  }
  const int slots = static_cast<int>(checked.formals.size() + checked.locals.size());
  for (size_t i = 0; i < op.operands.size(); ++i) {
    const Operand& operand = op.operands[i];
    if (operand.slot < 0 || operand.slot >= slots || operand.offset < 0 || operand.bytes <= 0 ||
        operand.offset + operand.bytes > SlotBytes(checked, operand.slot)) {
      return absl::InternalError(absl::StrCat(where, "operand ", i, " leaves its slot"));
    }
    for (size_t j = 0; j < i; ++j) {
      if (Overlap(operand, op.operands[j]) && (operand.writes() || op.operands[j].writes())) {
        return absl::InternalError(absl::StrCat(where, "operands ", j, " and ", i, " overlap"));
      }
    }
  }
  for (const int dependency : op.dependencies) {
    if (dependency < 0 || dependency >= static_cast<int>(index) ||
        checked.ops[dependency].stream == op.stream) {
      return absl::InternalError(absl::StrCat(where, "bad dependency ", dependency));
    }
  }
  return absl::OkStatus();
}

bool Conflict(const Op& a, const Op& b) {
  for (const Operand& x : a.operands) {
    for (const Operand& y : b.operands) {
      if (Overlap(x, y) && (x.writes() || y.writes())) return true;
    }
  }
  return false;
}

// Ops on different streams that meet on the same bytes are ordered by dependencies.
absl::Status CheckOrder(const Template& checked) {
  constexpr int kStreams = static_cast<int>(program::Stream::kCaller) + 1;
  // Per op and stream: the last op of that stream that has ended when the op starts; -1: none.
  std::vector<std::array<int, kStreams>> ended(checked.ops.size());
  std::array<int, kStreams> newest;
  newest.fill(-1);
  const auto join = [&](size_t op, int earlier) {
    for (int s = 0; s < kStreams; ++s) ended[op][s] = std::max(ended[op][s], ended[earlier][s]);
    int& own = ended[op][static_cast<int>(checked.ops[earlier].stream)];
    own = std::max(own, earlier);
  };
  for (size_t i = 0; i < checked.ops.size(); ++i) {
    const Op& op = checked.ops[i];
    int& before = newest[static_cast<int>(op.stream)];
    ended[i].fill(-1);
    if (before >= 0) join(i, before);
    for (const int dependency : op.dependencies) join(i, dependency);
    before = static_cast<int>(i);
    for (size_t j = 0; j < i; ++j) {
      if (ended[i][static_cast<int>(checked.ops[j].stream)] >= static_cast<int>(j)) continue;
      if (Conflict(checked.ops[j], op)) {
        return absl::InternalError(
            absl::StrCat(Describe(checked, i), "may run while op ", j, " uses the same bytes"));
      }
    }
  }
  return absl::OkStatus();
}

const Formal* Find(const Template& searched, Role role, int index) {
  for (const Formal& formal : searched.formals) {
    if (formal.role == role && formal.index == index) return &formal;
  }
  return nullptr;
}

bool AccessAllowed(const Formal& formal, const Operand& operand, bool backward) {
  switch (formal.role) {
    case Role::kInput:
    case Role::kOutputGradient:
    case Role::kParameters:
    case Role::kTokens:
    case Role::kTargets:
    case Role::kPositions:
    case Role::kScalars:
    case Role::kConstants:
      return !operand.writes();
    case Role::kSaved:
      return !backward || !operand.writes();
    case Role::kGradients:
    case Role::kLoss:
    case Role::kCache:
      return operand.access == program::Access::kAccumulate;
    case Role::kOutput:
    case Role::kInputGradient:
    case Role::kLogits:
    case Role::kGradientStream:
    case Role::kStash:
      return true;
    case Role::kState:
    case Role::kAny:
      return false;
  }
  return false;
}

absl::Status CheckRoles(const Template& checked, bool backward) {
  for (size_t i = 0; i < checked.ops.size(); ++i) {
    for (const Operand& operand : checked.ops[i].operands) {
      if (operand.slot >= static_cast<int>(checked.formals.size())) continue;
      const Formal& formal = checked.formals[operand.slot];
      if (!AccessAllowed(formal, operand, backward)) {
        return absl::InternalError(absl::StrCat(Describe(checked, i), Name(operand.access), " of ",
                                                formal.name, " (", Name(formal.role), ")"));
      }
    }
  }
  return absl::OkStatus();
}

// Every byte of the formals of `role` is written by `producer`, and `consumer` knows the same ones
// at most.
absl::Status CheckHandedOver(const Template& producer, const Template& consumer, Role role) {
  for (const Formal& formal : consumer.formals) {
    if (formal.role != role) continue;
    const Formal* made = Find(producer, role, formal.index);
    if (made == nullptr || made->bytes != formal.bytes) {
      return absl::InternalError(
          absl::StrCat(consumer.name, ": ", formal.name, " is not what ", producer.name, " makes"));
    }
  }
  for (size_t i = 0; i < producer.formals.size(); ++i) {
    const Formal& formal = producer.formals[i];
    if (formal.role != role) continue;
    Coverage coverage;
    for (const Op& op : producer.ops) {
      for (const Operand& operand : op.operands) {
        if (operand.slot == static_cast<int>(i) && operand.writes()) coverage.Write(operand);
      }
    }
    Operand whole;
    whole.bytes = formal.bytes;
    if (!coverage.Holds(whole)) {
      return absl::InternalError(
          absl::StrCat(producer.name, ": ", formal.name, " is not written whole"));
    }
  }
  return absl::OkStatus();
}

int64_t ExpectedBytes(const LayerGraph& graph, const Layer& layer, const Formal& formal,
                      bool decodes) {
  switch (formal.role) {
    case Role::kInput:
    case Role::kOutput:
    case Role::kGradientStream:
    case Role::kOutputGradient:
    case Role::kInputGradient:
      return decodes ? formal.bytes : graph.boundary_bytes;
    case Role::kParameters:
    case Role::kGradients: {
      if (formal.index >= static_cast<int>(layer.sets.size())) return -1;
      const program::ParameterSet& set = graph.sets[layer.sets[formal.index]];
      return formal.role == Role::kParameters ? set.bytes() : set.gradient_bytes();
    }
    case Role::kConstants:
      return formal.index < static_cast<int>(graph.constants.size())
                 ? graph.constants[formal.index].bytes
                 : -1;
    case Role::kCache:
      return layer.cache_bytes;
    case Role::kTokens:
    case Role::kTargets:
    case Role::kPositions:
      return decodes ? formal.bytes : graph.tokens() * 4;
    default:
      return formal.bytes;
  }
}

absl::Status CheckLayer(const LayerGraph& graph, const Layer& layer) {
  const program::LayerTemplates& t = layer.templates;
  for (const int index : {t.forward, t.backward, t.backward_input, t.backward_weight, t.evaluate,
                          t.prefill, t.decode}) {
    if (index < 0) continue;
    const Template& checked = graph.templates[index];
    const bool decodes = index == t.prefill || index == t.decode;
    const bool backward =
        index == t.backward || index == t.backward_input || index == t.backward_weight;
    RETURN_IF_ERROR(CheckRoles(checked, backward));
    for (const Formal& formal : checked.formals) {
      if (formal.bytes != ExpectedBytes(graph, layer, formal, decodes)) {
        return absl::InternalError(absl::StrCat("layer ", layer.name, ", template ", checked.name,
                                                ": ", formal.name, " has the wrong size"));
      }
    }
  }
  for (const int index : {t.backward, t.backward_input, t.backward_weight}) {
    if (index < 0 || t.forward < 0) continue;
    RETURN_IF_ERROR(
        CheckHandedOver(graph.templates[t.forward], graph.templates[index], Role::kSaved));
  }
  if (t.backward_input >= 0 && t.backward_weight >= 0) {
    RETURN_IF_ERROR(CheckHandedOver(graph.templates[t.backward_input],
                                    graph.templates[t.backward_weight], Role::kStash));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckTemplate(const Template& checked) {
  std::map<int, Coverage> written;
  for (size_t i = 0; i < checked.ops.size(); ++i) {
    RETURN_IF_ERROR(CheckShape(checked, i));
    for (const Operand& operand : checked.ops[i].operands) {
      const bool is_formal = operand.slot < static_cast<int>(checked.formals.size());
      const bool begins_empty = !is_formal || BeginsEmpty(checked.formals[operand.slot].role);
      if (operand.reads() && begins_empty && !written[operand.slot].Holds(operand)) {
        return absl::InternalError(absl::StrCat(Describe(checked, i),
                                                SlotName(checked, operand.slot),
                                                " is read before it is written, or as another "
                                                "partial sum than was written"));
      }
    }
    for (const Operand& operand : checked.ops[i].operands) {
      if (operand.writes()) written[operand.slot].Write(operand);
    }
  }
  return CheckOrder(checked);
}

absl::Status CheckGraph(const LayerGraph& graph) {
  for (const Template& checked : graph.templates) RETURN_IF_ERROR(CheckTemplate(checked));
  for (const Layer& layer : graph.layers) RETURN_IF_ERROR(CheckLayer(graph, layer));
  return absl::OkStatus();
}

}  // namespace strata::model
