#include "program/builder/streamed_state.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

namespace strata::program {
namespace {

constexpr int64_t kSsdBlock = 4096;  // direct I/O moves whole blocks
constexpr const char* kPartNames[] = {"parameters", "first moment", "second moment"};

}  // namespace

StreamedState::StreamedState(Assembler& assembler, const LayerGraph& graph,
                             const StreamedOptions& options, const UpdateEmitter& update)
    : assembler_(assembler), graph_(graph), options_(options) {
  for (int s = 0; s < static_cast<int>(graph.sets.size()); ++s) {
    const ParameterSet& set = graph.sets[s];
    slab_bytes_ = std::max(slab_bytes_, set.bytes());
    std::array<int, 3> slots{AddHome(set.name, SlotClass::kParameters, home_bytes(s)), -1, -1};
    if (options.train) {
      for (int part = 1; part < 3; ++part) {
        slots[part] = AddHome(absl::StrCat(set.name, " ", kPartNames[part]), SlotClass::kOptimizer,
                              home_bytes(s));
      }
      updates_.push_back(static_cast<int>(assembler.set().templates.size()));
      assembler.set().templates.push_back(update(set, home_bytes(s) / 4));
    }
    slots_.push_back(slots);
  }
}

Tier StreamedState::home_tier() const {
  switch (options_.home) {
    case Home::kShards:
      return Tier::kDevice;
    case Home::kHost:
      return Tier::kHost;
    case Home::kSsd:
      return Tier::kSsd;
  }
  return Tier::kDevice;
}

int64_t StreamedState::home_alignment() const {
  return home_tier() == Tier::kSsd ? kSsdBlock : kSlotAlignment;
}

int StreamedState::AddHome(const std::string& name, SlotClass klass, int64_t bytes) {
  return assembler_.AddPersistent(Slot{.name = name,
                                       .tier = home_tier(),
                                       .klass = klass,
                                       .bytes = bytes,
                                       .alignment = home_alignment(),
                                       .versioned = options_.train});
}

Operand StreamedState::Part(int set, int part, int version) const {
  Operand operand = Whole(slots_[set][part], home_bytes(set));
  operand.version = version;
  return operand;
}

void StreamedState::AddSlabs() {
  if (options_.home != Home::kSsd) return;
  for (int i = 0; i < options_.slabs; ++i) {
    slabs_.push_back(assembler_.AddTransient(Slot{.name = absl::StrCat("slab ", i),
                                                  .tier = Tier::kHost,
                                                  .klass = SlotClass::kStaging,
                                                  .bytes = slab_bytes_,
                                                  .alignment = kSsdBlock}));
  }
}

Operand StreamedState::NextSlab(int64_t bytes) {
  return Whole(slabs_[next_slab_++ % slabs_.size()], bytes);
}

// `state(part, version)`: where parameters (0), first (1) and second moment (2) of a version are.
template <typename State>
void StreamedState::CallUpdate(int set, const Operand& gradient, State state) {
  assembler_.Call(
      updates_[set], Purpose::kUpdate, absl::StrCat("update ", graph_.sets[set].name),
      [&](const Formal& formal) -> Operand {
        switch (formal.role) {
          case Role::kParameters:
            return state(0, formal.index);
          case Role::kState:
            return state(1 + formal.index % 2, formal.index / 2);
          case Role::kGradients:
            return gradient;
          case Role::kScalars:
            return Whole(assembler_.set().scalars, formal.bytes);
          default:
            return {};
        }
      },
      update_stream());
}

void StreamedState::UpdateInPlace(int set, const Operand& gradient) {
  CallUpdate(set, gradient, [&](int part, int version) { return Part(set, part, version); });
  assembler_.last().predicate = Predicate{Scalar::kApply};
}

std::array<Operand, 3> StreamedState::Read(int set) {
  std::array<Operand, 3> slabs;
  for (int part = 0; part < 3; ++part) {
    slabs[part] = NextSlab(home_bytes(set));
    assembler_.Transfer(Stream::kSsdRead, Purpose::kUpdate,
                        absl::StrCat("read ", kPartNames[part], " of ", graph_.sets[set].name),
                        Part(set, part, 0), slabs[part]);
  }
  return slabs;
}

void StreamedState::Write(int set, const std::array<Operand, 3>& slabs) {
  for (int part = 0; part < 3; ++part) {
    assembler_.Transfer(Stream::kSsdWrite, Purpose::kUpdate,
                        absl::StrCat("write ", kPartNames[part], " of ", graph_.sets[set].name),
                        slabs[part], Part(set, part, 1));
  }
}

void StreamedState::UpdateThroughSlabs(int set, const Operand& gradient,
                                       std::optional<Predicate> predicate) {
  const size_t first = assembler_.program().instructions.size();
  const std::array<Operand, 3> slabs = Read(set);
  CallUpdate(set, gradient, [&](int part, int) { return slabs[part]; });
  Write(set, slabs);
  Guard(first, predicate);
}

void StreamedState::FixUp(int set) {
  const size_t first = assembler_.program().instructions.size();
  const std::string& name = graph_.sets[set].name;
  const std::array<Operand, 3> slabs = Read(set);
  const Operand next = NextSlab(home_bytes(set));
  assembler_.Transfer(Stream::kSsdRead, Purpose::kFixUp,
                      absl::StrCat("read next first moment of ", name), Part(set, 1, 1), next);
  std::vector<Operand> operands{slabs[0], slabs[1], slabs[2], next,
                                Whole(assembler_.set().scalars, kScalarBytes)};
  for (const Operand& slab : slabs) {
    operands.push_back(slab);
    operands.back().access = Access::kWrite;
  }
  const int64_t count = home_bytes(set) / 4;
  // The attributes of the update that is made again: rates, and which ranges decay.
  const Op& update = assembler_.set().templates[updates_[set]].ops.front();
  Op fix_up{.kind = OpKind::kAdamWFixUp,
            .ints = update.ints,
            .floats = update.floats,
            .flops = 16.0 * static_cast<double>(count)};
  fix_up.ints.resize(std::max<size_t>(fix_up.ints.size(), 1));
  fix_up.ints[0] = count;
  assembler_.CallOp(std::move(fix_up), Purpose::kFixUp, absl::StrCat("fix up ", name),
                    std::move(operands), update_stream());
  Write(set, slabs);
  Guard(first, Predicate{Scalar::kClipped});
}

void StreamedState::Guard(size_t first, std::optional<Predicate> predicate) {
  for (size_t i = first; i < assembler_.program().instructions.size(); ++i) {
    assembler_.program().instructions[i].predicate = predicate;
  }
}

}  // namespace strata::program
