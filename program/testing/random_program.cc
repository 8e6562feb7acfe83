#include "program/testing/random_program.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "program/compose/assembler.h"

namespace strata::program {
namespace {

constexpr int64_t kUnit = 8;
constexpr Stream kStreams[] = {Stream::kCompute, Stream::kTensor, Stream::kGradients,
                               Stream::kHost};

// What a region's units hold on each rank when the list is executed in order: nothing yet (-1), or
// values that are partial sums over these groups.
class Contents {
 public:
  Contents(int ranks, int64_t bytes, int value)
      : ranks_(ranks, std::vector<int>(bytes / kUnit, value)) {}

  // What a read of the operand finds everywhere; -1: not the same everywhere, or nothing.
  int Find(const Operand& operand) const {
    int found = -2;
    Visit(*this, operand, [&](int value) { found = found == -2 || found == value ? value : -1; });
    return found == -2 ? 0 : found;
  }
  void Fill(const Operand& operand, int value) {
    Visit(*this, operand, [&](int& unit) { unit = value; });
  }
  // The part of this region that the operand names, as a region of its own.
  Contents Part(const Operand& operand) const {
    Contents part(static_cast<int>(ranks_.size()), operand.bytes, -1);
    for (size_t r = 0; r < ranks_.size(); ++r) {
      const auto from = ranks_[r].begin() + Begin(operand, r) / kUnit;
      std::copy(from, from + operand.bytes / kUnit, part.ranks_[r].begin());
    }
    return part;
  }
  void Replace(const Operand& operand, const Contents& part) {
    for (size_t r = 0; r < ranks_.size(); ++r) {
      std::copy(part.ranks_[r].begin(), part.ranks_[r].end(),
                ranks_[r].begin() + Begin(operand, r) / kUnit);
    }
  }
  int64_t bytes() const { return static_cast<int64_t>(ranks_[0].size()) * kUnit; }

 private:
  static int64_t Begin(const Operand& operand, size_t rank) {
    return operand.offset + operand.shard_stride * static_cast<int64_t>(rank);
  }
  template <typename Self, typename Function>
  static void Visit(Self& self, const Operand& operand, const Function& function) {
    for (size_t r = 0; r < self.ranks_.size(); ++r) {
      for (int64_t u = 0; u < operand.bytes / kUnit; ++u)
        function(self.ranks_[r][Begin(operand, r) / kUnit + u]);
    }
  }

  std::vector<std::vector<int>> ranks_;
};

class Generator {
 public:
  explicit Generator(uint64_t seed) : dice_(seed) {}

  ProgramSet Run() {
    ranks_ = 1 << dice_(3);
    set_.groups.data = ranks_;
    predicated_ = dice_.OneIn(2);
    set_.programs.push_back({.name = "train"});
    AddSlots();
    const int count = 5 + dice_(8);
    const int finish_at = dice_(count);
    for (int i = 0; i < count; ++i) {
      if (i == finish_at) AddFinish();
      if (i >= finish_at && !updates_.empty() && dice_.OneIn(2)) AddUpdate();
      if (dice_.OneIn(3)) {
        AddPlain();
      } else {
        AddCall();
      }
    }
    while (!updates_.empty()) AddUpdate();
    if (dice_.OneIn(2)) AddCall();
    return std::move(set_);
  }

 private:
  Program& program() { return set_.programs[0]; }

  int64_t RandomBytes() { return ranks_ * 16 * (1 + dice_(8)); }

  void AddSlots() {
    set_.scalars = 0;
    set_.slots.push_back({.name = "scalars", .bytes = kScalarBytes, .persistent = true});
    const int persistent = 1 + dice_(4);
    for (int s = 0; s < persistent; ++s) {
      const bool versioned = dice_.OneIn(2);
      set_.slots.push_back({.name = absl::StrCat("state ", s),
                            .tier = dice_.OneIn(3) ? Tier::kDevice : Tier::kHost,
                            .bytes = RandomBytes(),
                            .persistent = true,
                            .versioned = versioned});
    }
    const int transient = 3 + dice_(7);
    for (int s = 0; s < transient; ++s) {
      program().slots.push_back({.name = absl::StrCat("slot ", s),
                                 .tier = dice_.OneIn(3) ? Tier::kDevice : Tier::kHost,
                                 .bytes = RandomBytes(),
                                 .alignment = dice_.OneIn(4) ? 256 : kSlotAlignment});
    }
    const int shared = static_cast<int>(set_.slots.size());
    for (int s = 0; s < shared + transient; ++s) {
      contents_.emplace_back(ranks_, set_.slot(program(), s).bytes, s < shared ? 0 : -1);
      next_.emplace_back(ranks_, set_.slot(program(), s).bytes, -1);
      if (s >= shared || !set_.slots[s].versioned) continue;
      const int64_t bytes = set_.slots[s].bytes;
      const int64_t cut =
          dice_.OneIn(2) ? bytes : kUnit * (1 + dice_(static_cast<int>(bytes / 16)));
      updates_.push_back({.slot = s, .bytes = cut});
      if (cut < bytes) updates_.push_back({.slot = s, .offset = cut, .bytes = bytes - cut});
    }
  }

