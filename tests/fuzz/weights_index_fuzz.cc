// A model.safetensors.index.json.
#include <cstdint>
#include <string>

#include "checkpoint/huggingface/weights_index.h"
#include "common/check.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using strata::checkpoint::ParseWeightsIndex;
  const auto index = ParseWeightsIndex(std::string(reinterpret_cast<const char*>(data), size));
  if (!index.ok()) return 0;
  for (const auto& [tensor, file] : index->file_of) {
    STRATA_CHECK(file.find('/') == std::string::npos && file != "..");
  }
  const auto text = strata::checkpoint::FormatWeightsIndex(*index);
  STRATA_CHECK(text.ok());
  const auto again = ParseWeightsIndex(*text);
  STRATA_CHECK(again.ok() && again->file_of == index->file_of);
  return 0;
}
