// Residency: which parameter sets are present for which uses, when not all can be.
//
// One plan serves gathering from peers (ZeRO-3; Rajbhandari et al., SC 2020), fetching from host or
// SSD (ZeRO-Infinity, SC 2021) and layer streaming: they differ in where a fetch comes from. The
// future is known, so what is used again last leaves first (Belady, 1966), and a fetch begins as
// soon as its bytes are free.
#ifndef STRATA_PROGRAM_COMPOSE_RESIDENCY_H_
#define STRATA_PROGRAM_COMPOSE_RESIDENCY_H_

#include <cstdint>
#include <vector>

namespace strata::program {

// A use needs a set; ascending by use.
struct Need {
  int use = 0;
  int set = 0;
  int64_t bytes = 0;
};

struct Fetch {
  int before = 0;  // the use before which it begins
  int need = 0;    // the first need it serves
};

struct ResidencyPlan {
  std::vector<int> fetch_of_need;  // per need: index in `fetches`
  std::vector<Fetch> fetches;      // ascending by `before`
};

// At most `budget` bytes are present at once, more only where a single use needs more.
ResidencyPlan PlanResidency(const std::vector<Need>& needs, int64_t budget);

// `count` fetches in a row begin together, when all can: what left for them left together
// (Superpipeline's k', arXiv:2410.08791). Fewer where the first would come too late.
void MoveTogether(int count, const std::vector<Need>& needs, ResidencyPlan& plan);

// The most bytes that `count` uses in a row need together. With two every fetch can begin one use
// ahead, unless a set that is large and needed soon stays through all of them; with three it still
// can where such a set takes the place of one.
int64_t BytesOfUsesInARow(const std::vector<Need>& needs, int count);

}  // namespace strata::program

#endif  // STRATA_PROGRAM_COMPOSE_RESIDENCY_H_
