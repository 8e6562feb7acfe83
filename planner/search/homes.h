// Where a rank's bytes may live when not all of them fit on its device, for jobs that leave it to
// be decided (`memory: auto`, `place: auto`).
#ifndef STRATA_PLANNER_SEARCH_HOMES_H_
#define STRATA_PLANNER_SEARCH_HOMES_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "proto/strata/v1/job.pb.h"

namespace strata::planner {

// Whether it leaves places open.
bool LeavesPlacesOpen(const v1::MemorySpec& memory);

// Classes of bytes that live elsewhere than on the device.
struct Homes {
  std::vector<std::pair<std::string, std::string>> elsewhere = {};  // {"optimizer", "host"}, …
  int64_t resident = 0;  // layers that are streamed, on the device at once; 0: as the job says

  bool operator==(const Homes&) const = default;
  bool all_on_device() const { return elsewhere.empty(); }
  bool Moves(const std::string& bytes) const;
};

// Steps of homes, those first that move least: whoever finds what fits in one need not look at the
// next. Host memory is another place than the device's on accelerators and where the job limits the
// device of a CPU rank; SSD where the job names directories. Empty: there is no other place.
std::vector<std::vector<Homes>> StepsOfHomes(const v1::JobSpec& job);

// What a job file has to be told (as --set has it) for these homes, of one that leaves them open.
std::vector<std::string> SettingsOf(const Homes& homes, const v1::MemorySpec& memory);

}  // namespace strata::planner

#endif  // STRATA_PLANNER_SEARCH_HOMES_H_
