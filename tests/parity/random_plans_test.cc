// Any legal plan of any small model trains like one rank: random layouts over tensor, context,
// pipeline (schedule, uneven stages, passes in flight), data, shard level, hybrid groups, homes of
// every class of bytes, streaming, update policies, recompute and orders, with several documents in
// a sequence or one, and random models of odd sizes, run on loopback ranks, gradients compared
// tensor by tensor with f64. Layouts that break rules are drawn on the way: the composer refuses
// exactly those, and composes what is suggested instead. And no bit of a longer run depends on the
// memory that bytes live in, in any layout.
//
//   random_plans_test [--first=SEED] [--plans=N] [--long-plans=N] [--long-steps=N]
//   (from 1: 300 plans, 20 longer runs of 12 steps)
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <iostream>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "collectives/loopback.h"
#include "common/rng.h"
#include "common/status_macros.h"
#include "device/thread_pool.h"
#include "gtest/gtest.h"
#include "memory/ssd/block_buffer.h"
#include "model/families/families.h"
#include "model/initialize.h"
#include "model/optimizer/adamw.h"
#include "model/rope_table.h"
#include "model/saved_values.h"
#include "program/compose/check_plan.h"
#include "program/compose/composer.h"
#include "program/ir/mesh.h"
#include "program/readers/verify.h"
#include "tests/parity/model_reference.h"
#include "tests/parity/random_job.h"
#include "worker/engine/communication_binding.h"
#include "worker/engine/engine.h"

namespace strata {
namespace {

using program::PlanShape;
using program::Scalar;
using testing::DrawJob;
using testing::Job;
using testing::LaidOut;

int64_t plans = 300, first_seed = 1, last_seed = 0;
int64_t long_plans = 20, long_steps = 12;

// In jobs in which some overflow, counted from 1.
bool Overflows(const Job& job, int64_t step) { return job.overflows && step % 16 == 2; }

// The same model and batch on one rank, with the same leaves.
Job OneRank(Job job) {
  const int64_t leaves = job.plan.virtual_shards;
  const program::Plan before = job.plan;
  job.plan = {};
  job.plan.virtual_shards = std::max<int64_t>(leaves, 1);
  job.plan.global_batch = before.global_batch;
  job.plan.evaluate_batch = before.evaluate_batch;
  job.plan.gradient_clip = before.gradient_clip;  // by the same policy where steps clip
  job.plan.scratch = worker::CollectiveScratchBytes;
  job.emit.tensor_degree = job.emit.context_ranks = 1;
  job.emit.split_backward = false;
  job.emit.recompute = {};
  job.order = program::Mesh{}.order;
  return job;
}

// Whether design promises one rank's bits: sums inside layers are not cut, the leaves are those of
// one tree, and no gradient comes from two places that a layout orders.
bool SharesBits(const Job& job) {
  const bool ordered =
      job.plan.groups.pipeline > 1 || job.plan.micro_order == program::MicroOrder::kLayerFirst;
  return job.plan.groups.tensor == 1 && job.plan.groups.context == 1 &&
         job.plan.virtual_shards > 0 && !(job.model.tied_embeddings && ordered);
}

// The rank's rows of every sequence.
std::vector<program::ContextRun> RunsOf(const Job& job, int rank) {
  const program::Mesh mesh = job.mesh();
  return program::ContextRuns(job.emit.sequence, mesh.sizes.context, mesh.context(rank));
}

int32_t TokenAt(int64_t sample, int64_t position, int64_t vocab) {
  return static_cast<int32_t>((sample * 5 + position * (sample % 3 + 1)) % vocab);
}

// Some are not trained on.
int32_t TargetAt(int64_t sample, int64_t position, int64_t vocab) {
  return (sample + position) % 5 == 4 ? -1 : TokenAt(sample, position + 1, vocab);
}

// Of a token inside its document; about a third of all rows begin one.
int32_t PlaceAt(int64_t sample, int64_t position) {
  int64_t begin = position;
  while (begin > 0 && common::MixBits(static_cast<uint64_t>(sample), begin) % 3 != 0) --begin;
  return static_cast<int32_t>(position - begin);
}

// Samples belong to leaves, leaves to ranks.
class Text final : public worker::HostOps {
 public:
  Text(const Job& job, int rank, const program::Decision& decision, int64_t steps)
      : job_(job), data_index_(job.mesh().data(rank)), decision_(decision), steps_(steps) {
    for (const program::ContextRun& run : RunsOf(job, rank)) {
      for (int64_t i = 0; i < run.count; ++i) positions_.push_back(run.position + i);
    }
  }

