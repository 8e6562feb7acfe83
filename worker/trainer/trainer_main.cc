#include "worker/trainer/trainer_main.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>

#include <cstdio>
#include <cstring>

#include "worker/shared/version.h"
#include "worker/trainer/run_task.h"

namespace strata::worker {
namespace {

constexpr int kSocket = 3;
constexpr int kProgressFile = 4;
constexpr char kUsage[] =
    "usage: strata-trainer --version | --help\n"
    "One rank of a task. strata-worker starts it with the task on a socket; it is of no use\n"
    "by itself.\n";

bool IsOpen(int descriptor) { return fcntl(descriptor, F_GETFD) >= 0; }

int Serve(const TrainerParts& parts) {
  signal(SIGPIPE, SIG_IGN);
  prctl(PR_SET_NAME, "strata-trainer");  // it was executed by a number, not by its name
  for (const int descriptor : {kSocket, kProgressFile}) fcntl(descriptor, F_SETFD, FD_CLOEXEC);
  CheckpointMail mail;
  Control control(kSocket, &mail);
  return RunTask(control, mail, kProgressFile, parts);
}

}  // namespace

int TrainerMain(int argc, char** argv, const TrainerParts& parts) {
  if (argc == 2 && std::strcmp(argv[1], "--version") == 0) {
    std::printf("strata-trainer %s\n", kVersion);
    return 0;
  }
  const bool help = argc == 2 && std::strcmp(argv[1], "--help") == 0;
  if (help || !IsOpen(kSocket) || !IsOpen(kProgressFile)) {
    std::fputs(kUsage, help ? stdout : stderr);
    return help ? 0 : 2;
  }
  return Serve(parts);
}

}  // namespace strata::worker
