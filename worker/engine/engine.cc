#include "worker/engine/engine.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "device/cpu_device.h"
#include "program/passes/expand.h"
#include "worker/engine/address_map.h"
#include "worker/engine/background_streams.h"
#include "worker/engine/bound_program.h"
#include "worker/engine/communication_binding.h"
#include "worker/engine/run_state.h"

namespace strata::worker {
namespace {

using program::Action;
using program::OpKind;

// The clock of whoever gives none.
const common::Clock* DefaultClock() {
  static const common::MonotonicClock clock;
  return &clock;
}

// The smallest table that tokens index, over all programs; 0: none.
int64_t Vocabulary(const std::vector<program::ExpandedProgram>& programs) {
  int64_t vocabulary = 0;
  for (const program::ExpandedProgram& expanded : programs) {
    for (const Action& action : expanded.actions) {
      if (action.op == nullptr || action.op->kind != OpKind::kEmbeddingForward) continue;
      if (action.op->ints.size() < 2) continue;
      const int64_t rows = action.op->ints[1];
      vocabulary = vocabulary == 0 ? rows : std::min(vocabulary, rows);
    }
  }
  return vocabulary;
}

}  // namespace

class Engine::Implementation {
 public:
  Implementation(program::ProgramSet set, const EngineOptions& options)
      : set_(std::move(set)),
        options_(options),
        plans_(options.pool->threads()),
        state_(options.clock == nullptr ? DefaultClock() : options.clock, options.communicator,
               options.progress, options.trace) {}

  absl::Status Open();

  absl::Status RunStep(int index, int64_t applied);
  absl::Status Drain();
  absl::Status RunCollective(const collectives::Operation& operation) {
    return background_->RunCollective(operation);
  }
  void Cancel(absl::Status status) { state_.Fail(std::move(status)); }

  double scalar(program::Scalar scalar) const {
    const absl::Span<std::byte> block = addresses_->Bytes(set_.scalars, 0, 0);
    return reinterpret_cast<const double*>(block.data())[static_cast<int>(scalar)];
  }
  const StepMetrics& metrics() const { return metrics_; }
  const AddressMap& addresses() const { return *addresses_; }
  const program::ProgramSet& set() const { return set_; }
  const BoundProgram& bound(int index) const { return bound_[index]; }
  std::string Describe(int index, int action) const {
    return bound_[index].expanded.Describe(set_.programs[index], action);
  }
  std::string DescribePosition() const;

 private:
  absl::Status MakePlans(const std::vector<program::ExpandedProgram>& programs);
  // Prepares for a step of another program than the last.
  absl::Status Switch(int index);
  absl::Status Execute(const BoundAction& action, int64_t variant);
  // Waits for what the progress thread does, and counts the time as exposed.
  absl::Status Await(const BoundDependency& dependency, int64_t step);
  // Waits until every background stream has ended the run's first `steps` steps.
  absl::Status AwaitSteps(int64_t steps);
  std::string DescribeStream(int stream, const Position& position, int index) const;

  program::ProgramSet set_;  // actions point into it
  EngineOptions options_;
  MatmulPlans plans_;
  MatmulPlans background_plans_{1};
  std::optional<device::ThreadPool> background_pool_;
  GroupTable groups_;
  device::CpuDevice device_;
  std::optional<AddressMap> addresses_;
  std::vector<BoundProgram> bound_;
  RunState state_;

  int current_ = -1;                 // program of the run
  int64_t step_ = 0;                 // the run's next
  std::vector<int64_t> steps_done_;  // per program, of all its runs
  StepMetrics metrics_;

