#include "planner/fit/collective_scratch.h"

#include "common/units.h"

namespace strata::planner {
namespace {

using program::CollectiveOp;

constexpr int64_t kLine = 64;  // pieces begin at whole cache lines
// An all-reduce of few bytes is one exchange of whole vectors, a longer one of pieces.
constexpr int64_t kVectorBytes = 8 * common::kKiB, kTotalBytes = 256 * common::kKiB;

}  // namespace

int64_t CollectiveScratch(CollectiveOp op, program::DType type, int64_t bytes, int ranks) {
  if (op != CollectiveOp::kReduceScatter && op != CollectiveOp::kAllReduce) return 0;
  const int64_t each = program::SizeOf(type);
  const int64_t count = bytes / each, moved = count * each;
  const bool whole =
      op == CollectiveOp::kReduceScatter || (moved <= kVectorBytes && moved * ranks <= kTotalBytes);
  const int64_t piece =
      whole ? count : common::RoundUp(common::CeilDivide(count, ranks), kLine / each);
  return (ranks - 1) * common::RoundUp(piece * each, kLine);
}

}  // namespace strata::planner
