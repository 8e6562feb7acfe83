// Why no layout is legal: which pin is to blame, and what it may be.
#ifndef STRATA_PLANNER_SEARCH_WHY_NONE_H_
#define STRATA_PLANNER_SEARCH_WHY_NONE_H_

#include <string>

#include "planner/search/search.h"

namespace strata::planner {

// Requires that the request has no legal layout.
std::string WhyNoLayout(const SearchRequest& request);

}  // namespace strata::planner

#endif  // STRATA_PLANNER_SEARCH_WHY_NONE_H_