  std::optional<BackgroundStreams> background_;  // last: its thread uses the rest
};

absl::Status Engine::Implementation::Open() {
  std::vector<program::ExpandedProgram> expanded;
  for (const program::Program& program : set_.programs) {
    if (program.placements.size() != program.slots.size()) {
      return absl::InvalidArgumentError("the program set has not been laid out");
    }
    expanded.push_back(program::Expand(set_, program));
  }
  if (set_.scalars < 0 || set_.scalars >= static_cast<int>(set_.slots.size()) ||
      set_.slots[set_.scalars].bytes < program::kScalarBytes) {
    return absl::InvalidArgumentError("the program set has no scalar block");
  }
  ASSIGN_OR_RETURN(groups_, GroupTable::Create(options_.groups, options_.communicator));
  RETURN_IF_ERROR(MakePlans(expanded));
  background_pool_.emplace(1);
  if (options_.before_arenas) options_.before_arenas();
  ASSIGN_OR_RETURN(addresses_, AddressMap::Create(set_, &device_));
  RETURN_IF_ERROR(addresses_->Commit());

  const int64_t vocabulary = Vocabulary(expanded);
  const BindingContext context{.set = &set_,
                               .addresses = &*addresses_,
                               .groups = &groups_,
                               .main = {.context = {.pool = options_.pool},
                                        .plans = &plans_,
                                        .host = options_.host,
                                        .vocabulary = vocabulary},
                               .background = {.context = {.pool = &*background_pool_},
                                              .plans = &background_plans_,
                                              .vocabulary = vocabulary},
                               .host = options_.host};
  for (size_t p = 0; p < expanded.size(); ++p) {
    ASSIGN_OR_RETURN(BoundProgram bound, Bind(set_.programs[p], std::move(expanded[p]), context));
    bound_.push_back(std::move(bound));
  }
  steps_done_.assign(bound_.size(), 0);
  background_.emplace(&state_, options_.communicator,
                      [this](int index, int action) { return Describe(index, action); });
  return absl::OkStatus();
}

// Before the arenas exist, so that what plans take counts as the process's overhead.
absl::Status Engine::Implementation::MakePlans(
    const std::vector<program::ExpandedProgram>& programs) {
  for (size_t p = 0; p < programs.size(); ++p) {
    for (const Action& action : programs[p].actions) {
      if (action.op == nullptr || action.op->kind != OpKind::kMatMul) continue;
      MatmulPlans& plans = IsMainStream(action.stream) ? plans_ : background_plans_;
      const absl::StatusOr<kernels::MatmulShape> shape = MatmulShapeOf(*action.op);
      absl::Status status = shape.status();
      if (status.ok()) status = plans.Get(*shape).status();
      if (!status.ok()) {
        const int index = static_cast<int>(&action - programs[p].actions.data());
        return absl::Status(
            status.code(),
            absl::StrCat(programs[p].Describe(set_.programs[p], index), ": ", status.message()));
      }
    }
  }
  return absl::OkStatus();
}

absl::Status Engine::Implementation::RunStep(int index, int64_t applied) {
  if (index < 0 || index >= static_cast<int>(bound_.size()) || applied < 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("no step of program ", index, " with ", applied, " updates applied"));
  }
  if (state_.failed()) return state_.error();
  const double begin = state_.Now();
  metrics_ = {};
  if (index != current_) RETURN_IF_ERROR(Switch(index));
  RETURN_IF_ERROR(AwaitSteps(step_ - 1));  // at most two steps are under way
  const BoundProgram& program = bound_[index];
  const int64_t variant = applied % program.variants;
  state_.Submit(variant);
  for (const BoundAction& action : program.main) RETURN_IF_ERROR(Execute(action, variant));
  for (const program::Stream stream : {program::Stream::kCompute, program::Stream::kHost}) {
    state_.Rest(static_cast<int>(stream));
  }
  ++step_;
  ++steps_done_[index];
  metrics_.background = state_.TakeBackgroundTimes();
  metrics_.total = state_.Now() - begin;
  return state_.failed() ? state_.error() : absl::OkStatus();
}

absl::Status Engine::Implementation::Switch(int index) {
  RETURN_IF_ERROR(AwaitSteps(step_));
  current_ = index;
  step_ = 0;
  state_.BeginRun(index, &bound_[index], steps_done_[index]);
  return absl::OkStatus();
}

absl::Status Engine::Implementation::Drain() {
  RETURN_IF_ERROR(AwaitSteps(step_));
  return state_.failed() ? state_.error() : absl::OkStatus();
}

absl::Status Engine::Implementation::AwaitSteps(int64_t steps) {
  if (current_ < 0 || steps <= 0) return absl::OkStatus();
  for (const std::vector<BoundAction>& queue : bound_[current_].background) {
    if (queue.empty()) continue;
    const BoundAction& last = queue.back();
    RETURN_IF_ERROR(
        Await({.stream = last.stream, .place = last.place, .action = last.action}, steps - 1));
  }
  return absl::OkStatus();
}

