// A loss curve drawn in characters.
#ifndef STRATA_CLIENT_TERMINAL_CURVE_H_
#define STRATA_CLIENT_TERMINAL_CURVE_H_

#include <string>
#include <vector>

namespace strata::client {

struct CurveOptions {
  int width = 60;       // columns of the plot itself, at least 1
  int height = 8;       // rows, at least 1
  bool unicode = true;  // braille patterns (2 × 4 dots a character), else ASCII
  double first_x = 1;   // what the x axis says at its ends
  double last_x = 1;
};

// Lines from top to bottom: `height` rows with the y axis to the left, then the x axis. Each column
// shows the mean of the values that fall on it; values that are not finite are left out. Empty when
// no value is finite.
std::vector<std::string> DrawCurve(const std::vector<double>& values, const CurveOptions& options);

}  // namespace strata::client

#endif  // STRATA_CLIENT_TERMINAL_CURVE_H_
