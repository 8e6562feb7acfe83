// What Strata reads back of its own: 'm' manifests, 'f' fragments of them, 'p' profiles of
// machines, 's' lines of step records.
#include <cstdint>
#include <string>

#include "checkpoint/manifest.h"
#include "common/check.h"
#include "protocol/profile_file.h"
#include "protocol/step_record.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 1) return 0;
  const std::string text(reinterpret_cast<const char*>(data) + 1, size - 1);
  if (data[0] == 'm') {
    const auto manifest = strata::checkpoint::Manifest::FromJson(text);
    if (manifest.ok()) {
      const auto again = manifest->ToJson();
      STRATA_CHECK(!again.ok() || strata::checkpoint::Manifest::FromJson(*again).ok());
    }
  }
  if (data[0] == 'f') static_cast<void>(strata::checkpoint::FileFragment::FromJson(text).status());
  if (data[0] == 'p') static_cast<void>(strata::protocol::ParseProfile("p", text).status());
  if (data[0] == 's') {
    static_cast<void>(strata::protocol::ParseStepLine(text, "uid"));
    static_cast<void>(strata::protocol::StepOfLine(text));
    static_cast<void>(strata::protocol::EpochOfLine(text, "uid"));
  }
  return 0;
}
