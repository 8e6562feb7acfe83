#include "model/rope_table.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "common/check.h"

namespace strata::model {
namespace {

using Kind = RopeScaling::Kind;
using std::numbers::pi;

double Llama3(const RopeScaling& scaling, double frequency) {
  const double original = static_cast<double>(scaling.original_context);
  const double turns = original * frequency / (2 * pi);  // in the original context
  if (turns > scaling.high_freq_factor) return frequency;
  if (turns < scaling.low_freq_factor) return frequency / scaling.factor;
  const double share =
      (turns - scaling.low_freq_factor) / (scaling.high_freq_factor - scaling.low_freq_factor);
  return (1 - share) * frequency / scaling.factor + share * frequency;
}

// The pairs between which frequencies go over from as they were to interpolated (YaRN, eq. 18 ff.).
struct Ramp {
  double low = 0, high = 0;

  explicit Ramp(const ModelSpec& spec) {
    const double size = static_cast<double>(spec.rotated());
    const auto pair = [&](double turns) {
      const double original = static_cast<double>(spec.rope_scaling.original_context);
      return size * std::log(original / (turns * 2 * pi)) / (2 * std::log(spec.rope_theta));
    };
    low = std::max(std::floor(pair(spec.rope_scaling.beta_fast)), 0.0);
    high = std::min(std::ceil(pair(spec.rope_scaling.beta_slow)), size - 1);
    if (low == high) high += 0.001;
  }
  double At(size_t i) const {
    return std::clamp((static_cast<double>(i) - low) / (high - low), 0.0, 1.0);
  }
};

double Magnitude(const RopeScaling& scaling) {
  const bool has_own = scaling.kind == Kind::kYarn || scaling.kind == Kind::kLongRope;
  if (!has_own) return 1;
  if (scaling.attention_factor > 0) return scaling.attention_factor;
  if (scaling.factor <= 1) return 1;
  if (scaling.kind == Kind::kYarn) return 0.1 * std::log(scaling.factor) + 1;
  const double original = static_cast<double>(scaling.original_context);
  return original > 1 ? std::sqrt(1 + std::log(scaling.factor) / std::log(original)) : 1;
}

void Scale(const ModelSpec& spec, bool extended, std::vector<double>& frequencies) {
  const RopeScaling& scaling = spec.rope_scaling;
  const Ramp ramp(spec);
  for (size_t i = 0; i < frequencies.size(); ++i) {
    double& frequency = frequencies[i];
    switch (scaling.kind) {
      case Kind::kNone:
        break;
      case Kind::kLinear:
        frequency /= scaling.factor;
        break;
      case Kind::kLlama3:
        frequency = Llama3(scaling, frequency);
        break;
      case Kind::kLongRope:
        frequency /= (extended ? scaling.long_factor : scaling.short_factor)[i];
        break;
      case Kind::kYarn:
        frequency *= ramp.At(i) / scaling.factor + (1 - ramp.At(i));
        break;
    }
  }
}

void FillRow(const RotaryAngles& angles, int64_t position, float* row) {
  const size_t half = angles.frequencies.size();
  for (size_t i = 0; i < half; ++i) {
    const double angle = static_cast<double>(position) * angles.frequencies[i];
    row[i] = static_cast<float>(std::cos(angle) * angles.magnitude);
    row[half + i] = static_cast<float>(std::sin(angle) * angles.magnitude);
  }
}

void FillPositions(absl::Span<const program::ContextRun> rows, absl::Span<int32_t> positions) {
  int64_t own = 0;
  for (const program::ContextRun& run : rows) own += run.count;
  STRATA_CHECK(own > 0 && static_cast<int64_t>(positions.size()) % own == 0);
  for (int64_t first = 0; first < static_cast<int64_t>(positions.size()); first += own) {
    for (const program::ContextRun& run : rows) {
      for (int64_t i = 0; i < run.count; ++i) {
        positions[first + run.first + i] = static_cast<int32_t>(run.position + i);
      }
    }
  }
}

}  // namespace

bool IsExtended(const ModelSpec& spec, int64_t sequence) {
  return spec.rope_scaling.kind == Kind::kLongRope && sequence > spec.rope_scaling.original_context;
}

RotaryAngles AnglesOf(const ModelSpec& spec, bool local, bool extended) {
  const bool own = local && spec.local_rope_theta > 0;
  const double theta = own ? spec.local_rope_theta : spec.rope_theta;
  const double size = static_cast<double>(spec.rotated());
  RotaryAngles angles;
  for (int64_t i = 0; i < spec.rotated() / 2; ++i) {
    angles.frequencies.push_back(std::pow(theta, -2.0 * static_cast<double>(i) / size));
  }
  if (own || spec.rope_scaling.kind == Kind::kNone) return angles;
  Scale(spec, extended, angles.frequencies);
  angles.magnitude = Magnitude(spec.rope_scaling);
  return angles;
}

void FillConstant(const ModelSpec& spec, const std::string& name,
                  absl::Span<const program::ContextRun> rows, int64_t sequence,
                  absl::Span<std::byte> bytes) {
  if (name == kRowPositions) {
    return FillPositions(
        rows, {reinterpret_cast<int32_t*>(bytes.data()), bytes.size() / sizeof(int32_t)});
  }
  const bool local = name == kLocalRopeTable;
  STRATA_CHECK(local || name == kRopeTable);
  const RotaryAngles angles = AnglesOf(spec, local, IsExtended(spec, sequence));
  auto* const table = reinterpret_cast<float*>(bytes.data());
  const int64_t width = spec.rotated();
  for (const program::ContextRun& run : rows) {
    STRATA_CHECK(static_cast<int64_t>(bytes.size()) >= (run.first + run.count) * width * 4);
    for (int64_t i = 0; i < run.count; ++i) {
      FillRow(angles, run.position + i, table + (run.first + i) * width);
    }
  }
}

}  // namespace strata::model
