#include "program/testing/golden.h"

#include <cstdlib>
#include <fstream>
#include <sstream>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace strata::program {

std::string CompareWithGolden(const std::string& path, const std::string& text) {
  if (const char* folder = std::getenv("STRATA_UPDATE_GOLDENS"); folder != nullptr) {
    const std::string name = path.substr(path.rfind('/') + 1);
    std::ofstream(absl::StrCat(folder, "/", name)) << text;
  }
  std::ifstream file(path);
  if (!file) return absl::StrCat(path, " cannot be read");
  std::stringstream stored;
  stored << file.rdbuf();
  if (stored.str() == text) return "";
  const std::string whole = stored.str();
  const std::vector<std::string> expected = absl::StrSplit(whole, '\n'),
                                 found = absl::StrSplit(text, '\n');
  for (size_t line = 0; line < expected.size() || line < found.size(); ++line) {
    const std::string a = line < expected.size() ? expected[line] : "(end)";
    const std::string b = line < found.size() ? found[line] : "(end)";
    if (a != b) return absl::StrCat(path, ":", line + 1, ": stored '", a, "', found '", b, "'");
  }
  return absl::StrCat(path, " differs");
}

}  // namespace strata::program
