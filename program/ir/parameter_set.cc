#include "program/ir/parameter_set.h"

#include <algorithm>

#include "common/units.h"

namespace strata::program {
namespace {

// Appends what of `run` lies in [begin, end).
void AppendClipped(std::vector<ElementRun>& runs, ElementRun run, int64_t begin, int64_t end) {
  const int64_t from = std::max(run.flat, begin);
  const int64_t to = std::min(run.flat + run.count, end);
  if (from >= to) return;
  run.first += from - run.flat;
  run.flat = from;
  run.count = to - from;
  runs.push_back(run);
}

}  // namespace

int64_t ShareOf(int64_t whole, int64_t ways) {
  if (whole % ways == 0) return whole / ways;
  return common::RoundUp(common::CeilDivide(whole, ways), 8);
}

void FlattenSet(ParameterSet& set, int64_t ranges) {
  int64_t next = 0;
  for (TensorSpec& tensor : set.tensors) {
    tensor.offset = next;
    next = common::RoundUp(next + tensor.elements(), set.alignment);
  }
  set.elements = common::RoundUp(next, set.alignment * ranges);
}

std::vector<ElementRun> ElementRuns(const ParameterSet& set, int64_t index, int64_t begin,
                                    int64_t end) {
  std::vector<ElementRun> runs;
  for (size_t t = 0; t < set.tensors.size(); ++t) {
    const TensorSpec& tensor = set.tensors[t];
    const int64_t columns = tensor.elements() / tensor.shape[0];
    const bool by_columns = tensor.cut.ways > 1 && tensor.cut.dimension == 1;
    ElementRun run{static_cast<int>(t), 0, tensor.offset, 0, 0};
    for (; run.part < tensor.part_count(); ++run.part) {
      const int64_t rows = tensor.parts.empty() ? tensor.shape[0] : tensor.parts[run.part].rows;
      const int64_t part_begin = run.flat;
      const int64_t part_end = part_begin + rows * columns;
      if (by_columns) {
        const int64_t whole_columns = columns * tensor.cut.ways;
        const int64_t skipped = std::clamp<int64_t>((begin - part_begin) / columns, 0, rows);
        run.count = columns;
        for (int64_t row = skipped; row < rows; ++row) {
          run.flat = part_begin + row * columns;
          if (run.flat >= end) break;
          run.first = row * whole_columns + index * columns;
          AppendClipped(runs, run, begin, end);
        }
      } else {
        run.count = part_end - part_begin;
        run.first = tensor.cut.ways > 1 ? index * run.count : 0;
        if (tensor.cut.padding > 0) run.count = tensor.held_rows(index) * columns;
        AppendClipped(runs, run, begin, end);
      }
      run.flat = part_end;
    }
  }
  return runs;
}

}  // namespace strata::program
