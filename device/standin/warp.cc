#include "device/standin/warp.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <utility>

#include "device/standin/block.h"
#include "device/standin/lane_math.h"
#include "device/standin/managed.h"

namespace strata::standin {
namespace {

constexpr int32_t kNowhere = std::numeric_limits<int32_t>::max();
// Instructions after which lanes that spin let the others of their warp run.
constexpr int64_t kTurn = 4096;

uint64_t ValueOf(Special special, const Launch& launch, uint32_t block, uint32_t thread) {
  const Extent &grid = launch.grid, &threads = launch.block;
  const uint32_t lane = thread % kLanes, bit = uint32_t{1} << lane;
  switch (special) {
    case Special::kTidX:
      return thread % threads.x;
    case Special::kTidY:
      return thread / threads.x % threads.y;
    case Special::kTidZ:
      return thread / (threads.x * threads.y);
    case Special::kNtidX:
      return threads.x;
    case Special::kNtidY:
      return threads.y;
    case Special::kNtidZ:
      return threads.z;
    case Special::kCtaidX:
      return block % grid.x;
    case Special::kCtaidY:
      return block / grid.x % grid.y;
    case Special::kCtaidZ:
      return block / (grid.x * grid.y);
    case Special::kNctaidX:
      return grid.x;
    case Special::kNctaidY:
      return grid.y;
    case Special::kNctaidZ:
      return grid.z;
    case Special::kLaneid:
      return lane;
    case Special::kWarpid:
      return thread / kLanes;
    case Special::kLaneEq:
      return bit;
    case Special::kLaneLt:
      return bit - 1;
    case Special::kLaneLe:
      return bit | (bit - 1);
    case Special::kLaneGt:
      return ~(bit | (bit - 1));
    case Special::kLaneGe:
      return ~(bit - 1);
    case Special::kDynamicSharedBytes:
      return launch.dynamic_shared_bytes;
    case Special::kTotalSharedBytes:
      return launch.dynamic_shared_bytes + launch.program->shared_bytes;
    case Special::kSmid:
      return 0;
    case Special::kNsmid:
      return 1;
  }
  return 0;
}

}  // namespace

Warp::Warp(Block& block, int index)
    : block_(block),
      machine_(block.machine()),
      program_(block.launch().program),
      index_(index),
      registers_(static_cast<size_t>(program_->rows) * kLanes),
      local_(program_->local_bytes * kLanes) {}

void Warp::Start(uint32_t live) {
  live_ = live;
  meeting_ = at_barrier_ = 0;
  pc_.fill(0);
  clock_ = WarpClock();
  for (auto& copies : copies_) copies.assign(1, {});
  std::fill(registers_.begin(), registers_.end(), 0);
  for (const auto& [row, value] : program_->constants) std::fill_n(Row(row), kLanes, value);
  for (const auto& [row, special] : program_->specials) {
    for (int lane = 0; lane < kLanes; ++lane) {
      Row(row)[lane] = ValueOf(special, block_.launch(), block_.index(), ThreadOf(lane));
    }
  }
}

Stamp Warp::StampOf(int lane, Site site) const {
  Stamp stamp;
  stamp.operation = block_.operation();
  stamp.block = block_.index();
  stamp.time = clock_.time;
  stamp.thread = ThreadOf(lane) & 1023;
  stamp.site = site & ((1 << 18) - 1);
  return stamp;
}

void Warp::Report(FindingKind kind, const Instruction& in, int lane, const std::string& text) {
  machine_.checker.Report(kind, StampOf(lane, in.site), text);
}

void Warp::SetPlace(uint32_t lanes, int32_t pc) {
  ForEachLane(lanes, [&](int lane) { pc_[lane] = pc; });
}

void Warp::Run(int64_t slice, uint32_t ahead) {
  int32_t after = -1;  // where a group stands that has had its turn
  while (slice > 0 && !block_.aborted()) {
    uint32_t candidates = Ready() & ahead;
    if (candidates == 0) candidates = Ready();
    if (candidates == 0) return;
    int32_t least = kNowhere, others = kNowhere;
    ForEachLane(candidates, [&](int lane) {
      if (pc_[lane] > after) least = std::min(least, pc_[lane]);
    });
    if (least == kNowhere) {
      after = -1;
      continue;
    }
    uint32_t lanes = 0;
    ForEachLane(candidates, [&](int lane) {
      if (pc_[lane] == least) {
        lanes |= uint32_t{1} << lane;
      } else if (pc_[lane] > least) {
        others = std::min(others, pc_[lane]);
      }
    });
    const bool alone = lanes == candidates;
    int64_t budget = alone ? slice : std::min(slice, kTurn);
    const int64_t had = budget;
    RunGroup(least, lanes, others, &budget);
    slice -= had - budget;
    after = budget == 0 && !alone ? least : -1;
  }
}

// Runs lanes that stand at `pc` until some of them must go apart or wait, or they come to where
// the next of the others stand.
void Warp::RunGroup(int32_t pc, uint32_t lanes, int32_t others, int64_t* budget) {
  const Instruction* const code = program_->code.data();
  while (*budget > 0) {
    --*budget;
    const Instruction& in = code[pc++];
    if (in.flow == Flow::kNext) {
      uint32_t active = lanes;
      if (in.guard >= 0) {
        const uint64_t* const guard = Row(in.guard);
        ForEachLane(lanes, [&](int lane) {
          if ((guard[lane] & 1) == (in.guard_not ? 1 : 0)) active &= ~(uint32_t{1} << lane);
        });
      }
      if (active != 0) in.execute(*this, in, active);
    } else if (!Step(in, &lanes, &pc)) {
      return;
    }
    if (pc >= others || block_.aborted()) break;
  }
  SetPlace(lanes, pc);
}

// An instruction after which lanes need not be together. False: their places are set.
bool Warp::Step(const Instruction& in, uint32_t* lanes, int32_t* pc) {
  uint32_t active = *lanes;
  if (in.guard >= 0) {
    const uint64_t* const guard = Row(in.guard);
    ForEachLane(*lanes, [&](int lane) {
      if ((guard[lane] & 1) == (in.guard_not ? 1 : 0)) active &= ~(uint32_t{1} << lane);
    });
  }
  if (active == 0) return true;
  if (in.flow == Flow::kBranch && active == *lanes) {
    *pc = in.target;
    return true;
  }
  SetPlace(*lanes, *pc);
  switch (in.flow) {
    case Flow::kBranch:
      SetPlace(active, in.target);
      break;
    case Flow::kExit:
      Exit(active);
      break;
    case Flow::kMeet:
      Meet(in, active);
      break;
    case Flow::kBarrier:
      at_barrier_ |= active;
      at_barrier_ &= ~(active & ~block_.Arrive(*this, in, active));
      break;
    default:
      Report(FindingKind::kUnsupported, in, __builtin_ctz(active),
             "`" + in.text + "` is not known; the kernel is stopped,");
      block_.Abort();
      break;
  }
  return false;
}

void Warp::Meet(const Instruction& in, uint32_t lanes) {
  meeting_ |= lanes;
  ForEachLane(lanes, [&](int lane) {
    uint32_t mask = in.mask < 0 ? ~uint32_t{0} : static_cast<uint32_t>(Row(in.mask)[lane]);
    if ((mask >> lane & 1) == 0) {
      Report(FindingKind::kWarpMask, in, lane,
             "lane " + std::to_string(lane) + " is not in the mask of its own `" + in.text + "`,");
      mask = uint32_t{1} << lane;  // alone: what the device does is undefined
    }
    meet_[lane] = &in;
    meet_mask_[lane] = mask;
  });
  for (uint32_t left = lanes; left != 0;) {
    const uint32_t mask = meet_mask_[__builtin_ctz(left)];
    TryMeet(in, mask);
    left &= ~(mask | (left & -left));
  }
}

// Calls the handler when all lanes of `mask` that still live have come.
void Warp::TryMeet(const Instruction& in, uint32_t mask) {
  const uint32_t members = mask & live_;
  if (members == 0 || (members & meeting_) != members) return;
  bool all = true;
  ForEachLane(members, [&](int lane) { all &= meet_[lane] == &in && meet_mask_[lane] == mask; });
  if (!all) return;
  meeting_ &= ~members;
  in.execute(*this, in, members);
}

void Warp::Exit(uint32_t lanes) {
  ForEachLane(lanes, [&](int lane) {
    bool open = false;
    for (const auto& group : copies_[lane]) open |= !group.empty();
    if (!open) return;
    for (const auto& group : copies_[lane]) {
      if (group.empty()) continue;
      machine_.checker.Report(FindingKind::kAsyncCopy, StampOf(lane, group[0].site),
                              "a copy that is never waited for, started");
    }
    CommitCopies(lane);
    FinishCopies(lane, 0);
  });
  live_ &= ~lanes;
  // Some may have waited for these.
  for (uint32_t left = meeting_ & live_; left != 0; left &= left - 1) {
    const int lane = __builtin_ctz(left);
    if ((meeting_ >> lane & 1) != 0) TryMeet(*meet_[lane], meet_mask_[lane]);
  }
}

Place Warp::Nowhere(const Instruction& in, int lane, uint64_t bytes, const std::string& where) {
  Report(FindingKind::kOutOfBounds, in, lane,
         std::to_string(bytes) + " bytes at " + where + ", accessed");
  return {};
}

Place Warp::Resolve(const Instruction& in, Space space, uint64_t address, uint64_t bytes,
                    int lane) {
  if (space == Space::kGeneric) {
    const uint64_t window = address & (uint64_t{0xff} << 56);
    space = window == kSharedWindow      ? Space::kShared
            : window == kLocalWindow     ? Space::kLocal
            : window == kParameterWindow ? Space::kParameter
                                         : Space::kGlobal;
    if (space != Space::kGlobal) address -= window;
  }
  if (address % bytes != 0) {
    Report(FindingKind::kMisaligned, in, lane,
           std::to_string(bytes) + " bytes at an address that is a multiple of " +
               std::to_string(address & -address) + ", accessed");
    return {};
  }
  Place place;
  switch (space) {
    case Space::kShared:
      place = block_.FindShared(static_cast<uint32_t>(address), bytes);
      if (place.data == nullptr) {
        return Nowhere(in, lane, bytes,
                       "+" + std::to_string(address - place.origin) + " of shared " + *place.name);
      }
      return place;
    case Space::kLocal:
      if (address + bytes > program_->local_bytes) return Nowhere(in, lane, bytes, "local memory");
      place.data = local_.data() + lane * program_->local_bytes + address;
      return place;
    case Space::kParameter: {
      const auto& parameters = block_.launch().parameters;
      if (address + bytes > parameters.size()) return Nowhere(in, lane, bytes, "parameters");
      place.data = const_cast<std::byte*>(parameters.data()) + address;
      return place;
    }
    default:
      break;
  }
  Region* const region = machine_.memory.Find(address);
  if (region == nullptr || !region->Holds(address, bytes)) {
    return Nowhere(in, lane, bytes, machine_.memory.Locate(address));
  }
  if (region->kind == Region::Kind::kDevice && region->device != block_.device()) {
    return Nowhere(in, lane, bytes, "another device's " + machine_.memory.Locate(address));
  }
  UsePages(machine_, *region, address, bytes, block_.device(), {StampOf(lane, in.site), &clock_});
  const uint64_t offset = address - region->begin;
  ++region->changes;  // perhaps
  return {region->data + offset, &region->shadow, offset, 0, &region->name};
}

void Warp::Touch(const Instruction& in, const Place& place, uint64_t bytes, Checker::Access access,
                 bool strong, int lane) {
  if (place.shadow == nullptr || !machine_.options.check) return;
  Accessor who{StampOf(lane, in.site), &clock_};
  if (strong) who.stamp.flags |= Stamp::kAtomic;
  machine_.checker.Touch(*place.shadow, place.offset, bytes, access, who,
                         {*place.name, place.origin});
}

void Warp::Fence(int lane) {
  clock_.acquired[lane] = Union(clock_.acquired[lane], clock_.read[lane]);
  clock_.read[lane] = nullptr;
  clock_.released[lane] = clock_.Everything(block_.index(), ThreadOf(lane));
  ++clock_.time;
}

void Warp::Publish(const Place& place, int lane, bool release) {
  std::shared_ptr<const SparseClock> what = clock_.released[lane];
  if (release) {
    what = clock_.Everything(block_.index(), ThreadOf(lane));
    ++clock_.time;
  }
  if (what == nullptr) return;
  auto& at = block_.released()[place.data];
  at = Union(at, what);
}

void Warp::Observe(const Place& place, int lane, bool acquire) {
  const auto found = block_.released().find(place.data);
  if (found == block_.released().end()) return;
  auto& known = acquire ? clock_.acquired[lane] : clock_.read[lane];
  known = Union(known, found->second);
}

void Warp::FinishCopies(int lane, size_t keep) {
  auto& groups = copies_[lane];
  while (groups.size() > keep + 1) {  // as late as the program allows
    for (const AsyncCopy& copy : groups.front()) {
      if (copy.bytes != 0) std::memcpy(copy.to.data, copy.from, copy.bytes);
      std::memset(copy.to.data + copy.bytes, 0, copy.zeros);
      if (!machine_.options.check) continue;
      machine_.checker.Mark(*copy.to.shadow, copy.to.offset, copy.bytes + copy.zeros,
                            StampOf(lane, copy.site));
    }
    groups.erase(groups.begin());
  }
}

}  // namespace strata::standin
