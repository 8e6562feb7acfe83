#include "program/testing/brute_force.h"

#include <algorithm>
#include <array>

#include "absl/strings/str_cat.h"
#include "program/passes/expand.h"

namespace strata::program {
namespace {

constexpr int64_t kUnit = 8;

struct Touched {
  int tier = 0;
  int64_t begin = 0, end = 0;  // units
  int slot = -1, local = -1, step = 0, version = 0;
  Partial partial = 0;
  bool reads = false, writes = false;

  bool Meets(const Touched& other) const {
    return tier == other.tier && begin < other.end && other.begin < end && (writes || other.writes);
  }
  bool SameThing(const Touched& other) const { return slot == other.slot && local == other.local; }
};

struct Node {
  Stream stream = Stream::kCompute;
  std::vector<Touched> touched;
  std::vector<bool> before;  // by node: it must have ended
};

class Oracle {
 public:
  Oracle(const ProgramSet& set, const Program& program, int shard_index)
      : set_(set), program_(program), expanded_(Expand(set, program)), shard_index_(shard_index) {}

  std::string Run(const std::vector<bool>& applied, bool clipped) {
    int version = 0;
    for (size_t step = 0; step < applied.size(); ++step) {
      for (size_t a = 0; a < expanded_.actions.size(); ++a) {
        AddNode(static_cast<int>(step), static_cast<int>(a), version, applied[step], clipped);
      }
      if (applied[step] && AdvancesVersions(program_)) ++version;
    }
    const std::string race = FindRace();
    return race.empty() ? FollowValues() : race;
  }

 private:
  void AddNode(int step, int index, int version, bool applied, bool clipped) {
    const Action& action = expanded_.actions[index];
    const int count = static_cast<int>(expanded_.actions.size());
    Node node{.stream = action.stream, .before = std::vector<bool>(nodes_.size(), false)};
    const auto after = [&](int other) {
      node.before[other] = true;
      for (size_t n = 0; n < nodes_[other].before.size(); ++n) {
        if (nodes_[other].before[n]) node.before[n] = true;
      }
    };
    for (size_t n = 0; n < nodes_.size(); ++n) {
      if (nodes_[n].stream == action.stream) after(static_cast<int>(n));
    }
    for (const ActionDependency& dependency : action.dependencies) {
      if (step >= dependency.steps_back)
        after((step - dependency.steps_back) * count + dependency.action);
    }
    bool happens = true;
    if (action.predicate.has_value()) {
      const bool flag = action.predicate->scalar == Scalar::kApply ? applied : clipped;
      happens = flag != action.predicate->negated;
    }
    for (size_t o = 0; happens && o < action.operands.size(); ++o) {
      node.touched.push_back(Resolve(action, o, step, version));
    }
    nodes_.push_back(std::move(node));
  }

  Touched Resolve(const Action& action, size_t o, int step, int version) const {
    const Operand& operand = action.operands[o];
    const Placement& place = set_.placement(program_, operand.slot);
    const int rank = std::min(shard_index_, set_.groups.of(operand.shard_group) - 1);
    const int64_t begin = place.offset + (version + operand.version) % place.copies * place.stride +
                          operand.offset + rank * operand.shard_stride;
    return {.tier = static_cast<int>(set_.slot(program_, operand.slot).tier),
            .begin = begin / kUnit,
            .end = (begin + operand.bytes) / kUnit,
            .slot = operand.slot,
            .local = action.local(o),
            .step = step,
            .version = version + operand.version,
            .partial = operand.partial,
            .reads = operand.reads(),
            .writes = operand.writes()};
  }

  std::string At(size_t node) const {
    const size_t count = expanded_.actions.size();
    return absl::StrCat(expanded_.Describe(program_, static_cast<int>(node % count)), " of step ",
                        node / count);
  }

  std::string FindRace() const {
    for (size_t later = 0; later < nodes_.size(); ++later) {
      for (const Touched& mine : nodes_[later].touched) {
        for (size_t earlier = 0; earlier <= later; ++earlier) {
          if (earlier < later && nodes_[later].before[earlier]) continue;
          for (const Touched& theirs : nodes_[earlier].touched) {
            if (!mine.Meets(theirs) || (earlier == later && mine.SameThing(theirs))) continue;
            return absl::StrCat("race: ", At(earlier), " and ", At(later));
          }
        }
      }
    }
    return "";
  }

  std::string FollowValues() const {
    std::array<std::vector<Touched>, kTierCount> memory;
    for (int t = 0; t < kTierCount; ++t) memory[t].resize(set_.arena_bytes[t] / kUnit);
    for (size_t s = 0; s < set_.slots.size(); ++s) {
      const int64_t begin = set_.placements[s].offset / kUnit;
      for (int64_t u = begin; u < begin + set_.slots[s].bytes / kUnit; ++u)
        memory[static_cast<int>(set_.slots[s].tier)][u] = {.slot = static_cast<int>(s)};
    }
    for (size_t n = 0; n < nodes_.size(); ++n) {
      for (const Touched& mine : nodes_[n].touched) {
        if (!mine.reads) continue;
        for (int64_t u = mine.begin; u < mine.end; ++u) {
          const Touched& found = memory[mine.tier][u];
          const Slot& slot = set_.slot(program_, mine.slot);
          if (!found.SameThing(mine) || (!slot.persistent && found.step != mine.step) ||
              (slot.versioned && found.version != mine.version) || found.partial != mine.partial) {
            return absl::StrCat("value: ", At(n), " reads ", slot.name);
          }
        }
      }
      for (const Touched& mine : nodes_[n].touched) {
        for (int64_t u = mine.begin; mine.writes && u < mine.end; ++u) memory[mine.tier][u] = mine;
      }
    }
    return "";
  }

  const ProgramSet& set_;
  const Program& program_;
  const ExpandedProgram expanded_;
  const int shard_index_;
  std::vector<Node> nodes_;
};

}  // namespace

std::string FindFault(const ProgramSet& set, const Program& program, int shard_index,
                      const std::vector<bool>& applied, bool clipped) {
  return Oracle(set, program, shard_index).Run(applied, clipped);
}

}  // namespace strata::program
