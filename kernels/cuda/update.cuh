// The kernel of all updates: an optimizer gives its rule for one element.
//
//   struct Rule {
//     static constexpr int kMoments = …;
//     static constexpr bool kInBlocks = …;                     whether its moments may be in blocks
//     struct Rates { … };                                                    what the host knows
//     __device__ Rule(const Rates&, const UpdateScalars&, bool decay);       f64, twice per block
//     __device__ void operator()(float gradient, float& weight, float (&moments)[kMoments]) const;
//     bool is_quick;                                       whether Quickly may be asked: the same
//     bits
//     __device__ bool Quickly(…) const;                    without branches, where it returns true
//   };
//
// Operations of f32 are named (__fmaf_rn and the like), so that they are the CPU's, bit by bit.
#ifndef STRATA_KERNELS_CUDA_UPDATE_CUH_
#define STRATA_KERNELS_CUDA_UPDATE_CUH_

#include <cstring>

#include "absl/types/span.h"
#include "kernels/cuda/moment_blocks.cuh"

namespace strata::kernels::cuda {

inline constexpr int kUpdateThreads = 256;
inline constexpr int kUpdateBlocks = 2;  // that a multiprocessor has room for
inline constexpr int64_t kUpdateTile = kUpdateThreads * kUpdateNumbers;
inline constexpr int kMostSegments = 32;  // of a launch

struct UpdateSegments {
  UpdateSegment at[kMostSegments];
  int count = 0;
};

// --- The kernel.

// A thread's numbers of every array, as they are in memory.
template <typename Rule>
struct Fetched {
  Words gradient, weights, moments[Rule::kMoments];
};

template <bool kBlocks, typename Rule, typename Formats>
__device__ __forceinline__ void FetchAll(const Formats& formats, const UpdateArrays& arrays,
                                         const Place& place, Fetched<Rule>& words) {
  const auto fetch = [&](const Place& from) {
    FetchNumbers(formats.gradient, arrays.gradient, from, words.gradient);
    FetchMaster(formats, arrays, from, words.weights);
#pragma unroll
    for (int m = 0; m < Rule::kMoments; ++m) {
      FetchMoment<kBlocks>(formats.OfMoment(m), arrays.moments[m], from, words.moments[m]);
    }
  };
  // One branch, so that nothing stands between the reads of whole packets.
  if (place.whole) {
    fetch({.at = place.at, .end = place.end, .whole = true});
  } else {
    fetch({.at = place.at, .end = place.end, .whole = false});
  }
}

// A tile of a segment; the segments' tiles follow each other.
class Tile {
 public:
  __device__ Tile(const UpdateSegments& segments, int64_t tile) : tile_(tile) { Settle(segments); }

  __device__ bool IsThere(const UpdateSegments& segments) const {
    return segment_ < segments.count;
  }
  __device__ bool Decay(const UpdateSegments& segments) const {
    return segments.at[segment_].decay;
  }
  // Nothing of a tile that is not there.
  __device__ Place OfThread(const UpdateSegments& segments, const UpdateArrays& arrays) const {
    if (!IsThere(segments)) return {};
    const UpdateSegment& of = segments.at[segment_];
    constexpr int kOfWarp = 32 * kUpdateNumbers;
    const int thread = static_cast<int>(threadIdx.x);
    Place place;
    place.at =
        of.begin + tile_ * kUpdateTile + thread / 32 * kOfWarp + thread % 32 * kPacketNumbers;
    place.end = of.end + (Planted(Mistake::kNoBound) ? 1 : 0);
    place.whole = arrays.aligned && of.begin % kPacketNumbers == 0 &&
                  place.at + OffsetOf(kUpdateNumbers - 1) < place.end;
    return place;
  }
  __device__ void Advance(const UpdateSegments& segments, int64_t tiles) {
    tile_ += tiles;
    Settle(segments);
  }

 private:
  __device__ void Settle(const UpdateSegments& segments) {
    for (; segment_ < segments.count; ++segment_) {
      const UpdateSegment& of = segments.at[segment_];
      const int64_t tiles = (of.end - of.begin + kUpdateTile - 1) / kUpdateTile;
      if (tile_ < tiles) return;
      tile_ -= tiles;
    }
  }