  absl::Status LoadBatch(const worker::BatchRows& rows) override {
    const int64_t batch = job_.plan.global_batch, vocab = job_.model.vocab;
    for (int64_t i = 0; i < rows.samples * rows.sequence; ++i) {
      const int64_t at = i / rows.sequence, position = positions_[i % rows.sequence];
      int64_t sample = 0;
      if (step <= steps_) {
        const int64_t of_leaf = batch / decision_.leaves.count;
        sample = decision_.leaves.Of(data_index_, at / of_leaf) * of_leaf + at % of_leaf;
      } else {
        const program::EvaluateShape& shape = decision_.evaluate_shape;
        const int64_t row = decision_.leaves.RowOf(data_index_, at / shape.padded);
        const int64_t place = at % shape.padded;
        sample = row * shape.sequences + place;
        if (place >= shape.sequences || sample >= job_.plan.evaluate_batch) sample = -1;
      }
      const int64_t whole = step * batch + sample;
      rows.tokens[i] = sample < 0 ? 0 : TokenAt(whole, position, vocab);
      rows.targets[i] = sample < 0 ? -1 : TargetAt(whole, position, vocab);
      if (rows.positions != nullptr) rows.positions[i] = PlaceAt(whole, position);
    }
    return absl::OkStatus();
  }
  absl::Status LoadScalars(double* scalars) override {
    const auto set = [&](Scalar scalar, double value) {
      scalars[static_cast<int>(scalar)] = value;
    };
    set(Scalar::kStep, static_cast<double>(step));
    set(Scalar::kApplied, static_cast<double>(applied));
    set(Scalar::kLearningRate, 0.01);
    set(Scalar::kInverseTokens,
        Overflows(job_, step)
            ? std::numeric_limits<double>::infinity()
            : 1.0 / static_cast<double>(job_.plan.global_batch * job_.emit.sequence));
    return absl::OkStatus();
  }
  absl::Status Signal(program::Purpose, const std::string&) override { return absl::OkStatus(); }

  int64_t step = 1, applied = 0;

