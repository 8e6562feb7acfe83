// What a task tells, as a standalone client hears it.
#ifndef STRATA_PROTOCOL_TASK_EVENT_H_
#define STRATA_PROTOCOL_TASK_EVENT_H_

#include <optional>

#include "proto/strata/v1/jobs.pb.h"
#include "proto/strata/v1/standalone.pb.h"

namespace strata::protocol {

// A job's progress as an event of a task; nothing for what only a controller tells.
std::optional<v1::StandaloneEvent> TaskEventOf(const v1::JobProgress& progress);

}  // namespace strata::protocol

#endif  // STRATA_PROTOCOL_TASK_EVENT_H_
