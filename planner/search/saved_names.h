// The kinds of values that a block may keep (planner/performance/saved_values.h) by the names that
// a job's parallel.recompute.save has for them.
#ifndef STRATA_PLANNER_SEARCH_SAVED_NAMES_H_
#define STRATA_PLANNER_SEARCH_SAVED_NAMES_H_

#include <optional>
#include <string>
#include <vector>

#include "model/model_spec.h"
#include "planner/performance/shape.h"
#include "proto/strata/v1/job.pb.h"

namespace strata::planner {

// The kind that a name of any family (model::NamesOfSavableValues) belongs to. Nothing: what the
// closed form has no kind for, such as outputs of the last product that a norm reads.
std::optional<SavedValue> KindOfValue(const std::string& name);

// Of a family, in the order in which its blocks make them. Of a kind several names may stand for
// one value: saving is by those from which the rest is made without FLOPs.
class SavedNames {
 public:
  explicit SavedNames(model::Family family = model::Family::kLlama);

  // What save: lists; what has no kind is kept wherever anything is. "all": everything.
  std::vector<std::string> ListOf(SavedValues values) const;
  // The kinds of which a list has all that ListOf would have.
  SavedValues ValuesOf(const std::vector<std::string>& list) const;

 private:
  struct Name {
    std::string name;
    std::optional<SavedValue> kind;
  };
  std::vector<Name> names_;
};

// What a job says of it. Of a layout that only the closed form knows (operators): selective.
v1::RecomputeSpec RecomputeOf(const LayoutChoice& layout, const SavedNames& names);
// And back, for a model of so many layers, of which any that a list is for count as the first.
void SetRecompute(const v1::RecomputeSpec& spec, const SavedNames& names, int64_t layers,
                  LayoutChoice& layout);

// As a job file has it: "none", "{save: [qkv, attention], layers: 0-11}".
std::string RecomputeText(const v1::RecomputeSpec& spec);

}  // namespace strata::planner

#endif  // STRATA_PLANNER_SEARCH_SAVED_NAMES_H_
