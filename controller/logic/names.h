// Resource names: jobs/NAME and nodes/NAME.
#ifndef STRATA_CONTROLLER_LOGIC_NAMES_H_
#define STRATA_CONTROLLER_LOGIC_NAMES_H_

#include <string>

#include "absl/status/status.h"

namespace strata::controller {

// OK for jobs/NAME with NAME = [a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?; else says what to do.
absl::Status CheckJobName(const std::string& name);

// nodes/NAME from NAME or nodes/NAME; empty when NAME is not [A-Za-z0-9][-A-Za-z0-9._]{0,62}.
std::string NodeName(const std::string& name);

// What people call it: without jobs/ or nodes/.
std::string ShortName(const std::string& resource);

}  // namespace strata::controller

#endif  // STRATA_CONTROLLER_LOGIC_NAMES_H_
