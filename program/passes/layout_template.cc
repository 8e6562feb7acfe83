#include "program/passes/layout_template.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "common/units.h"
#include "program/passes/hazards.h"
#include "program/passes/lifetimes.h"
#include "program/passes/order.h"
#include "program/passes/placement.h"

namespace strata::program {
namespace {

std::vector<Interval> LifetimesOfLocals(const Template& tmpl, Stream caller,
                                        const GroupSizes& groups, int horizon) {
  Lifetimes lifetimes(static_cast<int>(tmpl.formals.size()), static_cast<int>(tmpl.locals.size()),
                      caller, horizon);
  for (const Op& op : tmpl.ops) {
    if (op.stream != Stream::kCaller) lifetimes.Share(op.operands);
  }
  for (const Op& op : tmpl.ops) {
    const bool of_caller = op.stream == Stream::kCaller;
    lifetimes.Add({.stream = of_caller ? caller : op.stream,
                   .hides = of_caller && Hides(op),
                   .before = op.dependencies},
                  op.operands, groups);
  }
  return lifetimes.Finish();
}

}  // namespace

void LayOutTemplate(Template& tmpl, const GroupSizes& groups, int horizon) {
  const int formals = static_cast<int>(tmpl.formals.size());
  const Stream caller = StreamThatNoOpNames(tmpl).value_or(Stream::kCompute);
  std::vector<Interval> intervals = LifetimesOfLocals(tmpl, caller, groups, horizon);
  for (size_t l = 0; l < tmpl.locals.size(); ++l) {
    intervals[l].bytes = tmpl.locals[l].bytes;
    intervals[l].alignment = tmpl.locals[l].alignment;
  }
  Packing packing = Pack(intervals);
  tmpl.local_offsets = std::move(packing.offsets);
  tmpl.frame_bytes = common::RoundUp(packing.bytes, kSlotAlignment);

  HazardMap map;
  Order order;
  for (size_t o = 0; o < tmpl.ops.size(); ++o) {
    Op& op = tmpl.ops[o];
    const Stream stream = op.stream == Stream::kCaller ? caller : op.stream;
    const int node = order.Add(stream, op.dependencies);
    std::vector<int> conflicts;
    for (const Operand& operand : op.operands) {
      const bool local = operand.slot >= formals;
      const int64_t begin =
          operand.offset + (local ? tmpl.local_offsets[operand.slot - formals] : 0);
      const int64_t moved = operand.shard_stride * (groups.of(operand.shard_group) - 1);
      map.Use(local ? -1 : operand.slot, begin, begin + moved + operand.bytes, operand.access, node,
              stream, conflicts);
    }
    std::sort(conflicts.rbegin(),
              conflicts.rend());  // the newest first: it often implies the others
    for (const int earlier : conflicts) {
      if (order.HappensBefore(earlier, node)) continue;
      op.dependencies.push_back(earlier);
      order.AddEdge(earlier, node);
    }
  }
}

}  // namespace strata::program
