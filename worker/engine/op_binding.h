// From ops to kernel calls: everything about an op is looked at once, when a program is loaded;
// what remains is a call with fixed addresses.
#ifndef STRATA_WORKER_ENGINE_OP_BINDING_H_
#define STRATA_WORKER_ENGINE_OP_BINDING_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "kernels/context.h"
#include "kernels/matmul.h"
#include "program/ir/op.h"
#include "worker/engine/host_ops.h"

namespace strata::worker {

// An operand with its place in memory.
struct BoundOperand {
  std::byte* data = nullptr;  // its first byte, this rank's
  int64_t bytes = 0;
  std::byte* slot = nullptr;  // first byte of its slot; scalars are found from there
  int64_t offset = 0;         // of data in the slot
  int shard_index = 0;        // own index in the operand's shard group; 0: none
};

// A call with everything fixed. Running it allocates nothing; only host ops fail.
using BoundOp = std::function<absl::Status()>;

// Plans of matrix products, one per shape and number of threads: made when loading, shared by all
// ops of that shape, which run one after the other.
class MatmulPlans {
 public:
  explicit MatmulPlans(int threads) : threads_(threads) {}
  // The plan lives as long as this object. Errors are MatmulPlan::Create's.
  absl::StatusOr<const kernels::MatmulPlan*> Get(const kernels::MatmulShape& shape);
  int threads() const { return threads_; }

 private:
  using Key = std::array<int64_t, 11>;
  int threads_;
  std::map<Key, std::unique_ptr<kernels::MatmulPlan>> plans_;
};

// The shape that a kMatMul op names. InvalidArgument: its attributes are not possible.
absl::StatusOr<kernels::MatmulShape> MatmulShapeOf(const program::Op& op);

// What bound ops use. Borrowed; outlives them.
struct OpEnvironment {
  kernels::Context context;
  MatmulPlans* plans = nullptr;
  HostOps* host = nullptr;  // null where host ops cannot run
  // Tokens must lie in [0, vocabulary), targets below it; 0: not known, not checked.
  int64_t vocabulary = 0;
  std::map<program::Group, int> group_indices = {};  // own, in groups of more than one rank
};

// Binds an op, collectives apart. InvalidArgument: operands or attributes are not as ops/ says;
// FailedPrecondition: the kernel needs more workspace than it was given (both numbers are named);
// Unimplemented: no kernel for it.
absl::StatusOr<BoundOp> BindOp(const program::Op& op, absl::Span<const BoundOperand> operands,
                               const OpEnvironment& environment);

}  // namespace strata::worker

#endif  // STRATA_WORKER_ENGINE_OP_BINDING_H_
