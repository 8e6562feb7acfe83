// A program ready to run: per stream, what to do and what to wait for.
#ifndef STRATA_WORKER_ENGINE_BOUND_PROGRAM_H_
#define STRATA_WORKER_ENGINE_BOUND_PROGRAM_H_

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "collectives/communicator.h"
#include "program/passes/expand.h"
#include "worker/engine/address_map.h"
#include "worker/engine/communication_binding.h"
#include "worker/engine/op_binding.h"

namespace strata::worker {

// "When `stream` has ended place `place` of the step `steps_back` before this one."
struct BoundDependency {
  int stream = 0;
  int64_t place = 0;
  int steps_back = 0;
  int action = -1;  // which one that is
};

// An action with addresses. What varies with the copies of versioned slots exists once per variant:
// index `applied` modulo BoundProgram::variants.
struct BoundAction {
  struct Variant {
    BoundOp run;                       // runs here …
    collectives::Operation operation;  // … or is posted: when `run` is empty
  };

  int action = -1;  // index in the expanded program
  int stream = 0;
  int64_t place = 0;  // on its stream, within the step
  program::Purpose purpose = program::Purpose::kForward;
  std::vector<BoundDependency> dependencies;
  const double* predicate = nullptr;  // runs where this is not 0 (or, negated, where it is)
  bool negated = false;
  bool wakes_background = false;  // a background stream depends on it
  std::vector<Variant> variants;

  bool takes_place() const { return predicate == nullptr || (*predicate != 0) != negated; }
};

struct BoundProgram {
  program::ExpandedProgram expanded;
  int64_t variants = 1;
  std::array<int64_t, program::kStreamCount> lengths{};  // actions per stream
  std::vector<BoundAction> main;                         // kCompute and kHost, in list order
  std::array<std::vector<BoundAction>, program::kStreamCount> background;  // all other streams
};

constexpr bool IsMainStream(program::Stream stream) {
  return stream == program::Stream::kCompute || stream == program::Stream::kHost;
}

// What binding needs; borrowed, and what is bound keeps using it.
struct BindingContext {
  const program::ProgramSet* set = nullptr;
  const AddressMap* addresses = nullptr;
  const GroupTable* groups = nullptr;
  OpEnvironment main;        // of the main thread's streams
  OpEnvironment background;  // of the progress thread's
  HostOps* host = nullptr;   // for signals, on any stream
};

// Binds an expanded program. Errors name the action: "instruction 12 (forward block 3), op 4
// (matmul): …"; their codes are the binders', and InvalidArgument for dependencies that do not
// exist or would wait forever.
absl::StatusOr<BoundProgram> Bind(const program::Program& program,
                                  program::ExpandedProgram expanded, const BindingContext& context);

}  // namespace strata::worker

#endif  // STRATA_WORKER_ENGINE_BOUND_PROGRAM_H_
