#include "worker/shared/progress_reader.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <new>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"

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

// False: not all of it is there.
bool ReadWhole(int descriptor, size_t offset, void* bytes, size_t size) {
  ssize_t got = 0;
  do {
    got = pread(descriptor, bytes, size, static_cast<off_t>(offset));
  } while (got < 0 && errno == EINTR);
  return got == static_cast<ssize_t>(size);
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
  auto header = std::make_unique<ProgressHeader>();
  if (!ReadWhole(descriptor, 0, header.get(), sizeof(ProgressHeader))) {
    return absl::InternalError("progress file: it cannot be read");
  }
  RETURN_IF_ERROR(CheckHeader(*header, size));
  return std::unique_ptr<ProgressReader>(new ProgressReader(descriptor, std::move(header)));
}

ProgressReader::ProgressReader(int descriptor, std::unique_ptr<ProgressHeader> header)
    : descriptor_(descriptor),
      header_(std::move(header)),
      label_capacity_(header_->label_capacity) {}

const ProgressHeader& ProgressReader::Look() const {
  if (!ReadWhole(descriptor_, 0, header_.get(), sizeof(ProgressHeader))) {
    new (header_.get()) ProgressHeader{};
  }
  return *header_;
}

std::optional<ProgressReader::Instruction> ProgressReader::FindInstruction(
    uint64_t position) const {
  if (position == 0) return std::nullopt;
  const uint64_t program = (position - 1) >> 32;
  const uint32_t instruction = static_cast<uint32_t>(position - 1);
  if (program >= kProgressPrograms || header_->labels_ready == 0 ||
      instruction >= header_->label_count[program]) {
    return std::nullopt;
  }
  const uint64_t label = uint64_t{header_->first_label[program]} + instruction;
  ProgressInstruction found{};
  if (label >= label_capacity_ ||
      !ReadWhole(descriptor_, ProgressLabelsOffset() + label * sizeof(found), &found,
                 sizeof(found))) {
    return std::nullopt;
  }
  return Instruction{TextOf(found.label, kLabelBytes),
                     std::max({0.0, FiniteOr0(found.slowest[0]), FiniteOr0(found.slowest[1])})};
}

std::string ProgressReader::Label(uint64_t position) const {
  if (position == 0) return "";
  const std::optional<Instruction> instruction = FindInstruction(position);
  if (instruction.has_value()) return instruction->label;
  return absl::StrCat("instruction ", static_cast<uint32_t>(position - 1));
}

std::string ProgressReader::Current(int stream) const {
  if (stream < 0 || stream >= kProgressStreams) return "";
  return Label(Look().streams[stream].current);
}

uint32_t ProgressReader::group_count() const {
  return std::min<uint32_t>(header_->group_count, kProgressGroups);
}

std::string ProgressReader::GroupName(uint32_t group) const {
  return group < group_count() ? TextOf(header_->group_names[group], kGroupNameBytes) : "";
}

Phase ProgressReader::phase() const {
  const uint32_t phase = Look().phase;
  return phase <= static_cast<uint32_t>(Phase::kEnding) ? static_cast<Phase>(phase)
                                                        : Phase::kStarting;
}

double ProgressReader::phase_begin() const { return FiniteOr0(Look().phase_begin); }

std::vector<ProgressReader::Activity> ProgressReader::Activities() const {
  Look();
  std::vector<Activity> activities;
  std::vector<uint64_t> positions;
  for (int s = 0; s < kProgressStreams; ++s) {
    const ProgressStream& stream = header_->streams[s];
    const uint64_t position = stream.current;
    if (position == 0) continue;
    Activity& activity = activities.emplace_back();
    positions.push_back(position);
    activity.stream = s;
    activity.label = Label(position);
    activity.begin = FiniteOr0(stream.begin);
    if (const auto instruction = FindInstruction(position)) activity.slowest = instruction->slowest;
    const uint32_t group = stream.group;
    if (group > 0) activity.group = GroupName(group - 1);
    activity.pair = stream.pair != 0;
    activity.storage = stream.storage != 0;
    activity.sequence = stream.sequence;
  }
  // What was written meanwhile may be half of one activity and half of the next.
  Look();
  std::vector<Activity> same;
  for (size_t i = 0; i < activities.size(); ++i) {
    const ProgressStream& stream = header_->streams[activities[i].stream];
    if (stream.current == positions[i] && FiniteOr0(stream.begin) == activities[i].begin) {
      same.push_back(std::move(activities[i]));
    }
  }
  return same;
}

double ProgressReader::storage_tick() const { return FiniteOr0(Look().storage_tick); }

uint64_t ProgressReader::Begun(const std::string& group, int stream) const {
  if (stream < 0 || stream >= kProgressStreams) return 0;
  Look();
  for (uint32_t g = 0; g < group_count(); ++g) {
    if (GroupName(g) == group) return header_->begun[g][stream];
  }
  return 0;
}

std::string ProgressReader::Latest() const { return Label(Look().latest); }

std::string ProgressReader::DescribePosition() const {
  const std::string label = Latest();
  if (label.empty()) return "";
  return absl::StrCat("step ", header_->step.load(), ", '", label, "'");
}

ProgressReader::Outcome ProgressReader::outcome() const {
  const ProgressOutcome& outcome = Look().outcome;
  const uint32_t state = outcome.state;
  if (state == 0 || state > static_cast<uint32_t>(OutcomeState::kEcho)) return {};
  return {static_cast<OutcomeState>(state), outcome.exit_code,
          TextOf(outcome.message, kOutcomeMessageBytes)};
}

}  // namespace strata::worker
