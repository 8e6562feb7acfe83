#include "worker/shared/progress_writer.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <new>

#include "absl/strings/str_cat.h"

namespace strata::worker {

absl::StatusOr<std::unique_ptr<ProgressWriter>> ProgressWriter::Create(int descriptor,
                                                                       const ProgressSizes& sizes) {
  const size_t size = ProgressFileBytes(sizes);
  // Cut to nothing first: all bytes are zero afterwards.
  if (ftruncate(descriptor, 0) != 0 || ftruncate(descriptor, static_cast<off_t>(size)) != 0) {
    return absl::InternalError(absl::StrCat("progress file: ftruncate: ", strerror(errno)));
  }
  void* const bytes = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
  if (bytes == MAP_FAILED) {
    return absl::InternalError(absl::StrCat("progress file: mmap: ", strerror(errno)));
  }
  return std::unique_ptr<ProgressWriter>(
      new ProgressWriter(static_cast<std::byte*>(bytes), size, sizes));
}

ProgressWriter::ProgressWriter(std::byte* bytes, size_t size, const ProgressSizes& sizes)
    : bytes_(bytes), size_(size), header_(new (bytes) ProgressHeader{}), sizes_(sizes) {
  header_->version = kProgressVersion;
  header_->header_bytes = sizeof(ProgressHeader);
  header_->file_bytes = size;
  header_->label_capacity = sizes.label_capacity;
  header_->ring_bytes = sizes.ring_bytes;
  // The magic last: with it a reader takes the file for what it is.
  std::atomic_thread_fence(std::memory_order_release);
  std::memcpy(header_->magic, kProgressMagic, sizeof(kProgressMagic));
}

ProgressWriter::~ProgressWriter() { munmap(bytes_, size_); }

void ProgressWriter::SetLabels(const std::vector<std::vector<std::string>>& programs) {
  header_->labels_ready.store(0, std::memory_order_release);
  header_->generation.fetch_add(1, std::memory_order_acq_rel);
  char* const labels = reinterpret_cast<char*>(bytes_ + ProgressLabelsOffset());
  uint32_t next = 0;
  for (int p = 0; p < kProgressPrograms; ++p) {
    const size_t wanted = p < static_cast<int>(programs.size()) ? programs[p].size() : 0;
    const uint32_t count =
        static_cast<uint32_t>(std::min<size_t>(wanted, sizes_.label_capacity - next));
    header_->first_label[p] = next;
    header_->label_count[p] = count;
    for (uint32_t i = 0; i < count; ++i, ++next) {
      char* const label = labels + size_t{next} * kLabelBytes;
      std::memset(label, 0, kLabelBytes);
      std::memcpy(label, programs[p][i].data(), std::min(programs[p][i].size(), kLabelBytes - 1));
    }
  }
  header_->labels_ready.store(1, std::memory_order_release);
}

absl::Span<std::byte> ProgressWriter::ring() const {
  return absl::MakeSpan(bytes_ + ProgressRingOffset(sizes_), sizes_.ring_bytes);
}

void ProgressWriter::Begin(int stream, int program, int instruction) {
  const uint64_t position = EncodePosition(program, instruction);
  header_->current[stream].store(position, std::memory_order_relaxed);
  header_->latest.store(position, std::memory_order_relaxed);
  header_->ticks.fetch_add(1, std::memory_order_relaxed);
}

void ProgressWriter::End(int stream) {
  header_->current[stream].store(0, std::memory_order_relaxed);
  header_->ticks.fetch_add(1, std::memory_order_relaxed);
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
