// Whether the first job of the queue waits although it would fit.
#include <algorithm>

#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "controller/simulator/invariants.h"
#include "controller/simulator/world.h"
#include "scheduler/placement/placement.h"
#include "scheduler/queue/queue.h"

namespace strata::simulator {
namespace {

// Longer than anything that may be in between: a lease, a victim's last checkpoint, a restart.
constexpr double kMostSeconds = 900;

// What recovers comes before the queue and may have a reservation there.
const v1::JobRecord* FirstOf(const std::vector<const v1::JobRecord*>& jobs) {
  const v1::JobRecord* first = nullptr;
  for (const v1::JobRecord* job : jobs) {
    if (job->state() != v1::Job::QUEUED && job->state() != v1::Job::RECOVERING) continue;
    const auto before = [](const v1::JobRecord& a, const v1::JobRecord& b) {
      if (a.state() != b.state()) return a.state() == v1::Job::RECOVERING;
      const int64_t of_a = a.spec().resources().priority(), of_b = b.spec().resources().priority();
      return of_a != of_b ? of_a > of_b : a.created_version() < b.created_version();
    };
    if (first == nullptr || before(*job, *first)) first = job;
  }
  return first;
}

}  // namespace

// Free is what nobody uses and the controller has promised to nobody, on nodes that really are
// there; so a node that it has lost sight of counts.
void Invariants::CheckStarvation() {
  if (!world_.host.up()) return;
  const controller::Core& core = *world_.host.core();
  const std::vector<const v1::JobRecord*> jobs = core.Jobs();
  const v1::JobRecord* first = FirstOf(jobs);
  if (first == nullptr) {
    starving_.clear();
    return;
  }
  scheduler::Occupancy free = {std::vector<uint64_t>(cluster_.nodes().size(), 0)};
  for (const SimNode& node : world_.fleet.nodes()) {
    if (!node.alive || !node.reachable) continue;
    for (int device = 0; device < node.devices; ++device) {
      if (users_[node.index][device] == 0) {
        free.free[in_cluster_[node.index]] |= uint64_t{1} << device;
      }
    }
  }
  for (const v1::Node& node : core.Nodes()) {
    const int index = cluster_.FindNode(node.name().substr(node.name().find('/') + 1));
    if (index >= 0 && (node.drained() || node.quarantined())) free.free[index] = 0;
  }
  for (const v1::JobRecord* job : jobs) {  // what is under way, and what is kept
    for (const v1::RankPlace& place : job->placement()) {
      if (job == first ||
          (job->state() != v1::Job::STARTING && job->state() != v1::Job::RECOVERING))
        break;
      const int index = cluster_.FindNode(place.node().substr(place.node().find('/') + 1));
      free.free[index] &= ~(uint64_t{1} << place.device());
    }
  }
  const v1::BufferPolicy& buffer = core.policy().scheduling().buffer();
  if (core.policy().scheduling().has_buffer() && first->state() == v1::Job::QUEUED) {
    free = scheduler::WithoutBuffer(cluster_, {buffer.level(), buffer.nodes(), buffer.fraction()},
                                    free);
  }
  scheduler::Shape shape;
  const absl::StatusOr<planner::Degrees> degrees = planner::DegreesOf(first->spec().parallel());
  if (!degrees.ok()) return;
  shape.degrees = *degrees;
  shape.device = first->spec().resources().device();
  const bool fits = scheduler::Place(cluster_, free, shape).has_value();
  if (!fits || starving_ != first->name()) {
    starving_ = fits ? first->name() : "";
    starving_since_ = world_.events.Now();
    return;
  }
  const double seconds = world_.events.Now() - starving_since_;
  if (seconds <= kMostSeconds) return;
  const absl::StatusOr<v1::ExplainJobResponse> why = core.ExplainJob(first->name());
  Violate(absl::StrFormat("%s is the first of the queue and would fit, but waits since %.0f s: %s",
                          first->name(), seconds,
                          why.ok() ? absl::StrJoin(why->lines(), " ") : first->reason()));
}

}  // namespace strata::simulator
