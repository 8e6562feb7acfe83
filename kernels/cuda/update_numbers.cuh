// How updates read and write a thread's numbers of any format (update.cuh).
#ifndef STRATA_KERNELS_CUDA_UPDATE_NUMBERS_CUH_
#define STRATA_KERNELS_CUDA_UPDATE_NUMBERS_CUH_

#include <cstddef>

#include "kernels/cuda/common.cuh"
#include "kernels/cuda/update.h"

namespace strata::kernels::cuda {

inline constexpr int kUpdateNumbers = 8;  // of a thread at once; of a warp: a block of moments
static_assert(32 * kUpdateNumbers == kMomentBlock);
inline constexpr int kPacketNumbers = 4;  // that lie side by side; a warp's packets do, too

// Formats that are looked at as the kernel runs, and those that nearly all updates have.
struct AnyFormats {
  NumberType gradient = NumberType::kF32, weights = NumberType::kF32;
  MasterFormat master = MasterFormat::kNone;
  MomentFormat moments[kMostMoments] = {};

  __device__ __host__ MomentFormat OfMoment(int m) const { return moments[m]; }
};
template <NumberType kGradient, NumberType kWeights, MasterFormat kMaster,
          MomentFormat kFirst = MomentFormat::kF32, MomentFormat kSecond = MomentFormat::kF32>
struct FixedFormats {
  static constexpr NumberType gradient = kGradient, weights = kWeights;
  static constexpr MasterFormat master = kMaster;

