#include "worker/engine/engine.h"

#include <algorithm>
#include <optional>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "memory/numa.h"
#include "program/passes/expand.h"
#include "worker/engine/action_runner.h"
#include "worker/engine/address_map.h"
#include "worker/engine/bound_program.h"
#include "worker/engine/collective_request.h"
#include "worker/engine/communication_binding.h"
#include "worker/engine/lanes.h"
#include "worker/engine/one_at_a_time.h"
#include "worker/engine/position.h"
#include "worker/engine/queue_issuer.h"
#include "worker/engine/queue_watch.h"
#include "worker/engine/run_state.h"
#include "worker/engine/slot_access.h"
#include "worker/engine/ssd_tier.h"

namespace strata::worker {
namespace {

constexpr int kCompute = static_cast<int>(program::Stream::kCompute);
constexpr int kHost = static_cast<int>(program::Stream::kHost);
constexpr int kSsdWrite = static_cast<int>(program::Stream::kSsdWrite);
constexpr int kUpdateWrite = static_cast<int>(program::Stream::kUpdateWrite);

}  // namespace

class Engine::Implementation {
 public:
  Implementation(program::ProgramSet set, const EngineOptions& options)
      : set_(std::move(set)),
        options_(options),
        host_(options.host),
        device_(options.accelerator != nullptr ? &options.accelerator->device().lanes()
                : options.device == nullptr    ? &own_device_
                                               : options.device),
        ssd_(options.ssd),
        host_node_(options.fixed_arenas ? ssd_.HostNode() : -1),
        state_(options.clock, options.communicator, options.accelerator, options.progress,
               options.trace),
        runner_(&state_, options.communicator,
                [this](int index, int action) { return Describe(index, action); }),
        queues_(&state_, &runner_, options.observer,
                options.accelerator == nullptr ? 0 : options.accelerator->graph_actions(),
                [this](int index, int action) { return Describe(index, action); }) {}
  ~Implementation();

  absl::Status Open();

  absl::Status RunStep(int index, int64_t applied);
  absl::Status Drain();
  absl::Status RunCollective(const collectives::Operation& operation);
  void Cancel(absl::Status status) { state_.Fail(std::move(status)); }
  SlotAccess& slots() { return *slots_; }
  SsdTier& ssd() { return ssd_; }

  double scalar(program::Scalar scalar) const {
    const absl::Span<std::byte> block = addresses_->Bytes(set_.scalars, 0, 0);
    return reinterpret_cast<const double*>(block.data())[static_cast<int>(scalar)];
  }
  const StepMetrics& metrics() const { return metrics_; }
  const AddressMap& addresses() const { return *addresses_; }
  const program::ProgramSet& set() const { return set_; }
  const BoundProgram& bound(int index) const { return bound_[index]; }
  int64_t program_bytes() const {
    int64_t sum = runner_.bytes();
    for (const BoundProgram& program : bound_) sum += program.bytes();
    return sum;
  }
  std::string Describe(int index, int action) const {
    return worker::Describe(set_, set_.programs[index], bound_[index], action);
  }
  std::string DescribePosition() const {
    return Position(&set_, &bound_, &state_, rank()).Describe();
  }

 private:
  // The places that one step leaves on the streams.
  using Ends = std::array<std::unique_ptr<device::Event>, program::kStreamCount>;

  absl::Status MakeGroups();
  absl::Status MakePools();
  absl::Status MakePlans();
  absl::Status MakePlan(const program::Instruction& call, const program::Op& op);
  absl::Status BindAll();
  absl::Status OpenStreams();
  // What has the memory, the events, and the order of all streams.
  device::Device* memory() const {
    if (options_.accelerator != nullptr) return &options_.accelerator->device();
    return device_;
  }
  absl::Status OpenQueues();
  // Prepares for a step of another program than the last.
  absl::Status Switch(int index);
  absl::Status IssueStep();
  absl::Status RecordEnd(int stream);
  absl::Status Issue(int action);
  absl::Status IssueOnLane(int index, device::Stream& stream);
  // Waits for a stream's end of the step before the last (or of the last), as exposed time.
  absl::Status AwaitEnds(Ends& ends);
  absl::Status AwaitEnd(Ends& ends, int stream);
  bool uses(int stream) const { return !bound_[current_].streams[stream].empty(); }

  // Errors of devices end the engine as those of lanes do.
  absl::Status Checked(const absl::Status& status) {
    if (!status.ok()) state_.Fail(status);
    return status.ok() ? status : state_.error();
  }

