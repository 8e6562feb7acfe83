// The JSON header of a safetensors file, parsed strictly.
#ifndef STRATA_CHECKPOINT_SAFETENSORS_HEADER_H_
#define STRATA_CHECKPOINT_SAFETENSORS_HEADER_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "checkpoint/safetensors.h"

namespace strata::checkpoint {

struct SafetensorsHeader {
  std::vector<SafetensorsEntry> entries;  // in the order of their data; offsets count from the data
  SafetensorsMetadata metadata;
};

// Parses and checks everything about a header of a file with `data_bytes` bytes of data.
absl::StatusOr<SafetensorsHeader> ParseSafetensorsHeader(const std::string& json,
                                                         int64_t data_bytes);

// The header for entries with their offsets set, padded to a multiple of 8 bytes. InvalidArgument:
// a name that is not UTF-8.
absl::StatusOr<std::string> FormatSafetensorsHeader(const std::vector<SafetensorsEntry>& entries,
                                                    const SafetensorsMetadata& metadata);

}  // namespace strata::checkpoint

#endif  // STRATA_CHECKPOINT_SAFETENSORS_HEADER_H_
