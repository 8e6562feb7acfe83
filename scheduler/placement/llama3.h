// The published case: Llama 3 405B (Meta, 2024, §3.3) on 8 zones of 3,072 devices with 1:7
// oversubscription between them. For tests and benchmarks.
#ifndef STRATA_SCHEDULER_PLACEMENT_LLAMA3_H_
#define STRATA_SCHEDULER_PLACEMENT_LLAMA3_H_

#include "scheduler/placement/placement.h"
#include "topology/cluster.h"

namespace strata::scheduler {

// Zones of racks of two nodes of eight devices; each node is a domain. Names are neither padded
// nor in the order of the tree.
topology::Cluster PodsOf(int zones, int racks, const std::string& kind = "h100");

// Tensor 8, pipeline 16 without virtual stages, data 128: 16,384 ranks, 16 micro-batches of 8,192
// tokens each.
Shape Llama3Shape();

}  // namespace strata::scheduler

#endif  // STRATA_SCHEDULER_PLACEMENT_LLAMA3_H_