  // A device's communication fails beside its streams: that they have ended says nothing of it.
  absl::Status CheckCommunication() {
    Accelerator* const device = options_.accelerator;
    return Checked(device == nullptr ? absl::OkStatus() : device->CheckCommunication());
  }

  int rank() const { return options_.communicator == nullptr ? 0 : options_.communicator->rank(); }

  program::ProgramSet set_;  // what is bound points into it
  EngineOptions options_;
  OneAtATime host_;
  device::CpuDevice own_device_;
  device::CpuDevice* const device_;
  std::array<std::optional<MatmulPlans>, kLaneCount> plans_;
  std::array<std::unique_ptr<device::ThreadPool>, kLaneCount> pools_;  // compute: the owner's
  SsdTier ssd_;
  const int host_node_;  // where the host tier lies and threads that work on it stay; -1: anywhere
  GroupTable groups_;
  std::optional<AddressMap> addresses_;
  std::optional<SlotAccess> slots_;
  std::vector<BoundProgram> bound_;
  std::vector<std::unique_ptr<device::Event>> events_;  // of the run's program
  std::array<Ends, 2> ends_;                            // of step s at s % 2
  std::unique_ptr<device::Event> request_end_;
  RunState state_;
  ActionRunner runner_;
  QueueIssuer queues_;
  int current_ = -1;                 // program of the run
  int64_t step_ = 0;                 // the run's next
  std::vector<int64_t> steps_done_;  // per program, of all its runs
  double went_on_since_ = -1;  // when the last step was over, whose rest is of the next one's time
  StepMetrics metrics_;

