#include "program/testing/overlap.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "program/passes/hazards.h"
#include "program/passes/lifetimes.h"
#include "program/passes/order.h"

namespace strata::program {
namespace {

// One thing of a list, as far as waits depend on it.
struct Listed {
  Stream stream = Stream::kCompute;
  bool hides = false;
  const std::vector<Operand>* operands = nullptr;
  std::vector<Dependency> dependencies;
  std::string text;
};

// The list twice over, ordered by streams and by what meets in the same slot.
class NeededOrder {
 public:
  NeededOrder(const std::vector<Listed>& list, const GroupSizes& groups)
      : count_(static_cast<int>(list.size())) {
    HazardMap map;
    for (int node = 0; node < 2 * count_; ++node) {
      const Listed& listed = list[node % count_];
      order_.Add(listed.stream, {});
      std::vector<int> conflicts;
      for (const Operand& o : *listed.operands) {
        const int64_t moved = o.shard_stride * (groups.of(o.shard_group) - 1);
        map.Use(o.slot, o.offset, o.offset + moved + o.bytes, o.access, node, listed.stream,
                conflicts);
      }
      for (const int earlier : conflicts) order_.AddEdge(earlier, node);
    }
  }
  bool Needs(int later, const Dependency& dependency) const {
    const int from = dependency.steps_back > 0 ? 0 : count_;
    return order_.HappensBefore(from + dependency.instruction, count_ + later);
  }

 private:
  const int count_;
  Order order_;
};

std::vector<std::string> UnneededWaits(const std::vector<Listed>& list, const GroupSizes& groups,
                                       Stream main, int horizon) {
  const NeededOrder needed(list, groups);
  std::vector<int> hiding = {0};  // before each
  for (const Listed& listed : list) hiding.push_back(hiding.back() + (listed.hides ? 1 : 0));
  std::vector<std::string> found;
  for (size_t i = 0; i < list.size(); ++i) {
    if (list[i].stream != main) continue;
    for (const Dependency& dependency : list[i].dependencies) {
      const int between = hiding[i] - hiding[dependency.instruction + 1] +
                          (dependency.steps_back > 0 ? hiding.back() : 0);
      if (between >= horizon || needed.Needs(static_cast<int>(i), dependency)) continue;
      found.push_back(absl::StrCat(i, " '", list[i].text, "' waits for ", dependency.instruction,
                                   dependency.steps_back > 0 ? "^" : "", " '",
                                   list[dependency.instruction].text, "', ", between,
                                   " products before"));
    }
  }
  return found;
}

}  // namespace

std::vector<std::string> UnneededWaits(const ProgramSet& set, const Program& program, int horizon) {
  std::vector<Listed> list;
  for (const Instruction& i : program.instructions) {
    Listed listed{.stream = i.stream,
                  .operands = &i.operands,
                  .dependencies = i.dependencies,
                  .text = i.label};
    if (i.stream == Stream::kCompute && i.mechanism == Mechanism::kCall) {
      const auto& ops = set.templates[i.template_index].ops;
      listed.hides = std::any_of(ops.begin(), ops.end(), [](const Op& op) { return Hides(op); });
    }
    list.push_back(std::move(listed));
  }
  return UnneededWaits(list, set.groups, Stream::kCompute, horizon);
}

std::vector<std::string> UnneededWaits(const Template& tmpl, const GroupSizes& groups,
                                       int horizon) {
  std::vector<Listed> list;
  // Caller's ops stand on a stream that collectives of templates do not use.
  const auto stream = [](const Op& op) {
    return op.stream == Stream::kCaller ? Stream::kHost : op.stream;
  };
  for (const Op& op : tmpl.ops) {
    Listed listed{.stream = stream(op),
                  .hides = op.stream == Stream::kCaller && Hides(op),
                  .operands = &op.operands,
                  .text = Name(op.kind)};
    for (const int earlier : op.dependencies) listed.dependencies.push_back({earlier, 0});
    list.push_back(std::move(listed));
  }
  return UnneededWaits(list, groups, Stream::kHost, horizon);
}

ProgramSet WithoutLayout(ProgramSet set) {
  set.placements.clear();
  set.arena_bytes = {};
  for (Program& program : set.programs) {
    program.placements.clear();
    int frames = 0;
    for (Instruction& instruction : program.instructions) {
      instruction.dependencies.clear();
      frames += instruction.frame >= 0 ? 1 : 0;
      instruction.frame = -1;
    }
    program.slots.resize(program.slots.size() - frames);  // they were added last
  }
  return set;
}

}  // namespace strata::program
