// fit_profiles RUNS.csv…: the calibrations for planner/profiles/calibrations.textproto, to standard
// output; with --leave-one-out, how well each source is predicted from the others.
#include <google/protobuf/text_format.h>

#include <cstdio>
#include <cstring>
#include <fstream>
#include <iostream>
#include <sstream>

#include "planner/calibration/fit.h"

namespace strata::planner {
namespace {

int Main(int argc, char** argv) {
  const bool leave_out = argc > 2 && std::strcmp(argv[argc - 1], "--leave-one-out") == 0;
  const int files = argc - (leave_out ? 1 : 0);
  if (files < 2) {
    std::cerr << "usage: fit_profiles RUNS.csv… [--leave-one-out]\n";
    return 2;
  }
  std::vector<MeasuredRun> runs;
  for (int i = 1; i < files; ++i) {
    std::ifstream file(argv[i]);
    std::stringstream text;
    text << file.rdbuf();
    const absl::StatusOr<std::vector<MeasuredRun>> read = ReadRuns(text.str(), argv[i]);
    if (!read.ok()) {
      std::cerr << read.status().message() << "\n";
      return 2;
    }
    runs.insert(runs.end(), read->begin(), read->end());
  }
  const Catalog plain = WithCalibrations(Catalog::Shipped(), {});
  if (leave_out) {
    for (const GroupErrors& group : LeaveOneSourceOut(plain, runs)) {
      std::printf("%-34s %4d rows  MAPE %5.1f %%  bias %+6.1f %%  worst %+6.1f %% %s\n",
                  group.name.c_str(), group.errors.count, 100 * group.errors.mean_absolute,
                  100 * group.errors.bias, 100 * group.errors.worst, group.errors.worst_id.c_str());
    }
    return 0;
  }
  std::cout
      << "# Written by //planner/calibration:fit_profiles: not by hand. Fitted to the rows of\n"
         "# planner/evaluation/testdata that each record names.\n";
  for (const v1::CalibrationProfile& record : FitAll(plain, runs)) {
    v1::HardwareCatalog one;
    *one.add_calibrations() = record;
    std::string printed;
    google::protobuf::TextFormat::PrintToString(one, &printed);
    std::cout << printed;
  }
  return 0;
}

}  // namespace
}  // namespace strata::planner

int main(int argc, char** argv) { return strata::planner::Main(argc, argv); }
