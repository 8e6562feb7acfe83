// Random jobs for tests of plans: any layout over tensor, context, pipeline (schedule, uneven
// stages, passes in flight), data, shard level, hybrid groups, prefetch, recompute and orders, of
// any small model of odd sizes. Most are legal.
#ifndef STRATA_TESTS_PARITY_RANDOM_JOB_H_
#define STRATA_TESTS_PARITY_RANDOM_JOB_H_

#include <array>
#include <cstdint>
#include <optional>
#include <string>

#include "model/families/families.h"
#include "program/compose/check_plan.h"
#include "program/compose/plan.h"
#include "program/ir/mesh.h"

namespace strata::testing {

// A job: its model, and how it is laid out.
struct Job {
  model::ModelSpec model;
  program::PlanShape
      shape;  // as job files say it; the rest follows, or is nothing that a rule is about
  model::EmitOptions emit;
  program::Plan plan;
  std::array<program::Axis, program::kAxisCount> order = program::Mesh{}.order;
  bool overflows = false;  // a step's gradients are infinite

  program::Mesh mesh() const { return {plan.groups, order}; }
  std::string Text() const;
};

// The job laid out as `shape` says.
Job LaidOut(Job job, const program::PlanShape& shape);

// The job of a seed. Nothing: of too many ranks.
std::optional<Job> DrawJob(uint64_t seed);

}  // namespace strata::testing

#endif  // STRATA_TESTS_PARITY_RANDOM_JOB_H_
