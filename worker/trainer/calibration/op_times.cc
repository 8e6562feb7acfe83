#include "worker/trainer/calibration/op_times.h"

#include <numeric>

#include "ops/table.h"
#include "program/passes/expand.h"
#include "worker/trainer/calibration/training_rank.h"

namespace strata::worker {

void OpTimes::Add(const program::ProgramSet& set, absl::Span<const TraceRecord> trace,
                  int64_t first_step) {
  const program::ExpandedProgram expanded = program::Expand(set, set.programs[0]);
  for (const TraceRecord& record : trace) {
    if (record.end <= record.begin || record.program != 0 || record.step < first_step) continue;
    const program::Action& action = expanded.actions[record.action];
    if (action.mechanism != program::Mechanism::kCall || action.op == nullptr ||
        action.stream != program::Stream::kCompute) {
      continue;
    }
    const auto cost = ops::EntryOf(action.op->kind).cost(*action.op);
    if (!cost.ok()) continue;
    Measured& measured = ops_[{action.op->kind, action.op->ints}];
    measured.flops = cost->flops;
    measured.bytes = cost->bytes;
    measured.seconds.push_back(record.end - record.begin);
  }
}

void OpTimes::Write(v1::RankProfile& profile) const {
  for (const auto& [op, measured] : ops_) {
    v1::OpTime& time = *profile.add_ops();
    time.set_kind(Name(op.first));
    time.mutable_shape()->Assign(op.second.begin(), op.second.end());
    time.set_flops(measured.flops);
    time.set_bytes(measured.bytes);
    time.set_seconds(Median(measured.seconds));
  }
}

void OpTimes::SetRates(program::Rates& rates) const {
  double flops = 0, flop_seconds = 0, bytes = 0, byte_seconds = 0;
  for (const auto& [op, measured] : ops_) {
    const double seconds = std::accumulate(measured.seconds.begin(), measured.seconds.end(), 0.0);
    const auto times = static_cast<double>(measured.seconds.size());
    (measured.flops > 0 ? flops : bytes) +=
        times * (measured.flops > 0 ? measured.flops : measured.bytes);
    (measured.flops > 0 ? flop_seconds : byte_seconds) += seconds;
  }
  if (flop_seconds > 0) rates.flops_per_second = flops / flop_seconds;
  if (byte_seconds > 0) rates.memory_bytes_per_second = bytes / byte_seconds;
}

}  // namespace strata::worker
