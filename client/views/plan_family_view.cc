#include "client/views/plan_family_view.h"

#include <map>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "client/terminal/table.h"

namespace strata::client {

Json PlanFamiliesJson(const planner::LearnedFamilies& families) {
  Json list = Json::array();
  for (const v1::PlanFamily& family : families) {
    Json terms = Json::object();
    for (const v1::PlanFamily::Term& term : family.terms()) {
      terms[term.name()] = {{"measured_seconds", term.measured_seconds()},
                            {"predicted_seconds", term.predicted_seconds()}};
    }
    list.push_back({{"workload", family.workload()},
                    {"layout", family.layout()},
                    {"ratio", family.ratio()},
                    {"steps", family.steps()},
                    {"terms", terms},
                    {"update_time", TimeText(family.update_time())}});
  }
  return list;
}

std::string PlanFamiliesTable(const planner::LearnedFamilies& families, double now) {
  std::map<std::string, std::vector<std::vector<std::string>>> rows;
  for (const v1::PlanFamily& family : families) {
    rows[family.workload()].push_back(
        {absl::StrFormat("%.3g", family.ratio()), absl::StrCat(family.steps()),
         AgeText(now - static_cast<double>(family.update_time().seconds())), family.layout()});
  }
  std::string text;
  for (const auto& [workload, of_workload] : rows) {
    absl::StrAppend(&text, text.empty() ? "" : "\n", workload, "\n",
                    FormatTable({"MEASURED/PREDICTED", "STEPS", "AGE", "LAYOUT"}, of_workload));
  }
  return text;
}

}  // namespace strata::client
