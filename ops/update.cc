#include "ops/update.h"

#include <algorithm>

namespace strata::ops {

using program::Access;
using program::DType;
using program::Scalar;
using program::StateFormat;

namespace {

constexpr int64_t kLastFormat = static_cast<int64_t>(StateFormat::kUnsigned8);

void VisitFormat(AttributeVisitor& visitor, const char* name, StateFormat& format) {
  int64_t value = static_cast<int64_t>(format);
  visitor.Count(name, value);
  format = static_cast<StateFormat>(std::min(value, kLastFormat + 1));
}

}  // namespace

std::vector<StateFormat> UpdateNumbers::states() const {
  std::vector<StateFormat> all;
  if (has_master()) all.push_back(master);
  for (int m = 0; m < moment_count; ++m) all.push_back(moments[m]);
  return all;
}

bool UpdateNumbers::has_blocks() const {
  return std::any_of(moments.begin(), moments.begin() + moment_count, program::HasBlocks);
}

void UpdateNumbers::Visit(AttributeVisitor& visitor) {
  visitor.Size("count", count);
  visitor.Count("first", first);
  visitor.Count("stride", stride);
  visitor.Type("weights", weights);
  visitor.Type("gradient", gradient);
  VisitFormat(visitor, "master", master);
  constexpr const char* kNames[] = {"first moment", "second moment"};
  for (int m = 0; m < moment_count; ++m) VisitFormat(visitor, kNames[m], moments[m]);
  visitor.Ranges("decay", decay);
}

absl::Status UpdateNumbers::Validate() const {
  if (first + count > stride) return Require(false, "the range ends behind the rank's part");
  if (gradient == DType::kF16) return Require(false, "gradients are f32 or bf16");
  if (master != StateFormat::kF32 && master != StateFormat::kRemainder) {
    return Require(false, "the master is neither f32 nor a remainder");
  }
  if (master == StateFormat::kRemainder && weights != DType::kBF16) {
    return Require(false, "a remainder is of bf16 weights");
  }
  for (const StateFormat format : moments) {
    if (format == StateFormat::kRemainder || static_cast<int64_t>(format) > kLastFormat) {
      return Require(false, "a moment has no such format");
    }
  }
  return Require(!has_blocks() || count % program::kStateBlock == 0,
                 "count is no multiple of the blocks of states");
}

OperandSpecs UpdateNumbers::Operands() const {
  OperandSpecs specs = {In("gradient", "[count]", count, gradient),
                        Scalars("scalars", "kApplied, kLearningRate, kClipFactor", Access::kRead,
                                Scalar::kApplied, Scalar::kClipFactor),
                        Out("next weights", "[count]", count, weights)};
  const std::vector<StateFormat> formats = states();
  for (const StateFormat format : formats) {
    specs.push_back(In("state", "[count] in its format", BytesOf(format, count), DType::kBytes));
  }
  for (const StateFormat format : formats) {
    specs.push_back(
        Out("next state", "[count] in its format", BytesOf(format, count), DType::kBytes));
  }
  if (reads_weights()) specs.push_back(In("weights", "[count]", count, weights));
  return specs;
}

UpdateNumbers UpdateNumbers::Example(int moment_count) {
  return {.count = 512,
          .stride = 512,
          .weights = DType::kBF16,
          .gradient = DType::kF32,
          .master = StateFormat::kRemainder,
          .moment_count = moment_count,
          .moments = {StateFormat::kSigned8, StateFormat::kUnsigned8},
          .decay = {{0, 16}, {32, 50}}};
}

}  // namespace strata::ops
