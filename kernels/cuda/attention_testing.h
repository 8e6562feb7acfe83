// What the tests of attention share: shapes, documents, tolerances.
#ifndef STRATA_KERNELS_CUDA_ATTENTION_TESTING_H_
#define STRATA_KERNELS_CUDA_ATTENTION_TESTING_H_

#include <iterator>
#include <string>
#include <type_traits>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "kernels/cuda/attention.h"
#include "kernels/cuda/testing.h"
#include "kernels/reference/attention.h"

namespace strata::kernels::cuda {

using reference::Positions;
using reference::QkvColumns;

// f32: 1e-5 of the largest value. 16 bits: one rounding of the result and one of each weight; of
// gradients besides one of each gradient of a score, and that of `out`.
template <typename T>
inline constexpr double kOfOut = kTolerance;
template <>
inline constexpr double kOfOut<BFloat16> = 0x1.8p-8;
template <>
inline constexpr double kOfOut<Float16> = 0x1.8p-11;
template <typename T>
inline constexpr double kOfGradient = kTolerance;
template <>
inline constexpr double kOfGradient<BFloat16> = 0x1p-7;
template <>
inline constexpr double kOfGradient<Float16> = 0x1p-10;

// Heads that fill what kernels pad them to and heads that do not, of odd sizes and of multiples of
// 4 and 8; sequences inside a tile and past it; groups; windows inside a tile, across tiles, of one
// row and of more rows than there are; softcaps and scales.
inline const AttentionShape kShapes[] = {
    {.batch = 1, .sequence = 1, .heads = 1, .kv_heads = 1, .head_size = 8},
    {.batch = 2, .sequence = 7, .heads = 3, .kv_heads = 3, .head_size = 5},
    {.batch = 2, .sequence = 67, .heads = 2, .kv_heads = 2, .head_size = 16},
    {.batch = 1, .sequence = 33, .heads = 1, .kv_heads = 1, .head_size = 80},
    {.batch = 1, .sequence = 18, .heads = 1, .kv_heads = 1, .head_size = 150},
    {.batch = 1,
     .sequence = 80,
     .heads = 2,
     .kv_heads = 1,
     .head_size = 16,
     .scores = {.window = 37}},
    {.batch = 1,
     .sequence = 100,
     .heads = 1,
     .kv_heads = 1,
     .head_size = 24,
     .scores = {.window = 70}},
    {.batch = 1,
     .sequence = 40,
     .heads = 3,
     .kv_heads = 1,
     .head_size = 10,
     .scores = {.window = 1}},
    {.batch = 1,
     .sequence = 40,
     .heads = 2,
     .kv_heads = 1,
     .head_size = 8,
     .scores = {.window = 100}},
    {.batch = 1,
     .sequence = 66,
     .heads = 1,
     .kv_heads = 1,
     .head_size = 32,
     .scores = {.window = 64, .softcap = 1.5F, .scale = 0.3F}},
};
// Of every size that kernels pad heads to, over tiles of queries and of keys.
template <typename T>
inline const std::vector<AttentionShape> kPadded = {
    {.batch = 1, .sequence = 64, .heads = 1, .kv_heads = 1, .head_size = 64},
    {.batch = 1, .sequence = 35, .heads = 1, .kv_heads = 1, .head_size = 128},
    {.batch = 1, .sequence = 18, .heads = 2, .kv_heads = 1, .head_size = 256}};
template <>
inline const std::vector<AttentionShape> kPadded<BFloat16> = {
    {.batch = 1, .sequence = 130, .heads = 2, .kv_heads = 1, .head_size = 40},
    {.batch = 1, .sequence = 65, .heads = 1, .kv_heads = 1, .head_size = 96},
    {.batch = 1, .sequence = 65, .heads = 1, .kv_heads = 1, .head_size = 128},
    {.batch = 1, .sequence = 65, .heads = 1, .kv_heads = 1, .head_size = 192},
    {.batch = 1, .sequence = 67, .heads = 2, .kv_heads = 1, .head_size = 256}};
template <>
inline const std::vector<AttentionShape> kPadded<Float16> = {
    {.batch = 1, .sequence = 19, .heads = 1, .kv_heads = 1, .head_size = 64},
    {.batch = 1, .sequence = 19, .heads = 1, .kv_heads = 1, .head_size = 96},
    {.batch = 1, .sequence = 19, .heads = 1, .kv_heads = 1, .head_size = 128},
    {.batch = 1, .sequence = 19, .heads = 1, .kv_heads = 1, .head_size = 192},
    {.batch = 1, .sequence = 19, .heads = 1, .kv_heads = 1, .head_size = 256}};

inline const AttentionShape kOfDocuments[] = {
    {.batch = 2, .sequence = 80, .heads = 1, .kv_heads = 1, .head_size = 16},
    {.batch = 1,
     .sequence = 70,
     .heads = 2,
     .kv_heads = 1,
     .head_size = 24,
     .scores = {.window = 30, .softcap = 5}}};
inline const std::vector<int32_t> kLengths[] = {{1}, {63, 1, 70}, {2, 1, 67, 3, 50, 1, 1, 200}};

// All of a list, of f16 the first `few`: its kernels are those of bf16 but for products and
// roundings, which all shapes have.
template <typename T, typename List>
auto Some(const List& all, size_t few) {
  return absl::MakeConstSpan(all).subspan(0, std::is_same_v<T, Float16> ? few : std::size(all));
}

// Documents of the lengths given, over and over.
inline Positions DocumentsOf(const AttentionShape& shape, const std::vector<int32_t>& lengths) {
  Positions positions;
  size_t next = 0;
  for (int64_t b = 0; b < shape.batch; ++b) {
    for (int64_t row = 0; row < shape.sequence;) {
      const int32_t length = lengths[next++ % lengths.size()];
      for (int32_t i = 0; i < length && row < shape.sequence; ++i, ++row) positions.push_back(i);
    }
  }
  return positions;
}

inline std::string NameOf(const AttentionShape& shape) {
  return absl::StrCat("T ", shape.sequence, " H ", shape.heads, " K ", shape.kv_heads, " D ",
                      shape.head_size, " window ", shape.scores.window);
}

// The reference's numbers, rounded to T.
template <typename T>
std::vector<T> RoundedOf(const Doubles& values) {
  return testing::As<T>(Floats(values.begin(), values.end()));
}

}  // namespace strata::kernels::cuda

#endif  // STRATA_KERNELS_CUDA_ATTENTION_TESTING_H_
