// Numbers of updates in any formats, on the host and in device memory, for the tests of updates.
#ifndef STRATA_KERNELS_CUDA_UPDATE_TESTING_H_
#define STRATA_KERNELS_CUDA_UPDATE_TESTING_H_

#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "kernels/cuda/testing.h"
#include "kernels/cuda/update.h"

namespace strata::kernels::cuda {

struct UpdateFormats {
  NumberType gradient = NumberType::kF32, weights = NumberType::kF32;
  MasterFormat master = MasterFormat::kNone;
  std::vector<MomentFormat> moments;

  std::string Text() const {
    std::string text =
        absl::StrCat("gradient ", static_cast<int>(gradient), " weights ",
                     static_cast<int>(weights), " master ", static_cast<int>(master), " moments");
    for (const MomentFormat format : moments) absl::StrAppend(&text, " ", static_cast<int>(format));
    return text;
  }
};

inline int64_t BytesOf(NumberType type) { return type == NumberType::kF32 ? 4 : 2; }

// Every format of weights and gradients with each of `moments`.
inline std::vector<UpdateFormats> AllFormats(
    const std::vector<std::vector<MomentFormat>>& moments) {
  std::vector<UpdateFormats> all;
  for (const NumberType gradient : {NumberType::kF32, NumberType::kBF16}) {
    for (const std::vector<MomentFormat>& of : moments) {
      all.push_back({gradient, NumberType::kF32, MasterFormat::kNone, of});
      all.push_back({gradient, NumberType::kBF16, MasterFormat::kF32, of});
      all.push_back({gradient, NumberType::kBF16, MasterFormat::kRemainder, of});
      all.push_back({gradient, NumberType::kF16, MasterFormat::kF32, of});
    }
  }
  return all;
}

// Version s of all numbers and the places of s + 1, which may be the same, as bytes. Each array
// begins `skip` elements after an aligned address.
struct UpdateBytes {
  using Bytes = std::vector<std::byte>;

  // Numbers of all magnitudes that the formats have; second moments are squares.
  UpdateBytes(const UpdateFormats& formats, int64_t count, int64_t skip = 0)
      : formats(formats), count(count), skip(skip) {
    const auto spread = [count](uint64_t key, int decades, int highest) {
      Floats values = testing::Random(count, key);
      for (int64_t i = 0; i < count; ++i) {
        values[i] *= std::pow(10.F, static_cast<float>(highest - i % decades));
      }
      return values;
    };
    arrays.resize(3 + formats.moments.size());
    for (size_t a = 0; a < arrays.size(); ++a) arrays[a].resize(skip * 4 + SizeOf(a));
    next = arrays;
    const NumbersOfUpdate at = Numbers(&Data);
    WriteNumbers(formats.gradient, spread(1, 9, 1));
    WriteMaster(at.weights, 0, count, spread(2, 12, 5).data());
    for (size_t m = 0; m < formats.moments.size(); ++m) {
      Floats values = spread(3 + m, 9, 0);
      if (m == 1) {
        for (float& value : values) value *= value;
      }
      // A block without gradient or history.
      if (count >= 512) std::fill(values.begin() + 256, values.begin() + 512, 0.F);
      WriteMoments(at.moments[m], 0, count, values.data());
    }
    for (size_t a = 1; a < arrays.size(); ++a) next[a].assign(arrays[a].size(), std::byte{0x5a});
  }

  // As an update's kernel takes it, with `place(array, is_next)` the address of its bytes.
  template <typename Place>
  NumbersOfUpdate Numbers(Place place) {
    const auto address = [&](size_t a, bool is_next) {
      return place(is_next ? next[a] : arrays[a]) + skip * ElementBytes(a);
    };
    NumbersOfUpdate numbers;
    numbers.gradient_type = formats.gradient;
    numbers.gradient = address(0, false);
    const bool has_master = formats.master != MasterFormat::kNone;
    numbers.weights = {formats.weights, formats.master, address(1, false),
                       has_master ? address(2, false) : nullptr};
    numbers.next_weights = {formats.weights, formats.master, address(1, true),
                            has_master ? address(2, true) : nullptr};
    for (size_t m = 0; m < formats.moments.size(); ++m) {
      numbers.moments[m] = {formats.moments[m], address(3 + m, false), count};
      numbers.next_moments[m] = {formats.moments[m], address(3 + m, true), count};
    }
    return numbers;
  }
  static std::byte* Data(Bytes& bytes) { return bytes.data(); }

