// Where the streams of an engine stand, in words.
#ifndef STRATA_WORKER_ENGINE_POSITION_H_
#define STRATA_WORKER_ENGINE_POSITION_H_

#include <cstdint>
#include <string>
#include <vector>

#include "program/ir/program.h"
#include "worker/engine/bound_program.h"
#include "worker/engine/run_state.h"

namespace strata::worker {

// What is said is of a moment close by: counters move while they are read.
class Position {
 public:
  // All borrowed.
  Position(const program::ProgramSet* set, const std::vector<BoundProgram>* bound,
           const RunState* state, int rank)
      : set_(set), bound_(bound), state_(state), rank_(rank) {}

  // As Engine::DescribePosition.
  std::string Describe() const;

 private:
  std::string DescribeStream(int stream, int program) const;
  std::string DescribeAction(int program, int action) const;
  bool HasEnded(const BoundDependency& dependency, int program, int64_t step) const;

  const program::ProgramSet* const set_;
  const std::vector<BoundProgram>* const bound_;
  const RunState* const state_;
  const int rank_;
};

}  // namespace strata::worker

#endif  // STRATA_WORKER_ENGINE_POSITION_H_
