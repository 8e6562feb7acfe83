// Weights in NF4 against bitsandbytes (make_nf4_goldens.py).
#include "kernels/nf4.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "checkpoint/safetensors.h"
#include "device/thread_pool.h"
#include "gtest/gtest.h"
#include "kernels/number_types.h"

namespace strata::parity {
namespace {

using checkpoint::SafetensorsEntry;
using checkpoint::SafetensorsReader;
using kernels::kNf4Block;
using kernels::kNf4F32UnitBytes;
using kernels::kNf4Unit;
using kernels::kNf4UnitBytes;

class Goldens {
 public:
  Goldens() {
    auto reader = SafetensorsReader::Open("tests/parity/goldens/nf4.safetensors");
    EXPECT_TRUE(reader.ok()) << reader.status();
    if (reader.ok()) reader_ = *std::move(reader);
  }
  template <typename T>
  std::vector<T> Read(const std::string& name) const {
    const SafetensorsEntry* const entry = reader_->Find(name);
    EXPECT_NE(entry, nullptr) << name;
    std::vector<T> values(static_cast<size_t>(entry->size_bytes) / sizeof(T));
    EXPECT_TRUE(reader_->ReadBytes(*entry, 0, entry->size_bytes, values.data()).ok());
    return values;
  }
  std::vector<float> Weights(const std::string& name) const {
    std::vector<float> wide;
    for (const uint16_t bits : Read<uint16_t>(name + ".weights")) {
      wide.push_back(kernels::ToFloat(kernels::Float16{bits}));
    }
    return wide;
  }

