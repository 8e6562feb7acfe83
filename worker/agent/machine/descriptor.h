#ifndef STRATA_WORKER_AGENT_MACHINE_DESCRIPTOR_H_
#define STRATA_WORKER_AGENT_MACHINE_DESCRIPTOR_H_

#include "common/descriptor.h"

namespace strata::worker {

using common::Descriptor;

}  // namespace strata::worker

#endif  // STRATA_WORKER_AGENT_MACHINE_DESCRIPTOR_H_
