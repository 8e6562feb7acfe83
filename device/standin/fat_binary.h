// What nvcc's host code registers before main: the PTX of each source, the kernels and the device
// variables in it, by the addresses of their host twins.
#ifndef STRATA_DEVICE_STANDIN_FAT_BINARY_H_
#define STRATA_DEVICE_STANDIN_FAT_BINARY_H_

#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace strata::standin {

struct Registered {
  size_t module;
  std::string name;  // mangled
};

struct Registry {
  std::vector<std::string_view> modules;  // PTX; empty: none without compression was there
  std::map<const void*, Registered> kernels, variables;
};

Registry& TheRegistry();

}  // namespace strata::standin

#endif  // STRATA_DEVICE_STANDIN_FAT_BINARY_H_
