// State, passes and messages of a stage; pipeline_step.cc has what ends its step.
#include "program/builder/pipeline_stage.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

namespace strata::program {
namespace {

Purpose PurposeOf(const Template& tmpl, PassKind kind) {
  if (kind == PassKind::kForward) return Purpose::kForward;
  if (kind == PassKind::kBackwardWeight) return Purpose::kBackwardWeight;
  for (const Formal& formal : tmpl.formals) {
    if (formal.role == Role::kInputGradient) return Purpose::kBackwardInput;
  }
  return Purpose::kBackward;
}

}  // namespace

PipelineStage::PipelineStage(const PipelinePlan& plan, int stage, const UpdateEmitter& update)
    : plan_(plan),
      stage_(stage),
      sets_(plan.sets[stage]),
      assembler_(result_, plan.options.tier),
      constants_(plan.graph.constants.size(), -1) {
  result_.groups.tensor = plan.options.tensor;
  result_.groups.pipeline = plan.stages();
  result_.templates = plan.graph.templates;
  const ScheduleOptions& schedule = plan.options.schedule;
  work_.assign(schedule.virtual_stages, std::vector<Work>(schedule.micro_batches));
  AddState(update);
  BeginProgram();
}

bool PipelineStage::UsesRole(Role role) const {
  for (int s = stage_; s < plan_.virtual_stages(); s += plan_.stages()) {
    for (int l = plan_.layers[s].first; l < plan_.layers[s].second; ++l) {
      for (const PassKind kind :
           {PassKind::kForward, PassKind::kBackward, PassKind::kBackwardWeight}) {
        const int tmpl = plan_.TemplateOf(l, kind);
        if (tmpl < 0) continue;
        for (const Formal& formal : result_.templates[tmpl].formals) {
          if (formal.role == role) return true;
        }
      }
    }
  }
  return false;
}

void PipelineStage::AddState(const UpdateEmitter& update) {
  result_.scalars = assembler_.AddPersistent("scalars", SlotClass::kScalars, kScalarBytes);
  if (UsesRole(Role::kConstants)) {
    for (size_t c = 0; c < constants_.size(); ++c) {
      const Constant& constant = plan_.graph.constants[c];
      constants_[c] =
          assembler_.AddPersistent(constant.name, SlotClass::kConstants, constant.bytes);
    }
  }
  for (const StageSet& set : sets_) AddSet(set, update);
}

void PipelineStage::AddSet(const StageSet& set, const UpdateEmitter& update) {
  ParameterSet copy = plan_.graph.sets[set.index];
  copy.counted_in_norm = plan_.Counts(stage_, set);
  SetSlots slots;
  slots.parameters =
      assembler_.AddPersistent(copy.name, SlotClass::kParameters, copy.bytes(), true);
  for (int m = 0; m < 2; ++m) {
    slots.moments[m] = assembler_.AddPersistent(
        absl::StrCat(copy.name, m == 0 ? " first moment" : " second moment"), SlotClass::kOptimizer,
        copy.bytes(), true);
  }
  slots.update_template = static_cast<int>(result_.templates.size());
  result_.templates.push_back(update(copy, copy.elements));
  slots.producers_left = int64_t{set.producers} * plan_.options.schedule.micro_batches;
  slots_.push_back(slots);
  result_.sets.push_back(std::move(copy));
}

// Loads what this stage's layers read, and zeroes its row of the leaves.
void PipelineStage::BeginProgram() {
  assembler_.BeginProgram("train");
  const int64_t rows = plan_.options.schedule.micro_batches * plan_.graph.micro_batch;
  const int64_t batch_bytes = rows * plan_.graph.sequence * 4;
  leaves_ = assembler_.AddTransient("leaves", SlotClass::kBatch,
                                    plan_.stages() * plan_.columns * int64_t{8});
  assembler_.CallOp(
      {.kind = OpKind::kLoadScalars}, Purpose::kLoad, "load scalars",
      {{.slot = result_.scalars, .bytes = ScalarOffset(Scalar::kLoss), .access = Access::kWrite}});
  if (UsesRole(Role::kTokens) || UsesRole(Role::kTargets)) {
    tokens_ = assembler_.AddTransient("tokens", SlotClass::kBatch, batch_bytes);
    targets_ = assembler_.AddTransient("targets", SlotClass::kBatch, batch_bytes);
    assembler_.CallOp({.kind = OpKind::kLoadBatch, .ints = {rows, plan_.graph.sequence}},
                      Purpose::kLoad, "load batch",
                      {{.slot = tokens_, .bytes = batch_bytes, .access = Access::kWrite},
                       {.slot = targets_, .bytes = batch_bytes, .access = Access::kWrite}});
  }
  assembler_.Zero(Leaf(0, plan_.columns), Purpose::kLoad, "zero losses");
}

PipelineStage::Work& PipelineStage::WorkOf(int chunk, int micro_batch) {
  Work& work = work_[chunk][micro_batch];
  if (work.activations.empty()) {
    const auto& [first, end] = plan_.layers[chunk * plan_.stages() + stage_];
    const size_t layers = end - first;
    work.activations.assign(layers + 1, -1);
    work.output_gradients.assign(layers, -1);
    work.saved.resize(layers);
    work.stash.resize(layers);
  }
  return work;
}

void PipelineStage::RunPass(const ScheduledPass& pass) {
  const std::pair<int, int>& layers = plan_.layers[pass.virtual_stage(stage_, plan_.stages())];
  const int first = layers.first, end = layers.second;
  Work& work = WorkOf(pass.chunk, pass.micro_batch);
  ++passes_;
  if (pass.kind == PassKind::kForward) {
    for (int l = first; l < end; ++l) CallLayer(l, pass);
    return;
  }
  for (int l = end - 1; l >= first; --l) {
    if (pass.kind == PassKind::kBackward) work.output_gradients[l - first] = work.gradient;
    CallLayer(l, pass);
  }
}

void PipelineStage::CallLayer(int layer, const ScheduledPass& pass) {
  const int index = plan_.TemplateOf(layer, pass.kind);
  if (index < 0) return;
  // A copy: one-op templates that calls add may move the list.
  const Template tmpl = result_.templates[index];
  BeginGradients(layer, tmpl);
  const Purpose purpose = PurposeOf(tmpl, pass.kind);
  assembler_.Call(
      index, purpose,
      absl::StrCat(Name(purpose), " ", plan_.graph.layers[layer].name, " micro ", pass.micro_batch),
      [&](const Formal& formal) { return Bind(formal, layer, pass); });
  EndGradients(layer, tmpl);
}

int PipelineStage::SetOf(const Layer& layer, int formal_index) const {
  const auto found = std::find_if(sets_.begin(), sets_.end(), [&](const StageSet& set) {
    return set.index == layer.sets[formal_index];
  });
  return static_cast<int>(found - sets_.begin());
}

Operand PipelineStage::Gradient(int set, Partial partial) const {
  Operand operand = Whole(slots_[set].gradient, result_.sets[set].bytes());
  operand.partial = partial;
  return operand;
}

// Zeroes gradients that this call is the first to add to.
void PipelineStage::BeginGradients(int layer, const Template& tmpl) {
  for (const Formal& formal : tmpl.formals) {
    if (formal.role != Role::kGradients) continue;
    const int set = SetOf(plan_.graph.layers[layer], formal.index);
    if (slots_[set].gradient >= 0) continue;
    const ParameterSet& parameters = result_.sets[set];
    slots_[set].gradient = assembler_.AddTransient(absl::StrCat("gradient of ", parameters.name),
                                                   SlotClass::kGradients, parameters.bytes());
    assembler_.Zero(Gradient(set, sets_[set].partial), Purpose::kBackward,
                    absl::StrCat("zero gradient of ", parameters.name));
  }
}

// Reduces over the tensor group what this call is the last to add to.
void PipelineStage::EndGradients(int layer, const Template& tmpl) {
  for (const Formal& formal : tmpl.formals) {
    if (formal.role != Role::kGradients) continue;
    const int set = SetOf(plan_.graph.layers[layer], formal.index);
    if (--slots_[set].producers_left > 0) continue;
    if (sets_[set].partial & PartialOver(Group::kTensor)) AllReduceGradient(set, Group::kTensor);
  }
}

Operand PipelineStage::Bind(const Formal& formal, int layer, const ScheduledPass& pass) {
  const Layer& of = plan_.graph.layers[layer];
  const int64_t first_row_bytes =
      pass.micro_batch * plan_.graph.micro_batch * plan_.graph.sequence * 4;
  switch (formal.role) {
    case Role::kParameters:
      return Whole(slots_[SetOf(of, formal.index)].parameters, formal.bytes);
    case Role::kGradients: {
      const int set = SetOf(of, formal.index);
      Operand operand = Gradient(set, sets_[set].partial);
      operand.bytes = formal.bytes;
      return operand;
    }
    case Role::kTokens:
      return {.slot = tokens_, .offset = first_row_bytes, .bytes = formal.bytes};
    case Role::kTargets:
      return {.slot = targets_, .offset = first_row_bytes, .bytes = formal.bytes};
    case Role::kLoss:
      return Leaf(0, 1);
    case Role::kScalars:
      return Whole(result_.scalars, formal.bytes);
    case Role::kConstants:
      return Whole(constants_[formal.index], formal.bytes);
    default:
      return BindWork(formal, layer, pass);
  }
}

// Activations, gradients and what passes hand to later ones; a slot that does not exist is -1, and
// the layout refuses it by the call's name.
Operand PipelineStage::BindWork(const Formal& formal, int layer, const ScheduledPass& pass) {
  const auto& [first, end] = plan_.layers[pass.virtual_stage(stage_, plan_.stages())];
  const int at = layer - first;
  Work& work = WorkOf(pass.chunk, pass.micro_batch);
  // A new gradient leaves with a message if nothing replaces it before the chunk's first layer.
  const auto new_gradient = [&] {
    const bool stays = plan_.options.schedule.split() && layer > first;
    return SendsGradient(pass.chunk) && !stays ? TakeSendBuffer() : NewSlot(formal, layer, pass);
  };
  const auto kept = [&](std::vector<int>& slots) {
    if (formal.index >= static_cast<int>(slots.size())) slots.resize(formal.index + 1, -1);
    int& slot = slots[formal.index];
    if (slot < 0) slot = NewSlot(formal, layer, pass);
    return Whole(slot, formal.bytes);
  };
  switch (formal.role) {
    case Role::kInput:
      return Whole(work.activations[at], formal.bytes);
    case Role::kOutput:
      work.activations[at + 1] = layer + 1 == end && SendsActivation(pass.chunk)
                                     ? TakeSendBuffer()
                                     : NewSlot(formal, layer, pass);
      return Whole(work.activations[at + 1], formal.bytes);
    case Role::kSaved:
      return kept(work.saved[at]);
    case Role::kStash:
      return kept(work.stash[at]);
    case Role::kOutputGradient:
      return Whole(work.output_gradients[at], formal.bytes);
    case Role::kInputGradient:
      work.gradient = new_gradient();
      return Whole(work.gradient, formal.bytes);
    case Role::kGradientStream:
      if (work.gradient < 0) work.gradient = new_gradient();
      return Whole(work.gradient, formal.bytes);
    default:
      return {};
  }
}

int PipelineStage::NewSlot(const Formal& formal, int layer, const ScheduledPass& pass) {
  return assembler_.AddTransient(absl::StrCat(formal.name, " of ", plan_.graph.layers[layer].name,
                                              " micro ", pass.micro_batch),
                                 SlotClass::kActivations, formal.bytes);
}

int PipelineStage::TakeSendBuffer() {
  for (SendBuffer& buffer : send_buffers_) {
    // The next pass after a release is not made to wait; the one after it is.
    if (buffer.taken || buffer.released_after + 1 >= passes_) continue;
    buffer.taken = true;
    return buffer.slot;
  }
  const int slot = assembler_.AddTransient(absl::StrCat("send buffer ", send_buffers_.size()),
                                           SlotClass::kCommunication, plan_.graph.boundary_bytes);
  send_buffers_.push_back({.slot = slot, .taken = true});
  return slot;
}

void PipelineStage::ReleaseSendBuffer(int slot) {
  for (SendBuffer& buffer : send_buffers_) {
    if (buffer.slot != slot) continue;
    buffer.taken = false;
    buffer.released_after = passes_;
  }
}

Instruction PipelineStage::Message(const PipelineEvent& message, bool send) const {
  const bool forward = message.direction == Direction::kForward;
  const int chunk = send ? message.pass.chunk : message.receiver_chunk;
  Instruction instruction{
      .mechanism = send ? Mechanism::kSend : Mechanism::kReceive,
      .purpose = Purpose::kPipeline,
      .label = absl::StrCat(send ? "send " : "receive ", forward ? "activation" : "gradient",
                            " chunk ", chunk, " micro ", message.pass.micro_batch),
      .stream = send ? Stream::kSend : Stream::kReceive};
  instruction.communication = {.group = Group::kPipeline,
                               .bytes = plan_.graph.boundary_bytes,
                               .peer_offset = forward == send ? 1 : -1,
                               .channel = forward ? 0 : 1};
  return instruction;
}

void PipelineStage::Send(const PipelineEvent& message) {
  const Work& work = WorkOf(message.pass.chunk, message.pass.micro_batch);
  const int slot =
      message.direction == Direction::kForward ? work.activations.back() : work.gradient;
  Instruction send = Message(message, true);
  send.operands = {Whole(slot, plan_.graph.boundary_bytes)};
  assembler_.Add(std::move(send));
  ReleaseSendBuffer(slot);
}

void PipelineStage::Receive(const PipelineEvent& message) {
  const int chunk = message.receiver_chunk, micro_batch = message.pass.micro_batch;
  Work& work = WorkOf(chunk, micro_batch);
  const bool forward = message.direction == Direction::kForward;
  // What backward changes in place and sends on arrives in a send buffer already.
  const bool passes_through = !forward && !plan_.options.schedule.split() && SendsGradient(chunk);
  int& slot = forward ? work.activations.front() : work.gradient;
  slot = passes_through ? TakeSendBuffer()
                        : assembler_.AddTransient(
                              absl::StrCat(forward ? "activation" : "gradient",
                                           " received for chunk ", chunk, " micro ", micro_batch),
                              SlotClass::kActivations, plan_.graph.boundary_bytes);
  Instruction receive = Message(message, false);
  receive.operands = {Whole(slot, plan_.graph.boundary_bytes)};
  receive.operands.front().access = Access::kWrite;
  assembler_.Add(std::move(receive));
}

}  // namespace strata::program
