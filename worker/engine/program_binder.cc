// Binding: addresses for operands, calls for ops, events for dependencies.
#include <algorithm>
#include <cstring>
#include <functional>
#include <limits>
#include <numeric>
#include <unordered_map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/rng.h"
#include "common/status_macros.h"
#include "program/ir/unified.h"
#include "worker/engine/bound_program.h"

namespace strata::worker {
namespace {

using program::Action;
using program::Mechanism;
using program::Operand;
using program::OpKind;

// All that makes one work differ from another: what it is, and its addresses.
using WorkKey = std::vector<uint64_t>;
struct HashOfKey {
  size_t operator()(const WorkKey& key) const {
    uint64_t hash = key.size();
    for (const uint64_t word : key) hash = common::MixBits(hash, word);
    return hash;
  }
};
uint64_t Word(const void* pointer) { return reinterpret_cast<uintptr_t>(pointer); }

class ProgramBinder {
 public:
  ProgramBinder(const program::Program& program, const program::ExpandedProgram& expanded,
                const BindingContext& context)
      : program_(program), actions_(expanded.actions), context_(context) {}

  absl::StatusOr<BoundProgram> Run(const program::ExpandedProgram& expanded) {
    for (const auto* placements : {&context_.set->placements, &program_.placements}) {
      for (const program::Placement& placement : *placements) {
        result_.variants = std::lcm(result_.variants, static_cast<int64_t>(placement.copies));
      }
    }
    result_.scalars = reinterpret_cast<const double*>(
        context_.addresses->Bytes(context_.set->scalars, 0, 0).data());
    joined_.resize(result_.variants);
    result_.actions.reserve(actions_.size());
    result_.works.reserve(actions_.size() * result_.variants);
    for (size_t a = 0; a < actions_.size(); ++a) {
      const int action = static_cast<int>(a);
      absl::Status status = Add(action);
      if (status.ok() && context_.observer != nullptr) status = Tell(expanded, action);
      if (status.ok()) continue;
      return absl::Status(
          status.code(), absl::StrCat("program ", program_.name, ", ",
                                      expanded.Describe(program_, action), ": ", status.message()));
    }
    result_.AssignEvents();
    result_.goes_on = GoesOn();
    Trim();
    return std::move(result_);
  }

 private:
  absl::Status Add(int index) {
    const Action& action = actions_[index];
    const program::Instruction& instruction = program_.instructions[action.instruction];
    if (!LaneOf(action.stream).has_value()) {
      return absl::UnimplementedError(
          absl::StrCat("this engine has nothing that serves the stream ", Name(action.stream)));
    }
    BoundAction bound{.instruction = action.instruction,
                      .first_dependency = static_cast<uint32_t>(result_.dependencies.size()),
                      .stream = static_cast<uint8_t>(action.stream),
                      .purpose = static_cast<uint8_t>(instruction.purpose)};
    RETURN_IF_ERROR(AddDependencies(index, bound));
    if (action.predicate.has_value()) {
      const int scalar = static_cast<int>(action.predicate->scalar) + 1;
      bound.predicate = static_cast<int8_t>(action.predicate->negated ? -scalar : scalar);
    }
    RETURN_IF_ERROR(CheckReach(action));
    if (action.mechanism == Mechanism::kTransfer) bound.moved_bytes = OwnOperands(action)[0].bytes;
    for (int64_t variant = 0; variant < result_.variants; ++variant) {
      ASSIGN_OR_RETURN(const BoundWork work, BindWork(action, variant));
      result_.works.push_back(work);
    }
    result_.streams[bound.stream].push_back(index);
    result_.actions.push_back(bound);
    return absl::OkStatus();
  }

  // What ranks communicate is over before a step counts.
  bool GoesOn() const {
    const bool waits = context_.queues[static_cast<int>(program::Stream::kCompute)] == nullptr ||
                       context_.accelerator->communicates();
    if (waits) return false;
    const std::vector<int32_t>& host = result_.streams[static_cast<int>(program::Stream::kHost)];
    if (host.empty()) return false;
    const program::Instruction& last = program_.instructions[actions_[host.back()].instruction];
    return last.mechanism == Mechanism::kSignal && last.purpose == program::Purpose::kReport;
  }

  absl::Status Tell(const program::ExpandedProgram& expanded, int index) const {
    const int number = static_cast<int>(&program_ - context_.set->programs.data());
    for (int64_t variant = 0; variant < result_.variants; ++variant) {
      std::vector<BoundAccess> accesses;
      for (const Operand& operand : actions_[index].operands) {
        ASSIGN_OR_RETURN(const BoundOperand bound,
                         context_.addresses->Resolve(program_, operand, *context_.groups, variant));
        accesses.push_back({bound.data, bound.bytes, operand.access != program::Access::kRead});
      }
      context_.observer->Bound({number, index, variant}, expanded.Describe(program_, index),
                               std::move(accesses));
    }
    return absl::OkStatus();
  }

