// Memory reports, for people and for programs.
#ifndef STRATA_CLIENT_VIEWS_FIT_VIEW_H_
#define STRATA_CLIENT_VIEWS_FIT_VIEW_H_

#include <string>
#include <vector>

#include "client/views/structured.h"
#include "planner/fit/ways.h"

namespace strata::client {

// What a report shows. Pointers may be null and outlive the call.
struct FitShown {
  std::string title;
  const planner::FitRequest* request = nullptr;
  const planner::Fit* fit = nullptr;
  const std::vector<planner::Way>* ways = nullptr;
  double seconds = -1;    // of a step of the request; negative: not known
  double price = 0;       // of one device and hour; 0: not given
  double run_tokens = 0;  // of the whole run; 0: not given
  bool arithmetic = false;
  bool unicode = true;  // bars of blocks, else of #
};

std::string FitText(const FitShown& shown);
// Money per 10⁹ tokens of steps that take so many seconds; negative: not known.
double PricePerBillion(const planner::FitRequest& request, int ranks, double seconds, double price);

// {fits, device: {name, bytes, host_bytes, …}, ranks: [{rank, tiers: {TIER: {CLASS: bytes}}}],
// worst, ways: [{parallel, memory, train, seconds, text}], seconds, …}; seconds is null where no
// model of time knows the device or the job. With a price also price_per_billion_tokens, of the
// request and of ways, and price_of_run.
Json FitJson(const FitShown& shown);

}  // namespace strata::client

#endif  // STRATA_CLIENT_VIEWS_FIT_VIEW_H_
