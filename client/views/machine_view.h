// What the probe found on this machine, as people and programs see it.
#ifndef STRATA_CLIENT_VIEWS_MACHINE_VIEW_H_
#define STRATA_CLIENT_VIEWS_MACHINE_VIEW_H_

#include <string>

#include "client/views/structured.h"
#include "topology/probe/probe.h"

namespace strata::client {

// One table; each accelerator with the adapter nearest to it.
std::string MachineText(const topology::Machine& machine);
Json ToJson(const topology::Machine& machine);

}  // namespace strata::client

#endif  // STRATA_CLIENT_VIEWS_MACHINE_VIEW_H_
