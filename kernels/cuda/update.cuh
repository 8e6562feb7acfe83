// The kernel of all updates: an optimizer gives its rule for one element.
//
//   struct Rule {
//     static constexpr int kMoments = …;
//     static constexpr bool kInBlocks = …;                     whether its moments may be in blocks
//     struct Rates { … };                                                    what the host knows
//     __device__ Rule(const Rates&, const UpdateScalars&, bool decay);       f64, once per block
//     __device__ void operator()(float gradient, float& weight, float (&moments)[kMoments]) const;
//   };
//
// Operations of f32 are named (__fmaf_rn and the like), so that they are the CPU's, bit by bit.
#ifndef STRATA_KERNELS_CUDA_UPDATE_CUH_
#define STRATA_KERNELS_CUDA_UPDATE_CUH_

#include <cfloat>
#include <cstddef>
#include <cstring>

#include "absl/types/span.h"
#include "kernels/cpu/moment_codes.h"
#include "kernels/cuda/common.cuh"
#include "kernels/cuda/update.h"

namespace strata::kernels::cuda {

inline constexpr int kUpdateThreads = 256;
inline constexpr int kUpdateNumbers = 8;  // of a thread at once; of a warp: a block of moments
static_assert(32 * kUpdateNumbers == kMomentBlock);
inline constexpr int kMostSegments = 32;  // of a launch

// NumbersOfUpdate as the device reads it.
struct MomentArray {
  MomentFormat format = MomentFormat::kF32;
  const std::byte* from = nullptr;
  std::byte* to = nullptr;
  int64_t count = 0;
};
struct UpdateArrays {
  NumberType gradient_type = NumberType::kF32, weight_type = NumberType::kF32;
  MasterFormat master_format = MasterFormat::kNone;
  const std::byte *gradient = nullptr, *weights = nullptr, *master = nullptr;
  std::byte *next_weights = nullptr, *next_master = nullptr;
  MomentArray moments[kMostMoments];
};
struct UpdateSegments {
  UpdateSegment at[kMostSegments];
};

// MomentCodes as the device reads it: of a decade slope, offset, base and last in one place.
struct CodeTable {
  float above[MomentCodes::kDecades] = {};
  float one_above = 0, most = 0;
  int zero = 0;
  float4 decades[MomentCodes::kDecades] = {};
  float4 entries[64] = {};
};
// Of each moment that has one; nothing for updates without blocks.
template <int kCount>
struct CodeTables {
  CodeTable of[kCount];
};
template <>
struct CodeTables<0> {};

// --- A thread's numbers, as bits packed into words as memory has them.

using Words = uint32_t[kUpdateNumbers];

// The first `there` numbers from `at` on.
template <typename Bits>
__device__ __forceinline__ void Fetch(const std::byte* data, int64_t at, int there, Words& words) {
  constexpr int kPerWord = 4 / sizeof(Bits), kCount = kUpdateNumbers / kPerWord;
  const Bits* const p = reinterpret_cast<const Bits*>(data) + at;
  if (there == kUpdateNumbers && reinterpret_cast<uintptr_t>(p) % (kCount == 2 ? 8 : 16) == 0) {
    if constexpr (kCount == 2) {
      const uint2 packet = *reinterpret_cast<const uint2*>(p);
      words[0] = packet.x;
      words[1] = packet.y;
    } else {
#pragma unroll
      for (int i = 0; i < kCount; i += 4) {
        const uint4 packet = reinterpret_cast<const uint4*>(p)[i / 4];
        words[i] = packet.x;
        words[i + 1] = packet.y;
        words[i + 2] = packet.z;
        words[i + 3] = packet.w;
      }
    }
    return;
  }
#pragma unroll
  for (int i = 0; i < kUpdateNumbers; ++i) {
    const uint32_t bits = i < there ? p[i] : 0;
    const int shift = 8 * sizeof(Bits) * (i % kPerWord);
    words[i / kPerWord] = i % kPerWord == 0 ? bits : words[i / kPerWord] | bits << shift;
  }
}

template <typename Bits>
__device__ __forceinline__ void Put(std::byte* data, int64_t at, int there, const Words& words) {
  constexpr int kPerWord = 4 / sizeof(Bits), kCount = kUpdateNumbers / kPerWord;
  Bits* const p = reinterpret_cast<Bits*>(data) + at;
  if (there == kUpdateNumbers && reinterpret_cast<uintptr_t>(p) % (kCount == 2 ? 8 : 16) == 0) {
    if constexpr (kCount == 2) {
      *reinterpret_cast<uint2*>(p) = make_uint2(words[0], words[1]);
    } else {
#pragma unroll
      for (int i = 0; i < kCount; i += 4) {
        reinterpret_cast<uint4*>(p)[i / 4] =
            make_uint4(words[i], words[i + 1], words[i + 2], words[i + 3]);
      }
    }
    return;
  }
#pragma unroll
  for (int i = 0; i < kUpdateNumbers; ++i) {
    const int shift = 8 * sizeof(Bits) * (i % kPerWord);
    if (i < there) p[i] = static_cast<Bits>(words[i / kPerWord] >> shift);
  }
}

// --- Numbers of a type.

__device__ __forceinline__ void FetchNumbers(NumberType type, const std::byte* data, int64_t at,
                                             int there, Words& words) {
  if (type == NumberType::kF32) {
    Fetch<uint32_t>(data, at, there, words);
  } else {
    Fetch<uint16_t>(data, at, there, words);
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
__device__ __forceinline__ void FetchMaster(const UpdateArrays& arrays, int64_t at, int there,
                                            Words& words) {
  switch (arrays.master_format) {
    case MasterFormat::kNone:
      return FetchNumbers(arrays.weight_type, arrays.weights, at, there, words);
    case MasterFormat::kF32:
      return Fetch<uint32_t>(arrays.master, at, there, words);
    case MasterFormat::kRemainder: {
      Words rest;
      Fetch<uint16_t>(arrays.weights, at, there, words);
      Fetch<uint16_t>(arrays.master, at, there, rest);
#pragma unroll
      for (int i = 0; i < kUpdateNumbers / 2; ++i) words[kUpdateNumbers / 2 + i] = rest[i];
      return;
    }
  }
}

__device__ __forceinline__ void DecodeMaster(const UpdateArrays& arrays, const Words& words,
                                             float (&values)[kUpdateNumbers]) {
  if (arrays.master_format != MasterFormat::kRemainder) {
    return Decode(
        arrays.master_format == MasterFormat::kF32 ? NumberType::kF32 : arrays.weight_type, words,
        values);
  }
#pragma unroll
  for (int i = 0; i < kUpdateNumbers / 2; ++i) {
    const uint32_t upper = words[i], rest = words[kUpdateNumbers / 2 + i];
    const auto extended = [](uint32_t bits) {
      return static_cast<uint32_t>(static_cast<int32_t>(bits << 16) >> 16);
    };
    values[2 * i] = __uint_as_float((upper << 16) + extended(rest));
    values[2 * i + 1] = __uint_as_float((upper & 0xffff0000u) + extended(rest >> 16));
  }
}

__device__ __forceinline__ void StoreMaster(const UpdateArrays& arrays, int64_t at, int there,
                                            const float (&values)[kUpdateNumbers]) {
  Words whole, half;
#pragma unroll
  for (int i = 0; i < kUpdateNumbers; ++i) whole[i] = __float_as_uint(values[i]);
  if (arrays.weight_type == NumberType::kF32) {
    Put<uint32_t>(arrays.next_weights, at, there, whole);
  } else {
#pragma unroll
    for (int i = 0; i < kUpdateNumbers / 2; ++i) {
      const float low = values[2 * i], high = values[2 * i + 1];
      half[i] = arrays.weight_type == NumberType::kBF16
                    ? RoundAway(low, BFloat16{}) | RoundAway(high, BFloat16{}) << 16
                    : RoundAway(low, Float16{}) | RoundAway(high, Float16{}) << 16;
    }
    Put<uint16_t>(arrays.next_weights, at, there, half);
  }
  if (arrays.master_format == MasterFormat::kF32) {
    Put<uint32_t>(arrays.next_master, at, there, whole);
  } else if (arrays.master_format == MasterFormat::kRemainder) {
#pragma unroll
    for (int i = 0; i < kUpdateNumbers / 2; ++i) {
      half[i] = (whole[2 * i] & 0xffff) | whole[2 * i + 1] << 16;
    }
    Put<uint16_t>(arrays.next_master, at, there, half);
  }
}

// --- Moments.

__device__ inline bool IsInBlocks(MomentFormat format) {
  return format == MomentFormat::kSigned8 || format == MomentFormat::kUnsigned8;
}

// A block's codes are words 0 and 1, its scale is word 2.
template <bool kBlocks>
__device__ __forceinline__ void FetchMoment(const MomentArray& moment, int64_t at, int there,
                                            Words& words) {
  if (kBlocks && IsInBlocks(moment.format)) {
    Fetch<uint8_t>(moment.from, at, there, words);
    words[2] = reinterpret_cast<const uint32_t*>(moment.from + moment.count)[at / kMomentBlock];
  } else {
    FetchNumbers(moment.format == MomentFormat::kF32 ? NumberType::kF32 : NumberType::kBF16,
                 moment.from, at, there, words);
  }
}

// The code whose entry is nearest to a number in [-1, 1] (kernels/cpu/moment_codes.h).
__device__ __forceinline__ uint32_t CodeOf(const CodeTable& codes, const float4* decades,
                                           float value) {
  const float distance = fminf(fabsf(value), 1);
  int decade = 0;
#pragma unroll
  for (int d = 1; d < MomentCodes::kDecades; ++d) decade += distance > codes.above[d] ? 1 : 0;
  const auto [slope, offset, base, last] = decades[decade];
  float level = base + fminf(fmaxf(floorf(__fmaf_rn(distance, slope, offset)), 0), last);
  if (distance > codes.one_above) level = codes.most;
  if (distance == 0) level = 0;
  const int steps = static_cast<int>(level);
  return signbit(value) ? codes.zero - min(steps, codes.zero) : codes.zero + steps;
}

// By a whole warp.
__device__ __forceinline__ void StoreBlock(const CodeTable& codes, const float4* decades,
                                           const MomentArray& moment, int64_t at,
                                           const float (&values)[kUpdateNumbers]) {
  float most = 0, least = 0;  // NaN is passed over
#pragma unroll
  for (int i = 0; i < kUpdateNumbers; ++i) {
    most = fmaxf(most, values[i]);
    least = fminf(least, values[i]);
  }
#pragma unroll
  for (int distance = 16; distance > 0; distance /= 2) {
    const unsigned mask = Planted(Mistake::kNarrowMask) && distance == 8 ? 0xffffu : ~0u;
    most = fmaxf(most, __shfl_xor_sync(mask, most, distance));
    least = fminf(least, __shfl_xor_sync(mask, least, distance));
  }
  const float scale = fminf(fmaxf(most >= -least ? most : least, -FLT_MAX), FLT_MAX);
  Words words = {};
#pragma unroll
  for (int i = 0; i < kUpdateNumbers; ++i) {
    const uint32_t code =
        scale == 0 ? codes.zero : CodeOf(codes, decades, __fdiv_rn(values[i], scale));
    words[i / 4] |= code << (8 * (i % 4));
  }
  Put<uint8_t>(moment.to, at, kUpdateNumbers, words);
  // Version s has its scale perhaps in the same place: all lanes have read it.
  if (!Planted(Mistake::kNoBarrierBeforeReuse)) __syncwarp();
  if (threadIdx.x % 32 == 0) {
    reinterpret_cast<float*>(moment.to + moment.count)[at / kMomentBlock] = scale;
  }
}

// --- The kernel.

// Of a moment's codes, in shared memory: what is read at places that differ by lane.
struct SharedCodes {
  float4 decades[MomentCodes::kDecades];
  alignas(16) float entries[256];
};

// The grid's y: segments; x: loops over a segment, so that few blocks make rates.
template <typename Rule, bool kBlocks>
__global__ void __launch_bounds__(kUpdateThreads)
    UpdateKernel(UpdateSegments segments, typename Rule::Rates rates, UpdateScalars scalars,
                 UpdateArrays arrays,
                 const __grid_constant__ CodeTables<kBlocks ? Rule::kMoments : 0> tables) {
  constexpr int64_t kEach = kUpdateThreads * kUpdateNumbers;
  const UpdateSegment segment = segments.at[blockIdx.y];
  if (segment.begin + blockIdx.x * kEach >= segment.end) return;

  __shared__ Rule made;
  __shared__ bool takes_place;
  __shared__ SharedCodes shared_codes[kBlocks ? Rule::kMoments : 1];
  if (threadIdx.x == 0) {
    made = Rule(rates, scalars, segment.decay);
    const Predicate predicate = scalars.predicate;
    takes_place = predicate.scalar == nullptr || (*predicate.scalar != 0) != predicate.negated;
  }
  if constexpr (kBlocks) {
#pragma unroll
    for (int m = 0; m < Rule::kMoments; ++m) {
      if (threadIdx.x < 64) {
        reinterpret_cast<float4*>(shared_codes[m].entries)[threadIdx.x] =
            tables.of[m].entries[threadIdx.x];
      }
      if (threadIdx.x < MomentCodes::kDecades) {
        shared_codes[m].decades[threadIdx.x] = tables.of[m].decades[threadIdx.x];
      }
    }
  }
  if (!Planted(Mistake::kNoBarrierBeforeRead)) __syncthreads();
  if (!takes_place) return;
  const Rule rule = made;

  const int64_t end = segment.end + (Planted(Mistake::kNoBound) ? 1 : 0);
  for (int64_t at = segment.begin + blockIdx.x * kEach + threadIdx.x * kUpdateNumbers; at < end;
       at += gridDim.x * kEach) {
    const int there = static_cast<int>(min(end - at, int64_t{kUpdateNumbers}));
    // All is fetched before anything is looked at, so that reads do not wait for each other.
    Words gradient_words, weight_words, moment_words[Rule::kMoments];
    FetchNumbers(arrays.gradient_type, arrays.gradient, at, there, gradient_words);
    FetchMaster(arrays, at, there, weight_words);
#pragma unroll
    for (int m = 0; m < Rule::kMoments; ++m) {
      FetchMoment<kBlocks>(arrays.moments[m], at, there, moment_words[m]);
    }

    float gradient[kUpdateNumbers], weights[kUpdateNumbers];
    float moments[Rule::kMoments][kUpdateNumbers];
    Decode(arrays.gradient_type, gradient_words, gradient);
    DecodeMaster(arrays, weight_words, weights);
#pragma unroll
    for (int m = 0; m < Rule::kMoments; ++m) {
      const MomentFormat format = arrays.moments[m].format;
      if (kBlocks && IsInBlocks(format)) {
        const float scale = __uint_as_float(moment_words[m][2]);
#pragma unroll
        for (int i = 0; i < kUpdateNumbers; ++i) {
          const uint32_t code = moment_words[m][i / 4] >> (8 * (i % 4)) & 0xff;
          moments[m][i] = __fmul_rn(shared_codes[m].entries[code], scale);
        }
      } else {
        Decode(format == MomentFormat::kF32 ? NumberType::kF32 : NumberType::kBF16, moment_words[m],
               moments[m]);
      }
    }

#pragma unroll
    for (int i = 0; i < kUpdateNumbers; ++i) {
      float of_element[Rule::kMoments];
#pragma unroll
      for (int m = 0; m < Rule::kMoments; ++m) of_element[m] = moments[m][i];
      rule(gradient[i], weights[i], of_element);
#pragma unroll
      for (int m = 0; m < Rule::kMoments; ++m) moments[m][i] = of_element[m];
    }

    StoreMaster(arrays, at, there, weights);
#pragma unroll
    for (int m = 0; m < Rule::kMoments; ++m) {
      const MomentArray& moment = arrays.moments[m];
      if (kBlocks && IsInBlocks(moment.format)) {
        if constexpr (kBlocks) {
          StoreBlock(tables.of[m], shared_codes[m].decades, moment, at, moments[m]);
        }
      } else {
        Words words;
        if (moment.format == MomentFormat::kF32) {
#pragma unroll
          for (int i = 0; i < kUpdateNumbers; ++i) words[i] = __float_as_uint(moments[m][i]);
          Put<uint32_t>(moment.to, at, there, words);
        } else {
#pragma unroll
          for (int i = 0; i < kUpdateNumbers / 2; ++i) {
            words[i] = Pack<BFloat16>(moments[m] + 2 * i);
          }
          Put<uint16_t>(moment.to, at, there, words);
        }
      }
    }
  }
}

// --- The host's part.

inline UpdateArrays ArraysOf(const NumbersOfUpdate& numbers) {
  UpdateArrays arrays{.gradient_type = numbers.gradient_type,
                      .weight_type = numbers.weights.type,
                      .master_format = numbers.weights.master_format,
                      .gradient = numbers.gradient,
                      .weights = numbers.weights.weights,
                      .master = numbers.weights.master,
                      .next_weights = numbers.next_weights.weights,
                      .next_master = numbers.next_weights.master,
                      .moments = {}};
  for (int m = 0; m < kMostMoments; ++m) {
    const Moments& moments = numbers.moments[m];
    arrays.moments[m] = {moments.format, moments.data, numbers.next_moments[m].data, moments.count};
  }
  return arrays;
}

inline CodeTable CodeTableOf(MomentFormat format) {
  const MomentCodes& codes = CodesOf(format);
  CodeTable table;
  table.one_above = codes.one_above;
  table.most = codes.most;
  table.zero = codes.zero;
  for (int d = 0; d < MomentCodes::kDecades; ++d) {
    table.above[d] = codes.above[d];
    table.decades[d] = make_float4(codes.slope[d], codes.offset[d], codes.base[d], codes.last[d]);
  }
  static_assert(sizeof(table.entries) == sizeof(codes.table));
  std::memcpy(table.entries, codes.table.data(), sizeof(table.entries));
  return table;
}

template <typename Rule, bool kBlocks>
absl::Status LaunchUpdateOf(const char* what, cudaStream_t stream,
                            const typename Rule::Rates& rates, const UpdateScalars& scalars,
                            absl::Span<const UpdateSegment> segments,
                            const NumbersOfUpdate& numbers) {
  constexpr int64_t kOfBlock = 2 * kUpdateThreads * kUpdateNumbers;  // at least, if there are more
  constexpr int64_t kMostBlocks = 1024;
  CodeTables<kBlocks ? Rule::kMoments : 0> tables;
  if constexpr (kBlocks) {
    for (int m = 0; m < Rule::kMoments; ++m) tables.of[m] = CodeTableOf(numbers.moments[m].format);
  }
  for (size_t first = 0; first < segments.size(); first += kMostSegments) {
    const absl::Span<const UpdateSegment> part = segments.subspan(first, kMostSegments);
    UpdateSegments of_launch;
    std::copy(part.begin(), part.end(), of_launch.at);
    int64_t longest = 1;
    for (const UpdateSegment& segment : part) {
      longest = std::max(longest, segment.end - segment.begin);
    }
    const unsigned blocks = BlocksFor(std::min(longest, kMostBlocks * kOfBlock), kOfBlock);
    const absl::Status status =
        Launch(what, &UpdateKernel<Rule, kBlocks>, dim3(blocks, static_cast<unsigned>(part.size())),
               kUpdateThreads, 0, stream, of_launch, rates, scalars, ArraysOf(numbers), tables);
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

template <typename Rule>
absl::Status LaunchUpdate(const char* what, cudaStream_t stream, const typename Rule::Rates& rates,
                          const UpdateScalars& scalars, absl::Span<const UpdateSegment> segments,
                          const NumbersOfUpdate& numbers) {
  bool blocks = false;
  for (int m = 0; m < Rule::kMoments; ++m) {
    const MomentFormat format = numbers.moments[m].format;
    blocks |= format == MomentFormat::kSigned8 || format == MomentFormat::kUnsigned8;
  }
  for (const UpdateSegment& segment : segments) {
    const bool whole = segment.begin % kMomentBlock == 0 && segment.end % kMomentBlock == 0;
    if (segment.begin >= 0 && segment.begin <= segment.end && (whole || !blocks)) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        what, " of elements ", segment.begin, " to ", segment.end,
        blocks ? ", but its moments are in blocks of 256: begin and end with one" : ""));
  }
  if constexpr (Rule::kInBlocks) {
    if (blocks) return LaunchUpdateOf<Rule, true>(what, stream, rates, scalars, segments, numbers);
  }
  return LaunchUpdateOf<Rule, false>(what, stream, rates, scalars, segments, numbers);
}

}  // namespace strata::kernels::cuda

#endif  // STRATA_KERNELS_CUDA_UPDATE_CUH_
