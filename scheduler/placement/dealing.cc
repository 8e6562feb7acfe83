#include "scheduler/placement/dealing.h"

#include <algorithm>
#include <cstdint>
#include <utility>

#include "common/check.h"

namespace strata::scheduler {

void Dealer::Deal(const Tiling& tiling, bool even) {
  even_ = even;
  chose_ = false;
  at_ = 0;
  left_ = children_.pools;
  pieces_.clear();
  last_.assign(children_.ends.size(), -1);
  dealt_.clear();
  for (const int unit : tiling.units()) {
    const int before = at_;
    if (const int needed = (tiling.cells() - at_) / unit; needed > 0) DealUnits(unit, needed);
    dealt_.push_back(at_ - before);
  }
  STRATA_CHECK(at_ == tiling.cells());
  Gather();
}

void Dealer::DealUnits(int unit, int needed) {
  share_.resize(children_.ends.size());
  int64_t total = 0;
  size_t pool = 0;
  for (size_t child = 0; child < share_.size(); ++child) {
    int units = 0;
    for (; pool < static_cast<size_t>(children_.ends[child]); ++pool) units += left_[pool] / unit;
    share_[child] = units;
    total += units;
  }
  if (total > needed) Choose(needed);
  for (int child = 0; child < children_.count(); ++child) {
    if (share_[child] > 0) Take(child, unit, share_[child]);
  }
}

void Dealer::Choose(int needed) {
  chose_ = true;
  // The largest capacity that children of at least as much suffice with.
  int low = 1, high = *std::max_element(share_.begin(), share_.end());
  while (low < high) {
    const int middle = low + (high - low + 1) / 2;
    int64_t sum = 0;
    for (const int share : share_) sum += share >= middle ? share : 0;
    sum >= needed ? low = middle : high = middle - 1;
  }
  int left = needed;
  chosen_.assign(share_.size(), 0);
  for (size_t child = 0; child < share_.size(); ++child) {
    if (share_[child] > low) left -= chosen_[child] = share_[child];
  }
  for (size_t child = 0; child < share_.size() && low < left; ++child) {
    if (share_[child] == low) left -= chosen_[child] = low;
  }
  size_t tightest = share_.size();
  for (size_t child = 0; child < share_.size(); ++child) {
    if (chosen_[child] > 0 || share_[child] < left) continue;
    if (tightest == share_.size() || share_[child] < share_[tightest]) tightest = child;
  }
  chosen_[tightest] = left;
  if (even_) Even(needed);
  std::swap(share_, chosen_);
}

void Dealer::Even(int needed) {
  order_.clear();
  for (size_t child = 0; child < chosen_.size(); ++child) {
    if (chosen_[child] > 0) order_.push_back(static_cast<int>(child));
  }
  std::sort(order_.begin(), order_.end(),
            [&](int a, int b) { return std::pair(share_[a], a) < std::pair(share_[b], b); });
  auto rest = static_cast<int>(order_.size());
  for (const int child : order_) {
    chosen_[child] = std::min(share_[child], (needed + rest - 1) / rest);
    needed -= chosen_[child];
    --rest;
  }
}

void Dealer::Take(int child, int unit, int units) {
  const Run run = {at_, at_ + units * unit};
  at_ = run.end;
  if (last_[child] >= 0 && pieces_[last_[child]].run.end == run.begin) {
    pieces_[last_[child]].run.end = run.end;
  } else {
    last_[child] = static_cast<int>(pieces_.size());
    pieces_.push_back({child, run});
  }
  for (int pool = child == 0 ? 0 : children_.ends[child - 1]; units > 0; ++pool) {
    const int taken = std::min(units, left_[pool] / unit);
    left_[pool] -= taken * unit;
    units -= taken;
  }
}

void Dealer::Gather() {
  shares_.first.assign(children_.ends.size() + 1, 0);
  for (const Piece& piece : pieces_) ++shares_.first[piece.child + 1];
  for (size_t i = 1; i < shares_.first.size(); ++i) shares_.first[i] += shares_.first[i - 1];
  shares_.runs.resize(pieces_.size());
  std::vector<int>& next = last_;
  next.assign(shares_.first.begin(), shares_.first.end() - 1);
  for (const Piece& piece : pieces_) shares_.runs[next[piece.child]++] = piece.run;
}

}  // namespace strata::scheduler
