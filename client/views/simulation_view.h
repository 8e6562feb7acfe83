// What `strata simulate` prints of a report.
#ifndef STRATA_CLIENT_VIEWS_SIMULATION_VIEW_H_
#define STRATA_CLIENT_VIEWS_SIMULATION_VIEW_H_

#include <string>

#include "client/views/structured.h"
#include "controller/simulator/report.h"

namespace strata::client {

Json ToJson(const simulator::Report& report);
std::string SimulationText(const simulator::Report& report);

}  // namespace strata::client

#endif  // STRATA_CLIENT_VIEWS_SIMULATION_VIEW_H_
