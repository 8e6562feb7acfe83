#include "device/standin/managed.h"

#include <string>

#include "device/standin/host_access.h"

namespace strata::standin {
namespace {

std::string PlaceName(int place) {
  return place == kOnHost ? "the host" : "device " + std::to_string(place);
}

// The first page that bytes lie on, and the one behind the last.
struct Pages {
  uint64_t begin, end;
};
Pages PagesOf(const Region& region, uint64_t address, uint64_t bytes) {
  const uint64_t first = region.begin / kManagedPage;
  return {address / kManagedPage - first, (address + bytes - 1) / kManagedPage - first + 1};
}

}  // namespace

void UsePages(Machine& machine, Region& region, uint64_t address, uint64_t bytes, int device,
              const Accessor& who) {
  if (region.pages == nullptr || bytes == 0) return;
  ManagedPages& pages = *region.pages;
  const auto [begin, end] = PagesOf(region, address, bytes);
  for (uint64_t page = begin; page < end; ++page) {
    // Once an operation: its threads find the page alike.
    if (pages.used_by[page] == who.stamp.operation && pages.on[page] == device) continue;
    pages.used_by[page] = who.stamp.operation;
    if (machine.options.check) {
      machine.checker.Touch(pages.moves, page, 1, Checker::Access::kRead, who, {pages.name});
    }
    if (pages.on[page] == device) continue;
    if (!machine.options.allow_page_faults) {
      machine.checker.Report(FindingKind::kPageFault, who.stamp,
                             machine.memory.Locate(address) + ", whose page " +
                                 std::to_string(page) + " is on " + PlaceName(pages.on[page]) +
                                 ", touched");
    }
    machine.memory.MovePage(region, page, device);
    machine.memory.CountFault();
  }
}

void MovePages(Machine& machine, Region& region, uint64_t address, uint64_t bytes, int to,
               const Accessor& who) {
  ManagedPages& pages = *region.pages;
  const auto [begin, end] = PagesOf(region, address, bytes);
  for (uint64_t page = begin; page < end; ++page) {
    if (machine.options.check) {
      machine.checker.Touch(pages.moves, page, 1, Checker::Access::kWrite, who, {pages.name});
    }
    if (pages.on[page] == to) continue;
    machine.memory.MovePage(region, page, to);
    machine.memory.CountPrefetch(to);
    if (to == kOnHost || machine.memory.used_bytes(to) <= machine.memory.capacity_bytes()) continue;
    machine.checker.Report(FindingKind::kPageFault, who.stamp,
                           "no room on " + PlaceName(to) + " for page " + std::to_string(page) +
                               " of " + region.name +
                               ": others would be moved away for it, prefetched");
  }
}

void JudgeHostFaults(Machine& machine) {
  for (const uint64_t address : TakeHostFaults()) {
    Region* const region = machine.memory.Find(address);
    if (region == nullptr || region->pages == nullptr) continue;
    const uint64_t page = PagesOf(*region, address, 1).begin;
    const int was = region->pages->on[page];
    machine.memory.MovePage(*region, page, kOnHost);
    machine.memory.CountFault();
    if (machine.options.allow_page_faults) continue;
    machine.findings.Report(FindingKind::kPageFault, region->name + std::to_string(page), 0,
                            machine.memory.Locate(address) + ", whose page " +
                                std::to_string(page) + " is on " + PlaceName(was) +
                                ", touched by the host");
  }
}

}  // namespace strata::standin
