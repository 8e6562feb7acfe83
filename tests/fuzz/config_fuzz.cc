// A Hugging Face config.json. What is read is a model or none; a model that is possible is written
// and read back as it was.
#include <cstdint>
#include <string>

#include "checkpoint/huggingface/config.h"
#include "common/check.h"
#include "model/model_spec_proto.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using strata::checkpoint::ParseConfig;
  const std::string text(reinterpret_cast<const char*>(data), size);
  const auto config = ParseConfig(text, "config.json");
  if (!config.ok()) return 0;
  const auto model = strata::model::FromProto(config->model);
  if (!model.ok()) return 0;
  strata::checkpoint::ConfigToWrite written;
  written.model = *model;
  written.original = text;
  const auto again = ParseConfig(strata::checkpoint::FormatConfig(written), "config.json");
  STRATA_CHECK(again.ok());
  const auto same = strata::model::FromProto(again->model);
  STRATA_CHECK(same.ok());
  STRATA_CHECK(strata::model::ToProto(*same).SerializeAsString() ==
               strata::model::ToProto(*model).SerializeAsString());
  return 0;
}
