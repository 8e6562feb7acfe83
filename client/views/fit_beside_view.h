// What stands beside a memory report: how much more fits, and what another system would hold.
#ifndef STRATA_CLIENT_VIEWS_FIT_BESIDE_VIEW_H_
#define STRATA_CLIENT_VIEWS_FIT_BESIDE_VIEW_H_

#include <string>
#include <vector>

#include "client/views/structured.h"
#include "planner/fit/largest.h"
#include "planner/fit/zero_infinity.h"

namespace strata::client {

// What --max found: one line, and `largest` for programs.
std::string LargestText(planner::Quantity quantity, const planner::Largest& largest);
Json LargestJson(planner::Quantity quantity, const planner::Largest& largest);

// Strata's host memory of the request beside ZeRO-Infinity's.
struct Against {
  planner::ZeroInfinityOptions options;
  planner::ZeroInfinityModel model;
  std::vector<planner::HostItem> items;
  planner::TierBytes host;  // of Strata's fullest rank
};
std::string AgainstText(const Against& against);
Json AgainstJson(const Against& against);

}  // namespace strata::client

#endif  // STRATA_CLIENT_VIEWS_FIT_BESIDE_VIEW_H_
