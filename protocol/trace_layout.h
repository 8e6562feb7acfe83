// What the writer and the reader of trace files share. Internal to trace_file.
#ifndef STRATA_PROTOCOL_TRACE_LAYOUT_H_
#define STRATA_PROTOCOL_TRACE_LAYOUT_H_

#include <cstdint>

#include "protocol/trace_file.h"

namespace strata::protocol {

inline constexpr char kTraceMagic[8] = {'S', 'T', 'R', 'A', 'T', 'R', 'C', 'E'};
inline constexpr char kPredictedMagic[8] = {'S', 'T', 'R', 'A', 'P', 'R', 'E', 'D'};
inline constexpr uint64_t kTracePage = 64 << 10;  // a multiple of any page that is mapped

constexpr uint64_t RecordsOffset(uint64_t message_bytes) {
  const uint64_t end = sizeof(TraceFileHeader) + message_bytes;
  return (end + kTracePage - 1) / kTracePage * kTracePage;
}

}  // namespace strata::protocol

#endif  // STRATA_PROTOCOL_TRACE_LAYOUT_H_
