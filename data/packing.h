// Documents packed into windows of a sequence's length, each window padded at its end.
//
// Every token of a document is to be predicted once from those before it, so a document of L tokens
// asks for L - 1 rows: its last token is a target and never an input. Longer ones are cut into
// whole windows and what is left over; what is left of all documents is packed by best fit
// decreasing, in groups of neighbouring documents (Ding et al., "Fewer Truncations Improve Language
// Modeling", ICML 2024, §3.1, for whole corpora at once). A group is large enough that its last
// windows, which may be half empty, are few; it bounds the work, which is O(documents) but for the
// logarithm of a group's size. What is kept is O(documents) too, however long they are.
//
// The windows of a group come in the order of their first tokens, whole ones first, groups in the
// order of the file.
#ifndef STRATA_DATA_PACKING_H_
#define STRATA_DATA_PACKING_H_

#include <cstdint>
#include <vector>

#include "absl/types/span.h"

namespace strata::data {

// Immutable; any number of threads may read at once.
class Packing {
 public:
  // Rows of one document: tokens [begin, begin + rows), each of which predicts the next.
  struct Piece {
    int64_t begin = 0, rows = 0;
    friend bool operator==(const Piece&, const Piece&) = default;
  };
  // A window's, in the order of the file.
  class Pieces {
   public:
    int64_t size() const { return static_cast<int64_t>(rest_.size()) + (whole_.rows > 0 ? 1 : 0); }
    Piece operator[](int64_t i) const;
    int64_t rows() const;  // of all; the window's others are padding

   private:
    friend class Packing;
    struct Rest {
      int64_t begin;
      int32_t rows;
    } __attribute__((packed));  // there is one per document
    Piece whole_;               // 0 rows: `rest_` instead
    absl::Span<const Rest> rest_;
  };

  static constexpr int64_t kLongestSequence = int64_t{1} << 30;

  // Of the documents that end at `ends` (ascending), what of them lies in tokens [begin, end).
  // 1 <= sequence <= kLongestSequence.
  Packing(absl::Span<const int64_t> ends, int64_t begin, int64_t end, int64_t sequence);

  int64_t windows() const { return windows_; }
  Pieces Of(int64_t window) const;

 private:
  // A document of whole windows.
  struct Long {
    int64_t begin;
    int64_t wholes_before;  // whole windows of earlier ones
  };
  struct Group {
    int64_t first_window;
    int64_t first_whole, first_bin;
    int64_t wholes;  // the first of the group's windows are whole
  };

  void Add(int64_t begin, int64_t rows);
  void CloseGroup();
  // Of each pending piece the bin of the group that it is packed into.
  std::vector<int32_t> PackPending() const;

  const int64_t sequence_;
  std::vector<Group> groups_;
  std::vector<Long> longs_;
  std::vector<Pieces::Rest> rests_;    // bin by bin
  std::vector<int64_t> bin_ends_;      // in rests_
  int64_t windows_ = 0, wholes_ = 0;   // so far
  int64_t closed_wholes_ = 0;          // of closed groups
  std::vector<Pieces::Rest> pending_;  // of the open group
  int64_t pending_rows_ = 0;
};

}  // namespace strata::data

#endif  // STRATA_DATA_PACKING_H_