  // Last: their threads use the rest.
  std::optional<Lanes> lanes_;
  std::optional<QueueWatch> watch_;
};

absl::Status Engine::Implementation::Open() {
  RETURN_IF_ERROR(CheckLaidOut(set_));
  RETURN_IF_ERROR(MakeGroups());
  RETURN_IF_ERROR(MakePools());
  RETURN_IF_ERROR(MakePlans());
  device::UnifiedMemory* unified = nullptr;
  if (options_.accelerator != nullptr) unified = &options_.accelerator->unified();
  ASSIGN_OR_RETURN(addresses_, AddressMap::Create(set_, memory(), unified, options_.fixed_arenas));
  RETURN_IF_ERROR(OpenQueues());
  if (!addresses_->IsHostAccessible(set_.slots[set_.scalars])) {
    return absl::InvalidArgumentError("the scalar block lies where the host cannot reach it");
  }
  RETURN_IF_ERROR(BindAll());
  RETURN_IF_ERROR(OpenStreams());
  if (options_.before_arenas) options_.before_arenas();
  return addresses_->Commit(host_node_);
}

absl::Status Engine::Implementation::MakeGroups() {
  Accelerator* const device = options_.accelerator;
  if (device == nullptr || !device->communicates()) {
    ASSIGN_OR_RETURN(groups_, GroupTable::Create(options_.groups, options_.communicator));
    return absl::OkStatus();
  }
  const auto create = [device](absl::Span<const int> ranks) { return device->CreateGroup(ranks); };
  ASSIGN_OR_RETURN(groups_, GroupTable::Create(options_.groups, rank(), create));
  return absl::OkStatus();
}

// Updates on the host get as many threads as compute; what other lanes run is small.
absl::Status Engine::Implementation::MakePools() {
  const memory::NodeScope near(host_node_);
  bool host_updates = false;
  for (const program::Program& program : set_.programs) {
    for (const program::Instruction& instruction : program.instructions) {
      host_updates |= instruction.stream == program::Stream::kUpdate;
    }
  }
  for (int lane = 0; lane < kLaneCount; ++lane) {
    const bool wide = lane == static_cast<int>(LaneId::kUpdate) && host_updates;
    int threads = wide ? options_.pool->threads() : 1;
    if (lane == static_cast<int>(LaneId::kCompute)) {
      threads = options_.pool->threads();
    } else {
      pools_[lane] = std::make_unique<device::ThreadPool>(threads);
    }
    plans_[lane].emplace(threads);
  }
  return absl::OkStatus();
}

// Before the arenas exist, so that what plans take counts as the process's overhead.
absl::Status Engine::Implementation::MakePlans() {
  std::set<std::pair<int, program::Stream>> seen;
  for (const program::Program& program : set_.programs) {
    for (const program::Instruction& call : program.instructions) {
      if (call.mechanism != program::Mechanism::kCall) continue;
      if (!seen.emplace(call.template_index, call.stream).second) continue;
      const std::vector<program::Op>& ops = set_.templates[call.template_index].ops;
      for (size_t i = 0; i < ops.size(); ++i) {
        const absl::Status status = MakePlan(call, ops[i]);
        if (status.ok()) continue;
        return absl::Status(status.code(), absl::StrCat("program ", program.name, ", ", call.label,
                                                        ", op ", i, ": ", status.message()));
      }
    }
  }
  return absl::OkStatus();
}

absl::Status Engine::Implementation::MakePlan(const program::Instruction& call,
                                              const program::Op& op) {
  if (op.kind != program::OpKind::kMatMul) return absl::OkStatus();
  const program::Stream stream = op.stream == program::Stream::kCaller ? call.stream : op.stream;
  if (options_.accelerator != nullptr && IsOnQueue(stream, false)) return absl::OkStatus();
  const auto lane = LaneOf(stream);
  if (!lane.has_value()) return absl::OkStatus();  // refused where it is bound
  ASSIGN_OR_RETURN(const kernels::MatmulShape shape, MatmulShapeOf(op));
  return plans_[static_cast<int>(*lane)]->Get(shape).status();
}

absl::Status Engine::Implementation::BindAll() {
  const int64_t vocabulary = SmallestVocabulary(set_);
  BindingContext context{.set = &set_,
                         .addresses = &*addresses_,
                         .groups = &groups_,
                         .host = &host_,
                         .ssd = &ssd_,
                         .accelerator = options_.accelerator,
                         .queues = lanes_->queues(),
                         .observer = options_.observer};
  for (int lane = 0; lane < kLaneCount; ++lane) {
    const bool compute = lane == static_cast<int>(LaneId::kCompute);
    const bool host = compute || lane == static_cast<int>(LaneId::kHost);
    context.environments[lane] = {.context = {.pool = compute ? options_.pool : pools_[lane].get()},
                                  .plans = &*plans_[lane],
                                  .host = host ? &host_ : nullptr,
                                  .vocabulary = vocabulary,
                                  .group_indices = groups_.indices()};
  }
  for (const program::Program& program : set_.programs) {
    // Expanded one after the other: large plans take hundreds of megabytes while they are bound.
    const program::ExpandedProgram expanded = program::Expand(set_, program);
    ASSIGN_OR_RETURN(BoundProgram bound, Bind(program, expanded, context));
    bound_.push_back(std::move(bound));
  }
  steps_done_.assign(bound_.size(), 0);
  return absl::OkStatus();
}

// Before ops are bound to them.
absl::Status Engine::Implementation::OpenQueues() {
  device::QueueDevice* queues = nullptr;
  if (options_.accelerator != nullptr) queues = &options_.accelerator->device();
  slots_.emplace(&set_, &*addresses_, &ssd_, queues);
  lanes_.emplace(device_, options_.communicator, queues);
  RETURN_IF_ERROR(lanes_->OpenQueues(queues != nullptr && options_.accelerator->communicates()));
  state_.SetQueues(lanes_->queues());
  if (queues != nullptr && (options_.progress != nullptr || options_.communicator != nullptr)) {
    watch_.emplace(&state_, &bound_, options_.accelerator, options_.progress);
  }
  return absl::OkStatus();
}

absl::Status Engine::Implementation::OpenStreams() {
  std::array<bool, program::kStreamCount> used{};
  int events = 0, end_times = 0;
  for (const BoundProgram& program : bound_) {
    for (int s = 0; s < program::kStreamCount; ++s) used[s] |= !program.streams[s].empty();
    events = std::max(events, program.events);
    end_times = std::max(end_times, program.end_times);
  }
  used[kCompute] = true;
  if (set_.arena(program::Tier::kSsd) > 0) {
    slots_->Declare();
    RETURN_IF_ERROR(ssd_.Open(used));
  }
  for (int e = 0; e < events; ++e) {
    ASSIGN_OR_RETURN(events_.emplace_back(), memory()->CreateEvent());
  }
  for (Ends& ends : ends_) {
    for (auto& end : ends) {
      ASSIGN_OR_RETURN(end, memory()->CreateEvent());
    }
  }
  ASSIGN_OR_RETURN(request_end_, device_->CreateEvent());
  runner_.Reserve(end_times);
  const memory::NodeScope near(host_node_);
  return lanes_->Open(used);
}

Engine::Implementation::~Implementation() {
  if (!lanes_.has_value() || current_ < 0) return;
  for (int s = 0; s < program::kStreamCount; ++s) {
    if (state_.ended(s) < state_.issued(s)) {
      state_.Fail(absl::CancelledError("the engine was destroyed"));
    }
  }
  // Lanes that wait for a device that has failed wait for ever.
  for (Ends& ends : ends_) {
    if (!AwaitEnds(ends).ok()) device_->Stop();
  }
}

absl::Status Engine::Implementation::RunStep(int index, int64_t applied) {
  if (index < 0 || index >= static_cast<int>(bound_.size()) || applied < 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("no step of program ", index, " with ", applied, " updates applied"));
  }
  if (state_.failed()) return state_.error();
  const double begin = index == current_ && went_on_since_ >= 0 ? went_on_since_ : state_.Now();
  metrics_ = {};
  RETURN_IF_ERROR(CheckCommunication());
  if (index != current_) RETURN_IF_ERROR(Switch(index));
  RETURN_IF_ERROR(Checked(AwaitEnds(ends_[step_ % 2])));  // at most two steps are under way
  runner_.BeginStep(step_, steps_done_[index], applied, state_.Now());
  queues_.BeginStep(step_, steps_done_[index] == 0);
  RETURN_IF_ERROR(Checked(IssueStep()));
  const Ends& ends = ends_[step_ % 2];
  if (!bound_[index].goes_on) RETURN_IF_ERROR(Checked(ends[kCompute]->Synchronize()));
  RETURN_IF_ERROR(Checked(ends[kHost]->Synchronize()));
  RETURN_IF_ERROR(CheckCommunication());  // before the step counts
  // Of a queue it is not known when it last computed.
  if (lanes_->queue(kCompute) == nullptr) runner_.CountTail(kHost);
  ++step_;
  ++steps_done_[index];
  metrics_.compute = runner_.compute();
  for (int p = 0; p < program::kPurposeCount; ++p) metrics_.exposed[p] += runner_.exposed()[p];
  for (int s = 0; s < program::kStreamCount; ++s) metrics_.stalled[s] += runner_.stalled()[s];
  state_.TakeBackground(metrics_);
  metrics_.total = state_.Now() - begin;
  went_on_since_ = bound_[index].goes_on ? begin + metrics_.total : -1;
  ssd_.EndStep(metrics_.total, metrics_.stalled[kSsdWrite] + metrics_.stalled[kUpdateWrite]);
  return state_.failed() ? state_.error() : absl::OkStatus();
}

