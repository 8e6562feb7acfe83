#include "program/readers/verify_rank.h"

#include <algorithm>
#include <map>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "program/passes/order.h"

namespace strata::program {
namespace {

std::string PartialText(Partial partial) {
  return partial == 0 ? "complete" : absl::StrCat("a partial sum over ", PartialName(partial));
}

// What is known of a run of bytes.
struct Segment {
  int64_t end = 0;
  int slot = -1;
  int local = -1;       // of a call's frame: whose; -1: no frame
  int64_t version = 0;  // absolute: updates before the first step count as 0
  int copy = -1;        // step of the last write; -1: there before the first
  Partial partial = 0;
  int writer = -1;                          // node; -1: there before the first step
  std::array<int, kStreamCount> readers{};  // the newest per stream since the write; -1: none
};

// How every step ends in the case looked at.
struct Outcome {
  bool applied = true;
  bool clipped = true;
};

class RankVerifier {
 public:
  RankVerifier(const ProgramSet& set, const Program& program, const ExpandedProgram& expanded,
               const ShardIndices& indices, Outcome outcome)
      : set_(set), program_(program), expanded_(expanded), indices_(indices), outcome_(outcome) {}

  absl::Status Run() {
    int copies = 2;
    for (const Placement& placement : set_.placements) {
      if (placement.copies > 1 && outcome_.applied) copies = 3;  // versions alternate
    }
    for (size_t s = 0; s < set_.slots.size(); ++s) AddInitial(static_cast<int>(s));
    for (copy_ = 0; copy_ < copies; ++copy_) {
      version_ = outcome_.applied && AdvancesVersions(program_) ? copy_ : 0;
      for (size_t a = 0; a < expanded_.actions.size(); ++a)
        RETURN_IF_ERROR(Visit(static_cast<int>(a)));
    }
    return absl::OkStatus();
  }

 private:
  using Segments = std::map<int64_t, Segment>;

  static std::array<int, kStreamCount> NoReaders() {
    std::array<int, kStreamCount> readers;
    readers.fill(-1);
    return readers;
  }

  void AddInitial(int index) {
    const Slot& slot = set_.slots[index];
    if (slot.bytes == 0) return;
    const int64_t begin = set_.placements[index].at(0, 0);
    Segments& segments = tiers_[static_cast<int>(slot.tier)];
    Cut(segments, begin, begin + slot.bytes);
    segments[begin] = {.end = begin + slot.bytes, .slot = index, .readers = NoReaders()};
  }

  // Segment borders at begin and end.
  static void Cut(Segments& segments, int64_t begin, int64_t end) {
    for (const int64_t at : {begin, end}) {
      auto next = segments.upper_bound(at);
      if (next == segments.begin()) continue;
      auto holder = std::prev(next);
      if (holder->first == at || holder->second.end <= at) continue;
      Segment right = holder->second;
      holder->second.end = at;
      segments.emplace_hint(next, at, right);
    }
  }

  int count() const { return static_cast<int>(expanded_.actions.size()); }
  std::string At(int node) const {
    if (node < 0) return "what was there before the first step";
    return absl::StrCat(expanded_.Describe(program_, node % count()), " on stream ",
                        Name(expanded_.actions[node % count()].stream), " of step ",
                        node / count());
  }
  std::string SlotText(int slot) const {
    return absl::StrCat("slot '", set_.slot(program_, slot).name, "'");
  }

  absl::Status Refuse(int node, const Operand& operand, const std::string& what) const {
    return absl::FailedPreconditionError(absl::StrCat(
        "program ", program_.name, ", shard index ", indices_(operand.shard_group), ": ", At(node),
        " ", Name(operand.access), "s ", SlotText(operand.slot), ": ", what));
  }

  // The first action of a step that writes some of the operand's bytes.
  std::string ProducerText(const Operand& operand) const {
    for (int a = 0; a < count(); ++a) {
      for (const Operand& each : expanded_.actions[a].operands) {
        if (each.slot == operand.slot && each.writes())
          return absl::StrCat("; its first writer is ", At(a));
      }
    }
    return "; no action writes it";
  }

  absl::Status Visit(int index) {
    const Action& action = expanded_.actions[index];
    before_.clear();
    for (const ActionDependency& dependency : action.dependencies) {
      if (copy_ >= dependency.steps_back)
        before_.push_back((copy_ - dependency.steps_back) * count() + dependency.action);
    }
    const int node = order_.Add(action.stream, before_);
    if (Skipped(action)) return absl::OkStatus();
    RETURN_IF_ERROR(CheckWithinAction(node, action));
    for (size_t o = 0; o < action.operands.size(); ++o) {
      if (action.operands[o].reads())
        RETURN_IF_ERROR(Read(node, action.stream, action.operands[o], action.local(o)));
    }
    for (size_t o = 0; o < action.operands.size(); ++o) {
      if (action.operands[o].writes())
        RETURN_IF_ERROR(Write(node, action.operands[o], action.local(o)));
    }
    return absl::OkStatus();
  }

