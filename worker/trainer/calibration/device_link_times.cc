#include "worker/trainer/calibration/device_link_times.h"

#include <algorithm>
#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

#include "common/status_macros.h"
#include "program/ir/types.h"
#include "worker/trainer/calibration/head_start.h"
#include "worker/trainer/calibration/link_times.h"
#include "worker/trainer/calibration/training_rank.h"

namespace strata::worker {
namespace {

using collectives::OpKind;
using device::Memory;

constexpr int64_t kCopySizes[] = {1 << 16, 1 << 20, 1 << 24, 1 << 27};
constexpr int64_t kQuickCopySizes[] = {1 << 12, 1 << 16};
constexpr int kCopies = 8;       // one after another
constexpr int kRows = 5;         // of copies, of which the median counts
constexpr int kOperations = 12;  // one after another, of which the first one waits for the other
constexpr int64_t kLargestMessage = 64 << 20, kQuickLargestMessage = 16 << 10;

// Memory for as long as it is needed.
class Buffer {
 public:
  static absl::StatusOr<std::unique_ptr<Buffer>> Create(device::QueueDevice* device, Memory memory,
                                                        int64_t bytes) {
    std::unique_ptr<Buffer> made(new Buffer(device, memory, bytes));
    ASSIGN_OR_RETURN(made->data_, device->Reserve(memory, bytes));
    RETURN_IF_ERROR(device->Commit(memory, made->data_, bytes));
    return made;
  }
  ~Buffer() {
    if (data_ != nullptr) device_->Release(memory_, data_, bytes_);
  }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  std::byte* data() const { return data_; }

 private:
  Buffer(device::QueueDevice* device, Memory memory, int64_t bytes)
      : device_(device), memory_(memory), bytes_(bytes) {}

  device::QueueDevice* const device_;
  const Memory memory_;
  const int64_t bytes_;
  std::byte* data_ = nullptr;
};

// A queue that copies one way.
struct Way {
  device::QueueStream* queue = nullptr;
  std::byte* to = nullptr;
  const std::byte* from = nullptr;
  std::unique_ptr<device::TimeMark> begin, end;
};

class Copies {
 public:
  explicit Copies(device::QueueDevice* device) : device_(device) {}

  absl::Status Open(int64_t bytes, bool quick) {
    for (auto& buffer : device_memory_) {
      ASSIGN_OR_RETURN(buffer, Buffer::Create(device_, Memory::kDevice, bytes));
    }
    for (auto& buffer : host_memory_) {
      ASSIGN_OR_RETURN(buffer, Buffer::Create(device_, Memory::kHost, bytes));
    }
    ASSIGN_OR_RETURN(head_start_, HeadStart::Create(device_, quick));
    ASSIGN_OR_RETURN(started_, device_->CreateEvent());
    RETURN_IF_ERROR(OpenWay(device_memory_[0]->data(), host_memory_[0]->data(), to_device_));
    return OpenWay(host_memory_[1]->data(), device_memory_[1]->data(), from_device_);
  }

  Way* to_device() { return &to_device_; }
  Way* from_device() { return &from_device_; }

  // Of one copy, where each of these ways has a row of them at once: the slowest way's.
  absl::StatusOr<double> Seconds(const std::vector<Way*>& ways, int64_t bytes) {
    std::vector<double> found;
    for (int row = 0; row < kRows; ++row) {
      ASSIGN_OR_RETURN(found.emplace_back(), SecondsOfRow(ways, bytes));
    }
    return Median(std::move(found));
  }

 private:
  absl::Status OpenWay(std::byte* to, const std::byte* from, Way& way) {
    way.to = to;
    way.from = from;
    ASSIGN_OR_RETURN(way.queue, device_->CreateQueue());
    ASSIGN_OR_RETURN(way.begin, device_->CreateTimeMark());
    ASSIGN_OR_RETURN(way.end, device_->CreateTimeMark());
    return absl::OkStatus();
  }

  absl::StatusOr<double> SecondsOfRow(const std::vector<Way*>& ways, int64_t bytes) {
    RETURN_IF_ERROR(head_start_->Give(*ways.front()->queue));
    RETURN_IF_ERROR(ways.front()->queue->Record(*started_));
    for (Way* way : ways) {
      RETURN_IF_ERROR(way->queue->Wait(*started_));
      RETURN_IF_ERROR(way->queue->Mark(*way->begin));
    }
    for (int copy = 0; copy < kCopies; ++copy) {
      for (Way* way : ways) RETURN_IF_ERROR(way->queue->Copy(way->to, way->from, bytes));
    }
    for (Way* way : ways) RETURN_IF_ERROR(way->queue->Mark(*way->end));
    double slowest = 0;
    for (Way* way : ways) {
      RETURN_IF_ERROR(Finish(*device_, *way->queue));
      ASSIGN_OR_RETURN(const double seconds, device_->SecondsBetween(*way->begin, *way->end));
      slowest = std::max(slowest, seconds);
    }
    return slowest / kCopies;
  }

  device::QueueDevice* const device_;
  std::unique_ptr<Buffer> device_memory_[2], host_memory_[2];  // of each way
  std::unique_ptr<HeadStart> head_start_;
  std::unique_ptr<device::Event> started_;
  Way to_device_, from_device_;
};

class Links {
 public:
  Links(Accelerator& accelerator, collectives::Communicator& communicator,
        collectives::GroupId world)
      : accelerator_(accelerator),
        device_(&accelerator.device()),
        communicator_(communicator),
        world_(world) {}

