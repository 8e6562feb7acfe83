// Weights and moments in every format, for the tests of updates.
#ifndef STRATA_KERNELS_CPU_UPDATE_TESTING_H_
#define STRATA_KERNELS_CPU_UPDATE_TESTING_H_

#include <vector>

#include "kernels/cpu/test_util.h"
#include "kernels/optimizer_update.h"

namespace strata::kernels::testing {

// What an update works on, with the memory for it.
class OwnNumbers {
 public:
  OwnNumbers(int64_t count, NumberType type, MasterFormat master,
             const std::vector<MomentFormat>& moments)
      : count_(count), weights_(count * 4), master_(count * 4), gradient_(count * 4) {
    numbers_.weights = {type, master, weights_.data(), master_.data()};
    for (size_t m = 0; m < moments.size(); ++m) {
      moments_[m].resize(MomentBytes(moments[m], count));
      numbers_.moments[m] = {moments[m], moments_[m].data(), count};
      WriteMoments(numbers_.moments[m], 0, count, Floats(count).data());
    }
    numbers_.gradient = gradient_.data();
    numbers_.next_weights = numbers_.weights;
    numbers_.next_moments = numbers_.moments;
  }
  OwnNumbers(const OwnNumbers&) = delete;
  OwnNumbers& operator=(const OwnNumbers&) = delete;

  void SetWeights(const Floats& values) { WriteMaster(numbers_.weights, 0, count_, values.data()); }
  void SetGradient(const Floats& values) {
    std::memcpy(gradient_.data(), values.data(), count_ * sizeof(float));
  }
  Floats Masters() const {
    Floats values(count_);
    ReadMaster(numbers_.weights, 0, count_, values.data());
    return values;
  }
  Floats Weights() const {  // as kernels read them
    Floats values(count_);
    ReadNumbers(numbers_.weights.type, weights_.data(), 0, count_, values.data());
    return values;
  }
  Floats Moment(int m) const {
    Floats values(count_);
    ReadMoments(numbers_.moments[m], 0, count_, values.data());
    return values;
  }
  NumbersOfUpdate& numbers() { return numbers_; }

 private:
  const int64_t count_;
  std::vector<std::byte> weights_, master_, gradient_, moments_[kMostMoments];
  NumbersOfUpdate numbers_;
};

}  // namespace strata::kernels::testing

#endif  // STRATA_KERNELS_CPU_UPDATE_TESTING_H_
