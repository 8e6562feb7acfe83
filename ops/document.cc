// docs/ops.md from the table.
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "ops/table.h"

namespace strata::ops {
namespace {

constexpr const char* kPreamble = R"(# Ops

What the templates of a step are made of: one section per op, written from `ops/` (`ops/table.h`; a
test compares this file with it). Attributes stand in the op's ints in the order given, numbers in
its floats. Tensors are row-major; operands have exactly the sizes named unless "or more" is said.
An op may lack a workspace that would have 0 bytes. FLOPs are those of matrix products and
attention; everything else is measured by the bytes it moves. Where an operand's type is `type` it
is the op's attribute: f32, which is also meant where attributes end before it, bf16 or f16. Kernels
compute in f32 and round once, when they write.

B batch, T sequence, N = B·T rows, C hidden, H query heads, K key and value heads, D head size,
F feed-forward, V vocabulary (where it is cut over a group, of the part; in finish-step, virtual
shards).
)";

std::string OperandRow(const OperandSpec& spec, bool has_type) {
  return absl::StrCat("| ", spec.name, " | ", spec.shape, spec.at_least ? " or more" : "", " | ",
                      has_type ? "`type`" : Name(spec.type), " | ", Name(spec.access), " |\n");
}

std::string Section(const OpEntry& entry) {
  std::string text = absl::StrCat("\n## ", Name(entry.kind), "\n\n", entry.summary, "\n\n");
  if (!entry.attributes.empty()) {
    absl::StrAppend(&text, "Attributes: ", absl::StrJoin(entry.attributes, ", "), ".\n\n");
  }
  absl::StrAppend(&text, "| operand | shape | type | access |\n|---|---|---|---|\n");
  for (size_t i = 0; i < entry.example_operands.size(); ++i) {
    const OperandSpec& spec = entry.example_operands[i];
    const bool has_type =
        !entry.example_of_bf16.empty() && entry.example_of_bf16[i].type != spec.type;
    absl::StrAppend(&text, OperandRow(spec, has_type));
  }
  if (entry.has_workspace) absl::StrAppend(&text, "| workspace | | bytes | write |\n");
  if (entry.flops != nullptr) absl::StrAppend(&text, "\nFLOPs: ", entry.flops, ".\n");
  if (entry.gradient != nullptr) absl::StrAppend(&text, "\nGradient: ", entry.gradient, ".\n");
  return text;
}

}  // namespace

std::string Document() {
  std::string text = kPreamble;
  for (const OpEntry& entry : Table()) absl::StrAppend(&text, Section(entry));
  return text;
}

}  // namespace strata::ops
