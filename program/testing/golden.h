// Golden texts: stored beside the test, compared exactly; STRATA_UPDATE_GOLDENS=FOLDER writes what
// the test found there.
#ifndef STRATA_PROGRAM_TESTING_GOLDEN_H_
#define STRATA_PROGRAM_TESTING_GOLDEN_H_

#include <string>

namespace strata::program {

// Empty when `text` is what the file holds, else what differs first. `path` from the workspace's
// root.
std::string CompareWithGolden(const std::string& path, const std::string& text);

}  // namespace strata::program

#endif  // STRATA_PROGRAM_TESTING_GOLDEN_H_