 private:
  std::unique_ptr<SafetensorsReader> reader_;
};

std::vector<std::byte> Quantised(const std::vector<float>& weights) {
  const int64_t count = static_cast<int64_t>(weights.size());
  const int64_t blocks = (count + kNf4Block - 1) / kNf4Block;
  const float offset = static_cast<float>(kernels::SumOfNf4Scales(weights.data(), count) /
                                          static_cast<double>(blocks));
  std::vector<std::byte> units;
  for (int64_t begin = 0; begin < count; begin += kNf4Unit) {
    units.resize(units.size() + kNf4UnitBytes);
    kernels::QuantiseNf4Unit(weights.data() + begin, std::min(kNf4Unit, count - begin), offset,
                             units.data() + units.size() - kNf4UnitBytes);
  }
  return units;
}

TEST(Nf4Test, Numbers_AreThoseOfBitsandbytes) {
  const Goldens goldens;
  const std::vector<float> numbers = goldens.Read<float>("numbers");
  EXPECT_TRUE(std::equal(numbers.begin(), numbers.end(), kernels::Nf4Numbers().begin()));
  const std::vector<float> scales = goldens.Read<float>("scale_numbers");
  ASSERT_EQ(scales.size(), 256u);
  for (size_t i = 0; i < 256; ++i) EXPECT_EQ(kernels::Nf4ScaleNumbers()[i], scales[i]) << i;
}

TEST(Nf4Test, Codes_AreThoseOfBitsandbytes) {
  const Goldens goldens;
  for (const char* name : {"large", "small"}) {
    const std::string of = name;
    const std::vector<float> weights = goldens.Weights(of);
    const std::vector<std::byte> units = Quantised(weights);
    const auto* const bytes = reinterpret_cast<const uint8_t*>(units.data());
    const std::vector<uint8_t> codes = goldens.Read<uint8_t>(of + ".codes");
    for (size_t i = 0; i < codes.size(); ++i) {
      const size_t unit = i / (kNf4Unit / 2), at = i % (kNf4Unit / 2);
      ASSERT_EQ(bytes[unit * kNf4UnitBytes + 64 + 256 + at], codes[i]) << name << " " << i;
    }
    const std::vector<uint8_t> scales = goldens.Read<uint8_t>(of + ".absmax");
    // A single scale is the mean: its code, times 0, says nothing.
    for (size_t i = 0; scales.size() > 1 && i < scales.size(); ++i) {
      EXPECT_EQ(bytes[i / 256 * kNf4UnitBytes + 64 + i % 256], scales[i]) << name << " " << i;
    }
    const std::vector<float> nested = goldens.Read<float>(of + ".nested_absmax");
    for (size_t i = 0; i < nested.size(); ++i) {
      float largest, offset;
      std::memcpy(&largest, bytes + i * kNf4UnitBytes, 4);
      std::memcpy(&offset, bytes + i * kNf4UnitBytes + 4, 4);
      EXPECT_NEAR(largest, nested[i], 1e-6F * nested[i]) << name;
      EXPECT_NEAR(offset, goldens.Read<float>(of + ".offset")[0], 1e-6F) << name;
    }
  }
}

TEST(Nf4Test, Dequantised_IsWhatBitsandbytesMakesOfIt) {
  const Goldens goldens;
  device::ThreadPool pool(2);
  for (const char* name : {"large", "small"}) {
    const std::string of = name;
    const std::vector<float> weights = goldens.Weights(of);
    const std::vector<std::byte> units = Quantised(weights);
    std::vector<float> found(weights.size() + 1, -7);
    const int64_t count = static_cast<int64_t>(weights.size());
    kernels::DequantiseNf4({&pool}, units.data(), count, found.data());
    const std::vector<float> expected = goldens.Read<float>(of + ".dequantised");
    for (size_t i = 0; i < weights.size(); ++i) {
      ASSERT_NEAR(found[i], expected[i], 1e-6F * std::abs(expected[i])) << name << " " << i;
    }
    EXPECT_EQ(found.back(), -7) << "beyond the end";
    std::vector<kernels::BFloat16> narrow(weights.size());
    kernels::DequantiseNf4({&pool}, units.data(), count, narrow.data());
    for (size_t i = 0; i < weights.size(); ++i) {
      EXPECT_EQ(narrow[i].bits, kernels::FromFloat<kernels::BFloat16>(found[i]).bits) << i;
    }
  }
}

TEST(Nf4Test, UnitsWithScalesInF32_AreWhatBitsandbytesMakesWithoutDoubleQuantisation) {
  const Goldens goldens;
  device::ThreadPool pool(2);
  for (const char* name : {"large", "small"}) {
    const std::string of = name;
    const std::vector<float> weights = goldens.Weights(of);
    const int64_t count = static_cast<int64_t>(weights.size());
    std::vector<std::byte> units;
    for (int64_t begin = 0; begin < count; begin += kNf4Unit) {
      units.resize(units.size() + kNf4F32UnitBytes);
      kernels::QuantiseNf4F32Unit(weights.data() + begin, std::min(kNf4Unit, count - begin),
                                  units.data() + units.size() - kNf4F32UnitBytes);
    }
    const auto* const bytes = reinterpret_cast<const uint8_t*>(units.data());
    const std::vector<uint8_t> codes = goldens.Read<uint8_t>(of + ".codes_f32");
    for (size_t i = 0; i < codes.size(); ++i) {
      const size_t unit = i / (kNf4Unit / 2), at = i % (kNf4Unit / 2);
      ASSERT_EQ(bytes[unit * kNf4F32UnitBytes + 1024 + at], codes[i]) << name << " " << i;
    }
    const std::vector<float> scales = goldens.Read<float>(of + ".absmax_f32");
    for (size_t i = 0; i < scales.size(); ++i) {
      float scale;
      std::memcpy(&scale, bytes + i / 256 * kNf4F32UnitBytes + i % 256 * 4, 4);
      ASSERT_EQ(scale, scales[i]) << name << " " << i;
    }
    std::vector<float> found(weights.size() + 1, -7);
    kernels::DequantiseNf4F32({&pool}, units.data(), count, found.data());
    const std::vector<float> expected = goldens.Read<float>(of + ".dequantised_f32");
    for (size_t i = 0; i < weights.size(); ++i) ASSERT_EQ(found[i], expected[i]) << name << i;
    EXPECT_EQ(found.back(), -7) << "beyond the end";
  }
}

TEST(Nf4Test, Zeros_StayZeros) {
  device::ThreadPool pool(1);
  const std::vector<float> weights(200);
  std::vector<float> found(200, 1);
  const std::vector<std::byte> units = Quantised(weights);
  kernels::DequantiseNf4({&pool}, units.data(), 200, found.data());
  for (const float value : found) EXPECT_EQ(value, 0);
}

}  // namespace
}  // namespace strata::parity
