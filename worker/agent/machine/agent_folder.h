// An agent's own directory (agent_files.proto): what its successor needs, and what its trainers
// write for it. One agent at a time holds it.
#ifndef STRATA_WORKER_AGENT_MACHINE_AGENT_FOLDER_H_
#define STRATA_WORKER_AGENT_MACHINE_AGENT_FOLDER_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "proto/strata/v1/agent_files.pb.h"
#include "worker/agent/machine/descriptor.h"

namespace strata::worker {

// Used by one thread.
class AgentFolder {
 public:
  // Logs of ranks that are kept, the newest.
  static constexpr size_t kLogsKept = 256;

  // Makes what is missing of it. AlreadyExists: another agent holds it; InvalidArgument: it cannot
  // be used.
  static absl::StatusOr<std::unique_ptr<AgentFolder>> Open(const std::string& directory);

  const std::string& path() const { return path_; }  // absolute
  std::string SocketPath() const { return path_ + "/agent.sock"; }
  // `job`: a job's name, jobs/NAME.
  std::string ProgressPath(const v1::JobEpoch& epoch, int rank) const;
  std::string LogPath(const v1::JobEpoch& epoch, int rank) const;
  std::string PlanLogPath(const v1::JobEpoch& epoch) const;

  const v1::AgentMembership& membership() const { return membership_; }
  // Durable when it returns.
  absl::Status SetMembership(const v1::AgentMembership& membership);

  absl::Status SaveRecord(const v1::HeldEpochRecord& record);
  // Of earlier agents, those of this boot; others are removed.
  std::vector<v1::HeldEpochRecord> LoadRecords();
  // With the progress files of its ranks.
  void RemoveRecord(const v1::HeldEpochRecord& record);
  // Removes the oldest logs beyond kLogsKept.
  void PruneLogs();

 private:
  AgentFolder(std::string path, Descriptor lock);
  std::string RecordPath(const v1::JobEpoch& epoch) const;
  absl::Status LoadMembership();

  const std::string path_;
  Descriptor lock_;
  v1::AgentMembership membership_;
};

}  // namespace strata::worker

#endif  // STRATA_WORKER_AGENT_MACHINE_AGENT_FOLDER_H_
