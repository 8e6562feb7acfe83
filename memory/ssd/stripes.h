// Which bytes of a flat address space lie in which file.
#ifndef STRATA_MEMORY_SSD_STRIPES_H_
#define STRATA_MEMORY_SSD_STRIPES_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"

namespace strata::memory {

// Stripes of equal size go to the files in turn. A file that its limit has filled is passed over
// from there on, so that limits of any size are used up.
class Stripes {
 public:
  struct Place {
    int file = 0;
    int64_t offset = 0;  // in the file
    int64_t bytes = 0;   // that follow there
  };

  // `limits`: bytes of each file, 0: none; counted in whole stripes. ResourceExhausted, with the
  // bytes: `bytes` do not fit.
  static absl::StatusOr<Stripes> Create(const std::vector<int64_t>& limits, int64_t stripe_bytes,
                                        int64_t bytes);

  Place Find(int64_t offset) const;
  // What the file holds of all bytes.
  int64_t file_bytes(int file) const { return file_bytes_[file]; }

 private:
  // Stripes [first, …) of the address space go to `files` in turn, beginning with stripe `base` of
  // each.
  struct Phase {
    int64_t first = 0;
    int64_t base = 0;
    std::vector<int> files;
  };

  int64_t stripe_bytes_ = 0;
  std::vector<Phase> phases_;
  std::vector<int64_t> file_bytes_;
};

}  // namespace strata::memory

#endif  // STRATA_MEMORY_SSD_STRIPES_H_
