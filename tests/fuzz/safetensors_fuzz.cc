// The JSON header of a safetensors file; the first four bytes are the size of its data.
#include <cstdint>
#include <cstring>
#include <string>

#include "checkpoint/safetensors_header.h"
#include "common/check.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  uint32_t data_bytes = 0;
  if (size < sizeof(data_bytes)) return 0;
  std::memcpy(&data_bytes, data, sizeof(data_bytes));
  const std::string json(reinterpret_cast<const char*>(data) + 4, size - 4);
  const auto header = strata::checkpoint::ParseSafetensorsHeader(json, data_bytes);
  if (!header.ok()) return 0;
  const auto text = strata::checkpoint::FormatSafetensorsHeader(header->entries, header->metadata);
  STRATA_CHECK(text.ok());
  STRATA_CHECK(strata::checkpoint::ParseSafetensorsHeader(*text, data_bytes).ok());
  return 0;
}
