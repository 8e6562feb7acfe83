// Follows a job on the cluster until it ends, through restarts of the controller.
#ifndef STRATA_CLIENT_JOB_FOLLOWER_H_
#define STRATA_CLIENT_JOB_FOLLOWER_H_

#include <cstdint>
#include <functional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/api/api_client.h"
#include "common/clock.h"

namespace strata::client {

struct FollowOptions {
  int64_t after_step = 0;        // records of later steps are told
  double give_up_seconds = 600;  // without an answer
  double tick_seconds = 0.1;     // how often `on_tick` is called at least
  double refresh_seconds = 1;    // after this much silence the job is asked for
};

struct FollowCallbacks {
  // Step records, notices and states, in order. A state may be told twice. A step at or before an
  // earlier one means that the ranks were restarted from a checkpoint.
  std::function<void(const v1::JobProgress&)> on_progress = [](const v1::JobProgress&) {};
  // Between messages; returns whether to go on. Also where interrupts are looked for.
  std::function<bool()> on_tick = [] { return true; };
  // The controller went away, with the reason (told once); it is back.
  std::function<void(const absl::Status&)> on_lost = [](const absl::Status&) {};
  std::function<void()> on_back = [] {};
};

// Returns the job in its terminal state. Cancelled: on_tick said so. NotFound and other failures of
// the first answer come back as they are; Unavailable after give_up_seconds without one, or at once
// when there never was one.
absl::StatusOr<v1::Job> FollowJob(ApiClient& client, const std::string& name,
                                  const FollowOptions& options, const FollowCallbacks& callbacks,
                                  const common::Clock& clock);

}  // namespace strata::client

#endif  // STRATA_CLIENT_JOB_FOLLOWER_H_
