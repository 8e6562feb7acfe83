// Pages of lists (AIP-158): tokens are opaque to clients and refused when they are not ours.
#ifndef STRATA_CONTROLLER_SERVICE_REQUESTS_PAGES_H_
#define STRATA_CONTROLLER_SERVICE_REQUESTS_PAGES_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"

namespace strata::controller {

struct Page {
  std::string after;  // the last name of the page before; empty: from the beginning
  int32_t size = 0;
};

inline constexpr int32_t kDefaultPage = 100;
inline constexpr int32_t kLargestPage = 1000;
// A page ends early when its resources fill this many bytes (but has at least one).
inline constexpr size_t kMostPageBytes = size_t{2} << 20;

// `list`: "jobs", "nodes": a token of one is none of another. InvalidArgument, naming the field.
absl::StatusOr<Page> ReadPage(const std::string& list, int32_t page_size, const std::string& token);
std::string PageToken(const std::string& list, const std::string& last_name);

}  // namespace strata::controller

#endif  // STRATA_CONTROLLER_SERVICE_REQUESTS_PAGES_H_