  // Operands lie inside their slots, and different slots (or locals) of one action do not meet on
  // bytes that it writes: nothing says in which order a kernel touches them.
  absl::Status CheckWithinAction(int node, const Action& action) {
    ranges_.clear();
    for (size_t o = 0; o < action.operands.size(); ++o) {
      const Operand& operand = action.operands[o];
      const Slot& slot = set_.slot(program_, operand.slot);
      const int64_t begin = Begin(operand);
      const int64_t first = set_.placement(program_, operand.slot).at(version_, operand.version);
      if (operand.bytes < 0 || begin < first || begin + operand.bytes > first + slot.bytes) {
        return Refuse(node, operand,
                      absl::StrCat("bytes [", begin - first, ", ", begin - first + operand.bytes,
                                   ") of ", slot.bytes));
      }
      if (operand.version != 0 && (operand.version != 1 || !slot.versioned)) {
        return Refuse(node, operand, absl::StrCat("it has no version ", operand.version));
      }
      if (operand.bytes > 0)
        ranges_.push_back({static_cast<int>(slot.tier), begin, begin + operand.bytes, o});
    }
    std::sort(ranges_.begin(), ranges_.end(), [](const Range& a, const Range& b) {
      return std::tie(a.tier, a.begin, a.operand) < std::tie(b.tier, b.begin, b.operand);
    });
    for (size_t a = 0; a < ranges_.size(); ++a) {
      for (size_t b = a + 1; b < ranges_.size() && ranges_[b].tier == ranges_[a].tier &&
                             ranges_[b].begin < ranges_[a].end;
           ++b) {
        RETURN_IF_ERROR(CheckPair(node, action, ranges_[a].operand, ranges_[b].operand));
      }
    }
    return absl::OkStatus();
  }

  // Two operands that meet.
  absl::Status CheckPair(int node, const Action& action, size_t a, size_t b) const {
    const size_t earlier = std::min(a, b), later = std::max(a, b);
    const Operand &other = action.operands[earlier], &operand = action.operands[later];
    const bool same = other.slot == operand.slot && action.local(earlier) == action.local(later);
    if (same || (!operand.writes() && !other.writes())) return absl::OkStatus();
    return Refuse(node, operand,
                  absl::StrCat("the same action ", Name(other.access), "s ", SlotText(other.slot),
                               " on the same bytes"));
  }

  // Steps whose gradient is not finite leave out what kApply guards, and versions stay; likewise
  // kClipped.
  bool Skipped(const Action& action) const {
    if (!action.predicate.has_value()) return false;
    const Predicate& predicate = *action.predicate;
    if (predicate.scalar == Scalar::kApply) return predicate.negated == outcome_.applied;
    if (predicate.scalar == Scalar::kClipped) return predicate.negated == outcome_.clipped;
    return false;
  }

  // Absolute. Where the update was left out and both versions have the same bytes, communication
  // that moves the next version about moves the step's own: the bytes are what they were.
  int64_t VersionOf(int node, const Operand& operand) const {
    if (operand.version == 0 || outcome_.applied) return version_ + operand.version;
    const Action& action = expanded_.actions[node % count()];
    const bool republishes =
        action.is_communication() && set_.placement(program_, operand.slot).copies == 1 &&
        std::any_of(action.operands.begin(), action.operands.end(), [&](const Operand& o) {
          return o.slot == operand.slot && o.version == operand.version && o.reads();
        });
    return republishes ? version_ : version_ + operand.version;
  }

  int64_t Begin(const Operand& operand) const {
    int64_t moved = 0;
    if (operand.shard_group != Group::kNone) {
      const int last = set_.groups.of(operand.shard_group) - 1;
      moved = operand.shard_stride * std::min(indices_(operand.shard_group), last);
    }
    return set_.placement(program_, operand.slot).at(version_, operand.version) + operand.offset +
           moved;
  }

  absl::Status Read(int node, Stream stream, const Operand& operand, int local) {
    if (operand.bytes == 0) return absl::OkStatus();
    const Slot& slot = set_.slot(program_, operand.slot);
    Segments& segments = tiers_[static_cast<int>(slot.tier)];
    const int64_t begin = Begin(operand), end = begin + operand.bytes;
    Cut(segments, begin, end);
    int64_t at = begin;
    for (auto it = segments.lower_bound(begin); at < end; ++it) {
      if (it == segments.end() || it->first != at) {
        return Refuse(node, operand,
                      absl::StrCat("nothing has produced its bytes from ",
                                   at - begin + operand.offset, ProducerText(operand)));
      }
      RETURN_IF_ERROR(CheckRead(node, operand, local, it->second));
      it->second.readers[static_cast<int>(stream)] = node;
      at = it->second.end;
    }
    return absl::OkStatus();
  }

