// What every task of a trainer process works with.
#ifndef STRATA_WORKER_TRAINER_TASK_CONTEXT_H_
#define STRATA_WORKER_TRAINER_TASK_CONTEXT_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "checkpoint/file_system.h"
#include "collectives/communicator.h"
#include "program/ir/program.h"
#include "proto/strata/v1/trainer.pb.h"
#include "worker/engine/accelerator.h"
#include "worker/shared/progress_writer.h"
#include "worker/trainer/control.h"
#include "worker/trainer/mailbox.h"

namespace strata::worker {

inline constexpr uint32_t kRingRecords = 256;  // of the progress file's operation ring

// Spoils a laid-out set; see planted_fault.cc.
using PlantFault = void (*)(program::ProgramSet&);

// What a rank computes with that is not the CPU, and what it is called.
struct NamedAccelerator {
  std::unique_ptr<Accelerator> accelerator;
  std::string name;
  std::string kind;  // topology::KindOfProduct; empty: it stands for any
};
// Of the node's device `ordinal`. `ranks`: between the world's, by which their devices find each
// other; it belongs to who makes groups until that returns; null: there is one rank. Errors say
// what is missing.
using MakeAccelerator = absl::StatusOr<NamedAccelerator> (*)(int ordinal,
                                                             collectives::Communicator* ranks);

// What programs of this file's kind are linked with.
struct TrainerParts {
  PlantFault plant = nullptr;  // into what is trained, before it is verified; only in tests
  MakeAccelerator make_accelerator = nullptr;  // null: there is the CPU alone
  bool standin = false;                        // accelerators are the stand-in of CUDA
};

// Pointers are borrowed.
struct TaskContext {
  v1::TrainerTask task;
  std::string build;
  Control* control = nullptr;
  CheckpointMail* mail = nullptr;  // where the agent's word on checkpoints arrives
  ProgressWriter* progress = nullptr;
  checkpoint::FileSystem* files = nullptr;  // what it does is seen in `progress`
  TrainerParts parts;
};

}  // namespace strata::worker

#endif  // STRATA_WORKER_TRAINER_TASK_CONTEXT_H_
