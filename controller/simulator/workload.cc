#include "controller/simulator/workload.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "controller/simulator/failures.h"

namespace strata::simulator {
namespace {

constexpr int64_t kSequence = 8192;
constexpr int64_t kMostSearched = 10;  // tensor groups
constexpr double kSpread = 1.0;        // of the log of durations

// A Llama of about the size that so many cards train.
void SetModel(int64_t ranks, v1::ModelSpec& model) {
  struct Size {
    int64_t ranks, layers, hidden, heads, ffn;
  };
  constexpr Size kSizes[] = {{64, 32, 4096, 32, 14336}, {512, 80, 8192, 64, 28672}};
  Size size = {0, 128, 16384, 128, 53248};
  for (const Size& smaller : kSizes) {
    if (ranks > smaller.ranks) continue;
    size = smaller;
    break;
  }
  model.set_family(v1::ModelSpec::FAMILY_LLAMA);
  model.set_layers(size.layers);
  model.set_hidden(size.hidden);
  model.set_heads(size.heads);
  model.set_kv_heads(8);
  model.set_head_size(size.hidden / size.heads);
  model.set_ffn(size.ffn);
  model.set_vocab(128256);
  model.set_context(kSequence);
}

// Whole tensor groups, in pipelines where a model of that size needs them.
void SetDegrees(int nodes, int devices, int64_t tensor, SimJob& job) {
  const int64_t cells = int64_t{nodes} * devices / tensor;
  job.tensor = tensor;
  job.pipeline = 1;
  while (job.pipeline < 16 && job.pipeline * 16 <= nodes && cells % (job.pipeline * 2) == 0) {
    job.pipeline *= 2;
  }
  job.data = cells / job.pipeline;
}

// One in three jobs whose data degree allows it gets context groups of two, one in three shard
// groups.
void DrawMesh(common::Random& random, SimJob& job) {
  constexpr double kShare = 1.0 / 3;
  if (random.Chance(kShare) && job.data % 2 == 0) {
    job.context = 2;
    job.data /= 2;
  }
  if (random.Chance(kShare) && job.data % 2 == 0 && job.data > 2) {
    job.shard_group = random.Chance(0.5) ? 2 : job.data / 2;
  }
}

int64_t DrawTensor(const Mix& mix, int nodes, common::Random& random) {
  const int64_t ranks = int64_t{nodes} * mix.devices;
  const auto allowed = [&](int64_t tensor) {
    const int64_t cells = ranks / tensor;
    return ranks % tensor == 0 && (mix.searched || cells == 1 || cells > kMostSearched);
  };
  std::vector<int64_t> degrees;
  for (int64_t tensor = mix.devices; tensor <= mix.most_tensor; tensor *= 2) {
    if (allowed(tensor)) degrees.push_back(tensor);
  }
  if (degrees.empty()) return mix.devices;
  return degrees[random.Below(static_cast<int64_t>(degrees.size()))];
}

}  // namespace

int64_t SimJob::save_every() const {
  return std::max<int64_t>(1, std::llround(checkpoint_interval / seconds_per_step));
}

v1::CreateJobRequest RequestOf(const SimJob& job) {
  v1::CreateJobRequest request;
  v1::Job& asked = *request.mutable_job();
  asked.set_name(absl::StrCat("jobs/", job.name));
  asked.set_directory(absl::StrCat("/simulated/", job.name));
  v1::JobSpec& spec = *asked.mutable_spec();
  spec.set_name(job.name);
  spec.set_project(job.project);
  SetModel(job.ranks(), *spec.mutable_model());
  spec.mutable_data()->add_train()->set_path("/simulated/tokens.bin");
  v1::TrainSpec& train = *spec.mutable_train();
  train.set_steps(job.steps);
  train.set_sequence(kSequence);
  train.set_global_batch(job.data * 4);
  train.set_micro_batch(1);
  train.set_precision(v1::TrainSpec::PRECISION_BF16);
  v1::ParallelSpec& parallel = *spec.mutable_parallel();
  parallel.set_tensor(job.tensor);
  parallel.set_context(job.context);
  parallel.set_pipeline(job.pipeline);
  parallel.set_data(job.data);
  parallel.set_shard(v1::ParallelSpec::SHARD_ZERO1);
  if (job.shard_group > 0) parallel.set_shard_group(job.shard_group);
  parallel.set_virtual_shards(job.data);
  v1::ResourcesSpec& resources = *spec.mutable_resources();
  resources.set_device(job.device);
  resources.set_ranks(job.ranks());
  resources.set_priority(job.priority);
  resources.set_queue(job.queue);
  resources.set_spares(job.spares);
  spec.mutable_checkpoint()->set_every_steps(job.save_every());
  // Machines break more often here than the budget for jobs that cannot run is meant for.
  spec.mutable_restart()->set_max_without_progress(1'000'000);
  request.set_request_id(job.name);
  return request;
}

std::vector<SimJob> RandomJobs(const Mix& mix, common::Random& random) {
  std::vector<int> sizes = mix.sizes;
  if (sizes.empty()) {
    for (int nodes = 1; nodes <= std::max(1, mix.nodes / 4); nodes *= 2) sizes.push_back(nodes);
  }
  double weights = 0, mean_nodes = 0;
  for (size_t i = 0; i < sizes.size(); ++i) {
    weights += std::pow(0.5, static_cast<double>(i));
    mean_nodes += std::pow(0.5, static_cast<double>(i)) * sizes[i];
  }
  mean_nodes /= weights;
  const double gap = mean_nodes * mix.mean_hours * 3600 / (mix.load * mix.nodes);
  std::vector<SimJob> jobs;
  for (double at = random.Exponential(gap); at < mix.days * kDaySeconds;
       at += random.Exponential(gap)) {
    SimJob& job = jobs.emplace_back();
    job.name = absl::StrCat("job-", jobs.size());
    job.submit_seconds = at;
    job.device = mix.device;
    double drawn = random.Uniform() * weights;
    size_t size = 0;
    while (size + 1 < sizes.size() && drawn >= std::pow(0.5, static_cast<double>(size))) {
      drawn -= std::pow(0.5, static_cast<double>(size++));
    }
    SetDegrees(sizes[size], mix.devices, DrawTensor(mix, sizes[size], random), job);
    // Mean of a log-normal: e^{μ + σ²/2}. Box–Muller on two uniforms.
    const double normal = std::sqrt(-2 * std::log(1 - random.Uniform())) *
                          std::cos(2 * std::acos(-1.0) * random.Uniform());
    const double hours = mix.mean_hours * std::exp(kSpread * normal - kSpread * kSpread / 2);
    job.seconds_per_step = std::round(random.Between(2, 20));
    job.steps = std::max<int64_t>(1, std::llround(hours * 3600 / job.seconds_per_step));
    job.checkpoint_interval = mix.checkpoint_interval;
    job.checkpoint_stall = mix.checkpoint_stall;
    const double importance = random.Uniform();
    job.priority = importance < 0.7 ? 0 : importance < 0.9 ? 1 : 2;
    if (random.Chance(mix.cancel_probability))
      job.cancel_seconds = random.Exponential(hours * 3600);
    if (mix.meshes) DrawMesh(random, job);
  }
  return jobs;
}

SimJob BigJob(int nodes, int devices, double days, double checkpoint_interval,
              double checkpoint_stall) {
  SimJob job;
  job.name = "big";
  SetDegrees(nodes, devices, devices, job);
  job.seconds_per_step = 10;
  job.steps = std::llround(days * kDaySeconds / job.seconds_per_step) + 1;
  job.checkpoint_interval = checkpoint_interval;
  job.checkpoint_stall = checkpoint_stall;
  return job;
}

}  // namespace strata::simulator
