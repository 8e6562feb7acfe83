#include "model/initialize.h"

#include <algorithm>
#include <cstdlib>

#include "common/check.h"
#include "common/digest.h"
#include "common/normal_series.h"
#include "common/rng.h"

namespace strata::model {
namespace {

using program::Initializer;
using program::TensorSpec;

}  // namespace

uint64_t InitialKey(uint64_t seed, const std::string& tensor) {
  const std::string digest = common::DigestOf(tensor.data(), tensor.size());
  return common::MixBits(seed, std::strtoull(digest.substr(0, 16).c_str(), nullptr, 16));
}

std::vector<InitialPiece> InitialPieces(const program::ParameterSet& set, uint64_t seed,
                                        int64_t begin, int64_t end, int64_t cut_index) {
  STRATA_CHECK(begin >= 0 && begin <= end && end <= set.elements);
  std::vector<InitialPiece> pieces;
  int64_t next = begin;
  const auto pad = [&](int64_t to) {
    if (next < to) pieces.push_back({next, to - next, {}, 0, 0});
    next = to;
  };
  const std::string* keyed = nullptr;
  uint64_t key = 0;
  for (const program::ElementRun& run : ElementRuns(set, cut_index, begin, end)) {
    const TensorSpec& tensor = set.tensors[run.tensor];
    const std::string& name = tensor.logical_name(run.part);
    if (keyed != &name) key = InitialKey(seed, name);
    keyed = &name;
    pad(run.flat);
    pieces.push_back({run.flat, run.count, tensor.initializer, key, run.first});
    next = run.flat + run.count;
  }
  pad(end);
  return pieces;
}

void FillInitial(const program::ParameterSet& set, uint64_t seed, int64_t begin,
                 absl::Span<float> values, int64_t cut_index) {
  const int64_t end = begin + static_cast<int64_t>(values.size());
  for (const InitialPiece& piece : InitialPieces(set, seed, begin, end, cut_index)) {
    float* out = values.data() + (piece.begin - begin);
    const float value = static_cast<float>(piece.initializer.value);
    if (piece.initializer.kind == Initializer::Kind::kConstant) {
      std::fill(out, out + piece.count, value);
      continue;
    }
    const auto first = static_cast<uint64_t>(piece.first),
               count = static_cast<uint64_t>(piece.count);
    if (piece.initializer.kind == Initializer::Kind::kNormal) {
      common::WriteNormals(piece.key, first, value, absl::MakeSpan(out, count));
      continue;
    }
    for (uint64_t i = 0; i < count; ++i) {
      out[i] = value * common::SymmetricAt(piece.key, first + i);
    }
  }
}

}  // namespace strata::model
