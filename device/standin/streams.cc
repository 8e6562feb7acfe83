#include "device/standin/streams.h"

#include <algorithm>
#include <utility>

namespace strata::standin {

Stream* Streams::Create() {
  streams_.push_back(std::make_unique<Stream>());
  Stream* const stream = streams_.back().get();
  stream->id = static_cast<int>(streams_.size()) - 1;
  live_.insert(stream);
  return stream;
}

Mark Streams::Put(Stream& stream, std::string name, Action run) {
  Stream::Work work;
  Merge(stream.clock, host_);
  if (stream.clock.size() <= static_cast<size_t>(stream.id)) stream.clock.resize(stream.id + 1);
  stream.clock[stream.id] = ++stream.issued;
  work.id = machine_.operations.Add(name, stream.id, stream.clock);
  work.name = std::move(name);
  work.run = std::move(run);
  work.issued = ++issued_;
  stream.queue.push_back(std::move(work));
  return {stream.id, stream.issued, stream.clock};
}

void Streams::Wait(Stream& stream, const Mark& mark) {
  if (mark.stream < 0) return;
  Merge(stream.clock, mark.clock);
  Stream::Work work;
  work.wait = mark;
  work.issued = ++issued_;
  ++stream.issued;
  stream.queue.push_back(std::move(work));
}

Mark Streams::End(const Stream& stream) const {
  Mark mark{stream.id, stream.issued, stream.clock};
  Merge(mark.clock, host_);
  return mark;
}

bool Streams::IsReached(const Mark& mark) const {
  return mark.stream < 0 || streams_[mark.stream]->done >= mark.place;
}

bool Streams::IsRunnable(const Stream& stream) const {
  return !stream.queue.empty() && IsReached(stream.queue.front().wait);
}

void Streams::Step(Stream& stream) const {
  Stream::Work work = std::move(stream.queue.front());
  stream.queue.pop_front();
  if (work.run && may_run()) work.run(work.id);
  ++stream.done;
}

// What runs next of all that may, where `wanted` is waited for.
Stream& Streams::Choose(Stream& wanted) {
  if (machine_.options.stream_order == StreamOrder::kLatest) {
    Stream* next = &wanted;  // a wait's mark was set before the wait: this ends
    while (!IsRunnable(*next)) next = streams_[next->queue.front().wait.stream].get();
    return *next;
  }
  std::vector<Stream*> can;
  for (const auto& stream : streams_) {
    if (IsRunnable(*stream)) can.push_back(stream.get());
  }
  if (machine_.options.stream_order == StreamOrder::kRandom) return *can[random_.Below(can.size())];
  return **std::min_element(can.begin(), can.end(), [](const Stream* a, const Stream* b) {
    return a->queue.front().issued < b->queue.front().issued;
  });
}

void Streams::RunUntil(const Mark& mark) {
  if (mark.stream < 0) return;
  Stream& stream = *streams_[mark.stream];
  while (stream.done < mark.place) Step(Choose(stream));
  Merge(host_, mark.clock);
}

void Streams::RunAll() {
  for (const auto& stream : streams_) RunUntil(End(*stream));
  machine_.operations.Settle();
}

void Streams::RunTowards(const Mark& mark) { Step(Choose(*streams_[mark.stream])); }

}  // namespace strata::standin
