#include "worker/trainer/outbox.h"

#include <algorithm>
#include <utility>

#include "protocol/frames.h"

namespace strata::worker {
namespace {

constexpr size_t kAtOnceBytes = size_t{64} << 10;

using Kind = v1::TrainerEvent::EventCase;

int64_t StepOf(const v1::TrainerEvent& event) {
  switch (event.event_case()) {
    case v1::TrainerEvent::kWritten:
      return event.written().step();
    case v1::TrainerEvent::kRecord:
      return event.record().step();
    default:
      return 0;
  }
}

}  // namespace

absl::Status Outbox::Add(v1::TrainerEvent event) {
  Event added;
  added.sequence = last_ + 1;
  added.kind = event.event_case();
  added.step = StepOf(event);
  event.set_sequence(added.sequence);
  if (absl::Status status = protocol::AppendFrame(event, &added.frame); !status.ok()) return status;
  ++last_;
  kept_bytes_ += added.frame.size();
  events_.push_back(std::move(added));
  return absl::OkStatus();
}

absl::string_view Outbox::Bytes() {
  while (bytes_.size() < kAtOnceBytes && next_ < events_.size()) {
    bytes_ += events_[next_].frame;
    if (leased_) {
      ++next_;
    } else {
      kept_bytes_ -= events_.front().frame.size();
      events_.pop_front();
    }
  }
  return bytes_;
}

void Outbox::Sent(size_t size) { bytes_.erase(0, size); }

void Outbox::Rewind(const v1::TrainerHello& hello) {
  v1::TrainerEvent event;
  *event.mutable_hello() = hello;
  bytes_.clear();
  static_cast<void>(protocol::AppendFrame(event, &bytes_));  // small: never refused
  for (const Event& remembered : remembered_) bytes_ += remembered.frame;
  next_ = 0;
}

void Outbox::Acknowledge(uint64_t sequence) {
  while (!events_.empty() && next_ > 0 && events_.front().sequence <= sequence) {
    kept_bytes_ -= events_.front().frame.size();
    Remember(std::move(events_.front()));
    events_.pop_front();
    --next_;
  }
}

void Outbox::Remember(Event event) {
  const auto forget = [this](Kind kind) {
    std::erase_if(remembered_, [kind](const Event& each) { return each.kind == kind; });
  };
  switch (event.kind) {
    case v1::TrainerEvent::kRunning:
      forget(v1::TrainerEvent::kPrepared);
      break;
    case v1::TrainerEvent::kWritten: {
      const auto written = [](const Event& each) {
        return each.kind == v1::TrainerEvent::kWritten;
      };
      const auto count = std::count_if(remembered_.begin(), remembered_.end(), written);
      if (static_cast<size_t>(count) < kWrittenKept) break;
      remembered_.erase(std::find_if(remembered_.begin(), remembered_.end(), written));
      break;
    }
    case v1::TrainerEvent::kRecord:
      if (event.step <= answered_) return;
      break;
    case v1::TrainerEvent::kPrepared:
      break;
    default:
      return;
  }
  remembered_.push_back(std::move(event));
}

void Outbox::Answered(int64_t step) {
  answered_ = std::max(answered_, step);
  std::erase_if(remembered_, [step](const Event& each) {
    return each.kind == v1::TrainerEvent::kRecord && each.step == step;
  });
}

}  // namespace strata::worker
