// One row per kind of op: everything that readers of programs ask of an op without knowing its
// kind. Rows are made from the structs of ops/<op>.h; nothing about an op is written a second time.
#ifndef STRATA_OPS_TABLE_H_
#define STRATA_OPS_TABLE_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "ops/backend.h"
#include "ops/operand_spec.h"
#include "program/ir/op.h"

namespace strata::ops {

struct Cost {
  double flops = 0;  // of matrix products and attention; see ops/matmul.h
  double bytes = 0;  // to and from memory, each operand once, workspaces not counted
};

struct OpEntry {
  program::OpKind kind;
  const char* summary;
  const char* flops;     // formula; null: 0
  const char* gradient;  // rule; null: it has none, or is itself a gradient
  bool has_workspace;    // a workspace may follow the operands
  std::vector<std::string> attributes;
  program::Op example;  // attributes only
  OperandSpecs example_operands;
  OperandSpecs example_of_bf16;  // where the op has a `type`: the same with that of bf16
  // Of an op of this kind. InvalidArgument: its attributes are not possible.
  absl::StatusOr<OperandSpecs> (*operands)(const program::Op& op);
  absl::StatusOr<Cost> (*cost)(const program::Op& op);
  absl::StatusOr<int64_t> (*workspace_bytes)(const program::Op& op, const Backend& backend);
};

// In the order of program::OpKind.
absl::Span<const OpEntry> Table();
const OpEntry& EntryOf(program::OpKind kind);

// InvalidArgument, saying what: an attribute is missing or not possible, or operands differ from
// the op's in number, access or size.
absl::Status Check(const program::Op& op);

// The table as text: docs/ops.md.
std::string Document();

}  // namespace strata::ops

#endif  // STRATA_OPS_TABLE_H_