  absl::Status AddDependencies(int index, BoundAction& bound) {
    for (const program::ActionDependency& dependency : actions_[index].dependencies) {
      const int other = dependency.action;
      const bool in_range = other >= 0 && other < static_cast<int>(actions_.size()) &&
                            dependency.steps_back >= 0 && dependency.steps_back <= 1;
      if (!in_range || (dependency.steps_back == 0 && other >= index)) {
        return absl::InvalidArgumentError(
            absl::StrCat("depends on action ", other, ", ", dependency.steps_back,
                         " steps back, which does not come before it"));
      }
      if (actions_[other].stream == actions_[index].stream) continue;  // implied
      if (bound.dependencies == std::numeric_limits<uint8_t>::max()) {
        return absl::InvalidArgumentError("depends on more actions than there is room for");
      }
      ++bound.dependencies;
      result_.dependencies.push_back({.action = static_cast<uint32_t>(other),
                                      .steps_back = static_cast<uint32_t>(dependency.steps_back)});
    }
    return absl::OkStatus();
  }

  // Operands of the op or instruction itself; behind them an expanded action lists what it reads
  // beside.
  absl::Span<const Operand> OwnOperands(const Action& action) const {
    const size_t own = action.op != nullptr
                           ? action.op->operands.size()
                           : program_.instructions[action.instruction].operands.size();
    return absl::MakeConstSpan(action.operands).first(own);
  }

  const program::Slot* SlotOf(const Operand& operand) const {
    const int slots = static_cast<int>(context_.set->slots.size() + program_.slots.size());
    if (operand.slot < 0 || operand.slot >= slots) return nullptr;
    return &context_.set->slot(program_, operand.slot);
  }

  bool IsOnSsd(const Operand& operand) const {
    const program::Slot* slot = SlotOf(operand);
    return slot != nullptr && slot->tier == program::Tier::kSsd;
  }
  bool IsOnSsd(const Action& action) const {
    const absl::Span<const Operand> operands = OwnOperands(action);
    return std::any_of(operands.begin(), operands.end(),
                       [this](const Operand& operand) { return IsOnSsd(operand); });
  }

  device::QueueStream* QueueOf(const Action& action) const {
    return context_.queues[static_cast<int>(action.stream)];
  }
  // Where an action of a queue is launched.
  LaunchSite SiteOf(const Action& action) const {
    LaunchSite site{.stream = QueueOf(action)};
    if (!action.predicate.has_value()) return site;
    site.decides = result_.scalars + static_cast<int>(action.predicate->scalar);
    site.negated = action.predicate->negated;
    return site;
  }

  // What runs on the host touches what the host can reach; a transfer that is decided on the host
  // is made there.
  absl::Status CheckReach(const Action& action) const {
    if (QueueOf(action) != nullptr) return absl::OkStatus();
    if (action.mechanism == Mechanism::kTransfer && IsOnSsd(action)) return absl::OkStatus();
    const bool host_op = action.op != nullptr && (action.op->kind == OpKind::kLoadBatch ||
                                                  action.op->kind == OpKind::kLoadScalars);
    const bool host_copy = action.mechanism == Mechanism::kTransfer &&
                           (action.predicate.has_value() || context_.accelerator != nullptr);
    const bool host_communication = action.is_communication() && context_.accelerator != nullptr;
    const bool host_call =
        action.mechanism == Mechanism::kCall &&
        (action.stream == program::Stream::kHost || action.stream == program::Stream::kUpdate);
    if (!host_op && !host_copy && !host_communication && !host_call) return absl::OkStatus();
    for (const Operand& operand : OwnOperands(action)) {
      const program::Slot* slot = SlotOf(operand);
      if (slot == nullptr || context_.addresses->IsHostAccessible(*slot)) continue;
      return absl::InvalidArgumentError(absl::StrCat("runs on the host, which cannot reach ",
                                                     slot->name, " in tier ", Name(slot->tier)));
    }
    return absl::OkStatus();
  }

