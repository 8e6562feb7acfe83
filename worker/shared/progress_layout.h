// The progress file of one trainer: what an agent can read of it while it runs, hangs, is stopped
// or is dead. A fixed layout in shared memory, the same in both processes (they are of one build):
//
//   ProgressHeader | ProgressInstruction [label_capacity] | operation ring (collectives) | end
//
// Times are seconds of the machine's monotonic clock, which both processes share.
//
// Every field that changes is one atomic word, or is written before the word that publishes it.
#ifndef STRATA_WORKER_SHARED_PROGRESS_LAYOUT_H_
#define STRATA_WORKER_SHARED_PROGRESS_LAYOUT_H_

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace strata::worker {

inline constexpr char kProgressMagic[8] = {'S', 'T', 'R', 'A', 'P', 'R', 'O', 'G'};
inline constexpr uint32_t kProgressVersion = 3;
inline constexpr int kProgressStreams = 16;  // at least the streams of a program
inline constexpr int kProgressPrograms = 8;  // at least the programs of a set
inline constexpr int kProgressGroups = 8;    // at least the symbolic groups of a program
inline constexpr size_t kLabelBytes = 64;    // with the end mark
inline constexpr size_t kGroupNameBytes = 16;
// An instruction's slowest execution is that of the last one to two windows of so many steps, so
// that the first step, which touches everything for the first time, does not count for ever.
inline constexpr int64_t kSlowestWindowSteps = 16;
inline constexpr size_t kOutcomeMessageBytes = 1024;

enum class OutcomeState : uint32_t {
  kNone = 0,
  kSucceeded = 1,
  kFailed = 2,
  kInterrupted = 3,
  kEcho = 4,  // failed, perhaps because another rank did
};

// Written before a voluntary exit; `state` last.
struct ProgressOutcome {
  std::atomic<uint32_t> state;  // OutcomeState
  int32_t exit_code;
  char message[kOutcomeMessageBytes];  // ends with '\0'
};

// What the rank as a whole is doing. Instructions are in flight only in kTraining and kEvaluating.
enum class Phase : uint32_t {
  kStarting = 0,  // compiling
  kJoining = 1,   // waiting for the others' addresses
  kConnecting = 2,
  kLoading = 3,
  kTraining = 4,
  kEvaluating = 5,
  kCommitting = 6,  // waiting until checkpoints are written and committed
  kEnding = 7,
};
const char* Name(Phase phase);

struct ProgressInstruction {
  char label[kLabelBytes];
  std::atomic<int64_t> window[2];  // number of the window that `slowest` is of
  std::atomic<double> slowest[2];  // seconds; 0: not executed
};

// What a stream is at. `current` is written last.
struct ProgressStream {
  std::atomic<uint64_t> current;  // (program << 32 | instruction) + 1; 0 when idle
  std::atomic<double> begin;
  std::atomic<uint32_t> group;     // index + 1 of the group that it communicates in; 0: none
  std::atomic<uint32_t> pair;      // not 0: a send or receive between two members
  std::atomic<uint64_t> storage;   // not 0: it reads or writes files, or waits for who does
  std::atomic<uint64_t> sequence;  // collectives: counts the group's on this stream from 1
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
  std::atomic<uint32_t> phase;       // Phase
  uint32_t group_count;
  std::atomic<double> phase_begin;
  // Up to this step the disk may hold up any instruction: a checkpoint is being written.
  std::atomic<int64_t> checkpoint_step;
  // File operations in flight on any thread, each of one chunk, and when one began or ended last.
  std::atomic<uint64_t> storage_operations;
  std::atomic<double> storage_tick;  // 0: none did
  ProgressStream streams[kProgressStreams];
  // The instruction that began last, on any stream; coded like ProgressStream::current.
  std::atomic<uint64_t> latest;
  char group_names[kProgressGroups][kGroupNameBytes];  // each ends with '\0'
  // Collectives of a group on a stream so far: those of one stream begin in the same order on all
  // members.
  std::atomic<uint64_t> begun[kProgressGroups][kProgressStreams];
  ProgressOutcome outcome;
};
static_assert(std::atomic<uint64_t>::is_always_lock_free);
static_assert(std::atomic<double>::is_always_lock_free);
static_assert(sizeof(ProgressInstruction) == 96);
static_assert(sizeof(ProgressHeader) == 2992, "the layout changed: raise kProgressVersion");

struct ProgressSizes {
  uint32_t label_capacity = 0;
  uint32_t ring_bytes = 0;
};

constexpr size_t RoundToLine(size_t bytes) { return (bytes + 63) / 64 * 64; }
constexpr size_t ProgressLabelsOffset() { return RoundToLine(sizeof(ProgressHeader)); }
constexpr size_t ProgressRingOffset(const ProgressSizes& sizes) {
  return RoundToLine(ProgressLabelsOffset() + sizes.label_capacity * sizeof(ProgressInstruction));
}
constexpr size_t ProgressFileBytes(const ProgressSizes& sizes) {
  return ProgressRingOffset(sizes) + RoundToLine(sizes.ring_bytes);
}

constexpr uint64_t EncodePosition(int program, int instruction) {
  return (static_cast<uint64_t>(program) << 32 | static_cast<uint32_t>(instruction)) + 1;
}

}  // namespace strata::worker

#endif  // STRATA_WORKER_SHARED_PROGRESS_LAYOUT_H_