  // Whole, a part, or each rank's own part of a region.
  Operand RandomRange(int slot, int64_t bytes) {
    Operand operand{.slot = slot, .bytes = bytes};
    if (ranks_ > 1 && bytes % (ranks_ * kUnit) == 0 && dice_.OneIn(4)) {
      operand.bytes = bytes / ranks_;
      operand.shard_group = Group::kData;
      operand.shard_stride = operand.bytes;
    } else if (bytes > 2 * kUnit && dice_.OneIn(3)) {
      operand.offset = kUnit * dice_(static_cast<int>(bytes / kUnit) - 1);
      operand.bytes = bytes - operand.offset;
      if (operand.bytes > 2 * kUnit && dice_.OneIn(2)) operand.bytes -= kUnit;
    }
    return operand;
  }

  // A random access that the contents allow; their new state is entered. Persistent regions hold
  // whole values only, as they must begin every step alike.
  bool Touch(Operand& operand, Contents& contents, bool may_write, bool persistent) {
    const int found = contents.Find(operand);
    const bool write = found < 0 || dice_.OneIn(3);
    if (write && !may_write) return false;
    if (write) {
      operand.access = Access::kWrite;
      operand.partial = !persistent && dice_.OneIn(6) ? PartialOver(Group::kData) : 0;
      contents.Fill(operand, static_cast<int>(operand.partial));
    } else {
      operand.access = may_write && dice_.OneIn(3) ? Access::kAccumulate : Access::kRead;
      operand.partial = static_cast<Partial>(found);
    }
    return true;
  }

  // A slot that no other operand of the instruction names; reads of version 1 where it is complete.
  Operand RandomSlot(const std::vector<Operand>& taken, bool predicated) {
    for (;;) {
      const int slot = 1 + dice_(static_cast<int>(contents_.size()) - 1);
      if (std::any_of(taken.begin(), taken.end(), [&](const Operand& o) { return o.slot == slot; }))
        return {};
      Operand operand = RandomRange(slot, contents_[slot].bytes());
      // Where an update may be left out, version 1 is there only for what is left out with it.
      if (IsVersioned(slot) && (predicated || !predicated_) && next_[slot].Find(operand) == 0)
        operand.version = dice_(2);
      return operand;
    }
  }
  bool IsPersistent(int slot) const { return slot < static_cast<int>(set_.slots.size()); }
  bool IsVersioned(int slot) const { return IsPersistent(slot) && set_.slots[slot].versioned; }

  Instruction Begin(Mechanism mechanism) {
    Instruction instruction{.mechanism = mechanism, .stream = kStreams[dice_(4)]};
    const int index = static_cast<int>(program().instructions.size());
    instruction.label = absl::StrCat(Name(mechanism), " ", index);
    if (index > 0 && dice_.OneIn(5)) instruction.dependencies.push_back({dice_(index), 0});
    if (dice_.OneIn(10)) instruction.dependencies.push_back({dice_(index + 1), 1});
    return instruction;
  }

  // Predicated instructions write nothing that others read.
  bool MakePredicated(Instruction& instruction) {
    if (!finished_ || !dice_.OneIn(4)) return false;
    instruction.predicate = {.scalar = Scalar::kApply};
    return true;
  }

  void AddPlain() {
    static constexpr Mechanism kPlain[] = {Mechanism::kCollective, Mechanism::kTransfer,
                                           Mechanism::kSignal};
    Instruction instruction = Begin(kPlain[dice_(3)]);
    const bool only_reads = instruction.mechanism == Mechanism::kSignal;
    const bool predicated = only_reads && MakePredicated(instruction);
    instruction.communication = {.group = Group::kData, .bytes = 64};
    const int wanted = only_reads ? 1 : 2;
    for (int tries = 0; tries < 20; ++tries) {
      if (static_cast<int>(instruction.operands.size()) == wanted) break;
      Operand operand = RandomSlot(instruction.operands, predicated);
      if (operand.slot < 0) continue;
      const bool may_write = !only_reads && !IsVersioned(operand.slot);
      Contents& contents = operand.version == 1 ? next_[operand.slot] : contents_[operand.slot];
      if (Touch(operand, contents, may_write, IsPersistent(operand.slot)))
        instruction.operands.push_back(operand);
    }
    if (instruction.operands.empty()) return;
    if (instruction.mechanism == Mechanism::kTransfer && instruction.operands.size() < 2) return;
    program().instructions.push_back(std::move(instruction));
  }

