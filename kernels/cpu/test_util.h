// What the kernels' tests share: data, buffers, comparison, and running one kernel with several
// numbers of threads.
#ifndef STRATA_KERNELS_CPU_TEST_UTIL_H_
#define STRATA_KERNELS_CPU_TEST_UTIL_H_

#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <vector>

#include "common/rng.h"
#include "gtest/gtest.h"
#include "kernels/context.h"
#include "kernels/number_types.h"

namespace strata::kernels::testing {

using Floats = std::vector<float>;
using Doubles = std::vector<double>;

inline Floats Random(int64_t count, uint64_t key, float scale = 1) {
  Floats values(count);
  for (int64_t i = 0; i < count; ++i) values[i] = scale * common::NormalAt(key, i);
  return values;
}

inline Doubles Widen(const Floats& values) { return Doubles(values.begin(), values.end()); }

// Numbers of a type, and back; exact where the values have come from that type.
template <typename T>
std::vector<T> As(const Floats& values) {
  std::vector<T> result;
  for (const float value : values) result.push_back(FromFloat<T>(value));
  return result;
}
template <typename T>
Floats Back(const std::vector<T>& values) {
  Floats result;
  for (const T value : values) result.push_back(ToFloat(value));
  return result;
}
// Random numbers that the type has.
template <typename T>
std::vector<T> RandomOf(int64_t count, uint64_t key, float scale = 1) {
  return As<T>(Random(count, key, scale));
}
template <typename T>
Doubles WidenOf(const std::vector<T>& values) {
  return Widen(Back(values));
}

// The largest relative error of one rounding to a type of 16 bits; of f32 it is in tolerances.
template <typename T>
constexpr double kRounding = 0;
template <>
constexpr double kRounding<BFloat16> = 1.0 / 256;
template <>
constexpr double kRounding<Float16> = 1.0 / 2048;

// Workspace of exactly the size asked for, so that sanitizers see a kernel that needs more; filled
// with NaN, so that a kernel that reads what it has not written shows it.
class Workspace {
 public:
  explicit Workspace(int64_t bytes) {
    const int64_t padded =
        (bytes + kWorkspaceAlignment - 1) / kWorkspaceAlignment * kWorkspaceAlignment;
    memory_.reset(std::aligned_alloc(kWorkspaceAlignment, padded));
    std::memset(memory_.get(), 0xff, padded);
  }
  void* get() const { return memory_.get(); }

 private:
  struct Free {
    void operator()(void* memory) const { std::free(memory); }
  };
  std::unique_ptr<void, Free> memory_;
};

// |actual - expected| <= tolerance * (largest |expected|).
template <typename Actual>
void ExpectClose(const Actual& actual, const Doubles& expected, double tolerance) {
  ASSERT_EQ(actual.size(), expected.size());
  double largest = 1e-30;
  for (const double value : expected) largest = std::max(largest, std::abs(value));
  for (size_t i = 0; i < expected.size(); ++i) {
    ASSERT_LE(std::abs(actual[i] - expected[i]), tolerance * largest)
        << "at " << i << ": " << actual[i] << ", expected " << expected[i];
  }
}

// The same, with one rounding to T besides.
template <typename T>
void ExpectRounded(const Floats& actual, const Doubles& expected, double tolerance) {
  ASSERT_EQ(actual.size(), expected.size());
  double largest = 1e-30;
  for (const double value : expected) largest = std::max(largest, std::abs(value));
  for (size_t i = 0; i < expected.size(); ++i) {
    const double rounding = kRounding<T> * std::abs(expected[i]) + (kRounding<T> > 0 ? 0x1p-25 : 0);
    ASSERT_LE(std::abs(actual[i] - expected[i]), tolerance * largest + rounding * 1.001)
        << "at " << i << ": " << actual[i] << ", expected " << expected[i];
  }
}

inline bool SameBits(const Floats& a, const Floats& b) {
  return a.size() == b.size() &&
         (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0);
}

// Runs the kernel, which returns all it computed, with 1, 2 and 3 threads; expects the same bits.
inline Floats RunWithThreads(const std::function<Floats(const Context&)>& kernel) {
  Floats first;
  for (const int threads : {1, 2, 3}) {
    device::ThreadPool pool(threads);
    const Context context{&pool};
    Floats result = kernel(context);
    if (threads == 1) {
      first = std::move(result);
    } else {
      EXPECT_TRUE(SameBits(first, result)) << "with " << threads << " threads";
    }
  }
  return first;
}

// One after the other.
inline Floats Concat(std::initializer_list<Floats> parts) {
  Floats all;
  for (const Floats& part : parts) all.insert(all.end(), part.begin(), part.end());
  return all;
}
inline Doubles Concat(std::initializer_list<Doubles> parts) {
  Doubles all;
  for (const Doubles& part : parts) all.insert(all.end(), part.begin(), part.end());
  return all;
}

// The derivative of `value` by each element of x, by central differences in double precision.
inline Doubles FiniteDifferences(Doubles x, const std::function<double(const Doubles&)>& value) {
  constexpr double kStep = 1e-5;
  Doubles gradient(x.size());
  for (size_t i = 0; i < x.size(); ++i) {
    const double at = x[i];
    x[i] = at + kStep;
    const double above = value(x);
    x[i] = at - kStep;
    gradient[i] = (above - value(x)) / (2 * kStep);
    x[i] = at;
  }
  return gradient;
}

inline double Dot(const Doubles& a, const Doubles& b) {
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return sum;
}

}  // namespace strata::kernels::testing

#endif  // STRATA_KERNELS_CPU_TEST_UTIL_H_
