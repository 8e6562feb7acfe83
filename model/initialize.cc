#include "model/initialize.h"

#include <algorithm>
#include <cstdlib>

#include "common/check.h"
#include "common/digest.h"
#include "common/rng.h"

namespace strata::model {
namespace {

using program::Initializer;
using program::TensorSpec;

// Appends what of the logical tensor at [offset, offset + elements) lies in [begin, end).
void AppendPiece(std::vector<InitialPiece>& pieces, const Initializer& initializer, uint64_t key,
                 int64_t offset, int64_t elements, int64_t begin, int64_t end) {
  const int64_t from = std::max(offset, begin);
  const int64_t to = std::min(offset + elements, end);
  if (from < to) pieces.push_back({from, to - from, initializer, key, from - offset});
}

}  // namespace

uint64_t InitialKey(uint64_t seed, const std::string& tensor) {
  const std::string digest = common::DigestOf(tensor.data(), tensor.size());
  return common::MixBits(seed, std::strtoull(digest.substr(0, 16).c_str(), nullptr, 16));
}

std::vector<InitialPiece> InitialPieces(const program::ParameterSet& set, uint64_t seed,
                                        int64_t begin, int64_t end) {
  STRATA_CHECK(begin >= 0 && begin <= end && end <= set.elements);
  std::vector<InitialPiece> pieces;
  int64_t next = 0;
  for (const TensorSpec& tensor : set.tensors) {
    AppendPiece(pieces, {}, 0, next, tensor.offset - next, begin, end);
    next = tensor.offset;
    const int64_t row = tensor.elements() / tensor.shape[0];
    std::vector<TensorSpec::Part> parts = tensor.parts;
    if (parts.empty()) parts.push_back({tensor.name, tensor.shape[0]});
    for (const TensorSpec::Part& part : parts) {
      AppendPiece(pieces, tensor.initializer, InitialKey(seed, part.name), next, part.rows * row,
                  begin, end);
      next += part.rows * row;
    }
  }
  AppendPiece(pieces, {}, 0, next, set.elements - next, begin, end);
  return pieces;
}

void FillInitial(const program::ParameterSet& set, uint64_t seed, int64_t begin,
                 absl::Span<float> values) {
  const int64_t end = begin + static_cast<int64_t>(values.size());
  for (const InitialPiece& piece : InitialPieces(set, seed, begin, end)) {
    float* out = values.data() + (piece.begin - begin);
    const float value = static_cast<float>(piece.initializer.value);
    if (piece.initializer.kind == Initializer::Kind::kConstant) {
      std::fill(out, out + piece.count, value);
      continue;
    }
    for (int64_t i = 0; i < piece.count; ++i) {
      out[i] = value * common::NormalAt(piece.key, static_cast<uint64_t>(piece.first + i));
    }
  }
}

}  // namespace strata::model
