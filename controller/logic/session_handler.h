// What agents say, turned into facts about nodes and epochs.
#ifndef STRATA_CONTROLLER_LOGIC_SESSION_HANDLER_H_
#define STRATA_CONTROLLER_LOGIC_SESSION_HANDLER_H_

#include <cstdint>
#include <map>

#include "absl/status/status.h"
#include "controller/logic/cluster_state.h"
#include "controller/logic/job_machine.h"
#include "proto/strata/v1/agent.pb.h"

namespace strata::controller {

// Made for each input; borrows all.
class SessionHandler {
 public:
  SessionHandler(ClusterState& state, JobMachine& machine, Effects& effects)
      : state_(state), machine_(machine), effects_(effects) {}

  void OnMessage(uint64_t session, const v1::AgentMessage& message);

 private:
  // registration.cc
  void OnRegister(uint64_t session, uint64_t incarnation, const v1::Register& message);
  absl::Status MayJoin(const v1::Register& message) const;
  bool Admit(uint64_t session, uint64_t incarnation, const v1::Register& message);
  void Dismiss(const std::string& node, uint64_t incarnation, uint64_t session,
               const std::string& reason);
  void UpdateNode(NodeEntry& node, const v1::Register& message);
  void TakeHeld(NodeEntry& node, const v1::Register& message, bool first, v1::Welcome& welcome);
  void MissEpochs(NodeEntry& node, const std::map<EpochKey, Hold>& before, bool first);
  void TakeOver(JobEntry& job, Member& member, const NodeEntry& node, const v1::HeldEpoch& held);
  void Repeat(NodeEntry& node);

  // restored_jobs.cc
  // Whether the node may keep this epoch until all of its ranks are found.
  bool Claim(NodeEntry& node, const v1::HeldEpoch& held);
  bool IsClaimed(const NodeEntry& node, const v1::JobEpoch& epoch) const;
  // Whether the epoch that the record knows is there as a whole.
  void NoteFound(JobEntry& job, const NodeEntry& node) const;
  // True: the message is of such an epoch, and is heard once it is the job's.
  bool KeepForLater(const NodeEntry& node, const v1::AgentMessage& message);
  // The job's checkpoint gives way to what its ranks have written, if they began before it.
  void DiscardGivenUp(JobEntry& job, int64_t written);
  // The job goes on from a checkpoint that the backup did not know.
  static bool IsNewer(const JobEntry& job, const v1::EpochPrepared& message);
  void AdoptCheckpoint(JobEntry& job, const v1::EpochPrepared& message);
  // Epochs of which the node brought the last ranks go on.
  void AdoptClaimed(const NodeEntry& node);

  // hang_reports.cc
  void OnHang(NodeEntry& node, const v1::HangReport& message);
  void NoteStorage(const NodeEntry& node, const v1::Heartbeat::Rank& rank);
  // Who is to blame for a hang, as far as one can tell; -1: nobody known. `sure`: there is no
  // doubt.
  int Suspect(const JobEntry& job, const NodeEntry& reporter, const v1::HangReport& message,
              bool& sure) const;
  void TellSuspicion(JobEntry& job, const NodeEntry& reporter, int rank,
                     const v1::HangReport& message);
  // Not heard from for longer than heartbeats take.
  bool IsSilent(const NodeEntry& node) const;
  // As its agent says, which judges how long it may.
  static bool WaitsForStorage(const JobEntry& job, int rank);
  bool WaitsForCommits(const JobEntry& job) const;

  // session_handler.cc
  void Hear(NodeEntry& node);
  void OnHeartbeat(NodeEntry& node, const v1::Heartbeat& message);
  void TakeDeviceStates(NodeEntry& node,
                        const google::protobuf::RepeatedPtrField<v1::DeviceState>& states);
  void OnPrepared(NodeEntry& node, const v1::EpochPrepared& message);
  void OnRunning(NodeEntry& node, const v1::EpochRunning& message);
  void OnProgress(NodeEntry& node, const v1::EpochProgress& message);
  void OnEnded(NodeEntry& node, const v1::EpochEnded& message);
  void OnStopping(NodeEntry& node, const v1::EpochStopping& message);
  void OnWritten(NodeEntry& node, const v1::CheckpointFragments& message);
  void OnCommit(NodeEntry& node, const v1::CommitRequest& message);
  void OnLeaving(NodeEntry& node);

  // An agent of before jobs had uids means the job that has the name now.
  EpochKey KeyOf(const v1::JobEpoch& epoch) const;
  // If the epoch was given up for silence alone, and this node was silent, it goes on.
  void TakeBack(const NodeEntry& node, const v1::JobEpoch& epoch);
  // The job, if this epoch is the current one, has ranks on the node, and these have not ended.
  JobEntry* Current(const NodeEntry& node, const v1::JobEpoch& epoch);
  // Whether the rank, or any for a negative one, was placed on the node in the job's last epoch.
  static bool IsPlaced(const v1::JobRecord& job, const NodeEntry& node, int rank = -1);
  // Whether the rank is one of the node's; of a job that is current there.
  static bool HasRank(const JobEntry& job, const NodeEntry& node, int rank);
  // The same; otherwise the node is told to stop the epoch. `alive`: the message proves that its
  // trainers hold devices.
  JobEntry* CurrentOrStop(NodeEntry& node, const v1::JobEpoch& epoch, bool alive);
  // The same, but what the node has let go of needs no answer.
  JobEntry* CurrentOrOver(NodeEntry& node, const v1::JobEpoch& epoch);
  void StopStale(NodeEntry& node, const v1::JobEpoch& epoch, bool alive);
  void ReachedStep(JobEntry& job, int64_t step);
  // Learns from a step that was predicted.
  void Compare(JobEntry& job, const NodeEntry& node, const v1::StepRecord& step);
  // Notes when steps are done, if one was done since `before`.
  void KeepPace(JobEntry& job, int64_t before) const;

  ClusterState& state_;
  JobMachine& machine_;
  Effects& effects_;
};

}  // namespace strata::controller

#endif  // STRATA_CONTROLLER_LOGIC_SESSION_HANDLER_H_
