#include "worker/trainer/program_digest.h"

#include <algorithm>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "program/readers/dump.h"
#include "program/readers/peers.h"

namespace strata::worker {

namespace {

// "layer 3 gradient" and "layer 17 gradient" are alike.
std::string WithoutNumbers(const std::string& name) {
  std::string text;
  for (const char each : name) {
    const bool digit = absl::ascii_isdigit(each);
    if (!digit) text += each;
    if (digit && !absl::EndsWith(text, "#")) text += '#';
  }
  return text;
}

// What lives as long as the ranks, and slabs: of other slots of one program several take turns at a
// place.
class SlotTable {
 public:
  void Add(const program::Slot& slot, int64_t copies) {
    const std::string what = slot.content.empty() ? WithoutNumbers(slot.name) : slot.content;
    const Key key{static_cast<int>(slot.klass), what, slot.bytes};
    counts_[key] += copies;
  }
  void WriteTo(v1::TierBytes& tier) const {
    for (const auto& [key, count] : counts_) {
      const auto& [klass, what, bytes] = key;
      v1::ArenaSlots& slots = *tier.add_slots();
      slots.set_slot_class(program::Name(static_cast<program::SlotClass>(klass)));
      slots.set_name(what);
      slots.set_count(count);
      slots.set_bytes(bytes);
    }
  }

 private:
  using Key = std::tuple<int, std::string, int64_t>;
  std::map<Key, int64_t> counts_;
};

// Programs take turns at slabs: those of the one that has most are listed.
void DescribeSlots(const program::ProgramSet& set, program::Tier tier, v1::TierBytes& told) {
  SlotTable table;
  for (size_t s = 0; s < set.slots.size(); ++s) {
    if (set.slots[s].tier == tier) table.Add(set.slots[s], set.placements[s].copies);
  }
  const auto is_slab = [tier](const program::Slot& slot) {
    return slot.tier == tier && slot.klass == program::SlotClass::kStaging;
  };
  const program::Program* most = nullptr;
  int64_t most_bytes = 0;
  for (const program::Program& program : set.programs) {
    int64_t bytes = 0;
    for (const program::Slot& slot : program.slots) bytes += is_slab(slot) ? slot.bytes : 0;
    if (bytes > most_bytes) most = &program;
    most_bytes = std::max(bytes, most_bytes);
  }
  if (most != nullptr) {
    for (const program::Slot& slot : most->slots) {
      if (is_slab(slot)) table.Add(slot, 1);
    }
  }
  table.WriteTo(told);
}

}  // namespace

void DescribeArenas(const std::vector<const program::ProgramSet*>& stages,
                    const program::Mesh& mesh, v1::JobPlan& plan) {
  const auto add = [](int tier, int64_t bytes, auto* predicted) {
    v1::TierBytes* const told = predicted->Add();
    told->set_tier(program::Name(static_cast<program::Tier>(tier)));
    told->set_bytes(bytes);
    return told;
  };
  for (int t = 0; t < program::kTierCount; ++t) {
    const program::ProgramSet* const most = *std::max_element(
        stages.begin(), stages.end(),
        [t](const auto* a, const auto* b) { return a->arena_bytes[t] < b->arena_bytes[t]; });
    if (most->arena_bytes[t] == 0) continue;
    v1::TierBytes* const told = add(t, most->arena_bytes[t], plan.mutable_predicted());
    DescribeSlots(*most, static_cast<program::Tier>(t), *told);
  }
  if (stages.size() < 2) return;
  for (const program::ProgramSet* stage : stages) {
    v1::StageMemory& told = *plan.add_stages();
    for (int t = 0; t < program::kTierCount; ++t) {
      if (stage->arena_bytes[t] > 0) add(t, stage->arena_bytes[t], told.mutable_predicted());
    }
  }
  int rank = 1;
  while (mesh.stage(rank) == 0) ++rank;
  plan.set_stage_stride(rank);
}

v1::Prepared DescribeRank(const program::ProgramSet& set, const std::string& plan_digest,
                          const std::string& build, const program::Mesh& mesh, int rank) {
  v1::Prepared prepared;
  prepared.set_plan_digest(plan_digest);
  prepared.set_stage(mesh.stage(rank));
  prepared.set_program_digest(program::ProgramDigest(set, build));
  for (const auto& [group, digest] : program::GroupDigests(set)) {
    v1::GroupDigest* const described = prepared.add_groups();
    described->set_group(program::Name(group));
    for (const int member : mesh.Members(group, rank)) described->add_members(member);
    described->set_digest(digest);
  }
  const std::vector<int> peers = program::PeersOf(set, mesh, rank);
  prepared.mutable_peers()->mutable_ranks()->Add(peers.begin(), peers.end());
  return prepared;
}

}  // namespace strata::worker
