#include "client/terminal/curve.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace strata::client {
namespace {

// Means of the values that fall on each of `columns` columns; NaN where none does.
std::vector<double> Resample(const std::vector<double>& values, size_t columns) {
  std::vector<double> sums(columns, 0);
  std::vector<int> counts(columns, 0);
  for (size_t i = 0; i < values.size(); ++i) {
    if (!std::isfinite(values[i])) continue;
    const size_t column = values.size() == 1 ? 0 : i * (columns - 1) / (values.size() - 1);
    sums[column] += values[i];
    ++counts[column];
  }
  for (size_t c = 0; c < columns; ++c) {
    sums[c] = counts[c] == 0 ? std::numeric_limits<double>::quiet_NaN() : sums[c] / counts[c];
  }
  return sums;
}

// The last column that has a value at or before `column`, joined by a straight line to the next
// one.
void FillGaps(std::vector<double>& means) {
  size_t last = means.size();
  for (size_t c = 0; c < means.size(); ++c) {
    if (std::isnan(means[c])) continue;
    if (last < means.size()) {
      for (size_t g = last + 1; g < c; ++g) {
        const double share = static_cast<double>(g - last) / static_cast<double>(c - last);
        means[g] = means[last] + share * (means[c] - means[last]);
      }
    }
    last = c;
  }
}

// UTF-8 of braille pattern U+2800 + bits.
std::string Braille(int bits) {
  const int code = 0x2800 + bits;
  std::string text;
  text.push_back(static_cast<char>(0xe0 | (code >> 12)));
  text.push_back(static_cast<char>(0x80 | ((code >> 6) & 0x3f)));
  text.push_back(static_cast<char>(0x80 | (code & 0x3f)));
  return text;
}

// Dots per character.
struct Cell {
  int across;
  int down;
};

// Bit of dot (x, y) in a braille character, y from the top.
constexpr int kDotBits[4][2] = {{0x01, 0x08}, {0x02, 0x10}, {0x04, 0x20}, {0x40, 0x80}};

class Canvas {
 public:
  Canvas(const CurveOptions& options)
      : cell_(options.unicode ? Cell{2, 4} : Cell{1, 1}),
        width_(std::max(1, options.width)),
        height_(std::max(1, options.height)),
        bits_(static_cast<size_t>(width_) * static_cast<size_t>(height_), 0) {}

  int dots_across() const { return width_ * cell_.across; }
  int dots_down() const { return height_ * cell_.down; }

  void Set(int x, int y) {
    const size_t index = static_cast<size_t>(y / cell_.down) * static_cast<size_t>(width_) +
                         static_cast<size_t>(x / cell_.across);
    bits_[index] |= kDotBits[y % cell_.down][x % cell_.across];
  }

  std::string Row(int row) const {
    std::string text;
    for (int column = 0; column < width_; ++column) {
      const int bits = bits_[static_cast<size_t>(row) * static_cast<size_t>(width_) +
                             static_cast<size_t>(column)];
      if (bits == 0) {
        text += " ";
      } else {
        text += cell_.down == 1 ? "*" : Braille(bits);
      }
    }
    return text;
  }

 private:
  Cell cell_;
  int width_;
  int height_;
  std::vector<int> bits_;  // per character
};

void Plot(const std::vector<double>& means, double low, double high, Canvas& canvas) {
  const int top = canvas.dots_down() - 1;
  int before = -1;
  for (size_t c = 0; c < means.size(); ++c) {
    if (std::isnan(means[c])) {
      before = -1;
      continue;
    }
    const double share = high > low ? (high - means[c]) / (high - low) : 0.5;
    const int y = std::clamp(static_cast<int>(std::lround(share * top)), 0, top);
    // A steep step is drawn as a vertical line, so that the curve has no holes.
    const int from = before < 0 ? y : before + (before < y ? 1 : before > y ? -1 : 0);
    for (int dot = std::min(from, y); dot <= std::max(from, y); ++dot) {
      canvas.Set(static_cast<int>(c), dot);
    }
    before = y;
  }
}

}  // namespace

std::vector<std::string> DrawCurve(const std::vector<double>& values, const CurveOptions& options) {
  double low = std::numeric_limits<double>::infinity();
  double high = -low;
  Canvas canvas(options);
  std::vector<double> means = Resample(values, static_cast<size_t>(canvas.dots_across()));
  for (const double mean : means) {
    if (std::isnan(mean)) continue;
    low = std::min(low, mean);
    high = std::max(high, mean);
  }
  if (low > high) return {};
  FillGaps(means);
  Plot(means, low, high, canvas);
  std::vector<std::string> lines;
  const int height = std::max(1, options.height);
  const char* bar = options.unicode ? " ┤" : " |";
  for (int row = 0; row < height; ++row) {
    std::string label(8, ' ');
    if (row == 0) label = absl::StrFormat("%8.4g", high);
    if (row == height - 1 && height > 1) label = absl::StrFormat("%8.4g", low);
    lines.push_back(absl::StrCat(label, bar, canvas.Row(row)));
  }
  const std::string first = absl::StrFormat("%.0f", options.first_x);
  const std::string last = absl::StrFormat("%.0f", options.last_x);
  const int gap = std::max(1, options.width - static_cast<int>(first.size() + last.size()));
  lines.push_back(
      absl::StrCat(std::string(10, ' '), first, std::string(static_cast<size_t>(gap), ' '), last));
  return lines;
}

}  // namespace strata::client
