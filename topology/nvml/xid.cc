#include "topology/nvml/xid.h"

#include <algorithm>
#include <array>

namespace strata::topology {
namespace {

struct Row {
  int first = 0;
  int last = 0;
  XidMeaning meaning;
};

constexpr XidEffect kNone = XidEffect::kNone;
constexpr XidEffect kEndsRank = XidEffect::kEndsRank;
constexpr XidEffect kDegrades = XidEffect::kDegrades;
constexpr XidEffect kFails = XidEffect::kFails;

// By number. Where the catalog asks for a closer look (its workflows), the row says why it is where
// it is.
constexpr std::array kRows = {
    Row{8, 8, {kEndsRank, "the GPU stopped processing"}},
    Row{11, 11, {kEndsRank, "an invalid command stream"}},
    Row{13, 13, {kEndsRank, "an exception in a kernel"}},
    Row{25, 25, {kEndsRank, "an illegal command stream"}},
    Row{31, 31, {kEndsRank, "a memory page fault"}},
    Row{32, 32, {kEndsRank, "a corrupted command stream"}},
    Row{39, 41, {kEndsRank, "an exception in a copy"}},
    Row{43, 43, {kNone, "a process's own fault ended it"}},
    Row{45, 45, {kNone, "a process was cleaned up"}},
    Row{46, 46, {kFails, "the GPU stopped processing"}},
    // "A GPU reset or node reboot is needed to clear this error."
    Row{48, 48, {kFails, "an uncorrectable memory error"}},
    Row{54, 54, {kDegrades, "a power cable is not connected"}},
    Row{62, 62, {kFails, "its micro-controller halted"}},
    Row{63, 63, {kNone, "a row of its memory is to be replaced"}},
    Row{64, 64, {kFails, "a row of its memory could not be replaced"}},
    Row{69, 72, {kEndsRank, "an exception in a kernel or a copy"}},
    // "A GPU reset or node reboot is needed to clear this error."
    Row{74, 74, {kFails, "an NVLink failed"}},
    Row{75, 77, {kEndsRank, "an exception in a copy"}},
    Row{79, 79, {kFails, "it has fallen off the bus"}},
    Row{80, 80, {kEndsRank, "a corrupted command stream"}},
    Row{85, 85, {kEndsRank, "an exception in a copy"}},
    Row{92, 92, {kDegrades, "many corrected memory errors"}},
    // "It is recommended to reset the GPU when convenient."
    Row{94, 94, {kDegrades, "a memory error, contained in one process"}},
    Row{95, 95, {kFails, "a memory error that was not contained"}},
    Row{109, 109, {kFails, "a context switch timed out"}},
    Row{110, 110, {kFails, "a security fault"}},
    Row{119, 119, {kFails, "its firmware (GSP) does not answer"}},
    Row{120, 120, {kFails, "an error in its firmware (GSP)"}},
    Row{126, 135, {kEndsRank, "an exception in a copy"}},
    Row{136, 136, {kFails, "an NVLink could not be trained"}},
    Row{137, 137, {kNone, "an illegal access over NVLink"}},
    Row{140, 140, {kFails, "an uncorrectable memory error, not recovered from"}},
    Row{143, 143, {kFails, "it did not initialise"}},
    // Some of their many kinds ask for a reset and some for nothing, and NVML tells none of them.
    Row{144, 150, {kDegrades, "an error of NVLink"}},
    Row{156, 156, {kDegrades, "a part of it is to be retired at its next reset"}},
    Row{157, 157, {kDegrades, "a part of it could not be retired"}},
    Row{158, 158, {kFails, "a fatal timeout"}},
};

}  // namespace

XidMeaning MeaningOf(int xid) {
  const auto row = std::find_if(kRows.begin(), kRows.end(), [xid](const Row& each) {
    return each.first <= xid && xid <= each.last;
  });
  return row == kRows.end() ? XidMeaning() : row->meaning;
}

}  // namespace strata::topology
