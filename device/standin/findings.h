// What the stand-in found wrong with a program: each (kind, operation, place in the source) once.
//
// Places of the source are "sites": file and line, interned, so that a memory cell can remember one
// in a few bits.
#ifndef STRATA_DEVICE_STANDIN_FINDINGS_H_
#define STRATA_DEVICE_STANDIN_FINDINGS_H_

#include <cstdint>
#include <functional>
#include <map>
#include <ostream>
#include <set>
#include <string>
#include <tuple>
#include <vector>

namespace strata::standin {

enum class FindingKind : uint8_t {
  kRace,              // two accesses that nothing orders, one of them a write
  kUninitialised,     // a read of what nothing wrote
  kOutOfBounds,       // outside any allocation or shared variable; also: after it was freed
  kMisaligned,        // the device would fault
  kDivergentBarrier,  // threads of a block at different barriers, or gone before one
  kDeadlock,          // threads wait for what never comes
  kEndless,           // a block ran longer than Options::instruction_limit
  kWarpMask,          // a thread outside the mask of the warp-wide instruction it calls
  kShuffle,           // a value from a lane that takes no part
  kAsyncCopy,         // cp.async: used before its wait, or never waited for
  kDefaultStream,     // an operation on stream 0
  kHostFunction,      // a host function called the runtime
  kHostWrite,         // the host changed pinned memory that a copy had yet to read
  kPageFault,         // managed memory, touched on the side where its page is not
  kCollective,        // members of a communicator disagree, or one is not used as NCCL asks
  kUnsupported,       // the stand-in does not know it: nothing is said of what follows
};

const char* NameOf(FindingKind kind);

struct Finding {
  FindingKind kind;
  std::string text;  // "race: write of …"
};
std::ostream& operator<<(std::ostream& out, const Finding& finding);

using Site = uint32_t;  // 0: unknown

class Findings {
 public:
  // `where` names the operation (a kernel, a copy); with `kind` and `site` it makes a finding one.
  void Report(FindingKind kind, const std::string& where, Site site, const std::string& text);
  std::vector<Finding> Take();
  std::function<void(const Finding&)> at_each;  // is told of each; may be null

  // Ids are below 2^18; what comes after counts as unknown.
  Site SiteOf(const std::string& place);
  std::string TextOf(Site site) const { return sites_[site]; }

 private:
  std::vector<Finding> findings_;
  std::set<std::tuple<FindingKind, std::string, Site>> known_;
  std::vector<std::string> sites_ = {"an unknown line"};
  std::map<std::string, Site> ids_;
};

}  // namespace strata::standin

#endif  // STRATA_DEVICE_STANDIN_FINDINGS_H_
