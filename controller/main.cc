// strata-controller: the daemon that will hold a cluster's jobs and nodes. This build has the
// binary, so that installations are complete, and not yet the control plane.
#include <cstdio>
#include <cstring>

namespace {

constexpr char kVersion[] = "0.1.0";
constexpr char kUsage[] =
    "usage: strata-controller --version | --help\n"
    "The control plane is not part of this build yet; `strata run` trains without it.\n";

}  // namespace

int main(int argc, char** argv) {
  if (argc == 2 && std::strcmp(argv[1], "--version") == 0) {
    std::printf("strata-controller %s\n", kVersion);
    return 0;
  }
  if (argc == 2 && std::strcmp(argv[1], "--help") == 0) {
    std::fputs(kUsage, stdout);
    return 0;
  }
  std::fputs(
      "strata-controller: the control plane is not part of this build yet; use `strata run`\n",
      stderr);
  return 2;
}
