// What passes hand to later ones on a stage: activations between layers, what forwards save, what
// comes back, what split backwards stash; and the messages by which it goes to other stages.
//
// What the forwards of a layer whose home is beyond the device save, and their inputs, leave it
// after the forward, unless the backward comes at once, and come back one use ahead of it.
#ifndef STRATA_PROGRAM_COMPOSE_SOURCES_ACTIVATIONS_H_
#define STRATA_PROGRAM_COMPOSE_SOURCES_ACTIVATIONS_H_

#include <functional>
#include <string>
#include <vector>

#include "program/compose/sources/stage.h"
#include "program/compose/sources/transfers.h"

namespace strata::program {

class Activations {
 public:
  // Of the program begun last; `uses` in the order of Before.
  Activations(const Stage& stage, const Walk& walk, std::vector<Use> uses, Transfers& transfers);
  // Of the largest piece on SSD.
  static int64_t SlabBytes(const Stage& stage);

  void BeginPass() { ++passes_; }
  void Before(int use);
  void After(int use);
  // A role that is none of its own, or a slot that does not exist, gives slot -1: the layout
  // refuses it by the call's name.
  Operand Bind(const Formal& formal, const Use& use);
  void Send(const WalkEvent& message);
  void Receive(const WalkEvent& message);
  // From one chunk of the stage to another: the same slot.
  void HandOver(const WalkEvent& message);

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
    std::vector<bool> away;                      // per layer: what it keeps is at home
  };

  const std::pair<int, int>& LayersOf(int chunk) const { return walk_.layers[VirtualStage(chunk)]; }
  // What the layer's backward reads of what its forward keeps: calls with each slot and its bytes.
  void ForKept(const Use& use, const std::function<void(int& slot, int64_t bytes)>& visit);
  void BringBack(const Use& use);
  Work& WorkOf(int chunk, int micro_batch);
  int NewSlot(const Formal& formal, const Use& use);
  int AddSlot(std::string name, int64_t bytes, int pass);
  int PassOf(int chunk, int micro_batch) const { return chunk * walk_.micro_batches + micro_batch; }
  int NewGradient(const Formal& formal, const Use& use);
  int TakeSendBuffer();
  void ReleaseSendBuffer(int slot);
  int VirtualStage(int chunk) const { return walk_.VirtualStage(stage_.index(), chunk); }
  // Whether what a chunk makes leaves the stage.
  bool SendsGradient(int chunk) const { return IsElsewhere(VirtualStage(chunk) - 1); }
  bool SendsActivation(int chunk) const { return IsElsewhere(VirtualStage(chunk) + 1); }
  bool IsElsewhere(int virtual_stage) const {
    return virtual_stage >= 0 && virtual_stage < walk_.virtual_stages() &&
           walk_.StageOf(virtual_stage) != stage_.index();
  }
  Instruction Message(const WalkEvent& message, bool send) const;

  const Stage& stage_;
  const Walk& walk_;
  const std::vector<Use> uses_;
  std::vector<int> backward_of_;  // per forward use: the use that reads what it keeps; -1: none
  Transfers& transfers_;
  std::vector<std::vector<Work>> work_;  // [chunk][micro-batch]
  std::vector<SendBuffer> send_buffers_;
  int passes_ = 0;  // so far
};

}  // namespace strata::program

#endif  // STRATA_PROGRAM_COMPOSE_SOURCES_ACTIVATIONS_H_
