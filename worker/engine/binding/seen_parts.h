// Which keys and values an op of a context group sees, and where they lie.
#ifndef STRATA_WORKER_ENGINE_BINDING_SEEN_PARTS_H_
#define STRATA_WORKER_ENGINE_BINDING_SEEN_PARTS_H_

#include <cstdint>
#include <vector>

#include "kernels/attention.h"
#include "ops/context.h"
#include "program/ir/context_rows.h"
#include "worker/engine/binding/attention_shape.h"
#include "worker/engine/op_reader.h"

namespace strata::worker {

// One kernel call per rank whose keys are seen.
struct Seen {
  std::vector<kernels::AttentionPartShape> parts;
  std::vector<int64_t> kv_at;  // elements before a part's keys and values
  bool first = false;

  void SetPositions(const int32_t* of_queries) {
    for (kernels::AttentionPartShape& part : parts) part.positions = of_queries;
  }
};

inline std::vector<kernels::RowSpan> SpansOf(const ops::ContextPart& part, int64_t rank) {
  std::vector<kernels::RowSpan> spans;
  for (const auto& [first, count, position] :
       program::ContextRuns(part.held.sequence * part.ranks, part.ranks, rank)) {
    spans.push_back({.first = first, .count = count, .position = position});
  }
  return spans;
}

inline Seen SeenBy(const OpReader& reader, const ops::ContextPart& part) {
  const int64_t own = reader.IndexIn(program::Group::kContext);
  Seen seen{.first = part.first()};
  const int64_t of_rank = part.kv_elements() / part.members();
  for (int64_t m = 0; m < part.members(); ++m) {
    int64_t rank = part.gathered ? m : (own - part.step + part.ranks) % part.ranks;
    // Of documents and with windows the own keys come first: the only ones of which every row sees
    // some.
    const bool limited = part.documents || part.held.scores.window > 0;
    if (part.gathered && limited) rank = (own + m) % part.ranks;
    seen.kv_at.push_back(part.gathered ? rank * of_rank : 0);
    seen.parts.push_back(
        {.held = ShapeOf(part.held), .queries = SpansOf(part, own), .keys = SpansOf(part, rank)});
  }
  return seen;
}

}  // namespace strata::worker

#endif  // STRATA_WORKER_ENGINE_BINDING_SEEN_PARTS_H_
