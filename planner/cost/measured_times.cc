#include "planner/cost/measured_times.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <utility>

namespace strata::planner {
namespace {

constexpr size_t kNearest = 4;
// Of squared distances: a shape this close to one that was measured has its rate.
constexpr double kSame = 1e-6;

}  // namespace

double TimesBySize::At(double size) const {
  auto above = times_.lower_bound(size);
  if (above == times_.begin()) return above->second;
  if (above == times_.end()) --above;
  if (above == times_.begin()) return above->second * size / above->first;  // there is but one
  const auto below = std::prev(above);
  const double slope = (above->second - below->second) / (above->first - below->first);
  // Noise may have it that more takes less time.
  return std::max(below->second, below->second + slope * (size - below->first));
}

void TimesByShape::Add(Shape shape, double work, double seconds) {
  points_.push_back({std::move(shape), std::log(seconds / work)});
}

double TimesByShape::At(const Shape& shape, double work) const {
  std::vector<std::pair<double, double>> found;  // squared distance, pace
  found.reserve(points_.size());
  for (const Point& point : points_) {
    double distance = 0;
    for (size_t d = 0; d < shape.size(); ++d) {
      distance += (point.shape[d] - shape[d]) * (point.shape[d] - shape[d]);
    }
    found.emplace_back(distance, point.log_pace);
  }
  const size_t kept = std::min(kNearest, found.size());
  std::partial_sort(found.begin(), found.begin() + kept, found.end());
  double sum = 0, weights = 0;
  for (size_t i = 0; i < kept; ++i) {
    const double weight = 1 / (found[i].first + kSame);
    sum += weight * found[i].second;
    weights += weight;
  }
  return work * std::exp(sum / weights);
}

}  // namespace strata::planner