  absl::Status Open(int64_t largest_bytes, bool quick) {
    constexpr int kRanks = 2;
    for (auto* buffer : {&in_, &out_}) {
      ASSIGN_OR_RETURN(*buffer, Buffer::Create(device_, Memory::kDevice, kRanks * largest_bytes));
    }
    ASSIGN_OR_RETURN(group_, accelerator_.CreateGroup({0, 1}));
    ASSIGN_OR_RETURN(queue_, device_->CreateQueue());
    ASSIGN_OR_RETURN(head_start_, HeadStart::Create(device_, quick));
    for (int mark = 0; mark <= kOperations; ++mark) {
      ASSIGN_OR_RETURN(marks_.emplace_back(), device_->CreateTimeMark());
    }
    return absl::OkStatus();
  }

  // Of an operation on `bytes` of each member.
  absl::StatusOr<double> Seconds(OpKind kind, int64_t bytes) {
    ASSIGN_OR_RETURN(const BoundOp operation, Bind(kind, bytes));
    return SecondsOf({operation});
  }

  // One way: half of there and back again.
  absl::StatusOr<double> SecondsOfMessage(int64_t bytes) {
    const bool first = communicator_.rank() == 0;
    ASSIGN_OR_RETURN(const BoundOp there, Bind(first ? OpKind::kSend : OpKind::kReceive, bytes));
    ASSIGN_OR_RETURN(const BoundOp back, Bind(first ? OpKind::kReceive : OpKind::kSend, bytes));
    ASSIGN_OR_RETURN(const double both, SecondsOf({there, back}));
    return both / 2;
  }

 private:
  absl::StatusOr<BoundOp> Bind(OpKind kind, int64_t bytes) {
    return accelerator_.BindOperation(
        {.kind = kind,
         .group = group_,
         .type = collectives::DataType::kF32,
         .count = bytes / static_cast<int64_t>(sizeof(float)),
         .in = in_->data(),
         .out = out_->data(),
         .peer = collectives::IsPointToPoint(kind) ? 1 - communicator_.rank() : 0},
        {.stream = queue_});
  }

  // The median of a row of them, which both ranks have queued when it begins.
  absl::StatusOr<double> SecondsOf(const std::vector<BoundOp>& operations) {
    RETURN_IF_ERROR(RunAlone(communicator_, {.group = world_}));
    RETURN_IF_ERROR(head_start_->Give(*queue_));
    RETURN_IF_ERROR(queue_->Mark(*marks_[0]));
    for (int i = 0; i < kOperations; ++i) {
      for (const BoundOp& operation : operations) RETURN_IF_ERROR(operation());
      RETURN_IF_ERROR(queue_->Mark(*marks_[i + 1]));
    }
    RETURN_IF_ERROR(Finish(*device_, *queue_));
    RETURN_IF_ERROR(accelerator_.CheckCommunication());
    std::vector<double> found;
    for (int i = 1; i < kOperations; ++i) {
      ASSIGN_OR_RETURN(found.emplace_back(), device_->SecondsBetween(*marks_[i], *marks_[i + 1]));
    }
    return Median(std::move(found));
  }

  Accelerator& accelerator_;
  device::QueueDevice* const device_;
  collectives::Communicator& communicator_;
  const collectives::GroupId world_;
  collectives::GroupId group_;
  std::unique_ptr<Buffer> in_, out_;
  std::unique_ptr<HeadStart> head_start_;
  device::QueueStream* queue_ = nullptr;
  std::vector<std::unique_ptr<device::TimeMark>> marks_;
};

void AddTime(int64_t bytes, double seconds, v1::CopyTime* time) {
  time->set_bytes(bytes);
  time->set_seconds(seconds);
}

void AddTime(const char* name, int64_t bytes, double seconds, v1::DeviceProfile& profile) {
  v1::CommunicationTime& time = *profile.add_communications();
  time.set_op(name);
  time.set_bytes(bytes);
  time.set_seconds(seconds);
}

}  // namespace

absl::Status MeasureDeviceCopies(device::QueueDevice& device, bool quick,
                                 v1::DeviceProfile& profile) {
  const absl::Span<const int64_t> sizes =
      quick ? absl::MakeConstSpan(kQuickCopySizes) : absl::MakeConstSpan(kCopySizes);
  Copies copies(&device);
  RETURN_IF_ERROR(copies.Open(sizes.back(), quick));
  for (const int64_t bytes : sizes) {
    ASSIGN_OR_RETURN(const double to, copies.Seconds({copies.to_device()}, bytes));
    ASSIGN_OR_RETURN(const double from, copies.Seconds({copies.from_device()}, bytes));
    ASSIGN_OR_RETURN(const double both,
                     copies.Seconds({copies.to_device(), copies.from_device()}, bytes));
    AddTime(bytes, to, profile.add_to_device());
    AddTime(bytes, from, profile.add_from_device());
    AddTime(bytes, both, profile.add_both_ways());
  }
  return absl::OkStatus();
}

absl::Status MeasureDeviceLinks(Accelerator& accelerator, collectives::Communicator& communicator,
                                collectives::GroupId world, bool quick,
                                v1::DeviceProfile& profile) {
  const int64_t largest = quick ? kQuickLargestMessage : kLargestMessage;
  Links links(accelerator, communicator, world);
  RETURN_IF_ERROR(links.Open(largest, quick));
  for (int64_t bytes = 256; bytes <= largest; bytes *= 8) {
    for (const MeasuredOperation& kind : kMeasuredOperations) {
      ASSIGN_OR_RETURN(const double seconds, links.Seconds(kind.operation, bytes));
      AddTime(Name(kind.name), bytes, seconds, profile);
    }
    ASSIGN_OR_RETURN(const double message, links.SecondsOfMessage(bytes));
    AddTime("send", bytes, message, profile);
  }
  return absl::OkStatus();
}

}  // namespace strata::worker
