// The files below DIR/trace of a job's directory (proto/strata/v1/trace.proto): written by
// trainers, read by `strata trace` while they run, after they ended or were killed.
//
//   TraceFileHeader | one serialised message | to the next page | ring of TraceRecord
//
// A file appears under its name when all but its records is in it. Record n lies at place
// (n - 1) modulo the ring's size. Each file is of one start of the job's ranks; what earlier starts
// left of ranks that there are no more is told by its epoch.
#ifndef STRATA_PROTOCOL_TRACE_FILE_H_
#define STRATA_PROTOCOL_TRACE_FILE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "proto/strata/v1/trace.pb.h"
#include "protocol/trace_record.h"

namespace strata::protocol {

inline constexpr uint32_t kTraceVersion = 1;
inline constexpr int64_t kMostTraceBytes = int64_t{8} << 20;       // of a ring
inline constexpr int64_t kMostTraceHeadBytes = int64_t{64} << 20;  // of a message
inline constexpr int kMostTracedRanks = 256;                       // that are read of a job

struct TraceFileHeader {
  char magic[8];
  uint32_t version;
  uint32_t record_bytes;
  uint64_t message_bytes;
  uint64_t records;         // places of the ring
  uint64_t records_offset;  // in the file
  char digest[32];          // of the message (common/digest.h)
};
static_assert(sizeof(TraceFileHeader) == 72);

std::string TraceFolder(const std::string& job_directory);
std::string TracePath(const std::string& job_directory, int rank);
std::string PredictedTracePath(const std::string& job_directory);

// The writer's side of a rank's file. Paths are opened beneath the process's roots.
class TraceFile {
 public:
  // Makes the folder and the file, in place of what an earlier start left there, and maps its ring
  // of `records` places with every page present. ResourceExhausted: more than kMostTraceBytes or a
  // message above kMostTraceHeadBytes. Otherwise errors name the path.
  static absl::StatusOr<std::unique_ptr<TraceFile>> Create(const std::string& job_directory,
                                                           const v1::TraceHead& head,
                                                           int64_t records);
  ~TraceFile();
  TraceFile(const TraceFile&) = delete;
  TraceFile& operator=(const TraceFile&) = delete;

  absl::Span<TraceRecord> records() const { return records_; }

 private:
  explicit TraceFile(absl::Span<TraceRecord> records) : records_(records) {}
  const absl::Span<TraceRecord> records_;
};

absl::Status WritePredictedTrace(const std::string& job_directory,
                                 const v1::PredictedTrace& predicted);

// What one file holds, its records in the order of their numbers; those that were being written
// while they were read are left out.
struct RankTrace {
  v1::TraceHead head;
  std::vector<TraceRecord> records;
};

// Files come from outside: everything in them is checked. NotFound; DataLoss "PATH: byte N: …"
// where it is not what a trainer wrote.
absl::StatusOr<RankTrace> ReadTraceFile(const std::string& path);
absl::StatusOr<v1::PredictedTrace> ReadPredictedTrace(const std::string& path);

// Those of the newest start.
struct JobTrace {
  std::vector<RankTrace> ranks;  // ascending
  std::vector<int> missing;  // ranks without a file of this start, of the first kMostTracedRanks
  std::optional<v1::PredictedTrace> predicted;
};

// NotFound: there are none.
absl::StatusOr<JobTrace> ReadJobTrace(const std::string& job_directory);

}  // namespace strata::protocol

#endif  // STRATA_PROTOCOL_TRACE_FILE_H_
