// Times that were measured at some sizes, and what they say of sizes between and beyond them.
#ifndef STRATA_PLANNER_COST_MEASURED_TIMES_H_
#define STRATA_PLANNER_COST_MEASURED_TIMES_H_

#include <map>
#include <vector>

namespace strata::planner {

// Seconds by one size, such as a message's bytes: straight lines between what was measured, below
// the smallest size its time, beyond the largest the rate of the last two.
class TimesBySize {
 public:
  // Positive seconds. Of a size that was measured twice the later time counts.
  void Add(double size, double seconds) { times_[size] = seconds; }
  bool empty() const { return times_.empty(); }
  // Not when empty.
  double At(double size) const;

 private:
  std::map<double, double> times_;
};

// Seconds of kernels by their shapes: a kernel's rate is that of its nearest shapes.
class TimesByShape {
 public:
  // The sizes that its rate depends on, each as a binary logarithm: a distance of 1 is a factor of
  // two in one of them. All points of a table have as many.
  using Shape = std::vector<double>;

  // `work` (FLOPs or bytes) and `seconds` are positive.
  void Add(Shape shape, double work, double seconds);
  bool empty() const { return points_.empty(); }
  // Not when empty. The weighted mean, by distance, of the nearest shapes' logarithmic seconds per
  // work (Shepard, "A two-dimensional interpolation function for irregularly-spaced data", ACM
  // 1968); a shape that was measured has its own.
  double At(const Shape& shape, double work) const;

 private:
  struct Point {
    Shape shape;
    double log_pace;  // seconds per work
  };
  std::vector<Point> points_;
};

}  // namespace strata::planner

#endif  // STRATA_PLANNER_COST_MEASURED_TIMES_H_
