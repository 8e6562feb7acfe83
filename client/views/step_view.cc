#include "client/views/step_view.h"

#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "client/terminal/table.h"

namespace strata::client {
namespace {

std::string SecondsText(double seconds) {
  return seconds > 0 ? absl::StrFormat("%.4g s", seconds) : "-";
}

}  // namespace

Json StepJson(const v1::StepRecord& record) {
  Json purposes = Json::object();
  for (const v1::PurposeSeconds& purpose : record.purposes()) {
    purposes[purpose.purpose()] = {{"compute", purpose.compute_seconds()},
                                   {"exposed", purpose.exposed_seconds()},
                                   {"background", purpose.background_seconds()}};
  }
  return {{"step", record.step()}, {"seconds", record.seconds()}, {"purposes", purposes}};
}

std::string DescribeStep(const v1::StepRecord& record) {
  double compute = 0, exposed = 0;
  std::vector<std::vector<std::string>> rows;
  for (const v1::PurposeSeconds& purpose : record.purposes()) {
    compute += purpose.compute_seconds();
    exposed += purpose.exposed_seconds();
    rows.push_back({purpose.purpose(), SecondsText(purpose.compute_seconds()),
                    SecondsText(purpose.exposed_seconds()),
                    SecondsText(purpose.background_seconds())});
  }
  const std::string table = FormatTable({"PURPOSE", "COMPUTE", "EXPOSED", "BACKGROUND"}, rows);
  return absl::StrCat(
      absl::StrFormat("Step %d:  %s, of which rank 0 computed %s and waited %s\n", record.step(),
                      SecondsText(record.seconds()), SecondsText(compute), SecondsText(exposed)),
      "  ", absl::StrJoin(absl::StrSplit(table, '\n', absl::SkipEmpty()), "\n  "), "\n");
}

}  // namespace strata::client
