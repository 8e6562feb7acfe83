// For tests: whether a page is in Prometheus' text format (version 0.0.4) and keeps the naming
// rules that `promtool check metrics` asks for, and ours: the prefix strata_, base units.
#ifndef STRATA_CONTROLLER_METRICS_EXPOSITION_CHECK_H_
#define STRATA_CONTROLLER_METRICS_EXPOSITION_CHECK_H_

#include <string>
#include <vector>

namespace strata::controller {

// One line per problem; empty: the page is good.
std::vector<std::string> ExpositionProblems(const std::string& page);

}  // namespace strata::controller

#endif  // STRATA_CONTROLLER_METRICS_EXPOSITION_CHECK_H_