  absl::StatusOr<BoundWork> BindWork(const Action& action, int64_t applied) {
    if (QueueOf(action) != nullptr && action.mechanism == Mechanism::kSignal) {
      return absl::UnimplementedError("a signal on a queue of the device");
    }
    if (std::exchange(joined_[applied], 0) != 0) return Nothing();
    RETURN_IF_ERROR(Resolve(action, applied, operands_));
    switch (action.mechanism) {
      case Mechanism::kCall:
        return BindCall(action, applied);
      case Mechanism::kCollective:
      case Mechanism::kSend:
      case Mechanism::kReceive:
        return BindCommunicationWork(action);
      case Mechanism::kTransfer:
        return BindTransfer(action);
      case Mechanism::kSignal: {
        const program::Instruction& signal = program_.instructions[action.instruction];
        return AddOp(
            [host = context_.host, &signal] { return host->Signal(signal.purpose, signal.label); });
      }
    }
    return absl::InternalError("an unknown mechanism");
  }

  absl::Status Resolve(const Action& action, int64_t applied,
                       std::vector<BoundOperand>& operands) const {
    operands.clear();
    for (const Operand& operand : OwnOperands(action)) {
      ASSIGN_OR_RETURN(const BoundOperand bound,
                       context_.addresses->Resolve(program_, operand, *context_.groups, applied));
      operands.push_back(bound);
    }
    return absl::OkStatus();
  }

  absl::StatusOr<BoundWork> BindCall(const Action& action, int64_t applied) {
    const LaneId lane = *LaneOf(action.stream);
    const OpEnvironment& environment = context_.environments[static_cast<int>(lane)];
    WorkKey key = KeyOf(Word(action.op), static_cast<uint64_t>(lane));
    if (QueueOf(action) == nullptr) {
      if (const auto known = works_.find(key); known != works_.end()) return known->second;
      ASSIGN_OR_RETURN(BoundOp run, BindOp(*action.op, operands_, environment));
      return works_[std::move(key)] = AddOp(std::move(run));
    }
    const LaunchSite site = SiteOf(action);
    AddSite(site, key);
    if (const Action* next = JoinableBehind(action); next != nullptr) {
      RETURN_IF_ERROR(Resolve(*next, applied, next_operands_));
      WorkKey both = key;
      both.push_back(Word(next->op));
      AddOperands(next_operands_, both);
      auto known = works_.find(both);
      if (known == works_.end()) {
        BoundOp launch = context_.accelerator->BindJoined(
            {*action.op, operands_}, {*next->op, next_operands_}, environment, site);
        if (launch != nullptr) known = works_.emplace(both, AddOp(std::move(launch))).first;
      }
      joined_[applied] = known != works_.end();
      if (joined_[applied]) return known->second;
    }
    if (const auto known = works_.find(key); known != works_.end()) return known->second;
    ASSIGN_OR_RETURN(BoundOp launch,
                     context_.accelerator->BindOp(*action.op, operands_, environment, site));
    return works_[std::move(key)] = AddOp(std::move(launch));
  }

  // The action behind one of a queue, if the two may be one launch: nothing lies between them on
  // their stream, and nothing on others that only the second waits for.
  const Action* JoinableBehind(const Action& action) const {
    const Action* const next = &action + 1;
    const bool joins = next != actions_.data() + actions_.size() && next->op != nullptr &&
                       next->stream == action.stream && next->dependencies.empty() &&
                       !action.predicate.has_value() && !next->predicate.has_value() &&
                       context_.accelerator->Joins(action.op->kind, next->op->kind);
    return joins ? next : nullptr;
  }

  static void AddSite(const LaunchSite& site, WorkKey& key) {
    key.push_back(Word(site.decides));
    key.push_back(site.negated ? 1 : 0);
  }

  absl::StatusOr<BoundWork> BindCommunicationWork(const Action& action) {
    RETURN_IF_ERROR(CheckGroup(action));
    // An instruction's own communication is at no lasting address: it is bound each time, and what
    // came of it compared.
    const uint64_t op = action.op == nullptr ? 0 : Word(action.op);
    WorkKey key = KeyOf(op, static_cast<uint64_t>(action.stream));
    if (const auto known = works_.find(key); op != 0 && known != works_.end()) {
      return known->second;
    }
    ASSIGN_OR_RETURN(BoundCommunication bound,
                     BindCommunication(action, operands_, *context_.groups));
    if (QueueOf(action) != nullptr) return BindOnQueue(action, bound, std::move(key));
    if (!bound.operation.has_value()) {
      key.push_back(static_cast<uint64_t>(action.communication.op));
      key.push_back(static_cast<uint64_t>(action.communication.bytes));
      if (const auto known = works_.find(key); known != works_.end()) return known->second;
      return works_[std::move(key)] = AddOp(std::move(bound.local));
    }
    const collectives::Operation& what = *bound.operation;
    if (op == 0) {
      for (const uint64_t word :
           {static_cast<uint64_t>(what.kind), static_cast<uint64_t>(what.group.value),
            static_cast<uint64_t>(what.type), static_cast<uint64_t>(what.count), Word(what.in),
            Word(what.out), static_cast<uint64_t>(what.peer), static_cast<uint64_t>(what.tag)}) {
        key.push_back(word);
      }
      if (const auto known = works_.find(key); known != works_.end()) return known->second;
    }
    result_.operations.push_back(what);
    return works_[std::move(key)] = Entry(BoundWork::kOperation, result_.operations.size());
  }

