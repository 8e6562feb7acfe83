// One stage's program, built event by event in the order of the plan. Internal to the pipeline
// builder.
#ifndef STRATA_PROGRAM_BUILDER_PIPELINE_STAGE_H_
#define STRATA_PROGRAM_BUILDER_PIPELINE_STAGE_H_

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "program/compose/assembler.h"
#include "program/builder/pipeline_plan.h"

namespace strata::program {

class PipelineStage {
 public:
  // Adds the state, the loads and the beginning of the program. `plan` must outlive this.
  PipelineStage(const PipelinePlan& plan, int stage, const UpdateEmitter& update);
  PipelineStage(const PipelineStage&) = delete;
  PipelineStage& operator=(const PipelineStage&) = delete;

  void RunPass(const ScheduledPass& pass);
  void Send(const PipelineEvent& message);
  void Receive(const PipelineEvent& message);
  void ReduceTied();
  // Norms, update and layout.
  absl::StatusOr<ProgramSet> Finish();

 private:
  // A slot that a message leaves from is used again by later passes, in turn: laid out like other
  // slots, its bytes could go to the very next pass, which would then wait for the message to end.
  struct SendBuffer {
    int slot = -1;
    bool taken = false;
    int released_after = 0;  // passes of the stage before it was released
  };
  // What the layers of a chunk work on in one micro-batch; slots, by layer from the chunk's first.
  struct Work {
    std::vector<int> activations;  // input of each layer, and the output of the last
    std::vector<int> output_gradients;
    std::vector<std::vector<int>> saved, stash;  // [layer][index]
    int gradient = -1;                           // of what the backward has come to
  };
  // A set's state and gradient here.
  struct SetSlots {
    int parameters = -1;
    std::array<int, 2> moments{-1, -1};
    int update_template = -1;
    int gradient = -1;  // made where its first producer comes
    int64_t producers_left = 0;
  };

  void AddState(const UpdateEmitter& update);
  void AddSet(const StageSet& set, const UpdateEmitter& update);
  void BeginProgram();
  bool UsesRole(Role role) const;

  void CallLayer(int layer, const ScheduledPass& pass);
  Operand Bind(const Formal& formal, int layer, const ScheduledPass& pass);
  Operand BindWork(const Formal& formal, int layer, const ScheduledPass& pass);
  int NewSlot(const Formal& formal, int layer, const ScheduledPass& pass);
  Work& WorkOf(int chunk, int micro_batch);
  int SetOf(const Layer& layer, int formal_index) const;
  void BeginGradients(int layer, const Template& tmpl);
  void EndGradients(int layer, const Template& tmpl);

  int TakeSendBuffer();
  void ReleaseSendBuffer(int slot);
  bool SendsGradient(int chunk) const { return chunk > 0 || stage_ > 0; }
  bool SendsActivation(int chunk) const {
    return chunk * plan_.stages() + stage_ < plan_.last_virtual_stage();
  }
  Instruction Message(const PipelineEvent& message, bool send) const;

  Operand Gradient(int set, Partial partial) const;
  void AllReduceGradient(int set, Group group);
  Operand Leaf(int64_t column, int64_t count) const;
  void AddNorms();
  void AddFinish();
  void AddUpdates();
  Operand BindUpdate(const Formal& formal, int set) const;

  const PipelinePlan& plan_;
  const int stage_;
  const std::vector<StageSet>& sets_;
  ProgramSet result_;
  Assembler assembler_;
  std::vector<SetSlots> slots_;          // per sets_
  std::vector<int> constants_;           // per LayerGraph::constants; -1: not used here
  std::vector<std::vector<Work>> work_;  // [chunk][micro-batch]
  std::vector<SendBuffer> send_buffers_;
  int passes_ = 0;  // so far
  int tokens_ = -1, targets_ = -1, leaves_ = -1;
};

}  // namespace strata::program

#endif  // STRATA_PROGRAM_BUILDER_PIPELINE_STAGE_H_
