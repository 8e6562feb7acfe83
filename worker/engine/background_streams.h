// The progress thread: serves every stream that is not the main thread's.
#ifndef STRATA_WORKER_ENGINE_BACKGROUND_STREAMS_H_
#define STRATA_WORKER_ENGINE_BACKGROUND_STREAMS_H_

#include <array>
#include <functional>
#include <optional>
#include <string>
#include <thread>

#include "absl/status/status.h"
#include "collectives/communicator.h"
#include "worker/engine/run_state.h"

namespace strata::worker {

class BackgroundStreams {
 public:
  // "rank 1, instruction 17 (reduce block 3)": where an error came from.
  using Describe = std::function<std::string(int program, int action)>;

  // Starts the thread. `state` and `communicator` (may be null) are borrowed; from here on the
  // communicator is used by the thread alone.
  BackgroundStreams(RunState* state, collectives::Communicator* communicator, Describe describe);
  // Stops the thread; operations still in flight are cancelled.
  ~BackgroundStreams();
  BackgroundStreams(const BackgroundStreams&) = delete;
  BackgroundStreams& operator=(const BackgroundStreams&) = delete;

  // From the main thread: runs an operation beside the streams, and waits for it.
  absl::Status RunCollective(const collectives::Operation& operation);

 private:
  // The head of one stream.
  struct Lane {
    int64_t step = 0;
    size_t next = 0;  // the head's place in the queue
    std::optional<collectives::OperationId> flying;
    double begin = 0;
  };
  // The main thread's own operation.
  enum class RequestStage { kNone, kAsked, kFlying, kDone };

  void Work();
  bool AdvanceAll(const Submission& submission);
  // Moves a stream on as far as it goes; true when it moved.
  bool Advance(int stream, const Submission& submission);
  // One thing; false when nothing can be done now.
  bool Step(int stream, Lane& lane, const Submission& submission);
  bool Start(Lane& lane, const BoundAction& action, const Submission& submission);
  void Finish(Lane& lane, const BoundAction& action, const Submission& submission);
  void Pass(Lane& lane, const BoundAction& action, const Submission& submission);
  bool AdvanceRequest();
  void Fail(const absl::Status& status, const BoundAction& action, int program);

  RunState* state_;
  collectives::Communicator* communicator_;
  Describe describe_;
  int64_t run_ = 0;
  std::array<Lane, program::kStreamCount> lanes_;

  // Written by the main thread when kAsked, else by the progress thread.
  std::atomic<RequestStage> request_stage_{RequestStage::kNone};
  collectives::Operation request_;
  collectives::OperationId request_id_;

  std::thread thread_;  // last: it uses everything above
};

}  // namespace strata::worker

#endif  // STRATA_WORKER_ENGINE_BACKGROUND_STREAMS_H_
