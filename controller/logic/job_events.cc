#include "controller/logic/job_events.h"

#include <algorithm>
#include <memory>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace strata::controller {
namespace {

constexpr char kEventTable[] = "events";

std::string KeyOf(const JobEntry& job, int64_t number) {
  return absl::StrFormat("%s/%012d", job.record.name(), number);
}

using Kept = std::shared_ptr<const NumberedEvent>;

Kept Keep(int64_t number, const v1::JobEvent& event) {
  return std::make_shared<const NumberedEvent>(NumberedEvent{number, event});
}

void Put(const JobEntry& job, const NumberedEvent& kept, Effects& effects) {
  effects.writes.push_back({kEventTable, KeyOf(job, kept.number), kept.event.SerializeAsString()});
}

bool Repeats(const v1::JobEvent& last, const v1::JobEvent& event) {
  if (last.type() != event.type() || last.epoch() != event.epoch()) return false;
  return event.type() == "CHECKPOINT" ||
         (event.type() == "SUSPECTED" && last.reason() == event.reason());
}

}  // namespace

v1::JobEvent MakeEvent(const ClusterState& state, const v1::JobRecord& job, const std::string& type,
                       const std::string& reason, const std::string& actor) {
  v1::JobEvent event;
  *event.mutable_time() = ToTimestamp(state.wall);
  event.set_epoch(job.epoch());
  event.set_attempt(job.attempt());
  event.set_step(job.step());
  event.set_type(type);
  event.set_reason(reason);
  event.set_actor(actor);
  return event;
}

void TellEvent(JobEntry& job, const v1::JobEvent& event, Effects& effects) {
  const int64_t last = job.events.empty() ? 0 : job.events.back()->number;
  if (last > 0 && Repeats(job.events.back()->event, event)) {
    job.events.back() = Keep(last, event);
  } else {
    job.events.push_back(Keep(last + 1, event));
  }
  Put(job, *job.events.back(), effects);
  while (job.events.size() > kMostEventsKept) {
    effects.writes.push_back({kEventTable, KeyOf(job, job.events.front()->number), "", true});
    job.events.pop_front();
  }
}

void CorrectEvent(JobEntry& job, const v1::JobEvent& event, Effects& effects) {
  const auto found = std::find_if(job.events.rbegin(), job.events.rend(), [&](const Kept& kept) {
    return kept->event.type() == event.type();
  });
  if (found == job.events.rend()) return;
  *found = Keep((*found)->number, event);
  Put(job, **found, effects);
}

bool RestoreEvent(ClusterState& state, const Write& write) {
  const size_t slash = write.key.rfind('/');
  int64_t number = 0;
  v1::JobEvent event;
  if (slash == std::string::npos || !absl::SimpleAtoi(write.key.substr(slash + 1), &number) ||
      !event.ParseFromString(write.value)) {
    return false;
  }
  JobEntry* job = state.Find(write.key.substr(0, slash));
  if (job == nullptr) return true;
  const auto after = std::find_if(job->events.rbegin(), job->events.rend(),
                                  [&](const Kept& kept) { return kept->number < number; });
  job->events.insert(after.base(), Keep(number, event));
  return true;
}

void ForgetEvents(const JobEntry& job, Effects& effects) {
  for (const Kept& kept : job.events) {
    effects.writes.push_back({kEventTable, KeyOf(job, kept->number), "", true});
  }
}

}  // namespace strata::controller
