#include "controller/simulator/invariants.h"

#include <algorithm>
#include <map>

#include "absl/strings/str_cat.h"
#include "common/check.h"
#include "controller/simulator/world.h"

namespace strata::simulator {
namespace {

// A controller that was away could commit nothing: what was lost then is not its fault.
constexpr double kAfterItsStart = 60;

// How a record's ranks are numbered.
class Coordinates {
 public:
  explicit Coordinates(const v1::JobRecord& record) {
    const v1::ParallelSpec& parallel = record.spec().parallel();
    const int64_t data = record.layout().data() > 0 ? record.layout().data() : parallel.data();
    // A group over all data ranks shrinks with them.
    const bool all = !parallel.has_shard_group() || parallel.shard_group() == parallel.data();
    const int64_t group = all ? data : parallel.shard_group();
    degrees_ = {{"tensor", parallel.tensor()},
                {"context", parallel.context()},
                {"pipeline", parallel.pipeline()},
                {"data", group},
                {"replicate", data / group}};
    for (const std::string& dimension : record.layout().order()) Add(dimension);
    for (const char* dimension : {"tensor", "context", "pipeline", "data", "replicate"}) {
      Add(dimension);
    }
  }
  int64_t ranks() const { return next_stride_; }
  // Of the group that the rank is in along `dimension`: its first rank.
  int64_t GroupOf(int64_t rank, const std::string& dimension) const {
    const auto& [stride, degree] = strides_.at(dimension);
    return rank - rank / stride % degree * stride;
  }

 private:
  void Add(const std::string& dimension) {
    if (strides_.contains(dimension)) return;
    const auto degree = degrees_.find(dimension);
    const int64_t size = degree == degrees_.end() ? 1 : std::max<int64_t>(1, degree->second);
    strides_[dimension] = {next_stride_, size};
    next_stride_ *= size;
  }

