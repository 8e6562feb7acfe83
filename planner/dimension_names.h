// How people and files call the dimensions of a layout, where there are shard groups or not.
#ifndef STRATA_PLANNER_DIMENSION_NAMES_H_
#define STRATA_PLANNER_DIMENSION_NAMES_H_

#include "planner/traffic.h"

namespace strata::planner {

inline int64_t DegreeIn(const Degrees& degrees, Dimension dimension) {
  return degrees[static_cast<size_t>(dimension)];
}
inline bool HasShardGroups(const Degrees& degrees) {
  return DegreeIn(degrees, Dimension::kReplicate) > 1;
}
// With shard groups `data` is the whole of both its parts, and kData is called "shard".
inline const char* NameIn(const Degrees& degrees, Dimension dimension) {
  const bool part = dimension == Dimension::kData && HasShardGroups(degrees);
  return part ? "shard" : NameOf(dimension);
}
// Those always told, and others that the layout has.
inline bool IsTold(const Degrees& degrees, Dimension dimension) {
  const bool rare = dimension == Dimension::kExpert || dimension == Dimension::kReplicate;
  return !rare || DegreeIn(degrees, dimension) > 1;
}

}  // namespace strata::planner

#endif  // STRATA_PLANNER_DIMENSION_NAMES_H_