  // Each is bound for itself: few, and the device's to compare.
  absl::StatusOr<BoundWork> BindOnQueue(const Action& action, const BoundCommunication& bound,
                                        WorkKey key) {
    const LaunchSite site = SiteOf(action);
    if (bound.operation.has_value()) {
      if (site.decides != nullptr) {
        return absl::UnimplementedError("the device cannot decide whether ranks communicate");
      }
      ASSIGN_OR_RETURN(BoundOp issue, context_.accelerator->BindOperation(*bound.operation, site));
      const BoundWork work = AddOp(std::move(issue));
      return action.op == nullptr ? work : works_[std::move(key)] = work;
    }
    // In a group of one: a copy, or nothing.
    const bool moves = action.communication.op != program::CollectiveOp::kBarrier &&
                       operands_.size() > 1 && operands_[0].data != operands_[1].data;
    if (!moves) return Nothing();
    result_.copies.push_back({operands_[1].data, operands_[0].data, action.communication.bytes});
    return Entry(BoundWork::kCopy, result_.copies.size());
  }

  absl::Status CheckGroup(const Action& action) const {
    const program::Group group = action.communication.group;
    if (context_.groups->size(group) == context_.set->groups.of(group)) return absl::OkStatus();
    return absl::InvalidArgumentError(absl::StrCat(
        "the program was made for a group ", Name(group), " of ", context_.set->groups.of(group),
        ", this rank's has ", context_.groups->size(group)));
  }

  absl::StatusOr<BoundWork> BindTransfer(const Action& action) {
    if (operands_.size() != 2 || operands_[0].bytes != operands_[1].bytes) {
      return absl::InvalidArgumentError("a transfer has a source and a destination of one size");
    }
    if (IsOnSsd(action)) return BindSsdTransfer(action);
    if (operands_[0].data == operands_[1].data && IsUnified(action)) return BindPrefetch(action);
    const BoundCopy copy{operands_[1].data, operands_[0].data, operands_[0].bytes};
    const bool decided = action.predicate.has_value();
    WorkKey key = KeyOf(decided ? 1 : 2, 0);
    const bool queued = decided && QueueOf(action) != nullptr;
    const LaunchSite site = SiteOf(action);
    if (queued) {
      AddSite(site, key);
      key.push_back(static_cast<uint64_t>(action.stream));
    }
    if (const auto known = works_.find(key); known != works_.end()) return known->second;
    BoundWork& work = works_[std::move(key)];
    if (queued) {
      ASSIGN_OR_RETURN(BoundOp launch,
                       context_.accelerator->BindCopy(copy.to, copy.from, copy.bytes, site));
      return work = AddOp(std::move(launch));
    }
    if (decided) {
      return work = AddOp([copy] {
               std::memcpy(copy.to, copy.from, copy.bytes);
               return absl::OkStatus();
             });
    }
    result_.copies.push_back(copy);
    return work = Entry(BoundWork::kCopy, result_.copies.size());
  }

  bool IsUnified(const Action& action) const {
    const absl::Span<const Operand> operands = OwnOperands(action);
    return std::all_of(operands.begin(), operands.end(), [this](const Operand& operand) {
      const program::Slot* slot = SlotOf(operand);
      return slot != nullptr && program::IsUnified(*slot);
    });
  }

  // Whatever a scalar decides of it: the pages that came go back.
  absl::StatusOr<BoundWork> BindPrefetch(const Action& action) {
    device::QueueStream* const queue = QueueOf(action);
    if (context_.accelerator == nullptr || queue == nullptr) {
      return absl::InvalidArgumentError("prefetches unified memory without a queue of the device");
    }
    const bool fetch = SlotOf(OwnOperands(action)[1])->tier == program::Tier::kDevice;
    const auto to = fetch ? device::Memory::kDevice : device::Memory::kHost;
    WorkKey key = KeyOf(4, static_cast<uint64_t>(action.stream));
    key.push_back(fetch ? 1 : 0);
    if (const auto known = works_.find(key); known != works_.end()) return known->second;
    return works_[std::move(key)] =
               AddOp([unified = &context_.accelerator->unified(), queue, to, what = operands_[0]] {
                 return unified->Prefetch(*queue, what.data, what.bytes, to);
               });
  }

