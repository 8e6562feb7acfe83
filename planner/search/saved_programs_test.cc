// What blocks save and make again, in the closed form and in the programs that ranks would run.
#include <gtest/gtest.h>

#include <cstdio>

#include "planner/cost/catalog_cost_model.h"
#include "planner/fit/collective_scratch.h"
#include "planner/fit/fit_testing.h"
#include "planner/performance/memory_estimate.h"
#include "planner/search/job_choice.h"
#include "planner/search/predicted_job.h"
#include "planner/search/search.h"

namespace strata::planner {
namespace {

struct Ladder {
  FitModel model;
  TrainingShape shape;
  Machine machine;
  LayoutChoice layout;
  std::vector<SavedValues> rungs;

  Ladder(const std::string& name, int64_t sequence, int64_t micro_batch)
      : model(*PresetModel(name)),
        shape(*ShapeOf(model, sequence)),
        machine(Catalog::Shipped().Find({.gpu = "H100", .framework = kOwnFramework})->machine) {
    layout.sharding = Sharding::kReplicated;
    layout.micro_batch = layout.global_batch = micro_batch;
    rungs = SavedChoices(machine, shape, layout);
  }

  LayoutChoice Of(SavedValues saved, int64_t layers = 0) const {
    LayoutChoice listed = layout;
    listed.recompute = layers > 0 ? Recompute::kListed : ModeOf(saved);
    listed.saved = saved;
    listed.listed_layers = layers;
    return listed;
  }
  v1::JobSpec JobOf(const LayoutChoice& of) const {
    return planner::JobOf(shape, of, SavedNames(model.spec.family));
  }
  // Of the programs.
  double Activations(const LayoutChoice& of) const {
    FitRequest request{.model = model, .job = JobOf(of), .device = Card(int64_t{1} << 40)};
    CompleteRequest(request);
    const auto memory = ReadMemoryOfJob(request);
    EXPECT_TRUE(memory.ok()) << memory.status();
    return memory.ok() ? static_cast<double>(memory->stages[0].largest_activations) : 0;
  }
  double Replayed(const LayoutChoice& of) const {
    const CatalogCostModel costs(machine);
    const auto predicted =
        PredictJob(JobOf(of), model.spec, {.scratch = CollectiveScratch, .costs = &costs});
    EXPECT_TRUE(predicted.ok()) << predicted.status();
    return predicted.ok() ? predicted->seconds : 0;
  }
  double Predicted(const LayoutChoice& of) const { return PredictStep(machine, shape, of).seconds; }
};

// Programs hold two values between layers besides, the one that is made and the one that it is made
// of, which the closed form has not.
TEST(SavedPrograms, BytesOfEachRungAreTheProgramsOwn) {
  for (const Ladder& ladder : {Ladder("llama-3.1-8b", 4096, 1), Ladder("gpt2", 1024, 8)}) {
    const double layers = static_cast<double>(ladder.shape.layers);
    for (const SavedValues rung : ladder.rungs) {
      for (const int64_t listed : {int64_t{0}, ladder.shape.layers / 3}) {
        const LayoutChoice layout = ladder.Of(rung, listed);
        const double between = 2.0 * 2 * static_cast<double>(ladder.layout.micro_batch) *
                               static_cast<double>(ladder.shape.sequence_length) *
                               static_cast<double>(ladder.shape.hidden);
        const double closed =
            between + layers * ActivationBytes(ladder.machine.software, ladder.shape, layout);
        const double program = ladder.Activations(layout);
        std::printf("%s rung %02x layers %d: %.3f GB, programs %.3f GB (%+.1f %%)\n",
                    ladder.model.name.c_str(), rung.bits, static_cast<int>(listed), closed / 1e9,
                    program / 1e9, 100 * (closed / program - 1));
        EXPECT_NEAR(closed / program, 1, 0.02) << static_cast<int>(rung.bits);
      }
    }
  }
}

// Seconds that a rung adds to those of recompute none.
TEST(SavedPrograms, SecondsOfEachRungAreTheReplaysOwn) {
  for (const Ladder& ladder : {Ladder("llama-3.1-8b", 4096, 1), Ladder("gpt2", 1024, 8)}) {
    const LayoutChoice usual = ladder.Of(kUsualValues);
    const double closed_usual = ladder.Predicted(usual), usual_step = ladder.Replayed(usual);
    for (const SavedValues rung : ladder.rungs) {
      const LayoutChoice layout = ladder.Of(rung);
      const double closed = ladder.Predicted(layout) - closed_usual;
      const double replayed = ladder.Replayed(layout) - usual_step;
      std::printf("%s rung %02x: %+.2f ms, replayed %+.2f ms of %.1f\n", ladder.model.name.c_str(),
                  rung.bits, 1e3 * closed, 1e3 * replayed, 1e3 * usual_step);
      EXPECT_NEAR(closed, replayed, 0.03 * usual_step) << static_cast<int>(rung.bits);
    }
  }
}

}  // namespace
}  // namespace strata::planner
