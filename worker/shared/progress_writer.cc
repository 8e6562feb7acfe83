#include "worker/shared/progress_writer.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <new>

#include "absl/strings/str_cat.h"

namespace strata::worker {

absl::StatusOr<std::unique_ptr<ProgressWriter>> ProgressWriter::Create(int descriptor,
                                                                       const ProgressSizes& sizes,
                                                                       const common::Clock* clock) {
  const size_t size = ProgressFileBytes(sizes);
  // Cut to nothing first: all bytes are zero afterwards.
  if (ftruncate(descriptor, 0) != 0 || ftruncate(descriptor, static_cast<off_t>(size)) != 0) {
    return absl::InternalError(absl::StrCat("progress file: ftruncate: ", strerror(errno)));
  }
  // On disk now: a full one is told here, not by a signal in the middle of a step.
  if (const int error = posix_fallocate(descriptor, 0, static_cast<off_t>(size)); error != 0) {
    return absl::InternalError(absl::StrCat("progress file: ", strerror(error)));
  }
  void* const bytes = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
  if (bytes == MAP_FAILED) {
    return absl::InternalError(absl::StrCat("progress file: mmap: ", strerror(errno)));
  }
  return std::unique_ptr<ProgressWriter>(
      new ProgressWriter(static_cast<std::byte*>(bytes), size, sizes, clock));
}

ProgressWriter::ProgressWriter(std::byte* bytes, size_t size, const ProgressSizes& sizes,
                               const common::Clock* clock)
    : bytes_(bytes),
      size_(size),
      header_(new (bytes) ProgressHeader{}),
      sizes_(sizes),
      clock_(clock) {
  header_->version = kProgressVersion;
  header_->header_bytes = sizeof(ProgressHeader);
  header_->file_bytes = size;
  header_->label_capacity = sizes.label_capacity;
  header_->ring_bytes = sizes.ring_bytes;
  header_->phase_begin.store(clock->Now(), std::memory_order_relaxed);
  // The magic last: with it a reader takes the file for what it is.
  std::atomic_thread_fence(std::memory_order_release);
  std::memcpy(header_->magic, kProgressMagic, sizeof(kProgressMagic));
}

ProgressWriter::~ProgressWriter() { munmap(bytes_, size_); }

ProgressInstruction* ProgressWriter::instructions() const {
  return reinterpret_cast<ProgressInstruction*>(bytes_ + ProgressLabelsOffset());
}

void ProgressWriter::SetLabels(const std::vector<std::vector<std::string>>& programs) {
  header_->labels_ready.store(0, std::memory_order_release);
  header_->generation.fetch_add(1, std::memory_order_acq_rel);
  uint32_t next = 0;
  for (int p = 0; p < kProgressPrograms; ++p) {
    const size_t wanted = p < static_cast<int>(programs.size()) ? programs[p].size() : 0;
    const uint32_t count =
        static_cast<uint32_t>(std::min<size_t>(wanted, sizes_.label_capacity - next));
    header_->first_label[p] = next;
    header_->label_count[p] = count;
    for (uint32_t i = 0; i < count; ++i, ++next) {
      ProgressInstruction* const instruction = new (&instructions()[next]) ProgressInstruction{};
      std::memcpy(instruction->label, programs[p][i].data(),
                  std::min(programs[p][i].size(), kLabelBytes - 1));
    }
  }
  header_->labels_ready.store(1, std::memory_order_release);
}

void ProgressWriter::SetGroups(const std::vector<std::string>& names) {
  header_->group_count = static_cast<uint32_t>(std::min<size_t>(names.size(), kProgressGroups));
  for (uint32_t g = 0; g < header_->group_count; ++g) {
    std::memset(header_->group_names[g], 0, kGroupNameBytes);
    std::memcpy(header_->group_names[g], names[g].data(),
                std::min(names[g].size(), kGroupNameBytes - 1));
  }
}

absl::Span<std::byte> ProgressWriter::ring() const {
  return absl::MakeSpan(bytes_ + ProgressRingOffset(sizes_), sizes_.ring_bytes);
}

void ProgressWriter::SetPhase(Phase phase) {
  header_->phase_begin.store(clock_->Now(), std::memory_order_relaxed);
  header_->phase.store(static_cast<uint32_t>(phase), std::memory_order_release);
  header_->ticks.fetch_add(1, std::memory_order_relaxed);
}

void ProgressWriter::SetStep(int64_t step) {
  header_->step.store(step, std::memory_order_relaxed);
  header_->ticks.fetch_add(1, std::memory_order_relaxed);
}

void ProgressWriter::SetCheckpointStep(int64_t step) {
  header_->checkpoint_step.store(step, std::memory_order_relaxed);
}

void ProgressWriter::Begin(int stream, int program, int instruction,
                           const ProgressOperation& operation) {
  const uint64_t position = EncodePosition(program, instruction);
  ProgressStream& at = header_->streams[stream];
  uint64_t sequence = 0;
  if (operation.group >= 0 && operation.group < kProgressGroups && !operation.pair) {
    sequence = header_->begun[operation.group][stream].fetch_add(1, std::memory_order_relaxed) + 1;
  }
  at.group.store(static_cast<uint32_t>(operation.group + 1), std::memory_order_relaxed);
  at.pair.store(operation.pair, std::memory_order_relaxed);
  at.storage.store(operation.storage, std::memory_order_relaxed);
  at.sequence.store(sequence, std::memory_order_relaxed);
  at.begin.store(clock_->Now(), std::memory_order_relaxed);
  at.current.store(position, std::memory_order_release);
  header_->latest.store(position, std::memory_order_relaxed);
  header_->ticks.fetch_add(1, std::memory_order_relaxed);
}

void ProgressWriter::End(int stream) {
  ProgressStream& at = header_->streams[stream];
  const uint64_t position = at.current.load(std::memory_order_relaxed);
  if (position != 0) {
    NoteExecution(position, clock_->Now() - at.begin.load(std::memory_order_relaxed));
  }
  at.current.store(0, std::memory_order_release);
  header_->ticks.fetch_add(1, std::memory_order_relaxed);
}

void ProgressWriter::BeginStorage() {
  header_->storage_tick.store(clock_->Now(), std::memory_order_relaxed);
  header_->storage_operations.fetch_add(1, std::memory_order_relaxed);
}

void ProgressWriter::EndStorage() {
  header_->storage_tick.store(clock_->Now(), std::memory_order_relaxed);
  header_->storage_operations.fetch_sub(1, std::memory_order_relaxed);
}

void ProgressWriter::NoteExecution(uint64_t position, double seconds) {
  const uint64_t program = (position - 1) >> 32;
  const uint32_t instruction = static_cast<uint32_t>(position - 1);
  if (program >= kProgressPrograms || instruction >= header_->label_count[program]) return;
  ProgressInstruction& at = instructions()[header_->first_label[program] + instruction];
  const int64_t window = header_->step.load(std::memory_order_relaxed) / kSlowestWindowSteps;
  std::atomic<double>& slowest = at.slowest[window % 2];
  const bool first = at.window[window % 2].exchange(window, std::memory_order_relaxed) != window;
  if (first || seconds > slowest.load(std::memory_order_relaxed)) {
    slowest.store(seconds, std::memory_order_relaxed);
  }
}

void ProgressWriter::SetOutcome(OutcomeState state, int exit_code, const std::string& message) {
  ProgressOutcome& outcome = header_->outcome;
  outcome.exit_code = exit_code;
  const size_t size = std::min(message.size(), kOutcomeMessageBytes - 1);
  std::memcpy(outcome.message, message.data(), size);
  outcome.message[size] = '\0';
  outcome.state.store(static_cast<uint32_t>(state), std::memory_order_release);
}

}  // namespace strata::worker
