#include "worker/shared/progress_reader.h"

#include <sys/mman.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"

namespace strata::worker {

const char* Name(Phase phase) {
  switch (phase) {
    case Phase::kStarting:
      return "starting";
    case Phase::kJoining:
      return "waiting for the other ranks";
    case Phase::kConnecting:
      return "connecting";
    case Phase::kLoading:
      return "loading";
    case Phase::kTraining:
      return "training";
    case Phase::kEvaluating:
      return "evaluating";
    case Phase::kCommitting:
      return "waiting for a checkpoint's commit";
    case Phase::kEnding:
      return "ending";
  }
  return "";
}

namespace {

// Text of at most `capacity` bytes that should end with '\0' and perhaps does not.
std::string TextOf(const char* bytes, size_t capacity) {
  return std::string(bytes, strnlen(bytes, capacity));
}

double FiniteOr0(double value) { return std::isfinite(value) ? value : 0; }

absl::Status CheckHeader(const ProgressHeader& header, size_t size) {
  if (std::memcmp(header.magic, kProgressMagic, sizeof(kProgressMagic)) != 0) {
    static constexpr char kNothing[sizeof(kProgressMagic)] = {};
    if (std::memcmp(header.magic, kNothing, sizeof(kNothing)) == 0) {
      return absl::UnavailableError("progress file: not laid out yet");
    }
    return absl::InvalidArgumentError("progress file: wrong magic");
  }
  std::atomic_thread_fence(std::memory_order_acquire);
  if (header.version != kProgressVersion || header.header_bytes != sizeof(ProgressHeader)) {
    return absl::InvalidArgumentError(absl::StrCat("progress file: version ", header.version,
                                                   ", this build reads ", kProgressVersion));
  }
  const ProgressSizes sizes{header.label_capacity, header.ring_bytes};
  if (header.file_bytes != size || ProgressFileBytes(sizes) != size) {
    return absl::InvalidArgumentError(
        absl::StrCat("progress file: ", size, " bytes, its header says ", header.file_bytes));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::unique_ptr<ProgressReader>> ProgressReader::Open(int descriptor) {
  struct stat info {};
  if (fstat(descriptor, &info) != 0) {
    return absl::InternalError(absl::StrCat("progress file: fstat: ", strerror(errno)));
  }
  const size_t size = static_cast<size_t>(info.st_size);
  if (size == 0) return absl::UnavailableError("progress file: not laid out yet");
  if (size < sizeof(ProgressHeader)) {
    return absl::InvalidArgumentError(absl::StrCat("progress file: only ", size, " bytes"));
  }
  void* const bytes = mmap(nullptr, size, PROT_READ, MAP_SHARED, descriptor, 0);
  if (bytes == MAP_FAILED) {
    return absl::InternalError(absl::StrCat("progress file: mmap: ", strerror(errno)));
  }
  if (absl::Status status = CheckHeader(*static_cast<const ProgressHeader*>(bytes), size);
      !status.ok()) {
    munmap(bytes, size);
    return status;
  }
  return std::unique_ptr<ProgressReader>(
      new ProgressReader(static_cast<const std::byte*>(bytes), size));
}

ProgressReader::ProgressReader(const std::byte* bytes, size_t size)
    : bytes_(bytes),
      size_(size),
      header_(reinterpret_cast<const ProgressHeader*>(bytes)),
      sizes_{header_->label_capacity, header_->ring_bytes} {}

ProgressReader::~ProgressReader() { munmap(const_cast<std::byte*>(bytes_), size_); }

const ProgressInstruction* ProgressReader::Instruction(uint64_t position) const {
  if (position == 0) return nullptr;
  const uint64_t program = (position - 1) >> 32;
  const uint32_t instruction = static_cast<uint32_t>(position - 1);
  if (program >= kProgressPrograms || header_->labels_ready.load(std::memory_order_acquire) == 0 ||
      instruction >= header_->label_count[program]) {
    return nullptr;
  }
  const uint64_t label = uint64_t{header_->first_label[program]} + instruction;
  if (label >= sizes_.label_capacity) return nullptr;
  return reinterpret_cast<const ProgressInstruction*>(bytes_ + ProgressLabelsOffset()) + label;
}

std::string ProgressReader::Label(uint64_t position) const {
  if (position == 0) return "";
  const ProgressInstruction* const instruction = Instruction(position);
  if (instruction != nullptr) return TextOf(instruction->label, kLabelBytes);
  return absl::StrCat("instruction ", static_cast<uint32_t>(position - 1));
}

std::string ProgressReader::Current(int stream) const {
  if (stream < 0 || stream >= kProgressStreams) return "";
  return Label(header_->streams[stream].current.load(std::memory_order_relaxed));
}

uint32_t ProgressReader::group_count() const {
  return std::min<uint32_t>(header_->group_count, kProgressGroups);
}

std::string ProgressReader::GroupName(uint32_t group) const {
  return group < group_count() ? TextOf(header_->group_names[group], kGroupNameBytes) : "";
}

Phase ProgressReader::phase() const {
  const uint32_t phase = header_->phase.load(std::memory_order_acquire);
  return phase <= static_cast<uint32_t>(Phase::kEnding) ? static_cast<Phase>(phase)
                                                        : Phase::kStarting;
}

double ProgressReader::phase_begin() const {
  return FiniteOr0(header_->phase_begin.load(std::memory_order_relaxed));
}

std::vector<ProgressReader::Activity> ProgressReader::Activities() const {
  std::vector<Activity> activities;
  for (int s = 0; s < kProgressStreams; ++s) {
    const ProgressStream& stream = header_->streams[s];
    const uint64_t position = stream.current.load(std::memory_order_acquire);
    if (position == 0) continue;
    Activity activity;
    activity.stream = s;
    activity.label = Label(position);
    activity.begin = FiniteOr0(stream.begin.load(std::memory_order_relaxed));
    if (const ProgressInstruction* const instruction = Instruction(position)) {
      for (const std::atomic<double>& slowest : instruction->slowest) {
        activity.slowest =
            std::max(activity.slowest, FiniteOr0(slowest.load(std::memory_order_relaxed)));
      }
    }
    const uint32_t group = stream.group.load(std::memory_order_relaxed);
    if (group > 0) activity.group = GroupName(group - 1);
    activity.pair = stream.pair.load(std::memory_order_relaxed) != 0;
    activity.storage = stream.storage.load(std::memory_order_relaxed) != 0;
    activity.sequence = stream.sequence.load(std::memory_order_acquire);
    const bool same = stream.current.load(std::memory_order_relaxed) == position &&
                      stream.begin.load(std::memory_order_relaxed) == activity.begin;
    if (same) activities.push_back(std::move(activity));
  }
  return activities;
}

double ProgressReader::storage_tick() const {
  return FiniteOr0(header_->storage_tick.load(std::memory_order_relaxed));
}

uint64_t ProgressReader::Begun(const std::string& group, int stream) const {
  if (stream < 0 || stream >= kProgressStreams) return 0;
  for (uint32_t g = 0; g < group_count(); ++g) {
    if (GroupName(g) == group) return header_->begun[g][stream].load(std::memory_order_relaxed);
  }
  return 0;
}

std::string ProgressReader::Latest() const {
  return Label(header_->latest.load(std::memory_order_relaxed));
}

std::string ProgressReader::DescribePosition() const {
  const std::string label = Latest();
  if (label.empty()) return "";
  return absl::StrCat("step ", step(), ", '", label, "'");
}

ProgressReader::Outcome ProgressReader::outcome() const {
  const uint32_t state = header_->outcome.state.load(std::memory_order_acquire);
  if (state == 0 || state > static_cast<uint32_t>(OutcomeState::kEcho)) return {};
  return {static_cast<OutcomeState>(state), header_->outcome.exit_code,
          TextOf(header_->outcome.message, kOutcomeMessageBytes)};
}

absl::Span<const std::byte> ProgressReader::ring() const {
  return absl::MakeConstSpan(bytes_ + ProgressRingOffset(sizes_), sizes_.ring_bytes);
}

}  // namespace strata::worker
