// What `strata simulate` prints of a report.
#ifndef STRATA_CLIENT_VIEWS_SIMULATION_VIEW_H_
#define STRATA_CLIENT_VIEWS_SIMULATION_VIEW_H_

#include <string>
#include <vector>

#include "client/views/structured.h"
#include "controller/simulator/report.h"

namespace strata::client {

Json ToJson(const simulator::Report& report);
std::string SimulationText(const simulator::Report& report);

// The same cluster, jobs and failures with a buffer of one size.
struct BufferOutcome {
  std::string size;  // as it was asked for: "2", "5%"
  simulator::Report report;
};
// Of several sizes, in every group of `level`; without the single jobs.
Json BuffersJson(const std::vector<BufferOutcome>& outcomes, const std::string& level);
std::string BuffersText(const std::vector<BufferOutcome>& outcomes, const std::string& level);

}  // namespace strata::client

#endif  // STRATA_CLIENT_VIEWS_SIMULATION_VIEW_H_
