// One rank, ready to run: joined with its peers, measured, its engine made.
#ifndef STRATA_WORKER_TRAINER_RANK_ENGINE_H_
#define STRATA_WORKER_TRAINER_RANK_ENGINE_H_

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "collectives/communicator.h"
#include "collectives/operation_ring.h"
#include "device/thread_pool.h"
#include "program/ir/mesh.h"
#include "program/ir/program.h"
#include "protocol/predicted_memory.h"
#include "protocol/trace_file.h"
#include "worker/engine/engine.h"
#include "worker/trainer/memory_record.h"
#include "worker/trainer/progress_sink.h"
#include "worker/trainer/task_context.h"

namespace strata::worker {

// Used by one thread, which runs the steps. While it lives, the agent's end cancels the engine.
class RankEngine {
 public:
  // Verifies `programs` (which are laid out; of this rank's stage of the mesh) and, where `stages`
  // has those of all stages, that they go together; tells the agent the plan's digest and theirs,
  // joins, and makes the engine. Internal: they must not run. FailedPrecondition: what is held is
  // not what the plan says. Otherwise errors of Join and of Engine::Create.
  static absl::StatusOr<std::unique_ptr<RankEngine>> Create(
      const TaskContext& context, const program::ProgramSet& programs, const program::Mesh& mesh,
      const std::vector<const program::ProgramSet*>& stages, const std::string& plan_digest,
      HostOps* host);
  ~RankEngine();
  RankEngine(const RankEngine&) = delete;
  RankEngine& operator=(const RankEngine&) = delete;

  Engine& engine() { return *engine_; }
  // When all is done, after Engine::Drain, on all ranks: a device that left before others had come
  // to the end would look to them as one that was lost.
  absl::Status CloseCommunication();
  device::ThreadPool& pool() { return pool_; }
  MemoryRecord& memory() { return memory_; }

 private:
  explicit RankEngine(const TaskContext& context)
      : control_(context.control),
        pool_(context.task.threads()),
        memory_(protocol::PredictedOf(context.task.plan(), context.task.rank())) {}

  Control* const control_;
  device::ThreadPool pool_;
  MemoryRecord memory_;
  std::optional<FileProgressSink> sink_;
  std::unique_ptr<protocol::TraceFile> trace_;  // may be null
  std::unique_ptr<Accelerator> accelerator_;    // null: the CPU computes
  std::optional<collectives::OperationRing> ring_;
  std::unique_ptr<collectives::Communicator> communicator_;
  std::unique_ptr<Engine> engine_;
};

}  // namespace strata::worker

#endif  // STRATA_WORKER_TRAINER_RANK_ENGINE_H_
