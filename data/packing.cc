#include "data/packing.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <utility>

#include "common/check.h"

namespace strata::data {
namespace {

// A group is closed when it has at least so many pieces, and windows' worth of rows; or that many.
constexpr int64_t kGroupPieces = 1 << 16, kGroupWindows = 256, kMostPieces = 1 << 30;

}  // namespace

Packing::Piece Packing::Pieces::operator[](int64_t i) const {
  if (whole_.rows > 0) return whole_;
  const Rest& rest = rest_[static_cast<size_t>(i)];
  return {rest.begin, rest.rows};
}

int64_t Packing::Pieces::rows() const {
  int64_t rows = whole_.rows;
  for (const Rest& rest : rest_) rows += rest.rows;
  return rows;
}

Packing::Packing(absl::Span<const int64_t> ends, int64_t begin, int64_t end, int64_t sequence)
    : sequence_(sequence) {
  STRATA_CHECK(sequence >= 1 && sequence <= kLongestSequence);
  int64_t start = 0;
  for (const int64_t document_end : ends) {
    const int64_t first = std::max(start, begin), last = std::min(document_end, end);
    STRATA_CHECK(document_end >= start);
    start = document_end;
    if (last - first >= 2) Add(first, last - first - 1);
  }
  CloseGroup();
  pending_.shrink_to_fit();
}

void Packing::Add(int64_t begin, int64_t rows) {
  const int64_t wholes = rows / sequence_, rest = rows % sequence_;
  if (wholes > 0) longs_.push_back({begin, wholes_});
  wholes_ += wholes;
  if (rest > 0) pending_.push_back({begin + wholes * sequence_, static_cast<int32_t>(rest)});
  pending_rows_ += rest;
  const int64_t pieces = static_cast<int64_t>(pending_.size());
  const bool enough = pieces >= kGroupPieces && pending_rows_ / sequence_ >= kGroupWindows;
  if (enough || pieces == kMostPieces) CloseGroup();
}

std::vector<int32_t> Packing::PackPending() const {
  std::vector<int32_t> order(pending_.size());
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(), [&](int32_t a, int32_t b) {
    const int32_t of_a = pending_[static_cast<size_t>(a)].rows;
    const int32_t of_b = pending_[static_cast<size_t>(b)].rows;
    return of_a != of_b ? of_a > of_b : a < b;
  });
  std::vector<int32_t> bin_of(pending_.size());
  std::map<int32_t, std::vector<int32_t>> open;  // bins by the rows that they have left
  int32_t bins = 0;
  for (const int32_t piece : order) {
    const int32_t rows = pending_[static_cast<size_t>(piece)].rows;
    int32_t left = static_cast<int32_t>(sequence_), bin = bins;
    if (const auto tightest = open.lower_bound(rows); tightest != open.end()) {
      left = tightest->first;
      bin = tightest->second.back();
      tightest->second.pop_back();
      if (tightest->second.empty()) open.erase(tightest);
    } else {
      ++bins;
    }
    bin_of[static_cast<size_t>(piece)] = bin;
    if (left > rows) open[left - rows].push_back(bin);
  }
  return bin_of;
}

void Packing::CloseGroup() {
  const int64_t wholes = wholes_ - closed_wholes_;
  if (wholes == 0 && pending_.empty()) return;
  groups_.push_back({windows_, closed_wholes_, static_cast<int64_t>(bin_ends_.size()), wholes});
  const std::vector<int32_t> bin_of = PackPending();
  // Bins by their first piece. Pieces are in the order of the file, so that a bin's are, too.
  std::vector<int32_t> place(pending_.size(), -1);  // by bin
  std::vector<int64_t> sizes;
  for (const int32_t bin : bin_of) {
    int32_t& at = place[static_cast<size_t>(bin)];
    if (at < 0) {
      at = static_cast<int32_t>(sizes.size());
      sizes.push_back(0);
    }
    ++sizes[static_cast<size_t>(at)];
  }
  const int64_t first = static_cast<int64_t>(rests_.size());
  std::vector<int64_t> next(sizes.size());
  std::exclusive_scan(sizes.begin(), sizes.end(), next.begin(), first);
  rests_.resize(rests_.size() + pending_.size());
  for (size_t i = 0; i < pending_.size(); ++i) {
    const auto at = static_cast<size_t>(place[static_cast<size_t>(bin_of[i])]);
    rests_[static_cast<size_t>(next[at]++)] = pending_[i];
  }
  bin_ends_.insert(bin_ends_.end(), next.begin(), next.end());
  windows_ += wholes + static_cast<int64_t>(sizes.size());
  closed_wholes_ = wholes_;
  pending_.clear();
  pending_rows_ = 0;
}

Packing::Pieces Packing::Of(int64_t window) const {
  STRATA_CHECK(window >= 0 && window < windows_);
  const auto after = [](int64_t value, const auto& entry) { return value < entry.first_window; };
  const Group& group = *(std::upper_bound(groups_.begin(), groups_.end(), window, after) - 1);
  const int64_t place = window - group.first_window;
  Pieces pieces;
  if (place < group.wholes) {
    const int64_t whole = group.first_whole + place;
    const auto later = [](int64_t value, const Long& entry) { return value < entry.wholes_before; };
    const Long& document = *(std::upper_bound(longs_.begin(), longs_.end(), whole, later) - 1);
    pieces.whole_ = {document.begin + (whole - document.wholes_before) * sequence_, sequence_};
    return pieces;
  }
  const auto bin = static_cast<size_t>(group.first_bin + place - group.wholes);
  const int64_t begin = bin == 0 ? 0 : bin_ends_[bin - 1];
  pieces.rest_ = absl::MakeConstSpan(rests_).subspan(static_cast<size_t>(begin),
                                                     static_cast<size_t>(bin_ends_[bin] - begin));
  return pieces;
}

}  // namespace strata::data
