#include "program/readers/call_effects.h"

#include <algorithm>
#include <array>
#include <map>
#include <utility>

#include "program/passes/order.h"

namespace strata::program {
namespace {

constexpr int kFrame = -1;  // the space of locals

// What a run of bytes is taken for by the op that touches it.
struct Content {
  int owner = -1;  // the local, or the slot of the space
  int version = 0;
  Partial partial = 0;
  int formal = -1;  // through which; -1: a local

  bool SameAs(const Content& other) const {
    return owner == other.owner && version == other.version && partial == other.partial;
  }
};

struct Run {
  int64_t end = 0;
  Content content;
  int writer = -1;  // op; -1: there before the call
  std::array<int, kStreamCount> readers = NoReaders();

  static constexpr std::array<int, kStreamCount> NoReaders() {
    std::array<int, kStreamCount> readers{};
    for (int& reader : readers) reader = -1;
    return readers;
  }
};
using Runs = std::map<int64_t, Run>;  // by begin

struct Touched {
  int space = 0;
  int64_t begin = 0, end = 0;
  Content content;
  bool reads = false, writes = false;

  bool Meets(const Touched& other) const {
    return space == other.space && begin < other.end && other.begin < end;
  }
};

void Cut(Runs& runs, int64_t at) {
  const auto next = runs.upper_bound(at);
  if (next == runs.begin()) return;
  const auto holder = std::prev(next);
  if (holder->first == at || holder->second.end <= at) return;
  Run right = holder->second;
  holder->second.end = at;
  runs.emplace_hint(next, at, right);
}

class Follower {
 public:
  Follower(const Template& tmpl, const std::vector<BoundFormal>& formals, const GroupSizes& groups,
           const ShardIndices& indices)
      : tmpl_(tmpl), formals_(formals), groups_(groups), indices_(indices) {}

  std::optional<CallEffects> Follow() {
    const std::optional<Stream> caller = StreamThatNoOpNames(tmpl_);
    if (!caller.has_value()) return std::nullopt;
    for (const Op& op : tmpl_.ops) {
      if (!FollowOp(op, op.stream == Stream::kCaller ? *caller : op.stream)) return std::nullopt;
    }
    for (const auto& [space, runs] : spaces_) {
      if (space == kFrame && !runs.empty()) {
        effects_.frame_begin = runs.begin()->first;
        effects_.frame_end = runs.rbegin()->second.end;
      }
      for (const auto& [begin, run] : runs) {
        if (run.content.formal >= 0 && run.writer >= 0)
          Append(effects_.writes, run.content, begin, run.end);
      }
    }
    return std::move(effects_);
  }

 private:
  // Runs that follow each other become one.
  void Append(std::vector<FormalEffect>& list, const Content& content, int64_t begin,
              int64_t end) const {
    const int64_t from = formals_[content.formal].begin;
    if (!list.empty() && list.back().formal == content.formal &&
        list.back().partial == content.partial && list.back().end == begin - from) {
      list.back().end = end - from;
      return;
    }
    list.push_back({content.formal, begin - from, end - from, content.partial});
  }

  Touched Place(const Operand& operand) const {
    const int formals = static_cast<int>(tmpl_.formals.size());
    const bool local = operand.slot >= formals;
    const bool moved_outside = !local && formals_[operand.slot].sharded;
    const int index = moved_outside ? 0
                                    : std::min(indices_(operand.shard_group),
                                               groups_.of(operand.shard_group) - 1);
    Touched touched{.reads = operand.reads(), .writes = operand.writes()};
    touched.begin = operand.offset + operand.shard_stride * (moved_outside ? 0 : index);
    if (local) {
      touched.space = kFrame;
      touched.begin += tmpl_.local_offsets[operand.slot - formals];
      touched.content = {.owner = operand.slot - formals, .partial = operand.partial};
    } else {
      const BoundFormal& formal = formals_[operand.slot];
      touched.space = formal.space;
      touched.begin += formal.begin;
      touched.content = {.owner = formal.slot,
                         .version = formal.version,
                         .partial = static_cast<Partial>(operand.partial | formal.partial),
                         .formal = operand.slot};
    }
    touched.end = touched.begin + operand.bytes;
    return touched;
  }

  bool FollowOp(const Op& op, Stream stream) {
    const int node = order_.Add(stream, op.dependencies);
    std::vector<Touched> touched;
    for (const Operand& operand : op.operands) {
      if (operand.bytes < 0) return false;
      if (operand.bytes == 0) continue;
      touched.push_back(Place(operand));
      for (size_t other = 0; other + 1 < touched.size(); ++other) {
        const Touched &a = touched[other], &b = touched.back();
        if ((a.writes || b.writes) && a.content.owner != b.content.owner && a.Meets(b))
          return false;
      }
    }
    for (const Touched& t : touched) {
      if (t.reads && !Read(t, node, stream)) return false;
    }
    for (const Touched& t : touched) {
      if (t.writes && !Write(t, node)) return false;
    }
    return true;
  }

  bool Read(const Touched& t, int node, Stream stream) {
    Runs& runs = spaces_[t.space];
    Cut(runs, t.begin);
    Cut(runs, t.end);
    auto it = runs.lower_bound(t.begin);
    for (int64_t at = t.begin; at < t.end;) {
      if (it == runs.end() || it->first > at) {  // nobody has touched these yet
        if (t.space == kFrame) return false;
        const int64_t end = it == runs.end() ? t.end : std::min(t.end, it->first);
        Append(effects_.reads, t.content, at, end);
        it = runs.emplace_hint(it, at, Run{.end = end, .content = t.content});
      }
      if (!it->second.content.SameAs(t.content)) return false;
      if (it->second.writer >= 0 && !order_.HappensBefore(it->second.writer, node)) return false;
      it->second.readers[static_cast<int>(stream)] = node;
      at = it->second.end;
      ++it;
    }
    return true;
  }

  bool Write(const Touched& t, int node) {
    Runs& runs = spaces_[t.space];
    Cut(runs, t.begin);
    Cut(runs, t.end);
    auto it = runs.lower_bound(t.begin);
    while (it != runs.end() && it->first < t.end) {
      const auto ended = [&](int op) { return op < 0 || order_.HappensBefore(op, node); };
      const Run& run = it->second;
      if (!ended(run.writer) || !std::all_of(run.readers.begin(), run.readers.end(), ended))
        return false;
      it = runs.erase(it);
    }
    runs.emplace_hint(it, t.begin, Run{.end = t.end, .content = t.content, .writer = node});
    return true;
  }

  const Template& tmpl_;
  const std::vector<BoundFormal>& formals_;
  const GroupSizes& groups_;
  const ShardIndices& indices_;
  CallEffects effects_;
  Order order_;
  std::map<int, Runs> spaces_;
};

}  // namespace

std::optional<CallEffects> FollowCall(const Template& tmpl, const std::vector<BoundFormal>& formals,
                                      const GroupSizes& groups, const ShardIndices& indices) {
  return Follower(tmpl, formals, groups, indices).Follow();
}

}  // namespace strata::program
