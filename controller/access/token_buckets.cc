#include "controller/access/token_buckets.h"

#include <algorithm>
#include <utility>

namespace strata::controller {

bool TokenBuckets::Take(const std::string& caller, const Rate& rate, double now) {
  if (buckets_.size() >= kMostCallers && !buckets_.contains(caller)) {
    // Whose turn was longest ago has his whole bucket again, or soon.
    buckets_.erase(
        std::min_element(buckets_.begin(), buckets_.end(),
                         [](const auto& a, const auto& b) { return a.second.at < b.second.at; }));
  }
  Bucket& bucket = buckets_.try_emplace(caller, Bucket{rate.burst, now}).first->second;
  const double passed = std::max(0.0, now - std::exchange(bucket.at, now));
  bucket.left = std::min(rate.burst, bucket.left + passed * rate.per_second);
  if (bucket.left < 1) return false;
  --bucket.left;
  return true;
}

}  // namespace strata::controller