absl::Status Engine::Implementation::Switch(int index) {
  if (current_ >= 0) RETURN_IF_ERROR(Drain());
  current_ = index;
  step_ = 0;
  state_.BeginRun(index);
  runner_.BeginRun(index, &bound_[index]);
  queues_.BeginRun(index, &bound_[index]);
  return absl::OkStatus();
}

absl::Status Engine::Implementation::IssueStep() {
  const int actions = static_cast<int>(bound_[current_].actions.size());
  absl::Status status;
  for (int a = 0; a < actions && status.ok() && !state_.failed(); ++a) status = Issue(a);
  if (!status.ok()) state_.Fail(status);  // what was issued passes
  for (int s = 0; s < program::kStreamCount; ++s) {
    if (uses(s)) status.Update(RecordEnd(s));
  }
  return status;
}

absl::Status Engine::Implementation::RecordEnd(int stream) {
  if (device::QueueStream* const queue = lanes_->queue(stream); queue != nullptr) {
    RETURN_IF_ERROR(queue->Count(state_.CountOf(stream)));
  }
  return lanes_->stream(stream).Record(*ends_[step_ % 2][stream]);
}

absl::Status Engine::Implementation::Issue(int index) {
  const BoundProgram& program = bound_[current_];
  const BoundAction& action = program.actions[index];
  device::Stream& stream = lanes_->stream(action.stream);
  for (const BoundDependency& dependency : program.DependenciesOf(action)) {
    RETURN_IF_ERROR(stream.Wait(*events_[program.actions[dependency.action].event]));
  }
  state_.NoteIssued(action.stream);
  if (device::QueueStream* const queue = lanes_->queue(action.stream); queue != nullptr) {
    RETURN_IF_ERROR(queues_.Issue(index, *queue));
  } else {
    const IssuedAction what{current_, index, runner_.variant(step_), step_};
    if (options_.observer != nullptr) options_.observer->Issue(what, stream);
    RETURN_IF_ERROR(IssueOnLane(index, stream));
    if (options_.observer != nullptr) options_.observer->Issued();
  }
  return action.event < 0 ? absl::OkStatus() : stream.Record(*events_[action.event]);
}

