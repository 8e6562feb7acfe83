#include "worker/trainer/join.h"

#include <cstddef>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "absl/types/span.h"
#include "collectives/process_endpoint.h"
#include "common/status_macros.h"
#include "worker/trainer/peer_addresses.h"

namespace strata::worker {
namespace {

// In floats: up to beyond the sizes at which transports change their protocol.
constexpr int64_t kWarmUpCounts[] = {1, 1 << 6, 1 << 12, 1 << 17};
constexpr size_t kPeersAtOnce = 4;

absl::StatusOr<v1::StartRanks> WaitForStart(Control& control) {
  ASSIGN_OR_RETURN(const v1::TrainerCommand command, control.Next());
  if (command.has_start()) return command.start();
  return absl::InternalError("the agent sent something else than the start of all ranks");
}

// A restart of the ranks has another epoch, and another nonce with it.
collectives::WorldKey KeyOf(const v1::TrainerTask& task, const v1::StartRanks& start) {
  return {.nonce = start.nonce(),
          .epoch = task.has_controlled() ? task.controlled().epoch() : task.plan().epoch()};
}

// A message each way with each of these.
absl::Status Exchange(collectives::Communicator& communicator, collectives::GroupId world,
                      absl::Span<const int> peers, int64_t count) {
  const std::vector<float> sent(count);
  std::vector<std::vector<float>> received(peers.size(), sent);
  std::vector<collectives::OperationId> begun;
  for (size_t i = 0; i < peers.size(); ++i) {
    collectives::Operation message;
    message.group = world;
    message.type = collectives::DataType::kF32;
    message.count = count;
    message.peer = peers[i];
    message.kind = collectives::OpKind::kReceive;
    message.out = received[i].data();
    ASSIGN_OR_RETURN(begun.emplace_back(), communicator.Post(message));
    message.kind = collectives::OpKind::kSend;
    message.in = sent.data();
    ASSIGN_OR_RETURN(begun.emplace_back(), communicator.Post(message));
  }
  for (const collectives::OperationId id : begun) {
    for (bool done = false; !done;) {
      ASSIGN_OR_RETURN(done, communicator.Test(id));
      if (!done && !communicator.Progress()) communicator.Wait(absl::Milliseconds(100));
    }
  }
  return absl::OkStatus();
}

// All ranks take their peers in ascending order, so that of those that wait for each other one can
// always go on.
absl::Status WarmUp(collectives::Communicator& communicator, absl::Span<const int> peers) {
  std::vector<int> all(communicator.size());
  std::iota(all.begin(), all.end(), 0);
  ASSIGN_OR_RETURN(const collectives::GroupId world, communicator.CreateGroup(all));
  for (const int64_t count : kWarmUpCounts) {
    for (size_t first = 0; first < peers.size(); first += kPeersAtOnce) {
      RETURN_IF_ERROR(Exchange(communicator, world, peers.subspan(first, kPeersAtOnce), count));
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::unique_ptr<collectives::Communicator>> Join(Control& control,
                                                                ProgressWriter& progress,
                                                                const v1::TrainerTask& task,
                                                                v1::Prepared prepared) {
  const int ranks = task.ranks();
  std::unique_ptr<collectives::ProcessEndpoint> endpoint;
  if (ranks > 1) {
    ASSIGN_OR_RETURN(endpoint,
                     collectives::ProcessEndpoint::Create({.devices = task.data_devices()}));
    prepared.set_address(endpoint->Address());
  }
  const std::vector<int> peers(prepared.peers().ranks().begin(), prepared.peers().ranks().end());
  // All others: then nobody needs a list of them, and all nodes are started by the same message.
  if (static_cast<int>(peers.size()) + 1 == ranks) prepared.clear_peers();
  v1::TrainerEvent event;
  *event.mutable_prepared() = std::move(prepared);
  control.Send(event);
  ASSIGN_OR_RETURN(const v1::StartRanks start, WaitForStart(control));
  progress.SetPhase(Phase::kConnecting);
  if (ranks == 1) return std::unique_ptr<collectives::Communicator>();
  ASSIGN_OR_RETURN(const std::vector<std::string> addresses,
                   PeerAddresses(start, ranks, task.rank(), peers));
  ASSIGN_OR_RETURN(std::unique_ptr<collectives::Communicator> communicator,
                   collectives::ProcessEndpoint::Connect(std::move(endpoint), task.rank(),
                                                         addresses, KeyOf(task, start)));
  control.SetCancel(
      [raw = communicator.get()](const absl::Status& status) { raw->Cancel(status); });
  RETURN_IF_ERROR(WarmUp(*communicator, peers));
  return communicator;
}

}  // namespace strata::worker
