// A collective inside a template. What it is stands in the op's Communication, not in attributes.
#ifndef STRATA_OPS_COLLECTIVE_H_
#define STRATA_OPS_COLLECTIVE_H_

#include <cstdint>

#include "ops/op_struct.h"

namespace strata::ops {

struct Collective {
  static constexpr program::OpKind kKind = program::OpKind::kCollective;
  static constexpr const char* kSummary =
      "The collective that the op's communication names, on its group. A part is one member's: "
      "all-gather takes a part and gives all, reduce-scatter the reverse, all-to-all takes and "
      "gives "
      "all; all-reduce, broadcast and rotate take and give the whole.";
  static constexpr const char* kGradient =
      "all-gather ↔ reduce-scatter, copy ↔ all-reduce, all-to-all ↔ itself";
  enum { kIn, kOut };

  program::Communication communication;

  void Visit(AttributeVisitor&) {}
  absl::Status Validate() const;
  OperandSpecs Operands() const;
  // The scratch of reductions depends on the group's size as well: ReduceScatterScratchBytes; here
  // the least it can be.
  int64_t WorkspaceBytes(const Backend& backend) const;
  static Collective Example();
};

// The other members' unreduced parts of a reduction of `bytes` in all.
int64_t ReduceScatterScratchBytes(int64_t bytes, int64_t members);

}  // namespace strata::ops

#endif  // STRATA_OPS_COLLECTIVE_H_