absl::Status Engine::Implementation::IssueOnLane(int index, device::Stream& stream) {
  const int64_t code = ActionRunner::Code(index, step_);
  const BoundWork work = runner_.WorkOf(code);
  if (work.kind == BoundWork::kOperation) {
    const int of = bound_[current_].actions[index].stream;
    return lanes_->polled(of).LaunchPolled(runner_.Communicate(code));
  }
  if (work.kind == BoundWork::kOp) return stream.Launch(runner_.RunOp(code));
  const BoundCopy& copy = bound_[current_].copies[work.index];
  RETURN_IF_ERROR(stream.Launch(runner_.BeginCopy(code)));
  RETURN_IF_ERROR(stream.Copy(copy.to, copy.from, copy.bytes));
  return stream.Launch(runner_.EndCopy(code));
}

absl::Status Engine::Implementation::Drain() {
  went_on_since_ = -1;
  if (current_ >= 0) {
    for (Ends& ends : ends_) RETURN_IF_ERROR(Checked(AwaitEnds(ends)));
  }
  RETURN_IF_ERROR(CheckCommunication());
  return state_.failed() ? state_.error() : absl::OkStatus();
}

absl::Status Engine::Implementation::AwaitEnds(Ends& ends) {
  for (int s = 0; s < program::kStreamCount; ++s) RETURN_IF_ERROR(AwaitEnd(ends, s));
  return absl::OkStatus();
}

absl::Status Engine::Implementation::AwaitEnd(Ends& ends, int stream) {
  if (!uses(stream)) return absl::OkStatus();
  ASSIGN_OR_RETURN(const bool reached, ends[stream]->Reached());
  if (reached) return absl::OkStatus();
  const double begin = state_.Now();
  RETURN_IF_ERROR(ends[stream]->Synchronize());
  const BoundProgram& program = bound_[current_];
  const int purpose = program.actions[program.streams[stream].back()].purpose;
  const double seconds = state_.Now() - begin;
  metrics_.exposed[purpose] += seconds;
  metrics_.stalled[stream] += seconds;
  return absl::OkStatus();
}

absl::Status Engine::Implementation::RunCollective(const collectives::Operation& operation) {
  if (options_.communicator == nullptr) {
    return absl::FailedPreconditionError("there is no communicator");
  }
  if (state_.failed()) return state_.error();
  CollectiveRequest request{options_.communicator, &state_, &operation, std::nullopt};
  device::CpuStream& stream = *lanes_->requests();
  RETURN_IF_ERROR(stream.LaunchPolled({&CollectiveRequest::Poll, &request, 0}));
  device::Event& end = *request_end_;
  RETURN_IF_ERROR(stream.Record(end));
  RETURN_IF_ERROR(end.Synchronize());
  return state_.failed() ? state_.error() : absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<Engine>> Engine::Create(program::ProgramSet programs,
                                                       const EngineOptions& options) {
  if (options.pool == nullptr || options.host == nullptr) {
    return absl::InvalidArgumentError("an engine needs a thread pool and host ops");
  }
  auto implementation = std::make_unique<Implementation>(std::move(programs), options);
  RETURN_IF_ERROR(implementation->Open());
  return std::unique_ptr<Engine>(new Engine(std::move(implementation)));
}

Engine::Engine(std::unique_ptr<Implementation> implementation)
    : implementation_(std::move(implementation)) {}
Engine::~Engine() = default;

absl::Status Engine::RunStep(int index, int64_t applied) {
  return implementation_->RunStep(index, applied);
}
absl::Status Engine::Drain() { return implementation_->Drain(); }
absl::Status Engine::RunCollective(const collectives::Operation& operation) {
  return implementation_->RunCollective(operation);
}
void Engine::Cancel(absl::Status status) { implementation_->Cancel(std::move(status)); }
double Engine::scalar(program::Scalar scalar) const { return implementation_->scalar(scalar); }
const StepMetrics& Engine::metrics() const { return implementation_->metrics(); }
absl::Span<std::byte> Engine::SlotBytes(int slot, int version, int64_t applied) const {
  return implementation_->addresses().Bytes(slot, version, applied);
}
SlotAccess& Engine::slots() { return implementation_->slots(); }
memory::SsdStore* Engine::ssd() const { return implementation_->ssd().store(); }
int64_t Engine::program_bytes() const { return implementation_->program_bytes(); }
const program::ProgramSet& Engine::programs() const { return implementation_->set(); }
int64_t Engine::arena_bytes(program::Tier tier) const {
  return implementation_->addresses().arena_bytes(tier);
}
const memory::PageReport& Engine::pages(program::Tier tier) const {
  return implementation_->addresses().pages(tier);
}
int Engine::actions(int index) const {
  return static_cast<int>(implementation_->bound(index).actions.size());
}
std::string Engine::Describe(int index, int action) const {
  return implementation_->Describe(index, action);
}
std::string Engine::DescribePosition() const { return implementation_->DescribePosition(); }

}  // namespace strata::worker