  std::map<std::string, int64_t> degrees_;
  std::map<std::string, std::pair<int64_t, int64_t>> strides_;  // dimension -> stride, degree
  int64_t next_stride_ = 1;
};

std::string Told(const v1::JobEpoch& epoch) {
  return absl::StrCat("epoch ", epoch.epoch(), " of ", epoch.job());
}

}  // namespace

void Invariants::Violate(const std::string& what) {
  if (!violation_.empty()) return;
  violation_ = what;
  violation_event_ = world_.events.done();
}

void Invariants::OnFleet(const std::vector<SimNode>& nodes) {
  absl::StatusOr<topology::Cluster> cluster = topology::Cluster::Make(world_.options.cluster);
  STRATA_CHECK(cluster.ok());  // the caller has made sure
  cluster_ = *std::move(cluster);
  for (const SimNode& node : nodes) {
    in_cluster_.push_back(cluster_.FindNode(node.name));
    users_.emplace_back(node.devices, 0);
  }
}

void Invariants::OnControllerStart() { controller_started_at_ = world_.events.Now(); }

void Invariants::OnChanged(const JobRun& job, const v1::JobRecord& record) {
  if (record.epoch() == job.tally.epoch || record.placement_size() == 0) return;
  // Ranks that stay where they were when others had to move may leave pipelines split.
  CheckRanks(record, /*anew=*/job.tally.state != v1::Job::RECOVERING);
}

// Tensor groups inside their domain; no more pipelines split than the devices at hand force.
void Invariants::CheckRanks(const v1::JobRecord& record, bool anew) {
  const Coordinates coordinates(record);
  const std::string epoch = absl::StrCat("epoch ", record.epoch(), " of ", record.name());
  if (coordinates.ranks() != record.placement_size()) {
    return Violate(absl::StrCat(epoch, " has places for ", record.placement_size(), " of ",
                                coordinates.ranks(), " ranks"));
  }
  std::set<std::pair<int, int>> devices;
  std::map<int64_t, int> domain_of;           // tensor group -> domain
  std::map<int64_t, std::set<int>> zones_of;  // pipeline -> groups of the pipeline level
  std::map<int, int64_t> ranks_in;            // zone -> ranks
  for (int64_t rank = 0; rank < record.placement_size(); ++rank) {
    const v1::RankPlace& place = record.placement(static_cast<int>(rank));
    const int node = cluster_.FindNode(place.node().substr(place.node().find('/') + 1));
    if (place.rank() != rank || node < 0 || place.device() < 0 ||
        place.device() >= cluster_.nodes()[node].devices) {
      return Violate(absl::StrCat(epoch, ": rank ", rank, " has no place"));
    }
    if (!devices.insert({node, place.device()}).second) {
      return Violate(
          absl::StrCat(epoch, ": two ranks on device ", place.device(), " of ", place.node()));
    }
    const int domain = cluster_.GroupOf(node, cluster_.domain_depth());
    const int zone = cluster_.GroupOf(node, cluster_.pipeline_depth());
    const int64_t group = coordinates.GroupOf(rank, "tensor");
    if (domain_of.try_emplace(group, domain).first->second != domain) {
      return Violate(
          absl::StrCat(epoch, ": the tensor group of rank ", rank, " lies in two domains"));
    }
    zones_of[coordinates.GroupOf(rank, "pipeline")].insert(zone);
    ++ranks_in[zone];
  }
  if (!anew) return;
  const v1::ParallelSpec& parallel = record.spec().parallel();
  const int64_t of_a_cell = std::max<int64_t>(1, parallel.tensor());
  const int64_t cells = std::max<int64_t>(1, parallel.pipeline());
  int64_t whole = 0;
  for (const auto& [zone, ranks] : ranks_in) whole += ranks / of_a_cell / cells * of_a_cell;
  const auto pipelines = static_cast<int64_t>(zones_of.size());
  const auto split = std::count_if(zones_of.begin(), zones_of.end(),
                                   [](const auto& entry) { return entry.second.size() > 1; });
  if (split > std::max<int64_t>(0, pipelines - whole)) {
    Violate(absl::StrCat(epoch, ": ", split, " of ", pipelines,
                         " pipelines lie across zones, though its devices have room for ", whole,
                         " whole ones"));
  }
}

void Invariants::OnEpoch(const EpochRun& run) {
  const JobRun& job = *run.job;
  if (run.begin_step < job.committed) {
    return Violate(absl::StrCat(Told(run.epoch), " begins with step ", run.begin_step,
                                ", although step ", job.committed, " was committed"));
  }
  const int64_t lost = job.broken_at_step - run.begin_step;
  const double since_start = world_.events.Now() - controller_started_at_;
  const SimJob& asked = job.job;
  const bool excused = world_.options.controller_ends_per_day > 0 &&
                       since_start < kAfterItsStart + 2 * (static_cast<double>(asked.save_every()) *
                                                               asked.seconds_per_step +
                                                           asked.checkpoint_stall);
  // One more: the step in which a commit was on its way.
  if (lost > asked.save_every() + 1 && !excused) {
    Violate(absl::StrCat(Told(run.epoch), " begins ", lost, " steps back, and there is one of ",
                         "these checkpoints every ", asked.save_every(), " steps"));
  }
}

void Invariants::OnSpawn(int node, const Part& part, const EpochRun& run) {
  for (const int device : part.devices) {
    if (device < 0 || device >= static_cast<int>(users_[node].size())) {
      return Violate(absl::StrCat(Told(run.epoch), " is given device ", device, " of ",
                                  world_.fleet.nodes()[node].name, ", which is none"));
    }
    int64_t& user = users_[node][device];
    if (user != 0) {
      return Violate(absl::StrCat(Told(run.epoch), " is given device ", device, " of ",
                                  world_.fleet.nodes()[node].name,
                                  ", which another epoch's rank still uses"));
    }
    user = run.number;
    world_.statistics.OnHeld(1);
  }
}

void Invariants::OnFree(int node, int device, const EpochRun& run) {
  int64_t& user = users_[node][device];
  if (user != run.number) return;
  user = 0;
  world_.statistics.OnHeld(-1);
}

void Invariants::OnTraining(const EpochRun& run) {
  if (run.live == run.ranks && run.epoch.epoch() == run.job->epoch) return;
  Violate(absl::StrCat(Told(run.epoch), " trains with ", run.live, " of ", run.ranks,
                       " ranks; the newest epoch is ", run.job->epoch));
}

void Invariants::OnCommitted(const EpochRun& run, int64_t step) {
  if (run.epoch.epoch() != run.job->epoch) {
    return Violate(absl::StrCat("step ", step, " of ", Told(run.epoch),
                                " was committed, and that epoch is over: the newest is ",
                                run.job->epoch));
  }
  if (step > run.written) {
    Violate(absl::StrCat("step ", step, " of ", Told(run.epoch),
                         " was committed; its ranks have written none after step ", run.written));
  }
}

void Invariants::CheckAll() {
  ++full_checks_;
  if (!world_.host.up()) return;
  CheckRecords();
  CheckMemory();
  CheckOrphans();
}

// What a node holds is known as it told it, also of one that was not heard since the controller was
// started again. One node at a time: asking for it costs.
void Invariants::CheckMemory() {
  const std::vector<SimNode>& nodes = world_.fleet.nodes();
  if (nodes.empty()) return;
  const SimNode& node = nodes[static_cast<size_t>(full_checks_) % nodes.size()];
  const auto known = world_.host.core()->FindNode("nodes/" + node.name);
  if (!known.has_value() || known->host_memory_bytes() == node.host_memory_bytes) return;
  Violate(absl::StrCat(node.name, " holds ", node.host_memory_bytes, " B, and the controller has ",
                       known->host_memory_bytes()));
}

// No device in two jobs; as many places as ranks, or none.
void Invariants::CheckRecords() {
  std::map<std::pair<std::string, int>, std::string> held;
  for (const v1::JobRecord* job : world_.host.core()->Jobs()) {
    if (job->state() != v1::Job::STARTING && job->state() != v1::Job::RUNNING) continue;
    if (job->placement_size() == 0) Violate(job->name() + " runs nowhere");
    for (const v1::RankPlace& place : job->placement()) {
      const auto [other, added] = held.try_emplace({place.node(), place.device()}, job->name());
      if (added) continue;
      Violate(absl::StrCat("device ", place.device(), " of ", place.node(), " belongs to ",
                           other->second, " and ", job->name()));
    }
  }
}

// Trainers of an epoch that is over may live until they have been told, not until the next check.
void Invariants::CheckOrphans() {
  std::set<std::pair<int64_t, int>> stale;
  for (const SimNode& node : world_.fleet.nodes()) {
    if (!world_.fleet.Hears(node)) continue;
    for (const Part& part : node.parts) {
      const v1::JobEpoch& epoch = part.run->epoch;
      const v1::JobRecord* job = world_.host.core()->FindJob(epoch.job());
      const bool current = job != nullptr && job->epoch() == epoch.epoch() &&
                           (job->state() == v1::Job::STARTING || job->state() == v1::Job::RUNNING);
      if (current) continue;
      stale.insert({part.run->number, node.index});
      if (!stale_.contains({part.run->number, node.index})) continue;
      Violate(absl::StrCat("trainers of ", Told(epoch), " live on ", node.name,
                           " although that is over since long"));
    }
  }
  stale_ = std::move(stale);
}

}  // namespace strata::simulator
