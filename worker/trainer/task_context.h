// What every task of a trainer process works with.
#ifndef STRATA_WORKER_TRAINER_TASK_CONTEXT_H_
#define STRATA_WORKER_TRAINER_TASK_CONTEXT_H_

#include <cstdint>
#include <string>

#include "checkpoint/file_system.h"
#include "program/ir/program.h"
#include "proto/strata/v1/trainer.pb.h"
#include "worker/shared/progress_writer.h"
#include "worker/trainer/control.h"
#include "worker/trainer/mailbox.h"

namespace strata::worker {

inline constexpr uint32_t kRingRecords = 256;  // of the progress file's operation ring

// Spoils a laid-out set; see planted_fault.cc.
using PlantFault = void (*)(program::ProgramSet&);

// Pointers are borrowed.
struct TaskContext {
  v1::TrainerTask task;
  std::string build;
  Control* control = nullptr;
  CheckpointMail* mail = nullptr;  // where the agent's word on checkpoints arrives
  ProgressWriter* progress = nullptr;
  checkpoint::FileSystem* files = nullptr;  // what it does is seen in `progress`
  PlantFault plant = nullptr;  // into what is trained, before it is verified; only in tests
};

}  // namespace strata::worker

#endif  // STRATA_WORKER_TRAINER_TASK_CONTEXT_H_
