#include "planner/cost/profile_cost_model.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <iterator>
#include <optional>

#include "absl/strings/str_cat.h"
#include "ops/matmul.h"
#include "ops/op_struct.h"
#include "ops/table.h"

namespace strata::planner {
namespace {

using program::CollectiveOp;
using program::OpKind;
using program::Tier;

// Of sizes that may be 0.
double Log(double size) { return std::log2(std::max(size, 1.0)); }

// Operations that were not measured beside steps cost what these do.
constexpr CollectiveOp kLikeOthers = CollectiveOp::kAllReduce;

constexpr char kMeasure[] = "strata calibrate measures this machine";

std::optional<OpKind> KindOf(const std::string& name) {
  for (int kind = 0; kind < program::kOpKindCount; ++kind) {
    if (name == Name(static_cast<OpKind>(kind))) return static_cast<OpKind>(kind);
  }
  return std::nullopt;  // of a build that had others
}

// Of the numbers that an op works on: those of 16 bits where there are any.
int TypeOf(const program::Op& op) {
  using program::DType;
  const auto operands = ops::EntryOf(op.kind).operands(op);
  for (size_t i = 0; operands.ok() && i < operands->size(); ++i) {
    const DType type = (*operands)[i].type;
    if (type == DType::kBF16 || type == DType::kF16) return static_cast<int>(type);
  }
  return static_cast<int>(DType::kF32);
}

int Turns(int group_size) { return std::bit_width(static_cast<unsigned>(group_size - 1)); }

}  // namespace

absl::StatusOr<const v1::RankProfile*> FindRanks(const v1::Profile& profile,
                                                 const ProfiledRanks& wanted) {
  if (profile.host() != wanted.host) {
    return absl::FailedPreconditionError(absl::StrCat("the profile is of host ", profile.host(),
                                                      ", not of ", wanted.host, ": ", kMeasure));
  }
  if (profile.isa() != wanted.isa) {
    return absl::FailedPreconditionError(absl::StrCat(
        "the profile is of kernels for ", profile.isa(), ", not ", wanted.isa, ": ", kMeasure));
  }
  std::string known;
  for (const v1::RankProfile& ranks : profile.ranks()) {
    if (ranks.ranks() == wanted.ranks && ranks.threads() == wanted.threads) return &ranks;
    absl::StrAppend(&known, known.empty() ? "" : ", ", ranks.ranks(), " x ", ranks.threads());
  }
  return absl::FailedPreconditionError(
      absl::StrCat("the profile has no measurement of ", wanted.ranks, " ranks x ", wanted.threads,
                   " threads, only of ", known.empty() ? "none" : known));
}

ProfileCostModel::Query ProfileCostModel::QueryOf(const program::Op& op, double flops,
                                                  double bytes) {
  Query query{.table = {.kind = static_cast<int>(op.kind), .transposed = 0, .type = TypeOf(op)},
              .flops = flops,
              .bytes = bytes};
  query.work = std::max(flops > 0 ? flops : bytes, 1.0);
  if (const auto product = ops::FromOp<ops::MatMul>(op); product.ok()) {
    query.table.transposed = (product->trans_a ? 2 : 0) + (product->trans_b ? 1 : 0);
    query.shape = {Log(static_cast<double>(product->m)), Log(static_cast<double>(product->n)),
                   Log(static_cast<double>(product->k)), product->accumulate ? 1.0 : 0.0};
  } else {
    query.shape = {Log(flops), Log(bytes)};
  }
  return query;
}

std::array<ProfileCostModel::Table, 3> ProfileCostModel::Query::tables() const {
  return {table, {.kind = table.kind, .transposed = table.transposed}, {.kind = table.kind}};
}

ProfileCostModel::ProfileCostModel(const v1::RankProfile& measured, const v1::DiskRate* disks)
    : action_seconds_(measured.action_seconds()),
      drift_(measured.drift()),
      disks_(disks != nullptr ? std::make_optional(*disks) : std::nullopt) {
  for (const v1::OpTime& time : measured.ops()) {
    const std::optional<OpKind> kind = KindOf(time.kind());
    if (!kind.has_value()) continue;
    const program::Op op{.kind = *kind, .ints = {time.shape().begin(), time.shape().end()}};
    const Query query = QueryOf(op, time.flops(), time.bytes());
    for (const Table& table : query.tables()) {
      tables_[table].Add(query.shape, query.work, time.seconds());
    }
    (time.flops() > 0 ? with_flops_ : without_flops_)
        .Add({Log(query.work)}, query.work, time.seconds());
  }
  for (const v1::CommunicationTime& time : measured.communications()) {
    communications_[time.op()].Add(static_cast<double>(time.bytes()), time.seconds());
  }
  for (const v1::CopyTime& time : measured.copies()) {
    copies_.Add(static_cast<double>(time.bytes()), time.seconds());
  }
  for (const v1::Interference& each : measured.interference()) {
    const std::string op = each.op().empty() ? Name(kLikeOthers) : each.op();
    interference_[op][Log(static_cast<double>(each.bytes()))] = {each.compute_lost(),
                                                                 each.communication_stretch()};
  }
}

double ProfileCostModel::OpSeconds(const program::Op& op) const {
  const auto cost = ops::EntryOf(op.kind).cost(op);
  const Query query = QueryOf(op, op.flops, cost.ok() ? cost->bytes : 0);
  for (const Table& table : query.tables()) {
    const auto found = tables_.find(table);
    if (found != tables_.end()) return action_seconds_ + found->second.At(query.shape, query.work);
  }
  const TimesByShape& others = query.flops > 0 ? with_flops_ : without_flops_;
  return action_seconds_ + (others.empty() ? 0 : others.At({Log(query.work)}, query.work));
}

double ProfileCostModel::CommunicationSeconds(const std::string& name, double bytes) const {
  const auto found = communications_.find(name);
  return found == communications_.end() ? 0 : found->second.At(bytes);
}

double ProfileCostModel::CollectiveSeconds(const program::Communication& communication,
                                           program::GroupSpan group) const {
  if (group.ranks < 2) return 0;
  const std::string name = Name(communication.op);
  const double bytes = static_cast<double>(communication.bytes), others = group.ranks - 1;
  switch (communication.op) {
    case CollectiveOp::kAllGather:
    case CollectiveOp::kReduceScatter:
    case CollectiveOp::kAllToAll:
      return others * CommunicationSeconds(name, bytes);
    case CollectiveOp::kAllReduce:
      return CommunicationSeconds(name, 2 * others / group.ranks * bytes);
    case CollectiveOp::kBroadcast:
    case CollectiveOp::kBarrier:
      return Turns(group.ranks) * CommunicationSeconds(name, bytes);
    case CollectiveOp::kRotate:
      return CommunicationSeconds(name, bytes);
  }
  return 0;
}

double ProfileCostModel::MessageSeconds(const program::Communication& communication,
                                        program::GroupSpan) const {
  return CommunicationSeconds("send", static_cast<double>(communication.bytes));
}

double ProfileCostModel::TransferSeconds(program::Tier from, program::Tier to,
                                         int64_t bytes) const {
  if (disks_.has_value() && (from == Tier::kSsd || to == Tier::kSsd)) {
    return static_cast<double>(bytes) / (from == Tier::kSsd ? disks_->read() : disks_->write());
  }
  return copies_.empty() ? 0 : copies_.At(static_cast<double>(bytes));
}

// Of the rate of both together each way has half.
double ProfileCostModel::BothWays(program::Tier from, program::Tier to) const {
  if (!disks_.has_value() || (from != Tier::kSsd && to != Tier::kSsd)) return 1;
  const double alone = from == Tier::kSsd ? disks_->read() : disks_->write();
  return std::max(1.0, alone / (disks_->mixed() / 2));
}

// What holds one rank up does not hold up the other: the difference of two sums of many independent
// delays grows with the square root of their number.
double ProfileCostModel::LatenessSeconds(double apart) const { return drift_ * std::sqrt(apart); }

program::Interference ProfileCostModel::Beside(const program::Communication& communication) const {
  auto by_size = interference_.find(Name(communication.op));
  if (by_size == interference_.end()) by_size = interference_.find(Name(kLikeOthers));
  if (by_size == interference_.end()) return {};
  const double size = Log(static_cast<double>(communication.bytes));
  const auto above = by_size->second.lower_bound(size);
  if (above == by_size->second.begin()) return above->second;
  const auto below = std::prev(above);
  if (above == by_size->second.end()) return below->second;
  const double part = (size - below->first) / (above->first - below->first);
  return {std::lerp(below->second.compute_lost, above->second.compute_lost, part),
          std::lerp(below->second.stretch, above->second.stretch, part)};
}

}  // namespace strata::planner