  // A template of its own for each call; its ops' effects are followed on the regions of formals
  // and locals.
  void AddCall() {
    Instruction call = Begin(Mechanism::kCall);
    const bool predicated = MakePredicated(call);
    Template tmpl{.name = absl::StrCat("template ", set_.templates.size())};
    std::vector<Contents> regions;
    const int formals = 1 + dice_(3);
    for (int tries = 0; tries < 10 && static_cast<int>(call.operands.size()) < formals; ++tries) {
      const Operand bound = RandomSlot(call.operands, predicated);
      if (bound.slot < 0) continue;
      call.operands.push_back(bound);
      tmpl.formals.push_back(
          {.name = absl::StrCat("formal ", tmpl.formals.size()), .bytes = bound.bytes});
      regions.push_back((bound.version == 1 ? next_ : contents_)[bound.slot].Part(bound));
    }
    const int locals = dice_(3);
    for (int l = 0; l < locals; ++l) {
      tmpl.locals.push_back({.name = absl::StrCat("local ", l), .bytes = RandomBytes()});
      regions.emplace_back(ranks_, tmpl.locals.back().bytes, -1);
    }
    AddOps(tmpl, call, predicated, regions);
    if (tmpl.ops.empty()) return;
    for (size_t f = 0; f < tmpl.formals.size(); ++f) {
      Operand& bound = call.operands[f];
      bound.access = FormalAccess(tmpl, static_cast<int>(f));
      if (bound.version == 0) contents_[bound.slot].Replace(bound, regions[f]);
    }
    call.template_index = static_cast<int>(set_.templates.size());
    set_.templates.push_back(std::move(tmpl));
    program().instructions.push_back(std::move(call));
  }

  void AddOps(Template& tmpl, const Instruction& call, bool predicated,
              std::vector<Contents>& regions) {
    const int formals = static_cast<int>(tmpl.formals.size());
    const int wanted = 1 + dice_(4);
    for (int tries = 0; tries < 12 && static_cast<int>(tmpl.ops.size()) < wanted; ++tries) {
      Op op{.kind = OpKind::kAdd};
      op.stream = dice_.OneIn(2) ? Stream::kCaller : kStreams[dice_(4)];
      for (size_t r = 0; r < regions.size(); ++r) {
        if (!dice_.OneIn(2)) continue;
        const bool formal = static_cast<int>(r) < formals;
        const bool sharded = formal && call.operands[r].shard_group != Group::kNone;
        Operand operand{.slot = static_cast<int>(r), .bytes = regions[r].bytes()};
        if (!sharded) operand = RandomRange(static_cast<int>(r), regions[r].bytes());
        const bool may_write = !formal || (!predicated && !IsVersioned(call.operands[r].slot));
        if (Touch(operand, regions[r], may_write, formal && IsPersistent(call.operands[r].slot)))
          op.operands.push_back(operand);
      }
      if (op.operands.empty()) continue;
      const int index = static_cast<int>(tmpl.ops.size());
      if (index > 0 && dice_.OneIn(4)) op.dependencies.push_back(dice_(index));
      tmpl.ops.push_back(std::move(op));
    }
  }

  int OneOp(std::vector<Operand> bound) {
    Template tmpl{.name = absl::StrCat("template ", set_.templates.size())};
    Op op{.kind = OpKind::kAdamW};
    for (Operand operand : bound) {
      op.operands.push_back({.slot = static_cast<int>(tmpl.formals.size()),
                             .bytes = operand.bytes,
                             .access = operand.access});
      tmpl.formals.push_back(
          {.name = absl::StrCat("formal ", tmpl.formals.size()), .bytes = operand.bytes});
    }
    tmpl.ops.push_back(std::move(op));
    set_.templates.push_back(std::move(tmpl));
    return static_cast<int>(set_.templates.size()) - 1;
  }

  void AddFinish() {
    Instruction finish = Begin(Mechanism::kCall);
    finish.label = "finish";
    finish.operands = {{.slot = 0,
                        .offset = ScalarOffset(Scalar::kLoss),
                        .bytes = ScalarOffset(Scalar::kClipped) + 8 - ScalarOffset(Scalar::kLoss),
                        .access = Access::kWrite}};
    finish.template_index = OneOp(finish.operands);
    program().instructions.push_back(std::move(finish));
    finished_ = true;
  }

  void AddUpdate() {
    Operand own = updates_.back();
    updates_.pop_back();
    Instruction update = Begin(Mechanism::kCall);
    update.label = absl::StrCat("update ", program().instructions.size());
    if (predicated_) update.predicate = {.scalar = Scalar::kApply};
    own.access = Access::kRead;
    Operand next = own;
    next.version = 1;
    next.access = Access::kWrite;
    update.operands = {own, next};
    update.template_index = OneOp(update.operands);
    next_[own.slot].Fill(own, 0);
    program().instructions.push_back(std::move(update));
  }

  Dice dice_;
  ProgramSet set_;
  int ranks_ = 1;
  bool predicated_ = false;                // updates are left out when the gradient is not finite
  bool finished_ = false;                  // this step's flags are written
  std::vector<Contents> contents_, next_;  // per slot: of its own version, and of the next
  std::vector<Operand> updates_;           // pieces still to be written
};

}  // namespace

ProgramSet RandomProgram(uint64_t seed) { return Generator(seed).Run(); }

}  // namespace strata::program
