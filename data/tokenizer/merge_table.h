// Which pairs of tokens merge, in which order, and the merging of a word's symbols.
#ifndef STRATA_DATA_TOKENIZER_MERGE_TABLE_H_
#define STRATA_DATA_TOKENIZER_MERGE_TABLE_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "data/tokenizer/token_buffer.h"

namespace strata::data {

// Memory that merging works in, kept from word to word.
struct MergeScratch {
  struct Candidate {
    uint64_t order;  // rank, then position
    int32_t id;
  };
  std::vector<uint64_t> merges;
  std::vector<int32_t> previous, next;
  std::vector<Candidate> heap;

  // Gives back what only very long words need.
  void Shrink();
};

class MergeTable {
 public:
  // A merge: its rank in the high half, the token it makes in the low one. Smaller comes first.
  static constexpr uint64_t kNone = ~uint64_t{0};

  void Reserve(size_t merges);
  // A pair that is there already gets the new rank.
  void Add(int32_t left, int32_t right, uint32_t rank, int32_t id);
  uint64_t Find(int32_t left, int32_t right) const {
    const uint64_t key = KeyOf(left, right);
    for (size_t place = PlaceOf(key);; place = (place + 1) & mask_) {
      if (slots_[place].key == key) return slots_[place].merge;
      if (slots_[place].key == kNone) return kNone;
    }
  }

  // Merges symbols, always the pair of the smallest rank, the leftmost of equal ones, until none is
  // left, and appends what they have become. Changes `symbols`. At most 2^31 - 1 of them.
  void Merge(int32_t* symbols, size_t count, MergeScratch* scratch, TokenBuffer* out) const;

 private:
  struct Slot {
    uint64_t key = kNone;
    uint64_t merge = kNone;
  };

  static uint64_t KeyOf(int32_t left, int32_t right) {
    return uint64_t{static_cast<uint32_t>(left)} << 32 | static_cast<uint32_t>(right);
  }
  size_t PlaceOf(uint64_t key) const { return (key * 0x9E3779B97F4A7C15u) >> shift_; }
  void Put(const Slot& slot);
  void MergeFew(int32_t* symbols, size_t count, MergeScratch* scratch, TokenBuffer* out) const;
  void MergeMany(int32_t* symbols, size_t count, MergeScratch* scratch, TokenBuffer* out) const;
  void Consider(int32_t position, const int32_t* symbols, MergeScratch* scratch) const;

  std::vector<Slot> slots_ = std::vector<Slot>(2);
  size_t mask_ = 1;
  int shift_ = 63;
  size_t size_ = 0;
};

}  // namespace strata::data

#endif  // STRATA_DATA_TOKENIZER_MERGE_TABLE_H_
