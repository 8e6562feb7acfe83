#include "data/tokenizer/merge_table.h"

#include <algorithm>
#include <numeric>
#include <utility>

namespace strata::data {
namespace {

// Up to so many symbols, looking at all pairs each time is faster than a heap.
constexpr size_t kFew = 96;

// Scratch memory that is kept between words, in symbols.
constexpr size_t kKept = size_t{1} << 16;

template <typename T>
void ShrinkTo(size_t most, std::vector<T>* values) {
  if (values->capacity() > most) std::vector<T>().swap(*values);
}

bool ComesLater(const MergeScratch::Candidate& a, const MergeScratch::Candidate& b) {
  return a.order > b.order;
}

}  // namespace

void MergeScratch::Shrink() {
  ShrinkTo(kKept, &merges);
  ShrinkTo(kKept, &previous);
  ShrinkTo(kKept, &next);
  ShrinkTo(kKept, &heap);
}

void MergeTable::Reserve(size_t merges) {
  size_t places = slots_.size();
  int shift = shift_;
  for (; places < 2 * merges; places *= 2) --shift;
  if (places == slots_.size()) return;
  std::vector<Slot> old(places);
  old.swap(slots_);
  mask_ = places - 1;
  shift_ = shift;
  size_ = 0;
  for (const Slot& slot : old) {
    if (slot.key != kNone) Put(slot);
  }
}

void MergeTable::Put(const Slot& slot) {
  size_t place = PlaceOf(slot.key);
  while (slots_[place].key != kNone && slots_[place].key != slot.key) place = (place + 1) & mask_;
  if (slots_[place].key == kNone) ++size_;
  slots_[place] = slot;
}

void MergeTable::Add(int32_t left, int32_t right, uint32_t rank, int32_t id) {
  if (2 * (size_ + 1) > slots_.size()) Reserve(2 * (size_ + 1));
  Put({KeyOf(left, right), uint64_t{rank} << 32 | static_cast<uint32_t>(id)});
}

void MergeTable::Merge(int32_t* symbols, size_t count, MergeScratch* scratch,
                       TokenBuffer* out) const {
  if (count <= kFew) {
    MergeFew(symbols, count, scratch, out);
  } else {
    MergeMany(symbols, count, scratch, out);
  }
}

void MergeTable::MergeFew(int32_t* symbols, size_t count, MergeScratch* scratch,
                          TokenBuffer* out) const {
  scratch->merges.resize(count);
  uint64_t* const merges = scratch->merges.data();  // [i]: of symbols i and i + 1
  for (size_t i = 0; i + 1 < count; ++i) merges[i] = Find(symbols[i], symbols[i + 1]);
  while (count > 1) {
    const size_t pairs = count - 1;
    const size_t best = static_cast<size_t>(std::min_element(merges, merges + pairs) - merges);
    if (merges[best] == kNone) break;
    symbols[best] = static_cast<int32_t>(merges[best] & 0xFFFFFFFF);
    std::copy(symbols + best + 2, symbols + count, symbols + best + 1);
    std::copy(merges + best + 1, merges + pairs, merges + best);
    --count;
    if (best > 0) merges[best - 1] = Find(symbols[best - 1], symbols[best]);
    if (best + 1 < count) merges[best] = Find(symbols[best], symbols[best + 1]);
  }
  std::copy_n(symbols, count, out->Room(count));
  out->Grow(count);
}

// Puts the merge of the symbol at a position with the one behind it onto the heap.
void MergeTable::Consider(int32_t position, const int32_t* symbols, MergeScratch* scratch) const {
  const int32_t behind = scratch->next[position];
  if (behind < 0) return;
  const uint64_t merge = Find(symbols[position], symbols[behind]);
  if (merge == kNone) return;
  scratch->heap.push_back({(merge & ~uint64_t{0xFFFFFFFF}) | static_cast<uint32_t>(position),
                           static_cast<int32_t>(merge & 0xFFFFFFFF)});
}

void MergeTable::MergeMany(int32_t* symbols, size_t count, MergeScratch* scratch,
                           TokenBuffer* out) const {
  constexpr int32_t kGone = -1;
  scratch->previous.resize(count);
  scratch->next.resize(count);
  std::iota(scratch->previous.begin(), scratch->previous.end(), -1);
  std::iota(scratch->next.begin(), scratch->next.end(), 1);
  scratch->next.back() = -1;
  std::vector<MergeScratch::Candidate>& heap = scratch->heap;
  heap.clear();
  for (size_t i = 0; i + 1 < count; ++i) Consider(static_cast<int32_t>(i), symbols, scratch);
  std::make_heap(heap.begin(), heap.end(), ComesLater);
  const auto consider = [&](int32_t position) {
    const size_t before = heap.size();
    Consider(position, symbols, scratch);
    if (heap.size() > before) std::push_heap(heap.begin(), heap.end(), ComesLater);
  };
  while (!heap.empty()) {
    std::pop_heap(heap.begin(), heap.end(), ComesLater);
    const MergeScratch::Candidate top = heap.back();
    heap.pop_back();
    const auto at = static_cast<int32_t>(top.order & 0xFFFFFFFF);
    if (symbols[at] == kGone || scratch->next[at] < 0) continue;
    const int32_t right = scratch->next[at];
    const uint64_t now = Find(symbols[at], symbols[right]);
    if (now == kNone || static_cast<int32_t>(now & 0xFFFFFFFF) != top.id) continue;  // outdated
    symbols[at] = top.id;
    symbols[right] = kGone;
    const int32_t after = scratch->next[right];
    scratch->next[at] = after;
    if (after >= 0) scratch->previous[after] = at;
    if (scratch->previous[at] >= 0) consider(scratch->previous[at]);
    consider(at);
  }
  int32_t* const room = out->Room(count);
  const int32_t* const end =
      std::copy_if(symbols, symbols + count, room, [](int32_t symbol) { return symbol != kGone; });
  out->Grow(static_cast<size_t>(end - room));
}

}  // namespace strata::data
