// Small programs made for one test each.
#ifndef STRATA_WORKER_ENGINE_WORKSHOP_H_
#define STRATA_WORKER_ENGINE_WORKSHOP_H_

#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "collectives/communicator.h"
#include "device/cpu_device.h"
#include "program/compose/assembler.h"
#include "program/passes/layout.h"
#include "worker/engine/communication_binding.h"
#include "worker/engine/engine.h"
#include "worker/engine/toy_step.h"

namespace strata::worker {

// Builds a set of programs: slots of 64 bytes, on the host tier unless it is said otherwise.
class Workshop {
 public:
  explicit Workshop(int data = 1, program::Tier tier = program::Tier::kHost)
      : assembler(set, tier) {
    set.groups.data = data;
    set.scalars = assembler.AddPersistent({.name = "scalars",
                                           .tier = program::Tier::kHost,
                                           .klass = program::SlotClass::kScalars,
                                           .bytes = program::kScalarBytes});
  }
  int HostSlot(const char* name) {
    return assembler.AddPersistent({.name = name,
                                    .tier = program::Tier::kHost,
                                    .klass = program::SlotClass::kBatch,
                                    .bytes = 64});
  }
  int Slot(const char* name, bool versioned = false) {
    return assembler.AddPersistent(name, program::SlotClass::kBatch, 64, versioned);
  }
  static program::Operand At(int slot, program::Access access, int version = 0) {
    return {.slot = slot, .bytes = 64, .access = access, .version = version};
  }
  void Copy(int dst, int src, program::Stream stream = program::Stream::kCompute,
            int dst_version = 0) {
    assembler.CallOp(
        {.kind = program::OpKind::kCopy, .ints = {64}}, program::Purpose::kForward, "copy",
        {At(dst, program::Access::kWrite, dst_version), At(src, program::Access::kRead)}, stream);
  }
  void Double(int slot, program::Stream stream = program::Stream::kCompute) {
    assembler.CallOp(
        {.kind = program::OpKind::kAdd, .ints = {16}}, program::Purpose::kForward, "double",
        {At(slot, program::Access::kAccumulate), At(slot, program::Access::kRead)}, stream);
  }
  void Signal(const char* label, program::Stream stream,
              program::Purpose purpose = program::Purpose::kReport) {
    assembler.Add({.mechanism = program::Mechanism::kSignal,
                   .purpose = purpose,
                   .label = label,
                   .stream = stream});
  }
  void Transfer(int from, int to, program::Stream stream) {
    assembler.Add(
        {.mechanism = program::Mechanism::kTransfer,
         .purpose = program::Purpose::kFetch,
         .label = "transfer",
         .stream = stream,
         .operands = {At(from, program::Access::kRead), At(to, program::Access::kWrite)}});
  }
  void AllReduce(int slot, program::Stream stream = program::Stream::kGradients) {
    assembler.Collective({.op = program::CollectiveOp::kAllReduce,
                          .group = program::Group::kData,
                          .dtype = program::DType::kF32,
                          .bytes = 64},
                         program::Purpose::kReduce, stream, "reduce",
                         At(slot, program::Access::kRead), At(slot, program::Access::kWrite),
                         CollectiveScratchBytes);
  }
  // Needs no scratch, which two collectives would share.
  void AllGather(int slot, program::Stream stream) {
    const program::Operand own{
        .slot = slot, .bytes = 32, .shard_group = program::Group::kData, .shard_stride = 32};
    assembler.Collective(
        {.op = program::CollectiveOp::kAllGather, .group = program::Group::kData, .bytes = 32},
        program::Purpose::kGather, stream, "gather", own, At(slot, program::Access::kWrite),
        CollectiveScratchBytes);
  }
  // The rank's engine; the workshop's set goes into it.
  absl::StatusOr<ToyRank> Open(int rank = 0, int ranks = 1,
                               std::unique_ptr<collectives::Communicator> communicator = nullptr) {
    if (absl::Status status = program::LayOut(set); !status.ok()) return status;
    return OpenLaidOut(rank, ranks, std::move(communicator));
  }
  absl::StatusOr<ToyRank> OpenLaidOut(int rank, int ranks,
                                      std::unique_ptr<collectives::Communicator> communicator) {
    ToyRank result;
    result.communicator = std::move(communicator);
    result.host = std::make_unique<ToyHost>(rank, ranks);
    result.pool = std::make_unique<device::ThreadPool>(1);
    EngineOptions options = ToyOptions(ranks, result);
    options.trace = absl::MakeSpan(trace);
    options.progress = progress;
    options.clock = clock;
    options.device = device;
    options.accelerator = accelerator;
    options.observer = observer;
    if (host != nullptr) options.host = host;
    absl::StatusOr<std::unique_ptr<Engine>> engine = Engine::Create(set, options);
    if (!engine.ok()) return engine.status();
    result.engine = *std::move(engine);
    return result;
  }

  program::ProgramSet set;
  program::Assembler assembler;
  std::vector<TraceRecord> trace;
  // Where not null, in the place of what an engine has otherwise.
  ProgressSink* progress = nullptr;
  const common::Clock* clock = nullptr;
  device::CpuDevice* device = nullptr;
  Accelerator* accelerator = nullptr;
  IssueObserver* observer = nullptr;
  HostOps* host = nullptr;
};

inline float* Floats(const ToyRank& rank, int slot, int version = 0, int64_t applied = 0) {
  return reinterpret_cast<float*>(rank.engine->SlotBytes(slot, version, applied).data());
}

// Lets a thread wait, without sleeping, until the engine stands where `text` says.
inline void AwaitPosition(const Engine& engine, const std::string& text) {
  while (engine.DescribePosition().find(text) == std::string::npos) std::this_thread::yield();
}

}  // namespace strata::worker

#endif  // STRATA_WORKER_ENGINE_WORKSHOP_H_
