// One executed action of a step program, recorded in a ring that another process may read
// meanwhile.
#ifndef STRATA_PROTOCOL_TRACE_RECORD_H_
#define STRATA_PROTOCOL_TRACE_RECORD_H_

#include <atomic>
#include <cstdint>

namespace strata::protocol {

struct TraceRecord {
  uint64_t number = 0;  // counts a ring's records from 1; 0: none, or one that is being written
  int64_t step = 0;     // of its program, counted from 0
  double begin = 0;     // the recorder's clock
  double end = 0;
  int32_t program = 0;
  int32_t action = 0;  // index in the expanded program
};
static_assert(sizeof(TraceRecord) == 40, "the layout changed: raise kTraceVersion");

// Whoever reads `place` sees the number before the fields change and after they have, never the new
// one with old fields. One thread at a time writes a place.
inline void Publish(const TraceRecord& record, TraceRecord& place) {
  const std::atomic_ref<uint64_t> number(place.number);
  number.exchange(0, std::memory_order_acq_rel);  // what follows does not move before it
  place.step = record.step;
  place.begin = record.begin;
  place.end = record.end;
  place.program = record.program;
  place.action = record.action;
  number.store(record.number, std::memory_order_release);
}

}  // namespace strata::protocol

#endif  // STRATA_PROTOCOL_TRACE_RECORD_H_
