// What every backend must do, as one parameterised suite: a backend's test links :conformance and
// instantiates it with a way to run a function on the ranks of a world.
#ifndef STRATA_COLLECTIVES_CONFORMANCE_H_
#define STRATA_COLLECTIVES_CONFORMANCE_H_

#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "collectives/communicator.h"
#include "gtest/gtest.h"

namespace strata::collectives {

// What one rank does; runs in a thread or process of its own, so it reports through its result
// only.
using RankBody = std::function<absl::Status(Communicator&)>;

struct Backend {
  std::string name;
  // Runs `body` on every rank of a world of `size` and returns what each returned. When one fails
  // or dies, the others are cancelled with kAborted, as an agent would.
  std::function<std::vector<absl::Status>(int size, const RankBody& body)> run;
  std::vector<int> sizes;  // of worlds to try
};

class ConformanceTest : public testing::TestWithParam<Backend> {
 protected:
  // Runs on worlds of every size, and fails the test unless every rank succeeds.
  void RunAll(const RankBody& body);
};

// An error that names what differs, as EXPECT would, for code that runs in a rank.
absl::Status Differs(const std::string& what);

// Scratch with the alignment operations ask for.
class Scratch {
 public:
  Scratch(OpKind kind, DataType type, int64_t count, int n)
      : bytes_(ScratchBytes(kind, type, count, n)), memory_(bytes_ + 64) {}
  void* data() {
    return memory_.data() + (64 - reinterpret_cast<uintptr_t>(memory_.data()) % 64) % 64;
  }
  int64_t bytes() const { return bytes_; }

 private:
  int64_t bytes_;
  std::vector<std::byte> memory_;
};

// The group of all ranks.
absl::StatusOr<GroupId> WorldGroup(Communicator& communicator);

// Drives the communicator until all are done.
absl::Status Finish(Communicator& communicator, absl::Span<const OperationId> ids);

}  // namespace strata::collectives

#endif  // STRATA_COLLECTIVES_CONFORMANCE_H_
