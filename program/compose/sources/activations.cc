#include "program/compose/sources/activations.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"

namespace strata::program {

Activations::Activations(const Stage& stage, const Walk& walk, std::vector<Use> uses,
                         Transfers& transfers)
    : stage_(stage),
      walk_(walk),
      uses_(std::move(uses)),
      backward_of_(uses_.size(), -1),
      transfers_(transfers) {
  work_.assign(walk.virtual_stages() / walk.stages, std::vector<Work>(walk.micro_batches));
  std::map<std::tuple<int, int, int>, size_t> forwards;  // by chunk, micro-batch and layer
  for (size_t u = 0; u < uses_.size(); ++u) {
    const std::tuple<int, int, int> at{uses_[u].chunk, uses_[u].micro_batch, uses_[u].layer};
    if (uses_[u].kind == PassKind::kForward) {
      forwards[at] = u;
    } else if (uses_[u].kind == PassKind::kBackward && forwards.contains(at)) {
      backward_of_[forwards[at]] = static_cast<int>(u);
    }
  }
}

int64_t Activations::SlabBytes(const Stage& stage) {
  int64_t bytes = 0;
  for (size_t l = 0; l < stage.graph.layers.size(); ++l) {
    if (stage.sets.activations[l] != Home::kSsd) continue;
    for (const int called :
         {stage.graph.layers[l].templates.forward, stage.graph.layers[l].templates.backward}) {
      if (called < 0) continue;
      for (const Formal& formal : stage.graph.templates[called].formals) {
        if (formal.role != Role::kInput && formal.role != Role::kSaved) continue;
        bytes = std::max(bytes, formal.bytes);
      }
    }
  }
  return bytes;
}

Activations::Work& Activations::WorkOf(int chunk, int micro_batch) {
  Work& work = work_[chunk][micro_batch];
  if (work.activations.empty()) {
    const auto& [first, end] = LayersOf(chunk);
    const size_t layers = end - first;
    work.activations.assign(layers + 1, -1);
    work.output_gradients.assign(layers, -1);
    work.saved.resize(layers);
    work.stash.resize(layers);
    work.away.assign(layers, false);
  }
  return work;
}

void Activations::Before(int index) {
  const Use& use = uses_[index];
  BringBack(use);
  if (index + 1 < static_cast<int>(uses_.size())) BringBack(uses_[index + 1]);
  if (use.kind != PassKind::kBackward) return;
  Work& work = WorkOf(use.chunk, use.micro_batch);
  work.output_gradients[use.layer - LayersOf(use.chunk).first] = work.gradient;
}

void Activations::ForKept(const Use& use,
                          const std::function<void(int& slot, int64_t bytes)>& visit) {
  Work& work = WorkOf(use.chunk, use.micro_batch);
  const int at = use.layer - LayersOf(use.chunk).first;
  const int backward = walk_.TemplateOf(stage_.graph, use.layer, PassKind::kBackward);
  for (const Formal& formal : stage_.graph.templates[backward].formals) {
    if (formal.role == Role::kInput) visit(work.activations[at], formal.bytes);
    if (formal.role != Role::kSaved) continue;
    const bool there = formal.index < static_cast<int>(work.saved[at].size());
    if (there && work.saved[at][formal.index] >= 0)
      visit(work.saved[at][formal.index], formal.bytes);
  }
}

void Activations::After(int index) {
  const Use& use = uses_[index];
  const Home home = stage_.sets.activations[use.layer];
  if (use.kind != PassKind::kForward || home == Home::kDevice) return;
  if (backward_of_[index] <= index + 2) return;  // none, or it comes at once
  ForKept(use, [&](int& slot, int64_t bytes) {
    const Slot& here = stage_.assembler.program().slots[slot - stage_.assembler.set().slots.size()];
    const std::string name = here.name;
    const int there = stage_.assembler.AddTransient(
        Slot{.name = absl::StrCat(name, " at home"),
             .tier = stage_.plan.TierOf(home),
             .klass = SlotClass::kActivations,
             .bytes = bytes,
             .alignment = home == Home::kSsd ? kSsdBlock : kSlotAlignment,
             .pass = PassOf(use.chunk, use.micro_batch)});
    transfers_.Move(Whole(slot, bytes), Whole(there, bytes), Purpose::kStash, name);
    slot = there;
  });
  WorkOf(use.chunk, use.micro_batch).away[use.layer - LayersOf(use.chunk).first] = true;
}

void Activations::BringBack(const Use& use) {
  if (use.kind != PassKind::kBackward) return;
  Work& work = WorkOf(use.chunk, use.micro_batch);
  const int at = use.layer - LayersOf(use.chunk).first;
  if (!work.away[at]) return;
  work.away[at] = false;
  ForKept(use, [&](int& slot, int64_t bytes) {
    const Slot& there =
        stage_.assembler.program().slots[slot - stage_.assembler.set().slots.size()];
    const std::string name = there.name;
    const int here = AddSlot(absl::StrCat(name, ", again"), bytes, there.pass);
    transfers_.Move(Whole(slot, bytes), Whole(here, bytes), Purpose::kFetch, name);
    slot = here;
  });
}

Operand Activations::Bind(const Formal& formal, const Use& use) {
  const auto& [first, end] = LayersOf(use.chunk);
  const int at = use.layer - first;
  Work& work = WorkOf(use.chunk, use.micro_batch);
  const auto kept = [&](std::vector<int>& slots) {
    if (formal.index >= static_cast<int>(slots.size())) slots.resize(formal.index + 1, -1);
    int& slot = slots[formal.index];
    if (slot < 0) slot = NewSlot(formal, use);
    return Whole(slot, formal.bytes);
  };
  switch (formal.role) {
    case Role::kInput:
      return Whole(work.activations[at], formal.bytes);
    case Role::kOutput:
      work.activations[at + 1] = use.layer + 1 == end && SendsActivation(use.chunk)
                                     ? TakeSendBuffer()
                                     : NewSlot(formal, use);
      return Whole(work.activations[at + 1], formal.bytes);
    case Role::kSaved:
      return kept(work.saved[at]);
    case Role::kStash:
      return kept(work.stash[at]);
    case Role::kOutputGradient:
      // A layer without a gradient of its input (an embedding) had no backward of its own: the last
      // gradient that the chunk's backward made is its output's.
      if (work.output_gradients[at] < 0) work.output_gradients[at] = work.gradient;
      return Whole(work.output_gradients[at], formal.bytes);
    case Role::kInputGradient:
      work.gradient = NewGradient(formal, use);
      return Whole(work.gradient, formal.bytes);
    case Role::kGradientStream:
      if (work.gradient < 0) work.gradient = NewGradient(formal, use);
      return Whole(work.gradient, formal.bytes);
    default:
      return {};
  }
}

int Activations::NewSlot(const Formal& formal, const Use& use) {
  const bool kept = formal.role == Role::kOutput || formal.role == Role::kSaved;
  return AddSlot(absl::StrCat(formal.name, " of ", stage_.graph.layers[use.layer].name, " micro ",
                              use.micro_batch),
                 formal.bytes, kept ? PassOf(use.chunk, use.micro_batch) : -1);
}

int Activations::AddSlot(std::string name, int64_t bytes, int pass) {
  return stage_.assembler.AddTransient(Slot{.name = std::move(name),
                                            .tier = stage_.assembler.tier(),
                                            .klass = SlotClass::kActivations,
                                            .bytes = bytes,
                                            .pass = pass});
}

// A new gradient leaves with a message if nothing replaces it before the chunk's first layer.
int Activations::NewGradient(const Formal& formal, const Use& use) {
  const bool stays = walk_.split && use.layer > LayersOf(use.chunk).first;
  return SendsGradient(use.chunk) && !stays ? TakeSendBuffer() : NewSlot(formal, use);
}

int Activations::TakeSendBuffer() {
  for (SendBuffer& buffer : send_buffers_) {
    // The next pass after a release is not made to wait; the one after it is.
    if (buffer.taken || buffer.released_after + 1 >= passes_) continue;
    buffer.taken = true;
    return buffer.slot;
  }
  const int slot =
      stage_.assembler.AddTransient(absl::StrCat("send buffer ", send_buffers_.size()),
                                    SlotClass::kCommunication, stage_.graph.boundary_bytes);
  send_buffers_.push_back({.slot = slot, .taken = true});
  return slot;
}

void Activations::ReleaseSendBuffer(int slot) {
  for (SendBuffer& buffer : send_buffers_) {
    if (buffer.slot != slot) continue;
    buffer.taken = false;
    buffer.released_after = passes_;
  }
}

// One stage on (activations, channel 0; from the last stage to the first between chunks that cycle)
// or back (gradients, channel 1); on a V's way back the other way round.
Instruction Activations::Message(const WalkEvent& message, bool send) const {
  const bool forward = message.direction == Direction::kForward;
  const int chunk = send ? message.pass.chunk : message.receiver_chunk;
  const bool there = walk_.schedule != ScheduleKind::kZbv || chunk % 2 == 0;
  Instruction instruction{
      .mechanism = send ? Mechanism::kSend : Mechanism::kReceive,
      .purpose = Purpose::kPipeline,
      .label = absl::StrCat(send ? "send " : "receive ", forward ? "activation" : "gradient",
                            " chunk ", chunk, " micro ", message.pass.micro_batch),
      .stream = send ? Stream::kSend : Stream::kReceive};
  instruction.communication = {.group = Group::kPipeline,
                               .bytes = stage_.graph.boundary_bytes,
                               .peer_offset = (forward == send) == there ? 1 : -1,
                               .channel = forward ? 0 : 1};
  return instruction;
}

void Activations::Send(const WalkEvent& message) {
  const Work& work = WorkOf(message.pass.chunk, message.pass.micro_batch);
  const int slot =
      message.direction == Direction::kForward ? work.activations.back() : work.gradient;
  Instruction send = Message(message, true);
  send.operands = {Whole(slot, stage_.graph.boundary_bytes)};
  stage_.assembler.Add(std::move(send));
  ReleaseSendBuffer(slot);
}

void Activations::HandOver(const WalkEvent& message) {
  const Work& from = WorkOf(message.pass.chunk, message.pass.micro_batch);
  Work& to = WorkOf(message.receiver_chunk, message.pass.micro_batch);
  if (message.direction == Direction::kForward) {
    to.activations.front() = from.activations.back();
  } else {
    to.gradient = from.gradient;
  }
}

void Activations::Receive(const WalkEvent& message) {
  const int chunk = message.receiver_chunk, micro_batch = message.pass.micro_batch;
  Work& work = WorkOf(chunk, micro_batch);
  const bool forward = message.direction == Direction::kForward;
  // What backward changes in place and sends on arrives in a send buffer already.
  const bool passes_through = !forward && !walk_.split && SendsGradient(chunk);
  int& slot = forward ? work.activations.front() : work.gradient;
  slot = passes_through
             ? TakeSendBuffer()
             : AddSlot(absl::StrCat(forward ? "activation" : "gradient", " received for chunk ",
                                    chunk, " micro ", micro_batch),
                       stage_.graph.boundary_bytes, forward ? PassOf(chunk, micro_batch) : -1);
  Instruction receive = Message(message, false);
  receive.operands = {Whole(slot, stage_.graph.boundary_bytes)};
  receive.operands.front().access = Access::kWrite;
  stage_.assembler.Add(std::move(receive));
}

}  // namespace strata::program
