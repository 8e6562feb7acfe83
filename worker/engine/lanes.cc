#include "worker/engine/lanes.h"

#include "absl/time/time.h"
#include "common/status_macros.h"

namespace strata::worker {

using program::Stream;

// Serves all communication streams, so that one operation of each is in flight at once, and moves
// the communicator along. Sleeps in the communicator.
class CommunicationLane final : public device::Lane {
 public:
  CommunicationLane(device::LaneGroup* group, collectives::Communicator* communicator)
      : Lane(group), communicator_(communicator) {}
  ~CommunicationLane() override { Stop(); }

 protected:
  bool Progress() override { return communicator_->Progress(); }
  void Block() override { communicator_->Wait(absl::Seconds(1)); }
  void Wake() override { communicator_->Wake(); }

 private:
  collectives::Communicator* const communicator_;
};

std::optional<LaneId> LaneOf(Stream stream) {
  switch (stream) {
    case Stream::kCompute:
      return LaneId::kCompute;
    case Stream::kHost:
      return LaneId::kHost;
    case Stream::kFetch:
      return LaneId::kFetch;
    case Stream::kEvict:
      return LaneId::kEvict;
    case Stream::kParameters:
    case Stream::kGradients:
    case Stream::kTensor:
    case Stream::kSend:
    case Stream::kReceive:
      return LaneId::kCommunication;
    case Stream::kSsdRead:
      return LaneId::kSsdRead;
    case Stream::kSsdWrite:
      return LaneId::kSsdWrite;
    case Stream::kUpdate:
      return LaneId::kUpdate;
    case Stream::kUpdateFetch:
      return LaneId::kUpdateFetch;
    case Stream::kUpdateEvict:
      return LaneId::kUpdateEvict;
    case Stream::kUpdateRead:
      return LaneId::kUpdateRead;
    case Stream::kUpdateWrite:
      return LaneId::kUpdateWrite;
    case Stream::kCaller:
      return std::nullopt;
  }
  return std::nullopt;
}

bool IsOnQueue(Stream stream, bool device_communicates) {
  if (LaneOf(stream) == LaneId::kCommunication) return device_communicates;
  return stream == Stream::kCompute || stream == Stream::kFetch || stream == Stream::kEvict ||
         stream == Stream::kUpdateFetch || stream == Stream::kUpdateEvict;
}

Lanes::Lanes(device::CpuDevice* device, collectives::Communicator* communicator,
             device::QueueDevice* queues)
    : device_(device), communicator_(communicator), queues_(queues) {
  if (communicator_ != nullptr) {
    communication_ = std::make_unique<CommunicationLane>(device_->group(), communicator_);
    requests_ = device_->CreateStream(communication_.get());
  } else {
    // Alone, what communicates is a copy: a lane like any other.
    communication_ = std::make_unique<device::Lane>(device_->group());
  }
}

Lanes::~Lanes() = default;

absl::Status Lanes::OpenQueues(bool device_communicates) {
  for (int s = 0; queues_ != nullptr && s < program::kStreamCount; ++s) {
    if (!IsOnQueue(static_cast<Stream>(s), device_communicates)) continue;
    ASSIGN_OR_RETURN(queue_streams_[s], queues_->CreateQueue());
    streams_[s] = queue_streams_[s];
  }
  return absl::OkStatus();
}

absl::Status Lanes::Open(const std::array<bool, program::kStreamCount>& used) {
  bool communicates = communicator_ != nullptr;
  for (int s = 0; s < program::kStreamCount; ++s) {
    const std::optional<LaneId> lane = LaneOf(static_cast<Stream>(s));
    if (!used[s] || !lane.has_value() || queue_streams_[s] != nullptr) continue;
    if (lane == LaneId::kCommunication) {
      polled_[s] = device_->CreateStream(communication_.get());
      streams_[s] = polled_[s];
      communicates = true;
    } else {
      ASSIGN_OR_RETURN(streams_[s],
                       device_->CreateStream(lane == LaneId::kCompute ? device::Service::kIssuer
                                                                      : device::Service::kThread));
    }
    if (queues_ == nullptr) continue;
    ASSIGN_OR_RETURN(streams_[s], queues_->Adopt(static_cast<device::CpuStream*>(streams_[s])));
  }
  if (communicates) communication_->Start();
  return absl::OkStatus();
}

}  // namespace strata::worker
