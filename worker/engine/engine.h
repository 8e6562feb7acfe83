// The engine of one rank: runs step programs on arenas.
//
//   ASSIGN_OR_RETURN(auto engine, Engine::Create(std::move(programs), options));
//   engine->SlotBytes(slot, 0, applied)           // initialise or load what persists
//   for (...) {
//     RETURN_IF_ERROR(engine->RunStep(train, applied));
//     applied += engine->scalar(Scalar::kApply) != 0;
//   }
//   RETURN_IF_ERROR(engine->Drain());             // before slots are read or written again
//
// Issuing is apart from completing. The thread that calls RunStep issues the actions of all streams
// in list order; dependencies between streams become waits for events (device/device.h). Lanes
// complete them: each stream in its order, the streams independently of each other. On a CPU rank
//  - kCompute is completed by the issuing thread itself, with its pool, once it has issued the step
//    (or as far ahead as the queues reach): its ops cost no hand-over;
//  - kUpdate has a thread and a pool of its own, kHost and what copies a thread each;
//  - all communication streams share one thread, which has one operation of each in flight at once.
// With an accelerator, kCompute and what copies to and from the device are queues of its own, into
// which the issuing thread launches, compute's actions as graphs where the accelerator says so; the
// other streams stay lanes, and events order both.
// Lanes sleep when they have nothing to do. RunStep returns when kCompute and kHost have ended the
// step; the other streams may go on under the next one, at most two steps being under way. Where
// kCompute is a queue of a device that does not communicate, and kHost ends with a report, that is
// enough: the host makes the next step ready while the device updates. Steps allocate nothing.
// Queues are bounded, so two ranks' lists must be parts of one global order, as composed ones are.
//
// Nothing here touches device memory: host ops and results live in host slots, and where compute is
// elsewhere the program itself moves them. Predicates are looked at in the host's scalar block, by
// the lane that runs the action, or by the device's kernel. (On a CPU rank the host reaches device
// memory too.)
#ifndef STRATA_WORKER_ENGINE_ENGINE_H_
#define STRATA_WORKER_ENGINE_ENGINE_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "collectives/communicator.h"
#include "common/clock.h"
#include "device/cpu_device.h"
#include "device/thread_pool.h"
#include "memory/fixed_pages.h"
#include "memory/ssd/ssd_store.h"
#include "program/ir/program.h"
#include "worker/engine/accelerator.h"
#include "worker/engine/host_ops.h"
#include "worker/engine/issue_observer.h"
#include "worker/engine/slot_access.h"
#include "worker/engine/step_metrics.h"

namespace strata::worker {

// Pointers are borrowed and must outlive the engine.
struct EngineOptions {
  // World ranks of this rank's groups, in order of their members' coordinates; empty or absent: a
  // group of this rank alone. Index and size of the group follow from it.
  std::map<program::Group, std::vector<int>> groups;
  device::ThreadPool* pool = nullptr;   // constructed by the thread that will call RunStep
  device::CpuDevice* device = nullptr;  // null: one of the engine's own
  // What computes and has the memory, and whose lanes are then used; null: the CPU. Create, and all
  // that runs steps, on the thread that made it.
  Accelerator* accelerator = nullptr;
  // Null in a world of one. From Create to the engine's end it belongs to the engine's
  // communication lane, Cancel apart; see RunCollective. Create makes one communicator group for
  // each symbolic group and stream, in a fixed order, so every rank of the world creates its
  // engine.
  collectives::Communicator* communicator = nullptr;
  HostOps* host = nullptr;
  memory::SsdOptions ssd;  // where bytes on SSD lie; paths are required where programs keep some
  // Arenas that the host reaches are locked and near the processor of Create's thread, as far as
  // the system lets them: see Engine::pages.
  bool fixed_arenas = false;
  const common::Clock* clock = nullptr;  // null: the monotonic clock
  ProgressSink* progress = nullptr;      // optional
  IssueObserver* observer = nullptr;     // optional, with an accelerator
  // Optional: called by Create when all is open and bound but the arenas, so that the process's
  // memory can be measured without them.
  std::function<void()> before_arenas;
  // Optional: the latest trace.size() actions are recorded here, record n at (n - 1) modulo the
  // size. Read it after Drain, or as one reads what is being written (protocol/trace_record.h).
  absl::Span<TraceRecord> trace;
};

class Engine {
 public:
  // `programs` has been laid out. Binds every action to its kernel or operation, starts the lanes,
  // and makes one arena per tier in use with every page present. Errors: InvalidArgument: operands
  // outside their slots, attributes that disagree with operands, communication in a group this rank
  // does not have, host ops on memory that the host cannot reach; FailedPrecondition: a kernel or
  // collective needs more workspace than its slot has; Unimplemented: what this engine cannot run
  // (collectives on the compute stream); ResourceExhausted: no memory, or no room on SSD.
  static absl::StatusOr<std::unique_ptr<Engine>> Create(program::ProgramSet programs,
                                                        const EngineOptions& options);
  // Cancels what is still in flight.
  ~Engine();
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  // Runs one step of program `index` (in ProgramSet::programs). `applied`: updates applied before
  // it; says which copies of versioned slots are the step's own. Another program than before waits
  // for the end of everything first. Returns the first error of the engine, from whichever thread;
  // after an error every call returns it. InvalidArgument, without harm: no such program.
  absl::Status RunStep(int index, int64_t applied);

  // Waits for the end of all streams, on the thread that calls RunStep.
  absl::Status Drain();

  // Runs an operation of the caller's own on the communicator (in a group the caller made before
  // Create) and waits for it. Not during RunStep; needs a communicator.
  absl::Status RunCollective(const collectives::Operation& operation);

  // From any thread: RunStep, Drain and RunCollective return `status` (not OK) as soon as the
  // present kernel or host op has ended. The first error counts.
  void Cancel(absl::Status status);

  // Between steps, on the thread that calls RunStep.
  double scalar(program::Scalar scalar) const;
  // What the last RunStep took; of an accelerator's queues nothing but the whole is known.
  const StepMetrics& metrics() const;

  // Bytes of a persistent slot (an index in ProgramSet::slots): version 0 is what a step that
  // starts with `applied` updates reads, 1 what it writes. After Drain, or while the program keeps
  // away from them. Not of a slot on SSD, or in memory that the host cannot reach.
  absl::Span<std::byte> SlotBytes(int slot, int version, int64_t applied) const;

  // The same of a slot in any tier, by copying.
  SlotAccess& slots();
  // The SSD tier; null: the programs keep nothing there. It is written to at the pace that steps
  // were found to need.
  memory::SsdStore* ssd() const;

  // What the bound programs take, beside the arenas: counted before `before_arenas` was called.
  int64_t program_bytes() const;

  const program::ProgramSet& programs() const;
  int64_t arena_bytes(program::Tier tier) const;
  // Of a fixed arena; 0 bytes: it is none, or empty.
  const memory::PageReport& pages(program::Tier tier) const;
  // The engine's copy of a program, and "instruction 12 (forward block 3), op 4 (matmul)".
  int actions(int index) const;
  std::string Describe(int index, int action) const;

  // From any thread: where every stream with unfinished work stands, one sentence each, such as
  // "rank 1 waits at instruction 17 (reduce block 3) in group data".
  std::string DescribePosition() const;

 private:
  class Implementation;
  explicit Engine(std::unique_ptr<Implementation> implementation);
  std::unique_ptr<Implementation> implementation_;
};

}  // namespace strata::worker

#endif  // STRATA_WORKER_ENGINE_ENGINE_H_
