// A machine with round figures, and a model and layout to step on it.
#ifndef STRATA_PLANNER_PERFORMANCE_PERFORMANCE_TESTING_H_
#define STRATA_PLANNER_PERFORMANCE_PERFORMANCE_TESTING_H_

#include "planner/performance/machine.h"
#include "planner/performance/shape.h"

namespace strata::planner {

// 100 processors, 100 TFLOP/s in 16 bits and 1 TB/s, all of which kernels reach; links of 100 and
// 10 GB/s, all of which messages reach; everything exposed, no overhead.
inline Machine RoundMachine() {
  Machine machine;
  machine.gpu.name = "round";
  machine.gpu.processors = 100;
  machine.gpu.memory_bytes = 80e9;
  machine.gpu.memory_rate = 1e12;
  machine.gpu.peak = {50e12, 100e12, 200e12, 200e12, 400e12};
  machine.network = {.node_devices = 8,
                     .domain_devices = 8,
                     .domain_rate = 100e9,
                     .domain_efficiency = 1,
                     .network_rate = 10e9,
                     .network_efficiency = 1,
                     .host_rate = 20e9,
                     .page_rate = 10e9,
                     .disk_rate = 2e9};
  machine.software.pipeline_overlap = false;
  machine.software.data_overlap = false;
  machine.software.graphs = true;
  machine.calibration = {1, 1, 1, 1, 0, 0};
  return machine;
}

inline TrainingShape SmallShape() {
  TrainingShape shape;
  shape.layers = 32;
  shape.hidden = 4096;
  shape.heads = 32;
  shape.kv_heads = 8;
  shape.head_dim = 128;
  shape.ffn = 14336;
  shape.gated = true;
  shape.vocab = 128256;
  shape.sequence_length = 8192;
  return shape;
}

inline LayoutChoice SmallLayout() {
  LayoutChoice layout;
  layout.tensor = 2;
  layout.pipeline = 2;
  layout.data = 16;
  layout.sequence_parallel = true;
  layout.global_batch = 256;
  return layout;
}

}  // namespace strata::planner

#endif  // STRATA_PLANNER_PERFORMANCE_PERFORMANCE_TESTING_H_