  __device__ __host__ static constexpr MomentFormat OfMoment(int m) {
    return m == 0 ? kFirst : kSecond;
  }
};
struct PlainFormats : FixedFormats<NumberType::kF32, NumberType::kF32, MasterFormat::kNone> {};
struct MixedFormats : FixedFormats<NumberType::kF32, NumberType::kBF16, MasterFormat::kF32> {};
// With moments of eight bits: of the usual masters, of split ones, and with gradients of bf16, too.
template <NumberType kGradient, MasterFormat kMaster>
using EightBitFormats = FixedFormats<kGradient, NumberType::kBF16, kMaster, MomentFormat::kSigned8,
                                     MomentFormat::kUnsigned8>;
struct Mixed8Formats : EightBitFormats<NumberType::kF32, MasterFormat::kF32> {};
struct Split8Formats : EightBitFormats<NumberType::kF32, MasterFormat::kRemainder> {};
struct Smallest8Formats : EightBitFormats<NumberType::kBF16, MasterFormat::kRemainder> {};

// NumbersOfUpdate as the device reads it.
struct MomentArray {
  const std::byte* from = nullptr;
  std::byte* to = nullptr;
  int64_t count = 0;
};
struct UpdateArrays {
  const std::byte *gradient = nullptr, *weights = nullptr, *master = nullptr;
  std::byte *next_weights = nullptr, *next_master = nullptr;
  MomentArray moments[kMostMoments];
  bool aligned = false;  // all, to 16 bytes
};

// A thread's elements: `at` + OffsetOf(0), OffsetOf(1) and so on, those before `end`.
struct Place {
  int64_t at = 0, end = 0;
  bool whole = false;  // all of them, in arrays and at a place where packets are aligned
};
__device__ constexpr int OffsetOf(int number) {
  return number / kPacketNumbers * 32 * kPacketNumbers + number % kPacketNumbers;
}

// --- A thread's numbers, as bits packed into words as memory has them.

using Words = uint32_t[kUpdateNumbers];

template <typename Bits>
using PacketOf = std::conditional_t<sizeof(Bits) == 4, uint4,
                                    std::conditional_t<sizeof(Bits) == 2, uint2, uint32_t>>;

template <typename Bits>
__device__ __forceinline__ void Fetch(const std::byte* data, const Place& place, Words& words) {
  constexpr int kPerWord = 4 / sizeof(Bits), kOfPacket = kPacketNumbers / kPerWord;
  const Bits* const p = reinterpret_cast<const Bits*>(data) + place.at;
  if (place.whole) {
#pragma unroll
    for (int i = 0; i < kUpdateNumbers / kPacketNumbers; ++i) {
      const auto packet =
          *reinterpret_cast<const PacketOf<Bits>*>(p + OffsetOf(i * kPacketNumbers));
      uint32_t* const out = words + i * kOfPacket;
      if constexpr (kOfPacket == 1) {
        out[0] = packet;
      } else {
        out[0] = packet.x;
        out[1] = packet.y;
      }
      if constexpr (kOfPacket == 4) {
        out[2] = packet.z;
        out[3] = packet.w;
      }
    }
    return;
  }
#pragma unroll
  for (int i = 0; i < kUpdateNumbers; ++i) {
    const uint32_t bits = place.at + OffsetOf(i) < place.end ? p[OffsetOf(i)] : 0;
    const int shift = 8 * sizeof(Bits) * (i % kPerWord);
    words[i / kPerWord] = i % kPerWord == 0 ? bits : words[i / kPerWord] | bits << shift;
  }
}

template <typename Bits>
__device__ __forceinline__ void Put(std::byte* data, const Place& place, const Words& words) {
  constexpr int kPerWord = 4 / sizeof(Bits), kOfPacket = kPacketNumbers / kPerWord;
  Bits* const p = reinterpret_cast<Bits*>(data) + place.at;
  if (place.whole) {
#pragma unroll
    for (int i = 0; i < kUpdateNumbers / kPacketNumbers; ++i) {
      PacketOf<Bits> packet;
      const uint32_t* const in = words + i * kOfPacket;
      if constexpr (kOfPacket == 1) packet = in[0];
      if constexpr (kOfPacket == 2) packet = make_uint2(in[0], in[1]);
      if constexpr (kOfPacket == 4) packet = make_uint4(in[0], in[1], in[2], in[3]);
      *reinterpret_cast<PacketOf<Bits>*>(p + OffsetOf(i * kPacketNumbers)) = packet;
    }
    return;
  }
#pragma unroll
  for (int i = 0; i < kUpdateNumbers; ++i) {
    const int shift = 8 * sizeof(Bits) * (i % kPerWord);
    if (place.at + OffsetOf(i) < place.end) {
      p[OffsetOf(i)] = static_cast<Bits>(words[i / kPerWord] >> shift);
    }
  }
}

// --- Numbers of a type.

__device__ __forceinline__ void FetchNumbers(NumberType type, const std::byte* data,
                                             const Place& place, Words& words) {
  if (type == NumberType::kF32) {
    Fetch<uint32_t>(data, place, words);
  } else {
    Fetch<uint16_t>(data, place, words);
  }
}

__device__ __forceinline__ void Decode(NumberType type, const Words& words,
                                       float (&values)[kUpdateNumbers]) {
  if (type == NumberType::kF32) {
#pragma unroll
    for (int i = 0; i < kUpdateNumbers; ++i) values[i] = __uint_as_float(words[i]);
  } else {
#pragma unroll
    for (int i = 0; i < kUpdateNumbers / 2; ++i) {
      if (type == NumberType::kBF16) {
        Unpack<BFloat16>(words[i], values + 2 * i);
      } else {
        Unpack<Float16>(words[i], values + 2 * i);
      }
    }
  }
}

// --- Weights with their masters.

// RoundAwayToBFloat16, RoundAwayToFloat16 (kernels/state_format.h).
__device__ inline uint32_t RoundAway(float value, BFloat16) {
  const uint32_t bits = __float_as_uint(value);
  return (isnan(value) ? bits | 0x400000 : bits + 0x8000) >> 16;
}
__device__ inline uint32_t RoundAway(float value, Float16) {
  const uint32_t bits = __float_as_uint(value), magnitude = bits & 0x7fffffff;
  const uint32_t sign = bits >> 16 & 0x8000;
  if (magnitude > 0x7f800000) return sign | 0x7e00;
  if (magnitude >= 0x477ff000) return sign | 0x7c00;
  if (magnitude < 0x38800000) {  // below 2^-14: whole multiples of 2^-24
    const float units = __uint_as_float(magnitude) * 0x1p24F, whole = floorf(units);  // exact
    return sign | static_cast<uint32_t>(whole + (units - whole >= 0.5F ? 1 : 0));
  }
  return sign | (magnitude + 0x1000 - 0x38000000) >> 13;
}

// A remainder's weights are words 0 to 3, it itself words 4 to 7.
template <typename Formats>
__device__ __forceinline__ void FetchMaster(const Formats& formats, const UpdateArrays& arrays,
                                            const Place& place, Words& words) {
  switch (formats.master) {
    case MasterFormat::kNone:
      return FetchNumbers(formats.weights, arrays.weights, place, words);
    case MasterFormat::kF32:
      return Fetch<uint32_t>(arrays.master, place, words);
    case MasterFormat::kRemainder: {
      Words rest;
      Fetch<uint16_t>(arrays.weights, place, words);
      Fetch<uint16_t>(arrays.master, place, rest);
#pragma unroll
      for (int i = 0; i < kUpdateNumbers / 2; ++i) words[kUpdateNumbers / 2 + i] = rest[i];
      return;
    }
  }
}

template <typename Formats>
__device__ __forceinline__ void DecodeMaster(const Formats& formats, const Words& words,
                                             float (&values)[kUpdateNumbers]) {
  if (formats.master == MasterFormat::kRemainder) {
#pragma unroll
    for (int i = 0; i < kUpdateNumbers / 2; ++i) {
      const uint32_t upper = words[i], rest = words[kUpdateNumbers / 2 + i];
      const auto extended = [](uint32_t bits) {
        return static_cast<uint32_t>(static_cast<int32_t>(bits << 16) >> 16);
      };
      values[2 * i] = __uint_as_float((upper << 16) + extended(rest));
      values[2 * i + 1] = __uint_as_float((upper & 0xffff0000u) + extended(rest >> 16));
    }
  } else {
    Decode(formats.master == MasterFormat::kF32 ? NumberType::kF32 : formats.weights, words,
           values);
  }
}

template <typename Formats>
__device__ __forceinline__ void StoreMaster(const Formats& formats, const UpdateArrays& arrays,
                                            const Place& place,
                                            const float (&values)[kUpdateNumbers]) {
  Words whole, half;
#pragma unroll
  for (int i = 0; i < kUpdateNumbers; ++i) whole[i] = __float_as_uint(values[i]);
  if (formats.weights == NumberType::kF32) {
    Put<uint32_t>(arrays.next_weights, place, whole);
  } else {
#pragma unroll
    for (int i = 0; i < kUpdateNumbers / 2; ++i) {
      const float low = values[2 * i], high = values[2 * i + 1];
      half[i] = formats.weights == NumberType::kBF16
                    ? RoundAway(low, BFloat16{}) | RoundAway(high, BFloat16{}) << 16
                    : RoundAway(low, Float16{}) | RoundAway(high, Float16{}) << 16;
    }
    Put<uint16_t>(arrays.next_weights, place, half);
  }
  if (formats.master == MasterFormat::kF32) {
    Put<uint32_t>(arrays.next_master, place, whole);
  } else if (formats.master == MasterFormat::kRemainder) {
#pragma unroll
    for (int i = 0; i < kUpdateNumbers / 2; ++i) {
      half[i] = (whole[2 * i] & 0xffff) | whole[2 * i + 1] << 16;
    }
    Put<uint16_t>(arrays.next_master, place, half);
  }
}

// --- Moments.

__device__ inline bool IsInBlocks(MomentFormat format) {
  return format == MomentFormat::kSigned8 || format == MomentFormat::kUnsigned8;
}

// A block's codes are words 0 and 1, its scale is word 2.
template <bool kBlocks>
__device__ __forceinline__ void FetchMoment(MomentFormat format, const MomentArray& moment,
                                            const Place& place, Words& words) {
  if (kBlocks && IsInBlocks(format)) {
    Fetch<uint8_t>(moment.from, place, words);
    if (place.at < place.end) {
      words[2] =
          reinterpret_cast<const uint32_t*>(moment.from + moment.count)[place.at / kMomentBlock];
    }
  } else {
    FetchNumbers(format == MomentFormat::kF32 ? NumberType::kF32 : NumberType::kBF16, moment.from,
                 place, words);
  }
}

}  // namespace strata::kernels::cuda

#endif  // STRATA_KERNELS_CUDA_UPDATE_NUMBERS_CUH_