absl::Status Engine::Implementation::Await(const BoundDependency& dependency, int64_t step) {
  const BoundProgram& program = bound_[current_];
  if (state_.Met(program, dependency, step)) return absl::OkStatus();
  const double begin = state_.Now();
  const absl::Status status =
      state_.WaitOnMain([&] { return state_.Met(program, dependency, step); });
  const int instruction = program.expanded.actions[dependency.action].instruction;
  const program::Purpose purpose = set_.programs[current_].instructions[instruction].purpose;
  metrics_.exposed[static_cast<int>(purpose)] += state_.Now() - begin;
  return status;
}

absl::Status Engine::Implementation::Execute(const BoundAction& action, int64_t variant) {
  const BoundProgram& program = bound_[current_];
  for (const BoundDependency& dependency : action.dependencies) {
    if (state_.Met(program, dependency, step_)) continue;
    state_.Hold(action);
    RETURN_IF_ERROR(Await(dependency, step_));
  }
  if (state_.failed()) return state_.error();
  if (action.takes_place()) {
    const double begin = state_.Begin(action, current_);
    if (absl::Status status = action.variants[variant].run(); !status.ok()) {
      status = absl::Status(
          status.code(), absl::StrCat(Describe(current_, action.action), ": ", status.message()));
      state_.Fail(std::move(status));
      return state_.error();
    }
    metrics_.compute[static_cast<int>(action.purpose)] +=
        state_.Finish(action, current_, steps_done_[current_], begin);
  }
  state_.End(action.stream);
  if (action.wakes_background) state_.WakeBackground();
  return absl::OkStatus();
}

std::string Engine::Implementation::DescribePosition() const {
  const int index = state_.active_program();
  std::string text;
  for (int s = 0; index >= 0 && s < program::kStreamCount; ++s) {
    const Position position = state_.position(s);
    const int actions = static_cast<int>(bound_[index].expanded.actions.size());
    if (position.stage == Stage::kIdle || position.action >= actions) continue;
    if (!text.empty()) text += "; ";
    text += DescribeStream(s, position, index);
  }
  const int rank = options_.communicator == nullptr ? 0 : options_.communicator->rank();
  return text.empty() ? absl::StrCat("rank ", rank, " is between steps") : text;
}

std::string Engine::Implementation::DescribeStream(int stream, const Position& position,
                                                   int index) const {
  const BoundProgram& program = bound_[index];
  const Action& action = program.expanded.actions[position.action];
  const int rank = options_.communicator == nullptr ? 0 : options_.communicator->rank();
  const std::string where = Describe(index, position.action);
  if (position.stage == Stage::kRunning) {
    return action.is_communication() ? absl::StrCat("rank ", rank, " waits at ", where,
                                                    " in group ", Name(action.communication.group))
                                     : absl::StrCat("rank ", rank, " runs ", where);
  }
  const int64_t step = state_.ended(stream) / std::max<int64_t>(1, program.lengths[stream]);
  const auto& queue = IsMainStream(action.stream) ? program.main : program.background[stream];
  for (const BoundAction& bound : queue) {
    if (bound.action != position.action) continue;
    for (const BoundDependency& dependency : bound.dependencies) {
      if (state_.Met(program, dependency, step)) continue;
      return absl::StrCat("rank ", rank, " holds ", where, " back until ",
                          Describe(index, dependency.action), " has ended");
    }
  }
  return absl::StrCat("rank ", rank, " is about to begin ", where);
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
const program::ProgramSet& Engine::programs() const { return implementation_->set(); }
int64_t Engine::arena_bytes(program::Tier tier) const {
  return implementation_->addresses().arena_bytes(tier);
}
int Engine::actions(int index) const {
  return static_cast<int>(implementation_->bound(index).expanded.actions.size());
}
std::string Engine::Describe(int index, int action) const {
  return implementation_->Describe(index, action);
}
std::string Engine::DescribePosition() const { return implementation_->DescribePosition(); }

}  // namespace strata::worker