  // What an update leaves in version s + 1.
  template <typename Update>
  std::vector<Bytes> OnTheHost(Update update) {
    const std::vector<Bytes> kept = next;
    update(Numbers(&Data));
    return std::exchange(next, kept);
  }
  // `in_place`: version s + 1 takes the place of s.
  template <typename Update>
  std::vector<Bytes> OnTheDevice(cudaStream_t stream, bool in_place, Update update) {
    std::vector<std::unique_ptr<DeviceArray<std::byte>>> now, then;
    for (const Bytes& bytes : arrays) {
      now.push_back(std::make_unique<DeviceArray<std::byte>>(bytes, stream));
    }
    for (const Bytes& bytes : next) {
      then.push_back(std::make_unique<DeviceArray<std::byte>>(bytes, stream));
    }
    const auto place = [&](Bytes& bytes) {
      const size_t of_next = &bytes - next.data();
      if (of_next >= next.size()) return now[&bytes - arrays.data()]->data();
      return (in_place ? now : then)[of_next]->data();
    };
    update(Numbers(place));
    std::vector<Bytes> after;
    for (size_t a = 0; a < next.size(); ++a) after.push_back((in_place ? now : then)[a]->ToHost());
    return after;
  }

  // Version s + 1 in numbers: weights as kernels read them, masters, then moments.
  std::vector<Floats> Values(std::vector<Bytes> after) {
    std::swap(next, after);
    const NumbersOfUpdate numbers = Numbers(&Data);
    std::vector<Floats> values(2 + formats.moments.size(), Floats(count));
    ReadNumbers(formats.weights, numbers.next_weights.weights, 0, count, values[0].data());
    ReadMaster(numbers.next_weights, 0, count, values[1].data());
    for (size_t m = 0; m < formats.moments.size(); ++m) {
      ReadMoments(numbers.next_moments[m], 0, count, values[2 + m].data());
    }
    std::swap(next, after);
    return values;
  }
  // Version s in the same way, and the gradient.
  std::vector<Floats> Before() { return Values(arrays); }
  Floats Gradient() {
    Floats values(count);
    ReadNumbers(formats.gradient, Numbers(&Data).gradient, 0, count, values.data());
    return values;
  }

  const UpdateFormats formats;
  const int64_t count, skip;
  std::vector<Bytes> arrays, next;  // gradient, weights, master, moments

 private:
  int64_t ElementBytes(size_t a) const {
    if (a == 0) return BytesOf(formats.gradient);
    if (a == 1) return BytesOf(formats.weights);
    if (a == 2) return formats.master == MasterFormat::kRemainder ? 2 : 4;
    return MomentBytes(formats.moments[a - 3], kMomentBlock) / kMomentBlock;
  }
  int64_t SizeOf(size_t a) const {
    if (a == 2 && formats.master == MasterFormat::kNone) return 0;
    return a < 3 ? count * ElementBytes(a) : MomentBytes(formats.moments[a - 3], count);
  }
  void WriteNumbers(NumberType type, const Floats& values) {
    std::byte* const to = arrays[0].data() + skip * BytesOf(type);
    for (int64_t i = 0; i < count; ++i) {
      const BFloat16 rounded = FromFloat<BFloat16>(values[i]);
      std::memcpy(to + i * BytesOf(type),
                  type == NumberType::kF32 ? static_cast<const void*>(&values[i]) : &rounded,
                  BytesOf(type));
    }
  }
};

// The scalar block of an update, in device memory.
class ScalarsOnDevice {
 public:
  ScalarsOnDevice(cudaStream_t stream, double applied, double learning_rate, double clip_factor,
                  double apply = 1)
      : block_({applied, learning_rate, clip_factor, apply}, stream) {}
  // Where `apply` is not 0, or negated.
  UpdateScalars Get(bool negated = false) {
    double* const at = block_.data();
    return {at, at + 1, at + 2, {at + 3, negated}};
  }

 private:
  DeviceArray<double> block_;
};

// The same bits in all arrays but the gradient's; padding aside, where none are written.
inline void ExpectSameBytes(const std::vector<UpdateBytes::Bytes>& actual,
                            const std::vector<UpdateBytes::Bytes>& expected) {
  ASSERT_EQ(actual.size(), expected.size());
  for (size_t a = 1; a < actual.size(); ++a) {
    ASSERT_EQ(actual[a].size(), expected[a].size());
    for (size_t i = 0; i < actual[a].size(); ++i) {
      ASSERT_EQ(actual[a][i], expected[a][i]) << "array " << a << ", byte " << i;
    }
  }
}

}  // namespace strata::kernels::cuda

#endif  // STRATA_KERNELS_CUDA_UPDATE_TESTING_H_
