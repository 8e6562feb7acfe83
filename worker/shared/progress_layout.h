// The progress file of one trainer: what an agent can read of it while it runs, hangs, is stopped
// or is dead. A fixed layout in shared memory, the same in both processes (they are of one build):
//
//   ProgressHeader | instruction labels [label_capacity] | operation ring (collectives) | end
//
// Every field that changes is one atomic word, or is written before the word that publishes it.
#ifndef STRATA_WORKER_SHARED_PROGRESS_LAYOUT_H_
#define STRATA_WORKER_SHARED_PROGRESS_LAYOUT_H_

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace strata::worker {

inline constexpr char kProgressMagic[8] = {'S', 'T', 'R', 'A', 'P', 'R', 'O', 'G'};
inline constexpr uint32_t kProgressVersion = 1;
inline constexpr int kProgressStreams = 16;  // at least the streams of a program
inline constexpr int kProgressPrograms = 8;  // at least the programs of a set
inline constexpr size_t kLabelBytes = 64;    // with the end mark
inline constexpr size_t kOutcomeMessageBytes = 1024;

enum class OutcomeState : uint32_t { kNone = 0, kSucceeded = 1, kFailed = 2, kInterrupted = 3 };

// Written before a voluntary exit; `state` last.
struct ProgressOutcome {
  std::atomic<uint32_t> state;  // OutcomeState
  int32_t exit_code;
  char message[kOutcomeMessageBytes];  // ends with '\0'
};

struct ProgressHeader {
  char magic[8];
  uint32_t version;
  uint32_t header_bytes;
  uint64_t file_bytes;
  uint32_t label_capacity;  // of all programs together
  uint32_t ring_bytes;
  // Label i of program p is label first_label[p] + i. Written before `labels_ready`.
  uint32_t first_label[kProgressPrograms];
  uint32_t label_count[kProgressPrograms];
  std::atomic<uint32_t> labels_ready;
  std::atomic<uint32_t> generation;  // grows when the labels are about to be written
  std::atomic<int64_t> step;         // in progress; 0 before the first
  std::atomic<uint64_t> ticks;       // grows with everything that begins or ends
  // What each stream is at: (program << 32 | instruction) + 1; 0 when idle.
  std::atomic<uint64_t> current[kProgressStreams];
  // The instruction that began last, on any stream; same coding.
  std::atomic<uint64_t> latest;
  ProgressOutcome outcome;
};
static_assert(std::atomic<uint64_t>::is_always_lock_free);
static_assert(sizeof(ProgressHeader) == 1288, "the layout changed: raise kProgressVersion");

struct ProgressSizes {
  uint32_t label_capacity = 0;
  uint32_t ring_bytes = 0;
};

constexpr size_t RoundToLine(size_t bytes) { return (bytes + 63) / 64 * 64; }
constexpr size_t ProgressLabelsOffset() { return RoundToLine(sizeof(ProgressHeader)); }
constexpr size_t ProgressRingOffset(const ProgressSizes& sizes) {
  return RoundToLine(ProgressLabelsOffset() + sizes.label_capacity * kLabelBytes);
}
constexpr size_t ProgressFileBytes(const ProgressSizes& sizes) {
  return ProgressRingOffset(sizes) + RoundToLine(sizes.ring_bytes);
}

constexpr uint64_t EncodePosition(int program, int instruction) {
  return (static_cast<uint64_t>(program) << 32 | static_cast<uint32_t>(instruction)) + 1;
}

}  // namespace strata::worker

#endif  // STRATA_WORKER_SHARED_PROGRESS_LAYOUT_H_