  absl::StatusOr<BoundWork> BindSsdTransfer(const Action& action) {
    const absl::Span<const Operand> own = OwnOperands(action);
    const bool reads = IsOnSsd(own[0]);
    const BoundOperand& there = operands_[reads ? 0 : 1];
    const BoundOperand& here = operands_[reads ? 1 : 0];
    const program::Slot* slot = SlotOf(own[reads ? 1 : 0]);
    const int64_t bytes = here.bytes;
    const int64_t offset = context_.addresses->OffsetOnSsd(there.data);
    if (context_.ssd == nullptr || !context_.addresses->IsHostAccessible(*slot)) {
      return absl::InvalidArgumentError(absl::StrCat("moves bytes between SSD and ", slot->name,
                                                     ", which the host cannot reach"));
    }
    if (offset % memory::kSsdBlockBytes != 0 || Word(here.data) % memory::kSsdBlockBytes != 0) {
      return absl::InvalidArgumentError(absl::StrCat("moves bytes between SSD and ", slot->name,
                                                     ", which do not begin at whole blocks of ",
                                                     memory::kSsdBlockBytes));
    }
    WorkKey key = KeyOf(3, static_cast<uint64_t>(action.stream));
    if (const auto known = works_.find(key); known != works_.end()) return known->second;
    context_.ssd->Use(offset, bytes);
    BoundWork& work = works_[std::move(key)];
    if (!reads) {
      return work = AddOp([ssd = context_.ssd, stream = action.stream, offset,
                           from = absl::MakeConstSpan(here.data, bytes)] {
               return ssd->Write(stream, memory::SsdClass::kStateWrite, offset, from);
             });
    }
    const memory::SsdClass request_class = ReadClassOf(SlotOf(own[0])->klass);
    return work = AddOp([ssd = context_.ssd, stream = action.stream, request_class, offset,
                         to = absl::MakeSpan(here.data, bytes)] {
             return ssd->Read(stream, request_class, offset, to);
           });
  }

  // Passes stand still for want of parameters and of what forwards kept.
  static memory::SsdClass ReadClassOf(program::SlotClass klass) {
    const bool of_state =
        klass == program::SlotClass::kOptimizer || klass == program::SlotClass::kGradients;
    return of_state ? memory::SsdClass::kStateRead : memory::SsdClass::kNextLayerRead;
  }

  WorkKey KeyOf(uint64_t what, uint64_t where) const {
    WorkKey key{what, where};
    AddOperands(operands_, key);
    return key;
  }
  static void AddOperands(const std::vector<BoundOperand>& operands, WorkKey& key) {
    for (const BoundOperand& operand : operands) {
      key.push_back(Word(operand.data));
      key.push_back(static_cast<uint64_t>(operand.bytes));
      key.push_back(static_cast<uint64_t>(operand.offset));
      key.push_back(static_cast<uint64_t>(operand.shard_index));
    }
  }

  BoundWork Nothing() {
    const auto [entry, is_new] = works_.try_emplace(WorkKey());
    if (is_new) entry->second = AddOp([] { return absl::OkStatus(); });
    return entry->second;
  }

  BoundWork AddOp(BoundOp run) {
    result_.ops.push_back(std::move(run));
    return Entry(BoundWork::kOp, result_.ops.size());
  }
  static BoundWork Entry(BoundWork::Kind kind, size_t size) {
    return {.kind = kind, .index = static_cast<uint32_t>(size - 1)};
  }

  void Trim() {
    result_.dependencies.shrink_to_fit();
    result_.ops.shrink_to_fit();
    result_.copies.shrink_to_fit();
    result_.operations.shrink_to_fit();
    for (std::vector<int32_t>& stream : result_.streams) stream.shrink_to_fit();
  }

  const program::Program& program_;
  const std::vector<Action>& actions_;
  const BindingContext& context_;
  BoundProgram result_;
  std::vector<BoundOperand> operands_;  // of the action being bound
  std::vector<BoundOperand> next_operands_;
  std::vector<char> joined_;  // by variant: the last action's launch does the next one's work, too
  std::unordered_map<WorkKey, BoundWork, HashOfKey> works_;
};

}  // namespace

absl::StatusOr<BoundProgram> Bind(const program::Program& program,
                                  const program::ExpandedProgram& expanded,
                                  const BindingContext& context) {
  return ProgramBinder(program, expanded, context).Run(expanded);
}

}  // namespace strata::worker
