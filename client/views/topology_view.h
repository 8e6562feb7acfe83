// A cluster's map as people and programs see it.
#ifndef STRATA_CLIENT_VIEWS_TOPOLOGY_VIEW_H_
#define STRATA_CLIENT_VIEWS_TOPOLOGY_VIEW_H_

#include <string>
#include <vector>

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

// What the nodes of a running cluster say about where they are. Levels are ordered by their names
// where these are usual (region, zone, …, rack, domain), others lie between, fewer values further
// out. Of `free`, only the count is known.
topology::Description DescribeNodes(const std::vector<v1::Node>& nodes);

}  // namespace strata::client

#endif  // STRATA_CLIENT_VIEWS_TOPOLOGY_VIEW_H_
