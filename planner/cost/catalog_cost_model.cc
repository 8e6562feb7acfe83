#include "planner/cost/catalog_cost_model.h"

#include <algorithm>

#include "ops/attention.h"
#include "ops/context.h"
#include "ops/matmul.h"
#include "ops/op_struct.h"
#include "ops/table.h"
#include "planner/performance/kernels.h"

namespace strata::planner {
namespace {

using program::CollectiveOp;
using program::OpKind;
using program::Tier;

Precision PrecisionOf(program::DType type) {
  return type == program::DType::kF32 ? Precision::kFp32 : Precision::kHalf;
}

double BytesOf(const program::Op& op) {
  const auto cost = ops::EntryOf(op.kind).cost(op);
  return cost.ok() ? cost->bytes : 0;
}

double ProductOf(const Machine& machine, const ops::MatMul& product) {
  const double width = static_cast<double>(program::SizeOf(product.out_type));
  return ProductSeconds(machine, PrecisionOf(product.type),
                        {.m = static_cast<double>(product.m),
                         .n = static_cast<double>(product.n),
                         .k = static_cast<double>(product.k),
                         .output_bytes = product.accumulate ? 2 * width : width});
}

// Of `flops`, at the pace of a whole sequence of such heads: windows, and a context rank's parts,
// have fewer.
double AttentionOf(const Machine& machine, const ops::AttentionShape& shape, double flops,
                   bool backward) {
  const double length = static_cast<double>(shape.sequence);
  const AttentionTime whole =
      AttentionSeconds(machine, static_cast<double>(shape.batch), static_cast<double>(shape.heads),
                       static_cast<double>(shape.head_size), length, length);
  const double whole_flops = (backward ? 2.5 : 1) * 2 *
                             static_cast<double>(shape.batch * shape.heads * shape.head_size) *
                             length * length;
  const double seconds = (backward ? whole.backward : whole.forward) * flops / whole_flops;
  // Attention's rate is of 16 bits.
  const double slower = machine.gpu.peak[static_cast<int>(Precision::kHalf)] /
                        machine.gpu.peak[static_cast<int>(PrecisionOf(shape.type))];
  return seconds * slower;
}

}  // namespace

double CatalogCostModel::OpSeconds(const program::Op& op) const {
  switch (op.kind) {
    case OpKind::kMatMul:
      if (const auto product = ops::FromOp<ops::MatMul>(op); product.ok()) {
        return ProductOf(machine_, *product);
      }
      break;
    case OpKind::kAttentionForward:
      if (const auto attention = ops::FromOp<ops::AttentionForward>(op); attention.ok()) {
        return AttentionOf(machine_, attention->shape, op.flops, false);
      }
      break;
    case OpKind::kAttentionBackward:
      if (const auto attention = ops::FromOp<ops::AttentionBackward>(op); attention.ok()) {
        return AttentionOf(machine_, attention->shape, op.flops, true);
      }
      break;
    case OpKind::kAttentionPart:
      if (const auto attention = ops::FromOp<ops::AttentionPart>(op); attention.ok()) {
        return AttentionOf(machine_, attention->part.held, op.flops, false);
      }
      break;
    case OpKind::kAttentionPartBackward:
      if (const auto attention = ops::FromOp<ops::AttentionPartBackward>(op); attention.ok()) {
        return AttentionOf(machine_, attention->part.held, op.flops, true);
      }
      break;
    case OpKind::kCrossEntropy:
    case OpKind::kCrossEntropyLoss:
    case OpKind::kCrossEntropyStatistics:
    case OpKind::kCrossEntropyFinish:
      return LossSeconds(machine_, BytesOf(op), 1);
    case OpKind::kAddBias:  // in the epilogue of the product before it
      return 0;
    default:
      break;
  }
  return MemorySeconds(machine_, BytesOf(op), 1);
}

double CatalogCostModel::HostOpSeconds(const program::Op& op) const {
  const double rate = machine_.network.host_memory_rate;
  return rate > 0 ? BytesOf(op) / rate : 0;
}

GroupShape CatalogCostModel::ShapeOf(program::GroupSpan group) const {
  return {group.ranks,
          std::clamp<int64_t>(machine_.network.domain_devices / group.stride, 1, group.ranks)};
}

double CatalogCostModel::CollectiveSeconds(const program::Communication& communication,
                                           program::GroupSpan span) const {
  if (span.ranks < 2) return 0;
  const GroupShape group = ShapeOf(span);
  const double bytes = static_cast<double>(communication.bytes), members = span.ranks;
  const auto of = [&](Collective collective, double whole) {
    return planner::CollectiveSeconds(machine_, collective, group, whole);
  };
  switch (communication.op) {
    case CollectiveOp::kAllGather:
      return of(Collective::kAllGather, members * bytes);
    case CollectiveOp::kReduceScatter:
      return of(Collective::kReduceScatter, members * bytes);
    case CollectiveOp::kAllToAll:
      return of(Collective::kAllToAll, members * bytes);
    case CollectiveOp::kAllReduce:
      return of(Collective::kAllReduce, bytes);
    case CollectiveOp::kBroadcast:  // along a ring the whole passes each link once
      return of(Collective::kAllGather, bytes * members / (members - 1));
    case CollectiveOp::kRotate:
      return planner::MessageSeconds(machine_, group, bytes);
    case CollectiveOp::kBarrier:
      return of(Collective::kAllReduce, sizeof(float));
  }
  return 0;
}

double CatalogCostModel::MessageSeconds(const program::Communication& communication,
                                        program::GroupSpan group) const {
  return planner::MessageSeconds(machine_, ShapeOf(group),
                                 static_cast<double>(communication.bytes));
}

double CatalogCostModel::TransferSeconds(Tier from, Tier to, int64_t bytes) const {
  const Network& network = machine_.network;
  const bool on_disk = from == Tier::kSsd || to == Tier::kSsd;
  if (network.host_is_device && !on_disk) return 0;
  double rate = network.host_rate;
  if (on_disk) {
    rate = network.disk_rate > 0 ? std::min(rate, network.disk_rate) : rate;
  }
  return rate > 0 ? static_cast<double>(bytes) / rate : 0;
}

program::Interference CatalogCostModel::Beside(const program::Communication&) const {
  return {.compute_lost = kContention};
}

}  // namespace strata::planner
