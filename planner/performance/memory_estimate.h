// Bytes of device memory that a step needs at its peak, in closed form (arXiv:2205.05198, section
// 4, without the scores, which fused attention does not keep).
#ifndef STRATA_PLANNER_PERFORMANCE_MEMORY_ESTIMATE_H_
#define STRATA_PLANNER_PERFORMANCE_MEMORY_ESTIMATE_H_

#include "planner/performance/machine.h"
#include "planner/performance/shape.h"

namespace strata::planner {

struct StageParameters;

// Saved by one layer's forward of one micro-batch on one device for its backward; the layers' mean,
// where what they save differs.
double ActivationBytes(const Software& software, const TrainingShape& shape,
                       const LayoutChoice& layout);

// Of that, by value; the layer's input is kept besides.
ByValue<double> ValueBytes(const TrainingShape& shape, const LayoutChoice& layout);

// Micro-batches of which the first stage holds activations, in units of its layers
// (arXiv:2205.05198, section 4.2.3).
double MicroBatchesHeld(const LayoutChoice& layout);

// Of the fullest device: parameters, gradients, states, activations, the loss, and what the runtime
// and the collectives hold. Where host and device are one memory, all is there wherever it lives.
double MemoryEstimate(const Machine& machine, const TrainingShape& shape,
                      const LayoutChoice& layout, const StageParameters& parameters);

// Of the host, for one device: states and activations that live there. None where it is the device.
double HostEstimate(const Machine& machine, const TrainingShape& shape, const LayoutChoice& layout,
                    const StageParameters& parameters);

}  // namespace strata::planner

#endif  // STRATA_PLANNER_PERFORMANCE_MEMORY_ESTIMATE_H_
