// Host memory that stays where it is: near one node's processors, and not to be swapped out.
#ifndef STRATA_MEMORY_FIXED_PAGES_H_
#define STRATA_MEMORY_FIXED_PAGES_H_

#include <cstddef>
#include <cstdint>
#include <string>

namespace strata::memory {

// Where pages really lie, as the system says.
struct PageReport {
  int64_t bytes = 0;
  int64_t locked_bytes = 0;  // all or none
  int64_t huge_bytes = 0;    // on pages of 2 MiB
  int node = -1;             // that they were to be on; -1: the machine has one, all are the same
  int64_t misplaced_bytes = 0;  // elsewhere; -1: the system does not say
  // What was refused and what to do about it, in sentences of one line; empty: nothing.
  std::string lacks;
};

// Whole pages, before they are present: they will come from the node of the calling thread's
// processor, or from others once that has none left. Which that is; -1: the machine has one.
// `lacks`: as the report's, added to.
int PreferNearNode(std::byte* data, int64_t bytes, std::string* lacks);

// Whole pages that are present: locks them, and sees where they lie. What the system refuses costs
// speed and nothing else, and is told.
PageReport FixPages(std::byte* data, int64_t bytes, int node, std::string lacks);

}  // namespace strata::memory

#endif  // STRATA_MEMORY_FIXED_PAGES_H_
