#include "ops/collective.h"

namespace strata::ops {

using program::CollectiveOp;

Collective Collective::Example() {
  return {{.op = CollectiveOp::kAllReduce, .group = program::Group::kTensor, .bytes = 24}};
}

absl::Status Collective::Validate() const {
  if (communication.group == program::Group::kNone) return Require(false, "has no group");
  if (communication.op == CollectiveOp::kBarrier) return Require(false, "a barrier moves nothing");
  return Require(communication.bytes > 0, "moves no bytes");
}

OperandSpecs Collective::Operands() const {
  const int64_t bytes = communication.bytes;
  const OperandSpec in = In("in", "[part] or [whole]", bytes, program::DType::kBytes);
  const OperandSpec out = Out("out", "[whole] or [part]", bytes, program::DType::kBytes);
  const bool exchanges = communication.op == CollectiveOp::kAllToAll;
  return {communication.op == CollectiveOp::kReduceScatter || exchanges ? in.OrMore() : in,
          communication.op == CollectiveOp::kAllGather || exchanges ? out.OrMore() : out};
}

int64_t Collective::WorkspaceBytes(const Backend&) const { return 0; }

int64_t ReduceScatterScratchBytes(int64_t bytes, int64_t members) {
  return members * common::RoundUp(bytes / members, program::kSlotAlignment);
}

}  // namespace strata::ops
