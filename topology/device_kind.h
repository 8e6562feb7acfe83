// What the tree calls kinds of devices.
#ifndef STRATA_TOPOLOGY_DEVICE_KIND_H_
#define STRATA_TOPOLOGY_DEVICE_KIND_H_

#include <string>

#include "absl/strings/string_view.h"

namespace strata::topology {

// "NVIDIA-H100-80GB-HBM3" is h100, "Tesla V100-SXM2" v100, "NVIDIA RTX A6000" rtx-a6000; "gpu" of a
// product without a name.
std::string KindOfProduct(absl::string_view product);

}  // namespace strata::topology

#endif  // STRATA_TOPOLOGY_DEVICE_KIND_H_