  int segment_ = 0;
  int64_t tile_;
};

// As many blocks as the device runs at once: each makes the rates, in f64, and then goes over tiles
// of all segments. It reads the next tile before it computes with one.
template <typename Rule, typename Formats, bool kBlocks>
__global__ void __launch_bounds__(kUpdateThreads, kUpdateBlocks)
    UpdateKernel(const __grid_constant__ UpdateSegments segments, typename Rule::Rates rates,
                 UpdateScalars scalars, Formats formats,
                 const __grid_constant__ UpdateArrays arrays,
                 const __grid_constant__ CodeTables<kBlocks ? Rule::kMoments : 0> tables) {
  __shared__ Rule made[2];  // without and with decay
  __shared__ bool takes_place;
  __shared__ SharedCodes shared_codes[kBlocks ? Rule::kMoments : 1];
  if (threadIdx.x % 32 == 0 && threadIdx.x < 64) {
    made[threadIdx.x / 32] = Rule(rates, scalars, threadIdx.x == 32);
  }
  if (threadIdx.x == 64) {
    const Predicate predicate = scalars.predicate;
    takes_place = predicate.scalar == nullptr || (*predicate.scalar != 0) != predicate.negated;
  }
  if constexpr (kBlocks) {
#pragma unroll
    for (int m = 0; m < Rule::kMoments; ++m) shared_codes[m].Fill(tables.of[m]);
  }
  if (!Planted(Mistake::kNoBarrierBeforeRead)) __syncthreads();
  if (!takes_place) return;

  Tile tile(segments, blockIdx.x);
  Place place = tile.OfThread(segments, arrays);
  Fetched<Rule> next;
  FetchAll<kBlocks>(formats, arrays, place, next);
  while (tile.IsThere(segments)) {
    const Rule rule = made[tile.Decay(segments) ? 1 : 0];
    const Place here = place;
    const Fetched<Rule> words = next;
    tile.Advance(segments, gridDim.x);
    place = tile.OfThread(segments, arrays);
    FetchAll<kBlocks>(formats, arrays, place, next);
    if (here.at >= here.end) continue;

    float weights[kUpdateNumbers], moments[Rule::kMoments][kUpdateNumbers];
    const auto update = [&](const auto& one) {
      float gradient[kUpdateNumbers];
      Decode(formats.gradient, words.gradient, gradient);
      DecodeMaster(formats, words.weights, weights);
#pragma unroll
      for (int m = 0; m < Rule::kMoments; ++m) {
        const MomentFormat format = formats.OfMoment(m);
        if (kBlocks && IsInBlocks(format)) {
          DecodeBlock(shared_codes[m], words.moments[m], moments[m]);
        } else {
          Decode(format == MomentFormat::kF32 ? NumberType::kF32 : NumberType::kBF16,
                 words.moments[m], moments[m]);
        }
      }
      bool all = true;
#pragma unroll
      for (int i = 0; i < kUpdateNumbers; ++i) {
        float of_element[Rule::kMoments];
#pragma unroll
        for (int m = 0; m < Rule::kMoments; ++m) of_element[m] = moments[m][i];
        all &= one(gradient[i], weights[i], of_element);
#pragma unroll
        for (int m = 0; m < Rule::kMoments; ++m) moments[m][i] = of_element[m];
      }
      return all;
    };
    const bool is_done = rule.is_quick && update([&](float gradient, float& weight, auto& of) {
                           return rule.Quickly(gradient, weight, of);
                         });
    if (!is_done) {
      update([&](float gradient, float& weight, auto& of) {
        rule(gradient, weight, of);
        return true;
      });
    }

    StoreMaster(formats, arrays, here, weights);
#pragma unroll
    for (int m = 0; m < Rule::kMoments; ++m) {
      const MomentArray& moment = arrays.moments[m];
      const MomentFormat format = formats.OfMoment(m);
      if (kBlocks && IsInBlocks(format)) {
        StoreBlock(format, shared_codes[m], moment, here, moments[m]);
      } else {
        Words words_of_moment;
        if (format == MomentFormat::kF32) {
#pragma unroll
          for (int i = 0; i < kUpdateNumbers; ++i) {
            words_of_moment[i] = __float_as_uint(moments[m][i]);
          }
          Put<uint32_t>(moment.to, here, words_of_moment);
        } else {
#pragma unroll
          for (int i = 0; i < kUpdateNumbers / 2; ++i) {
            words_of_moment[i] = Pack<BFloat16>(moments[m] + 2 * i);
          }
          Put<uint16_t>(moment.to, here, words_of_moment);
        }
      }
    }
  }
}

// --- The host's part.

// Of the current device.
inline absl::StatusOr<int> Multiprocessors() {
  int device = 0, count = 0;
  cudaError_t error = cudaGetDevice(&device);
  if (error == cudaSuccess) {
    error = cudaDeviceGetAttribute(&count, cudaDevAttrMultiProcessorCount, device);
  }
  RETURN_IF_ERROR(StatusOf("a device's multiprocessors", error));
  return count;
}

inline UpdateArrays ArraysOf(const NumbersOfUpdate& numbers, int count) {
  UpdateArrays arrays{.gradient = numbers.gradient,
                      .weights = numbers.weights.weights,
                      .master = numbers.weights.master,
                      .next_weights = numbers.next_weights.weights,
                      .next_master = numbers.next_weights.master,
                      .moments = {},
                      .aligned = ByPackets<float>(
                          0, numbers.gradient, numbers.weights.weights, numbers.weights.master,
                          numbers.next_weights.weights, numbers.next_weights.master)};
  for (int m = 0; m < count; ++m) {
    const Moments &from = numbers.moments[m], &to = numbers.next_moments[m];
    arrays.moments[m] = {from.data, to.data, from.count};
    arrays.aligned &= ByPackets<float>(0, from.data, to.data);
  }
  return arrays;
}

inline CodeTable CodeTableOf(MomentFormat format) {
  const MomentCodes& codes = CodesOf(format);
  CodeTable table;
  table.most = static_cast<int>(codes.most);
  std::copy(codes.greatest.begin(), codes.greatest.end(), table.greatest);
  static_assert(sizeof(table.entries) == sizeof(codes.table));
  std::memcpy(table.entries, codes.table.data(), sizeof(table.entries));
  return table;
}

template <typename Rule, bool kBlocks = false, typename Formats>
absl::Status LaunchUpdateOf(const Formats& formats, const char* what, cudaStream_t stream,
                            const typename Rule::Rates& rates, const UpdateScalars& scalars,
                            absl::Span<const UpdateSegment> segments,
                            const NumbersOfUpdate& numbers) {
  CodeTables<kBlocks ? Rule::kMoments : 0> tables;
  if constexpr (kBlocks) {
    for (int m = 0; m < Rule::kMoments; ++m) tables.of[m] = CodeTableOf(numbers.moments[m].format);
  }
  ASSIGN_OR_RETURN(const int multiprocessors, Multiprocessors());
  const int64_t most = int64_t{multiprocessors} * kUpdateBlocks;
  for (size_t first = 0; first < segments.size(); first += kMostSegments) {
    const absl::Span<const UpdateSegment> part = segments.subspan(first, kMostSegments);
    UpdateSegments of_launch;
    std::copy(part.begin(), part.end(), of_launch.at);
    of_launch.count = static_cast<int>(part.size());
    int64_t tiles = 0;
    for (const UpdateSegment& segment : part) {
      tiles += (segment.end - segment.begin + kUpdateTile - 1) / kUpdateTile;
    }
    if (tiles == 0) continue;
    const auto blocks = static_cast<unsigned>(std::min((tiles + 1) / 2, most));
    RETURN_IF_ERROR(Launch(what, &UpdateKernel<Rule, Formats, kBlocks>, blocks, kUpdateThreads, 0,
                           stream, of_launch, rates, scalars, formats,
                           ArraysOf(numbers, Rule::kMoments), tables));
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
  AnyFormats formats{.gradient = numbers.gradient_type,
                     .weights = numbers.weights.type,
                     .master = numbers.weights.master_format};
  for (int m = 0; m < Rule::kMoments; ++m) formats.moments[m] = numbers.moments[m].format;
  const auto launch = [&]<bool kBlocks>(const auto& of) {
    return LaunchUpdateOf<Rule, kBlocks>(of, what, stream, rates, scalars, segments, numbers);
  };
  const auto are = [&](const auto& of) {
    bool same = formats.gradient == of.gradient && formats.weights == of.weights &&
                formats.master == of.master;
    for (int m = 0; m < Rule::kMoments; ++m) same &= formats.moments[m] == of.OfMoment(m);
    return same;
  };
  if constexpr (Rule::kInBlocks) {
    if (const Smallest8Formats of; are(of)) return launch.template operator()<true>(of);
    if (const Split8Formats of; are(of)) return launch.template operator()<true>(of);
    if (const Mixed8Formats of; are(of)) return launch.template operator()<true>(of);
    if (blocks) return launch.template operator()<true>(formats);
  }
  if (const PlainFormats of; are(of)) return launch.template operator()<false>(of);
  if (const MixedFormats of; are(of)) return launch.template operator()<false>(of);
  return launch.template operator()<false>(formats);
}

}  // namespace strata::kernels::cuda

#endif  // STRATA_KERNELS_CUDA_UPDATE_CUH_
