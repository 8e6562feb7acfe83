#include "worker/trainer/join.h"

#include <cstddef>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "collectives/ucx_communicator.h"
#include "common/status_macros.h"

namespace strata::worker {
namespace {

// Beyond the sizes at which transports change their protocol.
constexpr int64_t kWarmUpElements = 1 << 18;

absl::StatusOr<v1::StartRanks> WaitForStart(Control& control, int ranks) {
  ASSIGN_OR_RETURN(const v1::TrainerCommand command, control.Next());
  if (!command.has_start() || command.start().addresses_size() != ranks) {
    return absl::InternalError("the agent sent something else than the start of all ranks");
  }
  return command.start();
}

// A restart of the ranks has another epoch, and another nonce with it.
collectives::WorldKey KeyOf(const v1::TrainerTask& task, const v1::StartRanks& start) {
  return {.nonce = start.nonce(),
          .epoch = task.has_controlled() ? task.controlled().epoch() : task.plan().epoch()};
}

absl::Status WarmUp(collectives::Communicator& communicator) {
  using collectives::DataType;
  using collectives::OpKind;
  std::vector<int> world(communicator.size());
  std::iota(world.begin(), world.end(), 0);
  ASSIGN_OR_RETURN(const collectives::GroupId group, communicator.CreateGroup(world));
  for (int64_t count = 1; count <= kWarmUpElements; count *= 64) {
    std::vector<float> values(count);
    const int64_t scratch_bytes =
        collectives::ScratchBytes(OpKind::kAllReduce, DataType::kF32, count, communicator.size());
    // Scratch is aligned to 64 bytes.
    std::vector<std::byte> scratch(scratch_bytes + 64);
    void* aligned = scratch.data();
    size_t room = scratch.size();
    std::align(64, scratch_bytes, aligned, room);
    collectives::Operation sum;
    sum.kind = OpKind::kAllReduce;
    sum.group = group;
    sum.type = DataType::kF32;
    sum.count = count;
    sum.in = sum.out = values.data();
    sum.scratch = aligned;
    sum.scratch_bytes = scratch_bytes;
    RETURN_IF_ERROR(collectives::RunOperation(communicator, sum));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::unique_ptr<collectives::Communicator>> Join(Control& control,
                                                                ProgressWriter& progress,
                                                                const v1::TrainerTask& task,
                                                                v1::Prepared prepared) {
  const int ranks = task.ranks();
  std::unique_ptr<collectives::UcxEndpoint> endpoint;
  if (ranks > 1) {
    ASSIGN_OR_RETURN(endpoint, collectives::UcxEndpoint::Create({.devices = task.data_devices()}));
    prepared.set_address(endpoint->Address());
  }
  v1::TrainerEvent event;
  *event.mutable_prepared() = std::move(prepared);
  control.Send(event);
  ASSIGN_OR_RETURN(const v1::StartRanks start, WaitForStart(control, ranks));
  progress.SetPhase(Phase::kConnecting);
  if (ranks == 1) return std::unique_ptr<collectives::Communicator>();
  ASSIGN_OR_RETURN(std::unique_ptr<collectives::Communicator> communicator,
                   collectives::UcxEndpoint::Connect(
                       std::move(endpoint), task.rank(),
                       {start.addresses().begin(), start.addresses().end()}, KeyOf(task, start)));
  control.SetCancel(
      [raw = communicator.get()](const absl::Status& status) { raw->Cancel(status); });
  RETURN_IF_ERROR(WarmUp(*communicator));
  return communicator;
}

}  // namespace strata::worker