 private:
  const Job& job_;
  const int data_index_;
  const program::Decision& decision_;
  const int64_t steps_;             // then validation
  std::vector<int64_t> positions_;  // of the rank's rows
};

struct Outcome {
  std::vector<double> losses, norms;  // of the steps; the last loss is the evaluation's
  // Of the first step, what of them the rank has: NaN where another does.
  testing::NamedTensors gradients;
};

// NaN differs from itself.
double Comparable(double value) {
  return std::isfinite(value) ? value : std::numeric_limits<double>::infinity();
}

// Of the rank's part of a set, after one update.
std::vector<float> FirstMoments(worker::Engine& engine, const program::StateSlots::Set& slots,
                                int64_t count) {
  std::vector<float> all(static_cast<size_t>(count));
  for (const program::StateSlots::Range& range : slots.ranges) {
    const memory::BlockBuffer moments(range.count * 4);
    const absl::Status read = engine.slots().Read(range.slots[0], 0, 1, 0, moments.bytes());
    EXPECT_TRUE(read.ok()) << read;
    std::copy(moments.floats().begin(), moments.floats().end(), all.begin() + range.first);
  }
  return all;
}

// After one update the first moments are (1 − β1) times the clipped gradients.
void ReadGradients(worker::Engine& engine, const program::StateSlots& slots,
                   const program::Mesh& mesh, int rank, Outcome& outcome) {
  const double factor = (1 - model::AdamWSpec{}.beta1) * engine.scalar(Scalar::kClipFactor);
  for (size_t s = 0; s < slots.sets.size(); ++s) {
    const program::ParameterSet& set = engine.programs().sets[s];
    const int parts = slots.sets[s].state_parts;
    const int64_t count = set.elements / parts;
    const int64_t begin = parts > 1 ? mesh.shard(rank) * count : 0;
    const std::vector<float> moments = FirstMoments(engine, slots.sets[s], count);
    for (const program::ElementRun& run :
         ElementRuns(set, mesh.tensor(rank), begin, begin + count)) {
      std::vector<double>& tensor =
          outcome.gradients[set.tensors[run.tensor].logical_name(run.part)];
      if (static_cast<int64_t>(tensor.size()) < run.first + run.count) {
        tensor.resize(run.first + run.count, std::nan(""));
      }
      for (int64_t i = 0; i < run.count; ++i) {
        tensor[run.first + i] = moments[run.flat - begin + i] / factor;
      }
    }
  }
}

void RunRank(const Job& job, const program::Decision& decision, program::StagePrograms stage,
             int rank, int64_t steps, collectives::Communicator* communicator, Outcome& outcome) {
  const program::Mesh mesh = job.mesh();
  Text text(job, rank, decision, steps);
  device::ThreadPool pool(1);
  worker::EngineOptions options;
  options.pool = &pool;
  options.host = &text;
  options.communicator = communicator;
  options.ssd = {.paths = {{.directory = ::testing::TempDir()}}};
  for (const program::Group group : program::kGroups) {
    options.groups[group] = mesh.Members(group, rank);
  }
  const program::StateSlots slots = stage.slots;
  auto engine = worker::Engine::Create(std::move(stage.set), options);
  ASSERT_TRUE(engine.ok()) << engine.status();
  std::vector<program::ContextRun> runs = RunsOf(job, rank);
  if (job.emit.documents) runs = {{.count = job.emit.sequence}};
  for (size_t i = 0; i < slots.constants.size(); ++i) {
    if (slots.constants[i] < 0) continue;
    model::FillConstant(job.model, decision.graph.constants[i].name, runs, job.emit.sequence,
                        (*engine)->SlotBytes(slots.constants[i], 0, 0));
  }
  for (size_t s = 0; s < slots.sets.size(); ++s) {
    const int slot = slots.sets[s].parameters;
    const memory::BlockBuffer values((*engine)->programs().slots[slot].bytes);
    const int64_t begin = slots.sets[s].parameter_parts > 1
                              ? mesh.shard(rank) * static_cast<int64_t>(values.floats().size())
                              : 0;
    model::FillInitial((*engine)->programs().sets[s], 1, begin, values.floats(), mesh.tensor(rank));
    const absl::Status written = (*engine)->slots().Write(slot, 0, 0, 0, values.bytes());
    ASSERT_TRUE(written.ok()) << written;
  }
  for (; text.step <= steps; ++text.step) {
    const absl::Status status = (*engine)->RunStep(0, text.applied);
    ASSERT_TRUE(status.ok()) << status;
    const bool applies = (*engine)->scalar(Scalar::kApply) != 0;
    EXPECT_EQ(applies, !Overflows(job, text.step)) << text.step;
    text.applied += applies ? 1 : 0;
    outcome.losses.push_back(Comparable((*engine)->scalar(Scalar::kLoss)));
    outcome.norms.push_back(Comparable((*engine)->scalar(Scalar::kGradientNorm)));
    ASSERT_TRUE((*engine)->Drain().ok());
    if (text.step == 1) ReadGradients(**engine, slots, mesh, rank, outcome);
  }
  if (decision.evaluate.has_value()) {
    ASSERT_TRUE((*engine)->RunStep(1, text.applied).ok());
    outcome.losses.push_back((*engine)->scalar(Scalar::kLoss));
  }
  ASSERT_TRUE((*engine)->Drain().ok());
}

struct Composed {
  program::Decision decision;
  std::vector<program::StagePrograms> stages;
};

absl::StatusOr<Composed> Compose(const Job& job) {
  ASSIGN_OR_RETURN(program::LayerGraph graph, model::EmitFamily(job.model, job.emit));
  Composed composed;
  ASSIGN_OR_RETURN(composed.decision, program::Decide(std::move(graph), job.plan));
  for (int s = 0; s < job.plan.groups.pipeline; ++s) {
    ASSIGN_OR_RETURN(program::StagePrograms stage,
                     program::ComposeStage(
                         composed.decision, s,
                         [](const program::ParameterSet& set, const program::UpdateRange& range) {
                           return model::EmitAdamW(set, {}, range);
                         }));
    composed.stages.push_back(std::move(stage));
  }
  return composed;
}

absl::Status Verify(const Composed& composed, const program::Mesh& mesh) {
  std::vector<const program::ProgramSet*> sets;
  for (const program::StagePrograms& stage : composed.stages) sets.push_back(&stage.set);
  for (const program::Program& program : sets[0]->programs) {
    RETURN_IF_ERROR(program::Verify(sets, program.name, mesh));
  }
  return absl::OkStatus();
}

// Of every rank. What the verifier refuses is not run.
std::vector<Outcome> Train(const Job& job, int64_t steps = 3) {
  absl::StatusOr<Composed> composed = Compose(job);
  EXPECT_TRUE(composed.ok()) << composed.status();
  if (!composed.ok()) return {};
  const program::Mesh mesh = job.mesh();
  const absl::Status verified = Verify(*composed, mesh);
  EXPECT_TRUE(verified.ok()) << verified;
  if (!verified.ok()) return {};
  const int ranks = mesh.ranks();
  auto communicators = collectives::LoopbackWorld(ranks);
  std::vector<Outcome> outcomes(ranks);
  std::vector<std::thread> running;
  for (int r = 0; r < ranks; ++r) {
    running.emplace_back([&, r] {
      RunRank(job, composed->decision, composed->stages[mesh.stage(r)], r, steps,
              ranks > 1 ? communicators[r].get() : nullptr, outcomes[r]);
    });
  }
  for (std::thread& thread : running) thread.join();
  return outcomes;
}

// Adam's first steps move every weight by the learning rate whatever the gradient's size, so that a
// gradient of nothing but rounding moves one too: steps after the first are compared less strictly.
void Compare(const Job& job, const std::vector<double>& found, const std::vector<double>& expected,
             const char* what) {
  ASSERT_EQ(found.size(), expected.size()) << what;
  for (size_t i = 0; i < found.size(); ++i) {
    if (!std::isfinite(expected[i])) {
      EXPECT_FALSE(std::isfinite(found[i])) << what << " " << i;
    } else if (SharesBits(job)) {
      EXPECT_EQ(found[i], expected[i]) << what << " " << i;
    } else {
      const double tolerance = i == 0 ? 2e-5 : 5e-3;
      EXPECT_NEAR(found[i], expected[i], tolerance * (1e-3 + std::abs(expected[i])))
          << what << " " << i;
    }
  }
}

// The ranks' parts of the first step's gradients, tensor by tensor, against f64.
void CompareGradients(const Job& job, const std::vector<Outcome>& outcomes) {
  std::vector<int32_t> tokens, targets, positions;
  for (int64_t sample = 0; sample < job.plan.global_batch; ++sample) {
    for (int64_t position = 0; position < job.emit.sequence; ++position) {
      const int64_t whole = job.plan.global_batch + sample;  // of step 1
      tokens.push_back(TokenAt(whole, position, job.model.vocab));
      targets.push_back(TargetAt(whole, position, job.model.vocab));
      if (job.emit.documents) positions.push_back(PlaceAt(whole, position));
    }
  }
  const testing::ModelGradients expected =
      testing::GradientsOf(job.model, testing::InitialWeights(job.model, 1), job.emit.sequence,
                           tokens, targets, positions);
  EXPECT_NEAR(outcomes[0].losses[0], expected.loss, 2e-6 * expected.loss);
  for (const auto& [name, tensor] : expected.gradients) {
    std::vector<bool> seen(tensor.size());
    double squares = 0, off = 0;
    for (const double value : tensor) squares += value * value;
    for (const Outcome& outcome : outcomes) {
      const auto own = outcome.gradients.find(name);
      if (own == outcome.gradients.end()) continue;
      ASSERT_LE(own->second.size(), tensor.size()) << name;
      double of_rank = 0;
      for (size_t i = 0; i < own->second.size(); ++i) {
        if (std::isnan(own->second[i])) continue;
        seen[i] = true;
        of_rank += std::pow(own->second[i] - tensor[i], 2);
      }
      off = std::max(off, of_rank);
    }
    EXPECT_TRUE(std::all_of(seen.begin(), seen.end(), [](bool has) { return has; })) << name;
    // Beside the tensor's own size, that of the sums that cancel in it. Norms of few small numbers
    // make much of their rounding.
    EXPECT_LE(std::sqrt(off), 1e-5 * (std::sqrt(squares) + 0.1 * outcomes[0].norms[0])) << name;
  }
}

void CheckTraining(const Job& job) {
  const std::vector<Outcome> outcomes = Train(job), one = Train(OneRank(job));
  if (outcomes.empty() || one.empty()) return;
  for (const Outcome& outcome : outcomes) {
    EXPECT_EQ(outcome.losses, outcomes[0].losses);
    EXPECT_EQ(outcome.norms, outcomes[0].norms);
  }
  CompareGradients(job, outcomes);
  Compare(job, outcomes[0].losses, one[0].losses, "loss");
  Compare(job, outcomes[0].norms, one[0].norms, "norm");
}

// The composer could give a stage to the embedding or the head alone, which stages of blocks, as
// job files list them, cannot say.
bool ComposesNevertheless(const Job& job) {
  const int64_t stages = job.shape.pipeline * job.shape.virtual_stages;
  return stages > job.model.layers && stages <= job.model.layers + 2;
}

// A plan that breaks rules is refused by the composer too, and the plan suggested instead is not.
void CheckRefusal(const Job& job) {
  const absl::Status refused = Compose(job).status();
  EXPECT_TRUE(!refused.ok() || ComposesNevertheless(job));
  const std::vector<std::string> savable = model::NamesOfSavableValues(model::Family::kLlama);
  const std::optional<PlanShape> legal = program::NearestLegal(job.shape, savable);
  ASSERT_TRUE(legal.has_value());
  const Job instead = LaidOut(job, *legal);
  SCOPED_TRACE(absl::StrCat("instead: ", instead.Text()));
  Job composes = instead;
  composes.plan.in_flight = 0;  // which was drawn for another pipeline
  const absl::StatusOr<Composed> composed = Compose(composes);
  ASSERT_TRUE(composed.ok()) << composed.status();
  const absl::Status verified = Verify(*composed, composes.mesh());
  EXPECT_TRUE(verified.ok()) << verified;
}

TEST(RandomPlans, AnyLegalPlanTrainsLikeOneRankAndAnyOtherIsRefused) {
  int64_t done = 0, ranks = 0, exact = 0, refused = 0;
  for (uint64_t seed = first_seed; done < plans; ++seed) {
    const std::optional<Job> job = DrawJob(seed);
    if (!job.has_value()) continue;
    SCOPED_TRACE(absl::StrCat("seed ", seed, ": ", job->Text()));
    const auto problems =
        program::CheckPlan(job->shape, model::NamesOfSavableValues(model::Family::kLlama));
    if (problems.empty()) {
      ++done;
      ranks += job->plan.groups.world();
      exact += SharesBits(*job);
      CheckTraining(*job);
    } else {
      ++refused;
      SCOPED_TRACE(absl::StrCat(problems[0].field, ": ", problems[0].what));
      CheckRefusal(*job);
    }
    if (::testing::Test::HasFailure()) break;
    last_seed = seed;
  }
  std::cout << done << " plans of " << ranks << " ranks in all, " << exact
            << " with one rank's bits, and " << refused << " refused; seeds " << first_seed
            << " to " << last_seed << "\n";
}

// The same layout with everything in the memory where it computes, updates deferred.
Job InOneMemory(Job job) {
  const program::Plan none;
  job.plan.tier = none.tier;
  job.plan.places = none.places;
  job.plan.streaming = none.streaming;
  job.plan.range_bytes = none.range_bytes;
  job.plan.update = none.update;
  return job;
}

TEST(RandomPlans, NoBitOfAnyLayoutDependsOnWhereBytesLive) {
  int64_t done = 0, ranks = 0;
  for (uint64_t seed = first_seed; done < long_plans; ++seed) {
    const std::optional<Job> job = DrawJob(seed);
    if (!job.has_value() || !job->plan.places.beyond_device()) continue;
    SCOPED_TRACE(absl::StrCat("seed ", seed, ": ", job->Text()));
    const auto problems =
        program::CheckPlan(job->shape, model::NamesOfSavableValues(model::Family::kLlama));
    if (!problems.empty()) continue;
    ++done;
    ranks += job->plan.groups.world();
    const std::vector<Outcome> found = Train(*job, long_steps);
    const std::vector<Outcome> expected = Train(InOneMemory(*job), long_steps);
    ASSERT_EQ(found.size(), expected.size());
    for (size_t r = 0; r < found.size(); ++r) {
      EXPECT_EQ(found[r].losses, expected[r].losses) << "rank " << r;
      EXPECT_EQ(found[r].norms, expected[r].norms) << "rank " << r;
    }
    if (::testing::Test::HasFailure()) break;
  }
  std::cout << done << " plans of " << ranks << " ranks in all, " << long_steps
            << " steps of each\n";
}

}  // namespace
}  // namespace strata

int main(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    if (absl::StartsWith(word, "--plans=")) strata::plans = std::atoll(word.c_str() + 8);
    if (absl::StartsWith(word, "--first=")) strata::first_seed = std::atoll(word.c_str() + 8);
    if (absl::StartsWith(word, "--long-plans=")) strata::long_plans = std::atoll(word.c_str() + 13);
    if (absl::StartsWith(word, "--long-steps=")) strata::long_steps = std::atoll(word.c_str() + 13);
  }
  return RUN_ALL_TESTS();
}