  absl::Status CheckRead(int node, const Operand& operand, int local,
                         const Segment& segment) const {
    const Slot& slot = set_.slot(program_, operand.slot);
    if (segment.slot != operand.slot || segment.local != local) {
      const std::string as = segment.local < 0 ? "" : absl::StrCat(", local ", segment.local, ",");
      return Refuse(node, operand,
                    absl::StrCat("its bytes were overwritten as ", SlotText(segment.slot), as,
                                 " by ", At(segment.writer), ProducerText(operand)));
    }
    if (!slot.persistent && segment.copy != copy_) {
      return Refuse(node, operand,
                    absl::StrCat("nothing has produced it in this step; last written by ",
                                 At(segment.writer), ProducerText(operand)));
    }
    if (slot.versioned && segment.version != VersionOf(node, operand)) {
      return Refuse(node, operand,
                    absl::StrCat("it holds version ", segment.version, ", not ",
                                 VersionOf(node, operand), ", since ", At(segment.writer)));
    }
    if (segment.partial != operand.partial) {
      return Refuse(node, operand,
                    absl::StrCat("it must be ", PartialText(operand.partial), " but is ",
                                 PartialText(segment.partial), " since ", At(segment.writer)));
    }
    if (segment.writer >= 0 && !order_.HappensBefore(segment.writer, node)) {
      return Refuse(
          node, operand,
          absl::StrCat("race: not ordered after ", At(segment.writer), ", which writes it"));
    }
    return absl::OkStatus();
  }

  absl::Status Write(int node, const Operand& operand, int local) {
    if (operand.bytes == 0) return absl::OkStatus();
    Segments& segments = tiers_[static_cast<int>(set_.slot(program_, operand.slot).tier)];
    const int64_t begin = Begin(operand), end = begin + operand.bytes;
    Cut(segments, begin, end);
    auto it = segments.lower_bound(begin);
    for (; it != segments.end() && it->first < end; it = segments.erase(it)) {
      const Segment& segment = it->second;
      if (segment.writer >= 0 && !order_.HappensBefore(segment.writer, node)) {
        return Refuse(
            node, operand,
            absl::StrCat("race: not ordered after ", At(segment.writer), ", which writes ",
                         SlotText(segment.slot), " on the same bytes"));
      }
      for (const int reader : segment.readers) {
        if (reader < 0 || order_.HappensBefore(reader, node)) continue;
        return Refuse(node, operand,
                      absl::StrCat("race: not ordered after ", At(reader), ", which reads ",
                                   SlotText(segment.slot), " on the same bytes"));
      }
    }
    segments[begin] = {.end = end,
                       .slot = operand.slot,
                       .local = local,
                       .version = VersionOf(node, operand),
                       .copy = copy_,
                       .partial = operand.partial,
                       .writer = node,
                       .readers = NoReaders()};
    return absl::OkStatus();
  }

  const ProgramSet& set_;
  const Program& program_;
  const ExpandedProgram& expanded_;
  const ShardIndices& indices_;
  const Outcome outcome_;
  struct Range {
    int tier = 0;
    int64_t begin = 0, end = 0;
    size_t operand = 0;
  };
  std::vector<Range> ranges_;  // of the action at hand
  std::vector<int> before_;
  Order order_;
  std::array<Segments, kTierCount> tiers_;
  int copy_ = 0;
  int version_ = 0;  // absolute version that the step begins with
};

// Outcomes that make a difference to the program.
std::vector<Outcome> OutcomesOf(const Program& program) {
  bool clips = false;
  for (const Instruction& instruction : program.instructions) {
    clips |= instruction.predicate.has_value() && instruction.predicate->scalar == Scalar::kClipped;
  }
  std::vector<Outcome> outcomes = {{true, true}, {false, false}};
  if (clips) outcomes.push_back({true, false});
  return outcomes;
}

}  // namespace

absl::Status VerifyActions(const ProgramSet& set, const Program& program,
                           const ExpandedProgram& expanded, const ShardIndices& indices) {
  for (const Outcome outcome : OutcomesOf(program)) {
    RETURN_IF_ERROR(RankVerifier(set, program, expanded, indices, outcome).Run());
  }
  return absl::OkStatus();
}

}  // namespace strata::program
