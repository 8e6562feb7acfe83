// What a ranked plan is in a job file's words, and why it is where it is among others.
#ifndef STRATA_PLANNER_SEARCH_EXPLAIN_H_
#define STRATA_PLANNER_SEARCH_EXPLAIN_H_

#include <string>
#include <utility>
#include <vector>

#include "planner/search/saved_names.h"
#include "planner/search/search.h"

namespace strata::planner {

// Values of the keys of a job's `parallel`, `memory.place` and `train`, as they would be written;
// those that say nothing new are left out.
struct JobWords {
  std::vector<std::pair<std::string, std::string>> parallel;  // {"tensor", "8"}
  std::vector<std::pair<std::string, std::string>> memory;    // {"optimizer", "host"}
  int64_t resident = 0;  // layers on the device at once; 0: as the job says
  // "tensor 8, pipeline 16, data 128, zero1, micro_batch 1"; without any, "all on the device".
  std::string ToText() const;
  bool operator==(const JobWords&) const = default;
};
JobWords InJobWords(const LayoutChoice& layout, const SavedNames& names = SavedNames());

// A term by its name, in seconds; all of them, in the order in which people read them.
std::vector<std::pair<std::string, double>> NamedTerms(const StepTerms& terms);

// "0.31 s a step more: bubble 0.25, tensor 0.09; less: data 0.03".
std::string WhySlower(const RankedPlan& faster, const RankedPlan& slower);
// Of the fastest: what of a step is not computation, what its blocks save where that is chosen by
// value, and what would be faster with more memory.
std::string WhyBest(const SearchRequest& request, const SearchResult& result,
                    const SavedNames& names = SavedNames());
// What blocks save, and what each value that they make again costs and frees, of one device in a
// step: "saved: qkv, attention (3.1 GB); made again: up 12 ms for 5.2 GB". Empty: the software
// knows modes only.
std::string WhySaved(const SearchRequest& request, const LayoutChoice& layout);

}  // namespace strata::planner

#endif  // STRATA_PLANNER_SEARCH_EXPLAIN_H_
