// A cluster's map as people and programs see it.
#ifndef STRATA_CLIENT_VIEWS_TOPOLOGY_VIEW_H_
#define STRATA_CLIENT_VIEWS_TOPOLOGY_VIEW_H_

#include <string>

#include "client/views/structured.h"
#include "proto/strata/v1/cluster.pb.h"
#include "topology/cluster.h"

namespace strata::client {

// Totals, a table of levels with their links, and a tree as deep as fits into about 60 lines.
std::string TopologyTree(const topology::Cluster& cluster, bool unicode);

// NAME, one column per level, DEVICE DEVICES FREE HEALTHY; the first nodes of many.
std::string TopologyTable(const topology::Cluster& cluster);

// levels, domain_level, pipeline_level, links; `groups` counts per level; nodes as in the file.
Json ToJson(const topology::Cluster& cluster);

// The map of a running cluster.
topology::Description DescribeTopology(const v1::Topology& map);

}  // namespace strata::client

#endif  // STRATA_CLIENT_VIEWS_TOPOLOGY_VIEW_H_
