#include "device/standin/findings.h"

#include <utility>

namespace strata::standin {

const char* NameOf(FindingKind kind) {
  switch (kind) {
    case FindingKind::kRace:
      return "race";
    case FindingKind::kUninitialised:
      return "uninitialised";
    case FindingKind::kOutOfBounds:
      return "out of bounds";
    case FindingKind::kMisaligned:
      return "misaligned";
    case FindingKind::kDivergentBarrier:
      return "divergent barrier";
    case FindingKind::kDeadlock:
      return "deadlock";
    case FindingKind::kEndless:
      return "endless";
    case FindingKind::kWarpMask:
      return "warp mask";
    case FindingKind::kShuffle:
      return "shuffle";
    case FindingKind::kAsyncCopy:
      return "asynchronous copy";
    case FindingKind::kDefaultStream:
      return "default stream";
    case FindingKind::kHostFunction:
      return "host function";
    case FindingKind::kHostWrite:
      return "host write";
    case FindingKind::kPageFault:
      return "page fault";
    case FindingKind::kCollective:
      return "collective";
    case FindingKind::kUnsupported:
      return "unsupported";
  }
  return "?";
}

std::ostream& operator<<(std::ostream& out, const Finding& finding) { return out << finding.text; }

void Findings::Report(FindingKind kind, const std::string& where, Site site,
                      const std::string& text) {
  if (!known_.insert({kind, where, site}).second) return;
  std::string line = std::string(NameOf(kind)) + ": " + text;
  if (site != 0) line += " at " + TextOf(site);
  findings_.push_back({kind, std::move(line)});
  if (at_each) at_each(findings_.back());
}

std::vector<Finding> Findings::Take() {
  known_.clear();
  return std::exchange(findings_, {});
}

Site Findings::SiteOf(const std::string& place) {
  constexpr size_t kMostSites = 1 << 18;
  const auto [found, is_new] = ids_.try_emplace(place, static_cast<Site>(sites_.size()));
  if (is_new && sites_.size() < kMostSites) sites_.push_back(place);
  return found->second < sites_.size() ? found->second : 0;
}

}  // namespace strata::standin
