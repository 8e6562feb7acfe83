#include "program/passes/order.h"

#include <vector>

#include "gtest/gtest.h"
#include "program/testing/random_program.h"

namespace strata::program {
namespace {

// The transitive closure, kept as a matrix.
class Closure {
 public:
  void Add(Stream stream, const std::vector<int>& before) {
    const int id = static_cast<int>(streams_.size());
    before_.emplace_back(id, false);
    for (int n = 0; n < id; ++n) {
      if (streams_[n] == stream) AddEdge(n, id);
    }
    streams_.push_back(stream);
    for (const int earlier : before) AddEdge(earlier, id);
  }
  void AddEdge(int earlier, int later) {
    before_[later][earlier] = true;
    for (int n = 0; n < earlier; ++n) {
      if (before_[earlier][n]) before_[later][n] = true;
    }
  }
  bool Has(int earlier, int later) const { return earlier < later && before_[later][earlier]; }

 private:
  std::vector<Stream> streams_;
  std::vector<std::vector<bool>> before_;
};

TEST(OrderTest, EqualsTheTransitiveClosureOfRandomGraphs) {
  for (uint64_t seed = 0; seed < 60; ++seed) {
    Dice dice(seed);
    const int streams = 1 + dice(kStreamCount), nodes = 2 + dice(60);
    Order order;
    Closure closure;
    for (int n = 0; n < nodes; ++n) {
      const Stream stream = static_cast<Stream>(dice(streams));
      std::vector<int> before;
      while (n > 0 && dice.OneIn(2)) before.push_back(dice(n));
      ASSERT_EQ(order.Add(stream, before), n);
      closure.Add(stream, before);
      while (n > 0 && dice.OneIn(4)) {
        const int earlier = dice(n);
        order.AddEdge(earlier, n);
        closure.AddEdge(earlier, n);
      }
    }
    for (int a = 0; a < nodes; ++a) {
      for (int b = 0; b < nodes; ++b) {
        ASSERT_EQ(order.HappensBefore(a, b), a == b || closure.Has(a, b))
            << "seed " << seed << ": " << a << " " << b;
      }
    }
  }
}

TEST(OrderTest, StreamOrderIsImpliedAndStreamsAreIndependentWithoutDependencies) {
  Order order;
  const int a = order.Add(Stream::kCompute, {}), b = order.Add(Stream::kTensor, {});
  const int c = order.Add(Stream::kCompute, {}), d = order.Add(Stream::kTensor, {c});
  EXPECT_TRUE(order.HappensBefore(a, c));
  EXPECT_TRUE(order.HappensBefore(a, d));
  EXPECT_FALSE(order.HappensBefore(a, b));
  EXPECT_FALSE(order.HappensBefore(b, c));
  EXPECT_FALSE(order.HappensBefore(d, c));
}

TEST(OrderTest, EdgeToAnOlderNodeIsRefused) {
  Order order;
  const int a = order.Add(Stream::kCompute, {}), b = order.Add(Stream::kTensor, {});
  order.Add(Stream::kHost, {});
  EXPECT_DEATH(order.AddEdge(a, b), "");
}

}  // namespace
}  // namespace strata::program
