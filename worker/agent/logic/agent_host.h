// What an agent's decisions ask of its machine: processes, files, and the way to the controller.
// The agent's process has a real one, the simulation another.
#ifndef STRATA_WORKER_AGENT_LOGIC_AGENT_HOST_H_
#define STRATA_WORKER_AGENT_LOGIC_AGENT_HOST_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "proto/strata/v1/agent.pb.h"
#include "proto/strata/v1/agent_files.pb.h"
#include "worker/agent/logic/room.h"
#include "worker/agent/logic/step_records.h"
#include "worker/agent/logic/trainer.h"

namespace strata::worker {

// For one start of a job's ranks. Errors: InvalidArgument is what a person must change.
class EpochHost {
 public:
  virtual ~EpochHost() = default;

  // Opens the job's directories: until Unlock (or destruction) neither a run in somebody's terminal
  // nor a job of another cluster writes into them. Nothing: their file systems have not answered
  // yet, ask again.
  virtual std::optional<absl::Status> Open() = 0;
  virtual void Unlock() = 0;
  // What whoever follows the job should know of how this node runs it; after Open. Empty: nothing.
  virtual std::string Notice() { return ""; }

  // The process that finds out what the job needs and where it stands; not leased.
  virtual absl::StatusOr<std::unique_ptr<Trainer>> StartPlanner() = 0;
  // Those of this node, in the order of PrepareEpoch.own.
  virtual absl::StatusOr<std::vector<std::unique_ptr<Trainer>>> StartRanks() = 0;
  // One that an earlier agent started, without a socket yet, or what is left of it (reaped).
  virtual std::unique_ptr<Trainer> FindAgain(const v1::HeldEpochRecord::Trainer& trainer) = 0;

  virtual MachineRoom Room() = 0;

  // For the next agent of this node. Survives this process.
  virtual absl::Status SaveRecord(const v1::HeldEpochRecord& record) = 0;
  virtual void RemoveRecord(const v1::HeldEpochRecord& record) = 0;

  // The job's published records, cut where this epoch begins and continued.
  struct OpenedRecords {
    std::unique_ptr<StepRecords> records;
    int64_t published = 0;  // the step up to which they are there
    bool missing = false;   // some before `start_step` are not
  };
  // Once. Nothing: ask again, as for Open.
  virtual std::optional<absl::StatusOr<OpenedRecords>> OpenRecords(int64_t start_step) = 0;

  // What processes wrote to their stderr since: at most `most` lines each, with the rank (-1: the
  // planner). `last`: nobody writes any more.
  virtual std::vector<v1::LogLine> ReadLogs(size_t most, bool last) = 0;
};

class AgentHost {
 public:
  virtual ~AgentHost() = default;

  virtual std::unique_ptr<EpochHost> OpenEpoch(const v1::PrepareEpoch& prepare) = 0;
  // Durable when it returns.
  virtual absl::Status SetMembership(const v1::AgentMembership& membership) = 0;

  // To the controller, over this session if it still stands.
  virtual void Send(uint64_t session, const v1::AgentMessage& message) = 0;
  virtual void EndSession(uint64_t session) = 0;

  // For people at this machine.
  virtual void Log(const std::string& text) = 0;
};

}  // namespace strata::worker

#endif  // STRATA_WORKER_AGENT_LOGIC_AGENT_HOST_H_
