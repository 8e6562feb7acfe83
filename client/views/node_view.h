// Nodes as people and programs see them.
#ifndef STRATA_CLIENT_VIEWS_NODE_VIEW_H_
#define STRATA_CLIENT_VIEWS_NODE_VIEW_H_

#include <string>
#include <vector>

#include "client/views/structured.h"
#include "proto/strata/v1/cluster.pb.h"

namespace strata::client {

// name, state, device, devices, free, jobs, locality, address, incarnation (hexadecimal), and when
// its agent was last heard; drained, quarantined, quarantine_reason; unhealthy_devices (index:
// why); host_memory_bytes and device_memory_bytes, which ranks may use (null: not known).
Json ToJson(const v1::Node& node);

// NAME STATE DEVICE DEVICES FREE JOBS HEARD. `wall_seconds`: now, since 1970.
std::string NodeTable(const std::vector<v1::Node>& nodes, double wall_seconds);

// Everything, for people.
std::string DescribeNode(const v1::Node& node, double wall_seconds);

// "READY", "READY,DRAINED", "LOST,QUARANTINED".
std::string NodeStateText(const v1::Node& node);

}  // namespace strata::client

#endif  // STRATA_CLIENT_VIEWS_NODE_VIEW_H_
