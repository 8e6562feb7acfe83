// This host's name, as profiles and traces have it.
#ifndef STRATA_COMMON_HOST_NAME_H_
#define STRATA_COMMON_HOST_NAME_H_

#include <unistd.h>

#include <string>

namespace strata::common {

// Empty: the system does not say.
inline std::string HostName() {
  char name[256] = {};
  return gethostname(name, sizeof(name) - 1) == 0 ? name : "";
}

}  // namespace strata::common

#endif  // STRATA_COMMON_HOST_NAME_H_
