// What the checker remembers of memory: for each cell of a region the last write and up to three
// reads, by whom and when. An access that nothing orders after them is a race; a read of a cell
// without a write is one of uninitialised memory.
//
// A cell is as large as the largest access that came: 256 bytes at first, split when a smaller
// access comes, so that whole-buffer copies cost little. Of more than three reads that nothing
// orders, those by other streams, blocks and warps are kept: a write after the others alone, and
// unordered only with a dropped one, goes unseen.
#ifndef STRATA_DEVICE_STANDIN_SHADOW_H_
#define STRATA_DEVICE_STANDIN_SHADOW_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "device/standin/clocks.h"
#include "device/standin/findings.h"

namespace strata::standin {

struct Cell {
  Stamp write;
  Stamp others[3];  // reads, and atomic writes that a later atomic one did not follow in order
};

// Cells of a region of memory.
class Shadow {
 public:
  static constexpr uint64_t kChunkBytes = 256;

  // `written`: all of it, before the first operation.
  explicit Shadow(uint64_t bytes, bool written = false)
      : chunks_((bytes + kChunkBytes - 1) / kChunkBytes) {
    if (written) first_.write.operation = kLoaded;
  }
  // Forgets everything, as it was at first.
  void Clear();
  // Calls `visit(Cell&, offset of the cell)` for each cell of a range, cut to fit it.
  template <typename Visit>
  void ForEachCell(uint64_t offset, uint64_t bytes, Visit&& visit);

 private:
  struct Chunk {
    uint32_t generation = 0;
    uint8_t log2_bytes = 8;  // of a cell
    std::vector<Cell> cells;
  };
  void Split(Chunk& chunk, uint64_t begin, uint64_t end) const;

  Cell first_;  // what each begins as
  uint32_t generation_ = 1;
  std::vector<Chunk> chunks_;
};

// Judges accesses to cells.
class Checker {
 public:
  Checker(const Operations& operations, Findings& findings)
      : operations_(operations), findings_(findings) {}

  enum class Access : uint8_t { kRead, kWrite, kUpdate };  // kUpdate: an atomic read and write
  // What a range is called in messages: "`row`+4" is offset `origin` + 4.
  struct Name {
    const std::string& text;
    uint64_t origin = 0;
  };
  // `who.stamp` with the flag kAtomic for strong accesses.
  void Touch(Shadow& shadow, uint64_t offset, uint64_t bytes, Access access, const Accessor& who,
             const Name& name);
  // Marks a range as written by `stamp`, unchecked.
  void Mark(Shadow& shadow, uint64_t offset, uint64_t bytes, const Stamp& stamp);
  int64_t accesses() const { return accesses_; }

  std::string Describe(const Stamp& stamp) const;
  void Report(FindingKind kind, const Stamp& stamp, const std::string& text);

 private:
  bool Ordered(const Stamp& before, const Accessor& now);
  void Race(const Stamp& before, Access access, const Accessor& who, const std::string& place);
  void TouchCell(Cell& cell, uint64_t offset, Access access, const Accessor& who, const Name& name);
  void Remember(Cell& cell, const Accessor& who, const Stamp& stamp);

  const Operations& operations_;
  Findings& findings_;
  int64_t accesses_ = 0;
  OperationId last_before_ = kNever, last_now_ = kNever;  // the last question of Ordered…
  bool last_ordered_ = false;                             // … and its answer
};

template <typename Visit>
void Shadow::ForEachCell(uint64_t offset, uint64_t bytes, Visit&& visit) {
  const uint64_t end = offset + bytes;
  while (offset < end) {
    const uint64_t base = offset / kChunkBytes * kChunkBytes;
    Chunk& chunk = chunks_[offset / kChunkBytes];
    const uint64_t stop = end < base + kChunkBytes ? end : base + kChunkBytes;
    Split(chunk, offset - base, stop - base);
    const uint64_t step = uint64_t{1} << chunk.log2_bytes;
    for (; offset < stop; offset += step) {
      visit(chunk.cells[(offset - base) >> chunk.log2_bytes], offset);
    }
  }
}

}  // namespace strata::standin

#endif  // STRATA_DEVICE_STANDIN_SHADOW_H_
